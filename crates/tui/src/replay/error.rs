//! Why a text is not a valid recording.

use rusm_protocol::DecodeError;
use thiserror::Error;

/// Error returned when a text is not a valid recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordingError {
    /// The file does not start like a recording.
    #[error("this is not a recording of rusm-top: record one with --record FILE")]
    Foreign,
    /// The recording is of a newer program.
    #[error("the recording has version {version}, and this program reads version 1: update rusm-top")]
    Newer {
        /// Version of the recording.
        version: u64,
    },
    /// The line is not `{"at_ms": .., "message": ..}`.
    #[error("line {line} of the recording is malformed")]
    Malformed {
        /// Line number, counted from 1.
        line: usize,
    },
    /// The message cannot be decoded.
    #[error("line {line} of the recording: {source}")]
    Message {
        /// Line number, counted from 1.
        line: usize,
        /// Error of the decoder.
        source: DecodeError,
    },
}
