//! The errors of the commands of `rusm`, with their exit codes. The codes have the same meaning in `rusm-top`;
//! `crates/tui/src/exit.rs` has the table.

use rusm_bench::{CompareError, GridError, HeadlessError, HistoryError, LoadError, RequestError, SystemError};
use rusm_console::ConsoleError;
use rusm_runtime::supervisor::Intensity;
use rusm_runtime::{ExitReason, InitError, StartError};
use rusm_serve::ServeError;
use rusm_store::OpenError;
use rusm_wasm::EngineError;
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

use crate::run::source::SourceError;
use crate::serve::sites::SiteError;
use crate::settings::SettingsError;

/// Error of a command; each text is one line that says what was wrong and what to do.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Console(#[from] ConsoleError),
    #[error(transparent)]
    Observer(#[from] rusm_tui::Error),
    #[error("{0}")]
    Bench(HeadlessError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Grid(#[from] GridError),
    /// `rusm loadtest` could not start: its options are wrong, or the server did not answer.
    #[error(transparent)]
    Loadtest(#[from] LoadError),
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A run failed, or its program was killed: exit code 5.
    #[error("{0}")]
    RunFailed(String),
    #[error("cannot {what}: {source}")]
    System { what: String, source: std::io::Error },
    #[error("{0}")]
    Usage(String),
    /// A node that cannot be reached, or does not answer in time.
    #[cfg(feature = "cluster")]
    #[error("{0}")]
    Unreachable(String),
    /// A node has refused a command, or its answer was not understood.
    #[cfg(feature = "cluster")]
    #[error("{0}")]
    Answer(String),
    /// A limit of the operating system that keeps the program from running.
    #[error("{0}")]
    Limit(String),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Module(#[from] SourceError),
    #[error(transparent)]
    Guests(#[from] GuestsError),
    #[error(transparent)]
    Site(#[from] SiteError),
}

/// Error of guests that failed to start, or failed later.
#[derive(Debug, Error)]
pub(crate) enum GuestsError {
    #[error("cannot start the guests: {}", why(.0))]
    Start(InitError),
    #[error("guest {id:?} was given up: {reason} (more than {} in {:?})", restarts(.intensity.restarts), .intensity.period)]
    GivenUp { id: String, reason: ExitReason, intensity: Intensity },
    #[error("the supervisor of the guests was ended: {0}")]
    Supervisor(ExitReason),
    #[error("guest {id:?} has ended: {reason}")]
    Ended { id: String, reason: ExitReason },
}

/// Returns the reason alone: the error message already says that the guest ended during its start.
fn why(error: &InitError) -> String {
    match error {
        InitError::Ended(ExitReason::ShutdownWith(detail)) => detail.text().to_owned(),
        error => error.to_string(),
    }
}

fn restarts(restarts: u32) -> String {
    if restarts == 1 { "1 restart".to_owned() } else { format!("{restarts} restarts") }
}

impl Failure {
    /// Returns the exit code: 1 runtime error, 2 usage error or no terminal, 3 connect error, 4 protocol error or
    /// access refused, 5 scenario failed, 6 inconclusive.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Settings(_)
            | Self::Request(_)
            | Self::Usage(_)
            | Self::Module(_)
            | Self::Engine(EngineError::OutOfRange { .. })
            | Self::Start(StartError::OutOfRange { .. })
            | Self::Console(ConsoleError::Name { .. } | ConsoleError::NotLoopback { .. })
            | Self::Compare(_)
            | Self::Grid(_)
            | Self::Bench(HeadlessError::Duration { .. } | HeadlessError::Runs { .. }) => 2,
            Self::Loadtest(error) => {
                if error.is_of_server() {
                    3
                } else {
                    2
                }
            }
            Self::Observer(error) => error.code(),
            #[cfg(feature = "cluster")]
            Self::Unreachable(_) => 3,
            #[cfg(feature = "cluster")]
            Self::Answer(_) => 4,
            Self::Site(error) => {
                if matches!(error, SiteError::Server(ServeError::Listen { .. } | ServeError::Spawn(_))) { 1 } else { 2 }
            }
            Self::Bench(HeadlessError::Run(_)) | Self::RunFailed(_) => 5,
            Self::Start(_)
            | Self::Console(_)
            | Self::Bench(_)
            | Self::Engine(_)
            | Self::Store(_)
            | Self::Guests(_)
            | Self::History(_)
            | Self::Limit(_)
            | Self::System { .. } => 1,
        }
    }
}

impl Failure {
    /// Returns advice about the limit of open files if it caused the failure, otherwise an empty string. The advice
    /// starts with a colon, so that it can follow the error's text.
    pub(crate) fn remedy(&self) -> String {
        let causes = std::iter::successors(Some(self as &dyn std::error::Error), |error| error.source());
        let codes = causes.filter_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error());
        let is_out_of_files = codes.into_iter().any(|code| code == libc::EMFILE);
        match getrlimit(Resource::Nofile).current {
            Some(limit) if is_out_of_files => format!(": the limit is {limit}: raise it with ulimit -n"),
            _ => String::new(),
        }
    }
}

impl From<HeadlessError> for Failure {
    fn from(error: HeadlessError) -> Self {
        match error {
            HeadlessError::Request(error) => Self::Request(error),
            HeadlessError::Start(error) => Self::Start(error),
            other => Self::Bench(other),
        }
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        match error {
            SystemError::Headless(error) => error.into(),
            SystemError::Failed(line) => Self::RunFailed(line),
        }
    }
}

/// Returns a function that turns a system error into a failure which names the attempted operation.
pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
    move |source| Failure::System { what: what.into(), source }
}
