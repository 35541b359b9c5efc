//! The node's log: to stderr, or to a file while the screen is taken.

use std::fs::OpenOptions;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::failure::{Failure, system};
use crate::settings::LogSettings;

/// Starts the log; with `screen` and no file there is none.
pub(crate) fn start(settings: &LogSettings, screen: bool) -> Result<(), Failure> {
    let writer = match &settings.file {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| system(format!("open the log file {}", path.display()))(error))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
        None if screen => return Ok(()),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter(&settings.level)).with_ansi(false).with_writer(writer);
    // A line that cannot be written is lost. To say so it would print to stderr, and panic where nobody reads that.
    let log = log.log_internal_errors(false);
    if settings.json {
        log.json().init();
    } else {
        log.init();
    }
    Ok(())
}

/// What is logged; the spans that WASI wraps around every call of a guest only when asked for by name.
fn filter(level: &str) -> EnvFilter {
    const WASI: &str = "wasmtime_wasi";
    let quiet = if level.contains(WASI) { String::new() } else { format!(",{WASI}=warn") };
    EnvFilter::new(format!("{level}{quiet}"))
}
