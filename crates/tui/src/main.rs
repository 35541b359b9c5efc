//! `rusm-top`: parses the command line, runs the observer, and exits with its exit code.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use rusm_log::{Log, LogConfig};
use rusm_tui::cli::{Cli, LOG_LEVEL, one_line};
use rusm_tui::environment;
use tracing_subscriber::EnvFilter;

/// Exit code for invalid usage.
const USAGE: u8 = 2;

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
            report(&format_args!("{error:#}"));
            ExitCode::from(1)
        }
    }
}

/// Writes one line to stderr, escaped.
fn report(error: &dyn std::fmt::Display) {
    rusm_log::last_words(format_args!("rusm-top: {error}"));
}

fn observe(cli: Cli) -> anyhow::Result<u8> {
    let level = match log_level() {
        Ok(level) => level,
        Err(why) => {
            report(&why);
            return Ok(USAGE);
        }
    };
    if let Some(path) = cli.log_file() {
        log_to(&path, level)?;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot create the runtime")?;
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
fn log_to(path: &Path, level: EnvFilter) -> anyhow::Result<()> {
    let config = LogConfig { file: Some(path.to_owned()), ..LogConfig::default() };
    Log::start(config, level).with_context(|| format!("cannot open the log file {}", path.display()))?;
    Ok(())
}
