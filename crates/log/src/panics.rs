//! Writes panics of the program's own threads to the log: the reader of stderr may have stopped reading.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::time::Duration;

/// Time to wait for the line of a panic to be written: the panic may be the last thing that the program does.
const PATIENCE: Duration = Duration::from_millis(100);

/// Replaces the panic hook by one that logs panics, and then calls `flush` with the time that it may take.
pub(crate) fn log_and(flush: impl Fn(Duration) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let message = info.payload_as_str().unwrap_or("a value that is not text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            tracing::error!(target: "rusm::panic", thread, place, %backtrace, "panic: {message}");
        } else {
            tracing::error!(target: "rusm::panic", thread, place, "panic: {message}");
        }
        flush(PATIENCE);
    }));
}
