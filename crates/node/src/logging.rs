//! The node's log: to stderr, or to a file while the screen is taken.

use std::sync::OnceLock;
use std::time::Duration;

use rusm_log::{Log, LogConfig};
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, system};
use crate::settings::LogSettings;

/// The log of this program, as there is one subscriber for it.
static LOG: OnceLock<Log> = OnceLock::new();

/// Time for the last lines at the end of the program: a reader that has stopped must not keep it.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Time for the last lines of a program that ends at once.
const LAST_LINES_AT_ONCE: Duration = Duration::from_millis(100);

/// Starts the log; with `screen` and no file there is none.
pub(crate) fn start(settings: &LogSettings, screen: bool) -> Result<(), Failure> {
    if screen && settings.file.is_none() {
        return Ok(());
    }
    let config = LogConfig { file: settings.file.clone(), rotation: settings.rotation, json: settings.json };
    let what = settings
        .file
        .as_ref()
        .map_or_else(|| "start the log".to_owned(), |path| format!("open the log file {}", path.display()));
    let log = Log::start(config, filter(&settings.level)).map_err(system(what))?;
    if !screen {
        log.log_panics();
    }
    // Each command starts the log once.
    _ = LOG.set(log);
    Ok(())
}

/// The log, if one was started.
pub(crate) fn log() -> Option<&'static Log> {
    LOG.get()
}

/// Waits for the last lines, for a second at most.
pub(crate) fn flush() {
    if let Some(log) = log() {
        log.flush(LAST_LINES);
    }
}

/// Ends the program now.
pub(crate) fn exit(code: u8) -> ! {
    if let Some(log) = log() {
        log.flush(LAST_LINES_AT_ONCE);
    }
    std::process::exit(code.into())
}

/// The filter of a level; the spans that WASI wraps around every call of a guest are logged only when asked for by name.
fn filter(level: &str) -> EnvFilter {
    const WASI: &str = "wasmtime_wasi";
    let quiet = if level.contains(WASI) { String::new() } else { format!(",{WASI}=warn") };
    EnvFilter::new(format!("{level}{quiet}"))
}
