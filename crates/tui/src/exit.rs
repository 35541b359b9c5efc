//! Exit codes of `rusm-top`, and the table of codes. `rusm` uses the same codes (`failure.rs` of the crate `node`).
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
//! | 7 | `--diagnose` has found a problem |
//! | 128+n | ended by signal n |

pub(crate) mod summary;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model::message::Fault;

/// A regular end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user quit, or the requested work is done.
    Done,
    /// `--diagnose` has found a problem.
    Problems,
    /// A signal ended the program; the terminal was restored.
    Signal(i32),
}

impl Exit {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Problems => 7,
            Self::Signal(number) => 128u8.saturating_add(number.clamp(0, 127) as u8),
        }
    }
}

/// Error that ends the observer. Each message is one line that tells the user what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// A usable terminal is missing.
    #[error("{what}: `rusm-top --once` prints one frame as text, `rusm-top --once --json` as JSON")]
    NoTerminal {
        /// Description of what is missing.
        what: &'static str,
    },
    /// An argument is not valid.
    #[error("{0}")]
    Usage(String),
    /// The named token file cannot be read.
    #[error("cannot read the token file {path}: {source}")]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The node does not answer.
    #[error("{0}")]
    Connect(String),
    /// The node refuses the connection or does not speak the protocol.
    #[error("{0}")]
    Refused(String),
    /// The node speaks a newer protocol than this program.
    #[error("the node uses protocol version {theirs}, this rusm-top supports up to {ours}: update rusm-top")]
    NewerProtocol {
        /// Protocol version of the node.
        theirs: u32,
        /// Protocol version of this program.
        ours: u32,
    },
    /// The scenario requested by `--run` did not run.
    #[error("{0}")]
    Scenario(String),
    /// The scenario produced no results in time.
    #[error("{0}")]
    Inconclusive(String),
    /// A recording cannot be read or written.
    #[error("{0}")]
    Recording(String),
    /// The requested output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The terminal failed.
    #[error("the terminal failed: {0}")]
    Terminal(#[source] io::Error),
}

impl Error {
    /// Exit code of a refusal.
    pub(crate) const REFUSED: u8 = 4;

    /// Returns the error for a lost connection.
    pub(crate) fn lost(reason: String, fault: Fault) -> Self {
        match fault {
            Fault::Connection => Self::Connect(reason),
            Fault::Protocol => Self::Refused(reason),
        }
    }

    /// Returns the exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::Output(_) | Self::Terminal(_) => 1,
            Self::NoTerminal { .. } | Self::Usage(_) | Self::TokenFile { .. } | Self::Recording(_) => 2,
            Self::Connect(_) => 3,
            Self::Refused(_) | Self::NewerProtocol { .. } => Self::REFUSED,
            Self::Scenario(_) => 5,
            Self::Inconclusive(_) => 6,
        }
    }
}
