//! The node's log: to stderr, or to a file while the observer uses the terminal.

mod export;

use std::sync::OnceLock;
use std::time::Duration;

use rusm_log::{FilterHandle, Log, LogConfig, RecentLines, parse_filter};
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, system};
pub(crate) use crate::logging::export::{export_metrics, keep_metrics};
use crate::settings::LogSettings;
use crate::settings::otlp::OtlpSettings;

/// The log of this program; the program has only one subscriber.
static LOG: OnceLock<Log> = OnceLock::new();

/// The newest lines of the log, which are kept even if the log is written nowhere.
static RECENT: OnceLock<RecentLines> = OnceLock::new();

/// The filter of the log, which observers may replace.
static FILTER: OnceLock<FilterHandle> = OnceLock::new();

/// Target of the lines about commands of observers.
const AUDIT: &str = "rusm::audit";
/// Time limit for the last lines at the end of the program: a reader that has stopped must not block the exit.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Time limit for the last lines of a program that must exit at once.
const LAST_LINES_AT_ONCE: Duration = Duration::from_millis(100);

/// Starts the log, and its export to a collector. If `screen` is true and no file is set, the log is written nowhere, and only
/// the newest lines are kept for observers.
pub(crate) fn start(settings: &LogSettings, otlp: Option<&OtlpSettings>, screen: bool) -> Result<(), Failure> {
    let extra = export::start(otlp)?;
    if screen && settings.file.is_none() {
        let (recent, handle) =
            RecentLines::install(start_filter(settings)?, extra).map_err(system("start the log".to_owned()))?;
        _ = FILTER.set(handle);
        _ = RECENT.set(recent);
        return Ok(());
    }
    let config = LogConfig { file: settings.file.clone(), rotation: settings.rotation, json: settings.json };
    let what = settings
        .file
        .as_ref()
        .map_or_else(|| "start the log".to_owned(), |path| format!("open the log file {}", path.display()));
    let log = Log::start(config, start_filter(settings)?, extra).map_err(system(what))?;
    if !screen {
        log.log_panics();
    }
    // Each command starts the log once.
    _ = RECENT.set(log.recent());
    if let Some(handle) = log.filter() {
        _ = FILTER.set(handle);
    }
    _ = LOG.set(log);
    Ok(())
}

/// Returns the log, if one was started.
pub(crate) fn log() -> Option<&'static Log> {
    LOG.get()
}

/// Returns the newest lines of the log, if one was started.
pub(crate) fn recent() -> Option<&'static RecentLines> {
    RECENT.get()
}

/// Returns true if the filter of the log can be replaced.
pub(crate) fn has_filter() -> bool {
    FILTER.get().is_some()
}

/// Replaces the filter of the log. Commands of observers are logged whatever the filter.
///
/// # Errors
/// A line that says why.
pub(crate) fn set_filter(level: &str) -> Result<(), String> {
    let level = level.trim();
    if level.is_empty() {
        return Err("an empty filter: set a level, such as info or info,rusm_store=trace".to_owned());
    }
    if level.contains(AUDIT) {
        return Err(format!("commands of observers are always logged: remove {AUDIT} from the filter"));
    }
    replace_filter(level)
}

/// Replaces the filter of the log by that of the settings, which may name the commands of observers.
///
/// # Errors
/// A line that says why.
pub(crate) fn replace_filter(level: &str) -> Result<(), String> {
    let Some(handle) = FILTER.get() else { return Err("this program has no log".to_owned()) };
    handle.replace(filter(level).map_err(|error| format!("{level:?} is not a valid log filter: {error}"))?)
}

/// Waits for the last lines to be exported and written, for one second each at most.
pub(crate) fn flush() {
    export::stop(LAST_LINES);
    if let Some(log) = log() {
        log.flush(LAST_LINES);
    }
}

/// Exits from the program now, after a short wait for the last log lines.
pub(crate) fn exit(code: u8) -> ! {
    export::stop(LAST_LINES_AT_ONCE);
    if let Some(log) = log() {
        log.flush(LAST_LINES_AT_ONCE);
    }
    std::process::exit(code.into())
}

/// Returns the filter of the settings, which were checked.
fn start_filter(settings: &LogSettings) -> Result<EnvFilter, Failure> {
    filter(&settings.level)
        .map_err(|error| Failure::Usage(format!("{:?} is not a valid log filter: {error}", settings.level)))
}

/// Returns the filter for a level. Commands of observers are logged whatever the level, unless it names them. What WASI
/// says about calls of guests, what the network between nodes says about strangers, and what libraries say about each
/// wrong frame of a client are logged only if the level names them: a guest or a stranger could fill the log.
fn filter(level: &str) -> Result<EnvFilter, String> {
    // A name stands for all that begin with it, such as `wasmtime_wasi_http` and `zenoh_codec`.
    const UNLESS_NAMED: [(&str, &str); 6] = [
        (AUDIT, "info"),
        ("wasmtime_wasi", "off"),
        ("zenoh", "off"),
        ("h2", "error"),
        ("hyper", "error"),
        ("rustls", "error"),
    ];
    let unless_named = UNLESS_NAMED.into_iter().filter(|(name, _)| !level.contains(name));
    let unless_named = unless_named.map(|(name, level)| format!(",{name}={level}"));
    parse_filter(&format!("{level}{}", unless_named.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_observers_are_logged_unless_the_level_names_them() {
        let [warn, off] = ["warn", "warn,rusm::audit=off"].map(|level| filter(level).unwrap().to_string());

        assert!(warn.contains("rusm::audit=info"), "{warn}");
        assert!(off.contains("rusm::audit=off") && !off.contains("rusm::audit=info"), "{off}");
    }

    #[test]
    fn what_libraries_say_about_guests_and_clients_is_off_unless_the_level_names_it() {
        let quiet = filter("trace").unwrap().to_string();
        let named = filter("info,wasmtime_wasi_http=warn").unwrap().to_string();

        for line in ["wasmtime_wasi=off", "zenoh=off", "h2=error", "rustls=error"] {
            assert!(quiet.contains(line), "{quiet}");
        }
        assert!(named.contains("wasmtime_wasi_http=warn") && !named.contains("wasmtime_wasi=off"), "{named}");
    }
}
