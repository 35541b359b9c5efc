//! A bounded queue of lines, in one contiguous buffer, between the logging threads and the writer thread.
//!
//! The writer thread takes all queued lines at once and writes them without holding the lock, so a logging thread never
//! waits for a write.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// Lines waiting to be written.
#[derive(Debug)]
pub(crate) struct Queue {
    bytes_max: usize,
    state: Mutex<QueueState>,
    /// Notified when a line arrives.
    filled: Condvar,
    /// Notified when all taken lines have been written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    /// True while the writer thread writes the lines that it has taken.
    is_writing: bool,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default(), filled: Condvar::new(), written: Condvar::new() }
    }

    /// Adds a line, which must end in `\n`. Returns false if it does not fit.
    pub(crate) fn push(&self, line: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.bytes.len() + line.len() > self.bytes_max {
            return false;
        }
        state.bytes.extend_from_slice(line);
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Returns the size of the buffer that lines wait in.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.state.lock().bytes.capacity() as u64
    }

    /// Waits for lines and swaps them into `lines`, which must be empty.
    pub(crate) fn take(&self, lines: &mut Vec<u8>) {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.written.notify_all();
        while state.bytes.is_empty() {
            self.filled.wait(&mut state);
        }
        std::mem::swap(&mut state.bytes, lines);
        state.is_writing = true;
    }

    /// Waits until no line is queued or being written. Returns false at the deadline.
    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.is_writing || !state.bytes.is_empty() {
            if self.written.wait_until(&mut state, deadline).timed_out() {
                return !state.is_writing && state.bytes.is_empty();
            }
        }
        true
    }
}
