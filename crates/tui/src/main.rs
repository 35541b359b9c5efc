//! `rusm-top`: reads the command line and the config file, runs the observer or a task, and exits with its exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rusm_log::{Log, LogConfig};
use rusm_tui::cli::config::Config;
use rusm_tui::cli::{Cli, one_line};
use rusm_tui::{Error, Exit, environment};
use thiserror::Error;
use tracing_subscriber::EnvFilter;

/// Exit code for invalid usage.
const USAGE: u8 = 2;

/// Variable of the log filter.
const LOG_LEVEL: &str = "RUSM_TOP_LOG";

/// Error before the observer starts. Its exit code is 1.
#[derive(Debug, Error)]
enum StartError {
    #[error("cannot open the log file {}: {source}", path.display())]
    LogFile { path: PathBuf, source: io::Error },
    #[error("cannot create the runtime: {0}")]
    Runtime(io::Error),
}

fn main() -> ExitCode {
    rusm_log::ignore_file_size_signal();
    rusm_log::unblock_signals();
    if let Err(line) = environment::check_limits() {
        report(&line);
        return ExitCode::from(1);
    }
    run()
}

/// Runs the program. A function of its own, because its variables may not fit into a stack that has not been checked.
#[inline(never)]
fn run() -> ExitCode {
    let read = read_command_line();
    let (cli, config) = match read {
        Ok(read) => read,
        Err(line) => {
            report(&line);
            return ExitCode::from(USAGE);
        }
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Err(line) = environment::check(names) {
        report(&line);
        return ExitCode::from(USAGE);
    }
    if let Some(task) = cli.task() {
        return ended(task.run(cli.config(), &mut io::stdout().lock()));
    }
    match observe(cli, config) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(1)
        }
    }
}

/// Reads the command line, and then the config file unless the task works without a valid one.
fn read_command_line() -> Result<(Cli, Config), String> {
    let line = || std::env::args_os();
    let explain = |error: clap::Error| {
        // Requests for help and the version print to stdout and exit with 0.
        if error.use_stderr() { one_line(&error) } else { print_and_exit(&error) }
    };
    let cli = Cli::read(line()).map_err(explain)?;
    if cli.task().is_some() {
        return Ok((cli, Config::default()));
    }
    let config = Config::load(cli.config()).map_err(|error| error.to_string())?;
    let cli = Cli::read_with(line(), &config).map_err(explain)?;
    Ok((cli, config))
}

/// Prints help or the version; a closed pipe is not an error.
fn print_and_exit(answer: &clap::Error) -> ! {
    match answer.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            report(&Error::Output(error));
            std::process::exit(1)
        }
        _ => std::process::exit(0),
    }
}

fn ended(ended: Result<Exit, Error>) -> ExitCode {
    let code = ended.map_or_else(
        |error| {
            report(&error);
            error.code()
        },
        Exit::code,
    );
    ExitCode::from(code)
}

/// Writes one line to stderr, escaped.
fn report(error: &dyn std::fmt::Display) {
    rusm_log::last_words(format_args!("rusm-top: {error}"));
}

fn observe(cli: Cli, config: Config) -> Result<u8, StartError> {
    let level = match log_level(cli.log()) {
        Ok(level) => level,
        Err(why) => {
            report(&why);
            return Ok(USAGE);
        }
    };
    let log_file = cli.log_file();
    let options = match cli.options(config) {
        Ok(options) => options,
        Err(why) => {
            report(&why);
            return Ok(USAGE);
        }
    };
    if let Some(path) = log_file {
        log_to(path, level)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
    let ended = runtime.block_on(rusm_tui::run(options));
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
fn log_level(level: &str) -> Result<EnvFilter, String> {
    let is_variable = std::env::var(LOG_LEVEL).is_ok_and(|variable| variable == level);
    let origin = if is_variable { LOG_LEVEL } else { "--log" };
    rusm_log::parse_filter(level).map_err(|error| format!("{origin}={level:?} is not a valid log filter: {error}"))
}

/// Logs to a file, because the terminal shows the screen.
fn log_to(path: PathBuf, level: EnvFilter) -> Result<(), StartError> {
    let config = LogConfig { file: Some(path.clone()), ..LogConfig::default() };
    match Log::start(config, level, None) {
        Ok(_running) => Ok(()),
        Err(source) => Err(StartError::LogFile { path, source }),
    }
}
