//! The error of the settings: each message names the key, the value and its origin.

use std::path::PathBuf;

use thiserror::Error;

/// Error for invalid settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not valid TOML: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("unknown setting {key:?} in {origin}{suggestion}")]
    Unknown { key: String, origin: String, suggestion: String },
    /// A value with its key and its origin, and what it must be.
    #[error("{0}")]
    Invalid(String),
    #[error("{key} is missing in {origin}")]
    Missing { key: &'static str, origin: String },
    #[error("{key} in {origin} must be {due}")]
    Shape { key: String, origin: String, due: &'static str },
    #[error("{what} is for a module, and a folder ignores it: remove it")]
    NotForFolder { what: String },
    #[error("{key} of {value} in {origin} is above {limit} of {most}: raise that one, or lower this one")]
    AboveLimit { key: String, origin: String, value: String, limit: String, most: String },
    #[error("two processes in {origin} are called {id:?}: give them different names")]
    DuplicateName { id: String, origin: String },
    #[error("two processes in {origin} register the name {name:?}: give them different names")]
    DuplicateRegister { name: String, origin: String },
    #[error("profile {name:?} in {origin} is built in: choose another name")]
    BuiltIn { name: String, origin: String },
    #[error(
        "{total} processes in {origin} exceed engine.capacity of {capacity}: lower process.count or raise engine.capacity"
    )]
    TooManyProcesses { origin: String, total: u64, capacity: u32 },
}
