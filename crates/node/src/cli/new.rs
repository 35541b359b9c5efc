//! Flags of `rusm new` and `rusm build`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct NewFlags {
    /// Language of a component that answers requests of HTTP: rust, c or ts.
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) http: String,
    /// Folder to create; its name is that of the component.
    #[arg(value_name = "FOLDER")]
    pub(crate) path: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BuildFlags {
    /// Folder of the project [default: the current one].
    #[arg(value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
}
