//! Output to the terminal, written by a thread of its own.
//!
//! ```text
//!   modes, frames ──▶ queue ──▶ thread ──▶ write(2)
//!                       └── idle: the next frame may be drawn
//! ```
//!
//! A terminal that nobody reads, for example after `^S` or over a connection that is frozen, blocks that thread alone:
//! the program still handles signals, and a node in the same program goes on.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A handle of the thread that writes to the terminal. The thread ends with its last handle.
#[derive(Clone, Debug)]
pub struct Output {
    queue: Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    written: Condvar,
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of writes that are not finished.
    pending: usize,
    /// Time that the last write took.
    took: Duration,
    /// Error of a write that nobody has been told of.
    error: Option<io::Error>,
}

impl Output {
    /// Starts the thread; it writes to the standard output.
    ///
    /// # Errors
    /// The operating system's error if the thread cannot start.
    pub fn start() -> io::Result<Self> {
        Self::to(io::stdout())
    }

    fn to(writer: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, waiting) = channel();
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let write = move || of_thread.write(&waiting, writer);
        std::thread::Builder::new().name("rusm-terminal".to_owned()).spawn(write)?;
        Ok(Self { queue, shared })
    }

    /// Returns true if all output is written.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().pending == 0
    }

    /// Waits until all output is written.
    pub(crate) async fn idle(&self) {
        while !self.is_idle() {
            self.shared.idle.notified().await;
        }
    }

    /// Waits until all output is written, but at most for `timeout`. Returns true if it is.
    pub(crate) fn finish(&self, timeout: Duration) -> bool {
        let waited = self.shared.written.wait_timeout_while(self.shared.lock(), timeout, |state| state.pending > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.pending == 0
    }

    /// Returns the time that the last write took.
    pub(crate) fn took(&self) -> Duration {
        self.shared.lock().took
    }
}

/// Queues bytes. An error of an earlier write is returned once.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        state.pending += 1;
        drop(state);
        self.queue.send(bytes.to_vec()).map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is queued until all handles are gone.
    fn write(&self, waiting: &Receiver<Vec<u8>>, mut writer: impl Write) {
        while let Ok(bytes) = waiting.recv() {
            let began = Instant::now();
            let written = writer.write_all(&bytes).and_then(|()| writer.flush());
            let mut state = self.lock();
            state.pending -= 1;
            state.took = began.elapsed();
            state.error = written.err().or_else(|| state.error.take());
            drop(state);
            self.written.notify_all();
            self.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that accepts a write for each permit.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_closed| io::Error::from(io::ErrorKind::BrokenPipe))?;
            self.1.send(bytes.to_vec()).expect("the test reads");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_terminal_that_nobody_reads_blocks_nobody_and_gets_everything_in_order_later() {
        let ((permit, permits), (sink, written)) = (channel(), channel());
        let mut output = Output::to(Slow(permits, sink)).unwrap();

        output.write_all(b"one").unwrap();
        output.write_all(b"two").unwrap();
        assert!(!output.is_idle() && !output.finish(Duration::from_millis(1)));

        permit.send(()).unwrap();
        permit.send(()).unwrap();
        output.idle().await;
        assert_eq!((written.recv().unwrap(), written.recv().unwrap()), (b"one".to_vec(), b"two".to_vec()));
        assert!(output.finish(Duration::ZERO));
    }

    #[test]
    fn an_error_is_returned_by_the_next_write() {
        let ((permit, permits), (sink, _written)) = (channel::<()>(), channel());
        let mut output = Output::to(Slow(permits, sink)).unwrap();
        drop(permit);

        output.write_all(b"one").unwrap();
        assert!(output.finish(Duration::from_mins(1)));

        assert_eq!(output.write_all(b"two").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
