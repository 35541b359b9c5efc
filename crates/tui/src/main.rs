//! `rusm-top`: parses the command line, runs the observer, and ends with its exit code.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Context;
use rusm_tui::cli::{Cli, LOG_LEVEL, one_line};
use rusm_tui::environment;
use tracing_subscriber::EnvFilter;

/// The exit code of bad usage.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            complain(&one_line(&error));
            return ExitCode::from(USAGE);
        }
        // Help and the version are no errors.
        Err(asked) => asked.exit(),
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Err(line) = environment::check(names) {
        complain(&line);
        return ExitCode::from(2);
    }
    match observe(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&format_args!("{error:#}"));
            ExitCode::from(1)
        }
    }
}

/// One line on stderr; a terminal that has gone away cannot be told.
fn complain(error: &dyn std::fmt::Display) {
    drop(writeln!(std::io::stderr(), "rusm-top: {error}"));
}

fn observe(cli: Cli) -> anyhow::Result<u8> {
    let level = match log_level() {
        Ok(level) => level,
        Err(why) => {
            complain(&why);
            return Ok(USAGE);
        }
    };
    if let Some(path) = cli.log_file() {
        log_to(&path, level)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let ended = runtime.block_on(rusm_tui::run(cli.options()));
    // A name that is being resolved must not hold the end back.
    runtime.shutdown_background();
    Ok(match ended {
        Ok(exit) => exit.code(),
        Err(error) => {
            complain(&error);
            error.code()
        }
    })
}

/// What is logged; said wrongly it is an error even where nothing is.
fn log_level() -> Result<EnvFilter, String> {
    let level = std::env::var(LOG_LEVEL).unwrap_or_else(|_unset| "info".to_owned());
    EnvFilter::try_new(&level).map_err(|error| format!("{LOG_LEVEL}={level:?} is no log level: {error}"))
}

/// The screen is taken, so the log goes to a file.
fn log_to(path: &Path, level: EnvFilter) -> anyhow::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot open the log file {}", path.display()))?;
    let log = tracing_subscriber::fmt().with_env_filter(level).with_writer(Mutex::new(file)).with_ansi(false);
    // A line that cannot be written is lost: saying so on stderr would panic where nobody reads that.
    log.log_internal_errors(false).init();
    Ok(())
}
