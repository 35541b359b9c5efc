//! `rusm-top`: parses the command line, runs the observer, and exits with its exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use rusm_log::{Log, LogConfig};
use rusm_tui::cli::{Cli, LOG_LEVEL, one_line};
use rusm_tui::environment;
use thiserror::Error;
use tracing_subscriber::EnvFilter;

/// Exit code for invalid usage.
const USAGE: u8 = 2;

/// Error before the observer starts. Its exit code is 1.
#[derive(Debug, Error)]
enum StartError {
    #[error("cannot open the log file {}: {source}", path.display())]
    LogFile { path: PathBuf, source: io::Error },
    #[error("cannot create the runtime: {0}")]
    Runtime(io::Error),
}

fn main() -> ExitCode {
    if let Err(line) = environment::check_limits() {
        report(&line);
        return ExitCode::from(1);
    }
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            report(&one_line(&error));
            return ExitCode::from(USAGE);
        }
        // Requests for help and the version print to stdout and exit with 0.
        Err(requested) => requested.exit(),
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Err(line) = environment::check(names) {
        report(&line);
        return ExitCode::from(2);
    }
    match observe(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(1)
        }
    }
}

/// Writes one line to stderr, escaped.
fn report(error: &dyn std::fmt::Display) {
    rusm_log::last_words(format_args!("rusm-top: {error}"));
}

fn observe(cli: Cli) -> Result<u8, StartError> {
    let level = match log_level() {
        Ok(level) => level,
        Err(why) => {
            report(&why);
            return Ok(USAGE);
        }
    };
    if let Some(path) = cli.log_file() {
        log_to(path, level)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
    let ended = runtime.block_on(rusm_tui::run(cli.options()));
    // Do not wait for a pending name resolution.
    runtime.shutdown_background();
    Ok(match ended {
        Ok(exit) => exit.code(),
        Err(error) => {
            report(&error);
            error.code()
        }
    })
}

/// Returns the log filter. An invalid filter is an error even if nothing is logged.
fn log_level() -> Result<EnvFilter, String> {
    let level = std::env::var(LOG_LEVEL).unwrap_or_else(|_unset| "info".to_owned());
    EnvFilter::try_new(&level).map_err(|error| format!("{LOG_LEVEL}={level:?} is not a valid log filter: {error}"))
}

/// Logs to a file, because the terminal shows the screen.
fn log_to(path: PathBuf, level: EnvFilter) -> Result<(), StartError> {
    let config = LogConfig { file: Some(path.clone()), ..LogConfig::default() };
    match Log::start(config, level) {
        Ok(_running) => Ok(()),
        Err(source) => Err(StartError::LogFile { path, source }),
    }
}
