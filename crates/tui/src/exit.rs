//! How the program ends: one table of exit codes for every binary of rusm.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | ok |
//! | 1 | runtime error |
//! | 2 | usage, or no terminal |
//! | 3 | cannot connect |
//! | 4 | protocol, or refused |
//! | 5 | the scenario failed |
//! | 6 | inconclusive |
//! | 128+n | ended by signal n |

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model::message::Fault;

/// An end without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user left, or what was asked for is done.
    Done,
    /// A signal asked for the end; the terminal was restored.
    Signal(i32),
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Signal(number) => 128u8.saturating_add(number.clamp(0, 127) as u8),
        }
    }
}

/// Why the observer could not go on. Each text is one line that says what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing can be drawn here.
    #[error("{what}: `rusm-top --once` prints one frame, `rusm-top --once --json` one for programs")]
    NoTerminal {
        /// What is missing.
        what: &'static str,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The token file that was named cannot be read.
    #[error("cannot read the token file {path}: {source}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No node answers.
    #[error("{0}")]
    Connect(String),
    /// The node refuses us, or speaks another language.
    #[error("{0}")]
    Refused(String),
    /// The node is newer than this program.
    #[error("the node speaks protocol version {theirs}, this rusm-top {ours}: update rusm-top")]
    NewerProtocol {
        /// The node's version.
        theirs: u32,
        /// Our version.
        ours: u32,
    },
    /// The scenario that `--run` asked for did not run.
    #[error("{0}")]
    Scenario(String),
    /// The scenario gave no figures in time.
    #[error("{0}")]
    Inconclusive(String),
    /// What was asked for could not be printed.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The terminal failed.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] io::Error),
}

impl Error {
    /// The exit code of a refusal.
    pub(crate) const REFUSED: u8 = 4;

    /// How a lost connection ends the program.
    pub(crate) fn lost(reason: String, fault: Fault) -> Self {
        match fault {
            Fault::Connection => Self::Connect(reason),
            Fault::Protocol => Self::Refused(reason),
        }
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Output(_) | Self::Terminal(_) => 1,
            Self::NoTerminal { .. } | Self::Usage(_) | Self::TokenFile { .. } => 2,
            Self::Connect(_) => 3,
            Self::Refused(_) | Self::NewerProtocol { .. } => Self::REFUSED,
            Self::Scenario(_) => 5,
            Self::Inconclusive(_) => 6,
        }
    }
}
