//! Flags of `rusm new` and `rusm build`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct NewFlags {
    /// Language of a guest, which `rusm run` starts as a process.
    #[arg(long, value_name = "rust|c|ts", required_unless_present = "http", conflicts_with = "http")]
    pub(crate) guest: Option<Language>,
    /// Language of a component that answers HTTP requests, for `rusm serve`.
    #[arg(long, value_name = "rust|c|ts")]
    pub(crate) http: Option<Language>,
    /// Folder to create; its name is that of the component.
    #[arg(value_name = "FOLDER")]
    pub(crate) path: PathBuf,
}

/// Language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Rust.
    Rust,
    /// C.
    C,
    /// TypeScript.
    Ts,
}

#[derive(Debug, Args)]
pub(crate) struct BuildFlags {
    /// Folder of the project [default: the current one].
    #[arg(value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
}
