//! Logging that never blocks the program.
//!
//! ```text
//!   tracing event ──▶ escaped line ──▶ queue ──▶ thread `rusm-log` ──▶ stderr, or a file with rotation
//!                                        └─ full: the line is dropped and counted
//! ```
//!
//! Only the log's own thread writes. When nothing reads stderr, the terminal is stopped by Ctrl-S, or the disk is full,
//! lines are dropped. [`Log::counters`] returns the number of dropped lines, and the log itself reports it as soon as
//! the destination accepts lines again. Every line is [escaped](rusm_text), so no external text can forge a line or
//! control a terminal.
//!
//! Invariant: only the log's own thread waits for the destination, except in [`Log::flush`] and [`last_words`], which
//! have a deadline.

mod destination;
mod dispositions;
mod extra;
mod fields;
mod filter;
mod panics;
mod queue;
mod recent;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::destination::Destination;
pub use crate::destination::Rotation;
pub use crate::dispositions::{ignore_file_size_signal, ignore_service_signals, restore_child_signal, unblock_signals};
pub use crate::extra::ExtraLayer;
pub use crate::filter::{FilterHandle, LEVELS, parse_filter};
use crate::queue::Queue;
pub use crate::recent::{RecentLine, RecentLines};
use crate::writer::LogState;
pub use crate::writer::{LINE_BYTES_MAX, LineWriter};

/// Maximum number of bytes of lines that wait for the writer thread.
pub const QUEUE_BYTES: usize = 1024 * 1024;

/// Configuration of the log: its destination and format.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// File to append to. Default: none, the log goes to stderr.
    pub file: Option<PathBuf>,
    /// Rotation of the file. Default: none, the file grows without limit.
    pub rotation: Option<Rotation>,
    /// Write one JSON object per line instead of text. Default: false.
    pub json: bool,
}

/// Handle to the running log; cheap to clone.
#[derive(Clone, Debug)]
pub struct Log(Arc<LogState>, RecentLines, Option<FilterHandle>);

/// Counters of lines since the log was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Number of lines written.
    pub lines_total: u64,
    /// Number of lines dropped because the queue was full, the line was too long, or the destination failed.
    pub dropped_total: u64,
    /// Number of failed writes.
    pub errors_total: u64,
    /// The last error of the destination; cleared by the next successful write.
    pub error: Option<String>,
    /// Size of the buffer for lines that wait to be written, in bytes.
    pub queued_bytes: u64,
}

impl Log {
    /// Starts the log and installs it, with a further destination, as the subscriber of all `tracing` events.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    ///
    /// # Panics
    /// If a global `tracing` subscriber is already installed.
    pub fn start(config: LogConfig, filter: EnvFilter, extra: Option<ExtraLayer>) -> io::Result<Self> {
        let json = config.json;
        let mut log = Self::open(config)?;
        let (filter, handle) = reload::Layer::new(filter);
        log.2 = Some(FilterHandle::new(handle));
        let subscriber = Registry::default().with(extra).with(filter).with(log.recent());
        // Reporting a lost line would print to stderr and wait for its reader.
        let lines =
            tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.clone()).log_internal_errors(false);
        if json {
            subscriber.with(lines.json()).init();
        } else {
            subscriber.with(lines.fmt_fields(fields::quoting())).init();
        }
        Ok(log)
    }

    /// Logs panics instead of printing them: a thread that panics must not wait for a reader of stderr.
    pub fn log_panics(&self) {
        let log = self.clone();
        panics::log_and(move |patience| _ = log.flush(patience));
    }

    /// Opens the destination and starts the thread, without subscribing to events.
    fn open(config: LogConfig) -> io::Result<Self> {
        let destination = match config.file {
            Some(path) => Destination::file(path, config.rotation)?,
            None => Destination::stderr(),
        };
        let state = Arc::new(LogState::new(Queue::new(QUEUE_BYTES), config.json));
        let writer = Arc::clone(&state);
        std::thread::Builder::new().name("rusm-log".to_owned()).spawn(move || writer.serve(destination))?;
        Ok(Self(state, RecentLines::default(), None))
    }

    /// Returns the counters of written and dropped lines.
    pub fn counters(&self) -> LogCounters {
        let counts = &self.0.counts;
        LogCounters {
            lines_total: counts.lines.load(Relaxed),
            dropped_total: counts.dropped.load(Relaxed),
            errors_total: counts.errors.load(Relaxed),
            error: counts.error.lock().clone(),
            queued_bytes: self.0.queue.buffer_bytes(),
        }
    }

    /// Returns the newest lines, which are kept in memory.
    pub fn recent(&self) -> RecentLines {
        self.1.clone()
    }

    /// Returns the handle to the filter of the lines.
    pub fn filter(&self) -> Option<FilterHandle> {
        self.2.clone()
    }

    /// Opens the file again before the next line, after another program has renamed it. Without effect on stderr.
    pub fn reopen(&self) {
        self.0.reopen.store(true, Relaxed);
    }

    /// Waits up to `within` until every queued line has been written or dropped. Returns false on timeout.
    pub fn flush(&self, within: Duration) -> bool {
        self.0.queue.wait_until_empty(Instant::now() + within)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter::new(&self.0)
    }
}

/// Writes an escaped line to stderr. Gives up if stderr accepts nothing for one second: a program that exits must not
/// wait for a stopped reader.
pub fn last_words(line: impl std::fmt::Display) {
    let text = format!("{}\n", rusm_text::escaped(line));
    let stderr = rustix::stdio::stderr();
    let deadline = Instant::now() + Duration::from_secs(1);
    // A writable pipe accepts 4,096 bytes without blocking.
    for piece in text.as_bytes().chunks(4096) {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut poll_fds = [PollFd::new(&stderr, PollFlags::OUT)];
        if !matches!(poll(&mut poll_fds, Some(&left)), Ok(1..)) {
            return;
        }
        if destination::write_all(stderr, piece).1.is_err() {
            return;
        }
    }
}
