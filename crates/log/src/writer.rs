//! The two ends of the queue: the writer given to `tracing`, and the loop of the writer thread.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rusm_text::{escape_json_into, escaped};

use crate::destination::{Destination, count_lines};
use crate::queue::Queue;

/// Maximum length of a line in bytes, after escaping.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// State shared by the logging threads and the writer thread.
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) queue: Queue,
    pub(crate) counts: Counts,
    json: bool,
    /// Set when the file must be opened again before the next line.
    pub(crate) reopen: AtomicBool,
}

/// Monotonic counters. Relaxed ordering is enough: they are read for display only.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lines: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) error: Mutex<Option<String>>,
}

impl LogState {
    pub(crate) fn new(queue: Queue, json: bool) -> Self {
        Self { queue, counts: Counts::default(), json, reopen: AtomicBool::new(false) }
    }

    /// Writes queued lines for as long as the program runs.
    pub(crate) fn serve(&self, mut destination: Destination) {
        let (mut lines, mut reported) = (Vec::new(), 0);
        loop {
            self.queue.take(&mut lines);
            let count = count_lines(&lines);
            let reopened = if self.reopen.swap(false, Relaxed) { reopen(&mut destination) } else { Ok(()) };
            let was_too_long = destination.is_too_long();
            let (written, outcome) = destination.write(&lines);
            if let Err(error) = &outcome
                && destination.is_too_long()
                && !was_too_long
            {
                tracing::error!(target: "rusm::log", %error, "the log file cannot be rotated, and grows beyond its size");
            }
            let outcome = outcome.and(reopened);
            lines.clear();
            self.counts.lines.fetch_add(written, Relaxed);
            self.counts.dropped.fetch_add(count - written, Relaxed);
            if let Err(error) = outcome {
                self.counts.errors.fetch_add(1, Relaxed);
                *self.counts.error.lock() = Some(error.to_string());
                continue;
            }
            *self.counts.error.lock() = None;
            let dropped = self.counts.dropped.load(Relaxed);
            if dropped > reported {
                let lines = dropped - std::mem::replace(&mut reported, dropped);
                tracing::warn!(target: "rusm::log", lines, "log lines were dropped: too long, faster than they were read, or not writable");
            }
        }
    }

    /// Escapes an event formatted by `tracing` and queues it as one line.
    fn push(&self, event: &[u8]) {
        thread_local! {
            static LINE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let event = String::from_utf8_lossy(event);
        let is_queued = LINE.with_borrow_mut(|line| {
            line.clear();
            self.write_line(line, event.trim_end_matches(['\n', '\r']));
            line.len() <= LINE_BYTES_MAX && self.queue.push(line.as_bytes())
        });
        if !is_queued {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    fn write_line(&self, line: &mut String, event: &str) {
        if self.json {
            escape_json_into(line, event);
        } else {
            use std::fmt::Write;
            // Writing to a string cannot fail.
            _ = write!(line, "{}", escaped(event));
            if line.len() >= LINE_BYTES_MAX {
                line.truncate(line.floor_char_boundary(LINE_BYTES_MAX - '…'.len_utf8() - 1));
                line.push('…');
            }
        }
        line.push('\n');
    }
}

/// Opens the file again, and logs whether it could be.
fn reopen(destination: &mut Destination) -> io::Result<()> {
    match destination.reopen() {
        Ok(true) => tracing::info!(target: "rusm::log", "the log file was opened again"),
        Ok(false) => {}
        Err(error) => {
            tracing::error!(target: "rusm::log", %error, "the log file cannot be opened again, and the old one stays in use");
            return Err(error);
        }
    }
    Ok(())
}

/// Writer for one event, which `tracing` writes in a single call.
#[derive(Debug)]
pub struct LineWriter<'a>(&'a LogState);

impl<'a> LineWriter<'a> {
    pub(crate) const fn new(state: &'a LogState) -> Self {
        Self(state)
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.push(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: bool, event: &str) -> String {
        let (state, mut lines) = (LogState::new(Queue::new(1 << 20), json), Vec::new());
        LineWriter::new(&state).write_all(event.as_bytes()).unwrap();
        state.queue.take(&mut lines);
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let forged = "INFO guest: hello\n2026-11-24T00:00:00Z INFO rusm::audit: allowed=true \u{1b}[2J\u{9b}\n";

        assert_eq!(
            line(false, forged),
            "INFO guest: hello\\n2026-11-24T00:00:00Z INFO rusm::audit: allowed=true \\u{1b}[2J\\u{9b}\n"
        );
        let json = line(true, "{\"message\":\"\u{7f}\u{85}\u{202e}\"}\n");
        assert_eq!(json, "{\"message\":\"\\u007f\\u0085\\u202e\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["message"], "\u{7f}\u{85}\u{202e}");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_as_text_and_dropped_as_json() {
        let cut = line(false, &"é".repeat(LINE_BYTES_MAX));
        assert!(cut.ends_with("é…\n") && cut.len() <= LINE_BYTES_MAX, "{}", cut.len());

        let state = LogState::new(Queue::new(1 << 20), true);
        LineWriter::new(&state).write_all(&vec![b'"'; LINE_BYTES_MAX]).unwrap();
        assert_eq!(state.counts.dropped.load(Relaxed), 1);
    }

    #[test]
    fn lines_that_do_not_fit_are_counted_and_the_logging_thread_goes_on() {
        let state = LogState::new(Queue::new(40), false);

        for number in 0..10 {
            LineWriter::new(&state).write_all(format!("line {number}\n").as_bytes()).unwrap();
        }

        let mut lines = Vec::new();
        state.queue.take(&mut lines);
        assert_eq!(String::from_utf8(lines).unwrap(), "line 0\nline 1\nline 2\nline 3\nline 4\n");
        assert_eq!(state.counts.dropped.load(Relaxed), 5);
    }
}
