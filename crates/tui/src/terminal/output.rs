//! Output to the terminal, written by a thread of its own.
//!
//! ```text
//!   modes, frames ──▶ queue ──▶ thread ──▶ write(2)
//!                       └── idle: the next frame may be drawn
//! ```
//!
//! A terminal that reads nothing, for example after `^S` or over a connection that is frozen, blocks that thread alone:
//! the program still handles signals, and a node in the same program goes on. What such a terminal has not taken can be
//! [abandoned](Output::abandon), so that it takes something else first.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush, ttyname};
use tokio::sync::Notify;

/// Time after which a writer that waits for the terminal looks whether it still should.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A handle of the thread that writes to the terminal. The thread ends with its last handle.
#[derive(Clone, Debug)]
pub struct Output {
    queue: Sender<(u64, Vec<u8>)>,
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
    /// Error of a write that was not returned yet.
    error: Option<io::Error>,
    /// Number of times that output was abandoned: what was queued before the last one is not written.
    abandoned: u64,
}

/// The terminal. It is opened again where that is possible, because another program may use the same standard output and
/// expect that writing to it waits.
struct Terminal {
    nonblocking: Option<File>,
}

impl Output {
    /// Starts the thread; it writes to the standard output.
    ///
    /// # Errors
    /// The operating system's error if the thread cannot start.
    pub fn start() -> io::Result<Self> {
        Self::to(Terminal::open())
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
        self.shared.state.lock().pending == 0
    }

    /// Waits until all output is written.
    pub(crate) async fn idle(&self) {
        while !self.is_idle() {
            self.shared.idle.notified().await;
        }
    }

    /// Waits until all output is written, but at most for `timeout`. Returns true if it is.
    pub(crate) fn finish(&self, timeout: Duration) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.written.wait_while_for(&mut state, |state| state.pending > 0, timeout);
        state.pending == 0
    }

    /// Drops what is not written yet, and what the terminal has not read.
    pub(crate) fn abandon(&self) {
        self.shared.state.lock().abandoned += 1;
        tcflush(rustix::stdio::stdout(), QueueSelector::OFlush).ok();
    }

    /// Returns the time that the last write took.
    pub(crate) fn took(&self) -> Duration {
        self.shared.state.lock().took
    }
}

/// Queues bytes. An error of an earlier write is returned once.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.state.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        state.pending += 1;
        let abandoned = state.abandoned;
        drop(state);
        self.queue.send((abandoned, bytes.to_vec())).map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Writes what is queued until all handles are gone.
    fn write(&self, waiting: &Receiver<(u64, Vec<u8>)>, mut writer: impl Write) {
        while let Ok((abandoned, bytes)) = waiting.recv() {
            let began = Instant::now();
            let written = self.write_all(&mut writer, &bytes, abandoned);
            let mut state = self.state.lock();
            state.pending -= 1;
            state.took = began.elapsed();
            state.error = written.err().or_else(|| state.error.take());
            drop(state);
            self.written.notify_all();
            self.idle.notify_one();
        }
    }

    /// Writes bytes until they are abandoned.
    fn write_all(&self, writer: &mut impl Write, mut bytes: &[u8], abandoned: u64) -> io::Result<()> {
        while !bytes.is_empty() && self.state.lock().abandoned == abandoned {
            match writer.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        writer.flush()
    }
}

impl Terminal {
    fn open() -> Self {
        let path = ttyname(rustix::stdio::stdout(), Vec::new()).ok().and_then(|path| path.into_string().ok());
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        // Another user's terminal, for example after `su`, cannot be opened: then writing waits.
        let opened = path.and_then(|path| OpenOptions::new().write(true).custom_flags(flags).open(path).ok());
        Self { nonblocking: opened }
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.nonblocking {
            Some(terminal) => terminal.write(bytes),
            None => io::stdout().write(bytes),
        };
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            poll(&mut [PollFd::new(&rustix::stdio::stdout(), PollFlags::OUT)], Some(&LOOK)).ok();
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.nonblocking.is_some() { Ok(()) } else { io::stdout().flush() }
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
    fn what_is_abandoned_is_not_written_but_what_comes_after_it_is() {
        let ((permit, permits), (sink, written)) = (channel(), channel());
        let mut output = Output::to(Slow(permits, sink)).unwrap();
        output.write_all(b"one").unwrap();
        output.write_all(b"two").unwrap();

        output.abandon();
        output.write_all(b"three").unwrap();
        // The first write may have begun.
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        assert!(output.finish(Duration::from_mins(1)));

        drop(output);
        let written: Vec<Vec<u8>> = written.iter().collect();
        assert_eq!(written.last().map(Vec::as_slice), Some(&b"three"[..]));
        assert!(!written.contains(&b"two".to_vec()), "{written:?}");
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
