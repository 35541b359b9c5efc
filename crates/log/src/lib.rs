//! The log of a program, which never makes the program wait.
//!
//! ```text
//!   tracing event ──▶ escaped line ──▶ queue ──▶ thread `rusm-log` ──▶ stderr, or a file with rotation
//!                                        └─ full: the line is dropped and counted
//! ```
//!
//! Only the log's own thread writes. Where nothing reads stderr, where a terminal is stopped by Ctrl-S or the disk is full,
//! lines are dropped; the number of them is in [`Log::counters`] and, as soon as the destination accepts lines again, in the
//! log. Every line is [escaped](rusm_text), so no text from outside can forge one or command a terminal.
//!
//! Invariant: no thread but the log's own waits for the destination, except in [`Log::flush`] and [`last_words`], which have
//! a deadline.

mod destination;
mod fields;
mod panics;
mod queue;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::destination::Destination;
pub use crate::destination::Rotation;
use crate::queue::Queue;
pub use crate::writer::LineWriter;
use crate::writer::Shared;

/// Bytes of lines that wait for the thread that writes.
pub const QUEUE_BYTES: usize = 1024 * 1024;
/// Bytes of the longest line, after escaping.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Destination and form of a log.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// The file to append to. Default: none, and the log goes to stderr.
    pub file: Option<PathBuf>,
    /// The size at which the file is replaced by an empty one. Default: none, and the file grows.
    pub rotation: Option<Rotation>,
    /// One JSON object a line instead of text. Default: text.
    pub json: bool,
}

/// A handle to the log that runs; cheap to clone.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

/// Numbers of lines since the log was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Lines that were written.
    pub lines_total: u64,
    /// Lines that were dropped: the queue was full, the line too long, or the destination failed.
    pub dropped_total: u64,
    /// Writes that failed.
    pub errors_total: u64,
    /// The last error of the destination, until a write succeeds.
    pub error: Option<String>,
}

impl Log {
    /// Starts the log and makes it the receiver of all events of `tracing`.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    ///
    /// # Panics
    /// If the program has a subscriber already.
    pub fn start(config: LogConfig, filter: EnvFilter) -> io::Result<Self> {
        let json = config.json;
        let log = Self::open(config)?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(log.clone());
        // To say that a line was lost would print to stderr, and wait for its reader.
        let lines = lines.log_internal_errors(false);
        if json {
            lines.json().init();
        } else {
            lines.fmt_fields(fields::quoting()).init();
        }
        Ok(log)
    }

    /// Has panics logged instead of printed: a thread that panics must not wait for a reader of stderr.
    pub fn log_panics(&self) {
        panics::log_to(self.clone());
    }

    /// Opens the destination and starts the thread, without events.
    fn open(config: LogConfig) -> io::Result<Self> {
        let destination = match config.file {
            Some(path) => Destination::file(path, config.rotation)?,
            None => Destination::stderr(),
        };
        let shared = Arc::new(Shared::new(Queue::new(QUEUE_BYTES), config.json));
        let writer = Arc::clone(&shared);
        std::thread::Builder::new().name("rusm-log".to_owned()).spawn(move || writer.serve(destination))?;
        Ok(Self(shared))
    }

    /// Returns the numbers of written and dropped lines.
    pub fn counters(&self) -> LogCounters {
        let counts = &self.0.counts;
        LogCounters {
            lines_total: counts.lines.load(Relaxed),
            dropped_total: counts.dropped.load(Relaxed),
            errors_total: counts.errors.load(Relaxed),
            error: counts.error.lock().clone(),
        }
    }

    /// Waits up to `within` until every queued line has been written or dropped; returns false if time ran out.
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

/// Writes a line to stderr, escaped, unless stderr accepts nothing within a second: a program that ends must not wait for a
/// reader that has stopped.
pub fn last_words(line: impl std::fmt::Display) {
    let text = format!("{}\n", rusm_text::escaped(line));
    let stderr = rustix::stdio::stderr();
    let deadline = Instant::now() + Duration::from_secs(1);
    // A pipe that is writable takes 4,096 bytes without waiting.
    for piece in text.as_bytes().chunks(4096) {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
        if !matches!(poll(&mut asked, Some(&left)), Ok(1..)) {
            return;
        }
        if destination::write_all(stderr, piece).1.is_err() {
            return;
        }
    }
}
