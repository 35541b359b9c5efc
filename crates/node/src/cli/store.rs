//! `rusm store`: the flags of its commands.

use std::path::PathBuf;

use clap::Subcommand;

/// A command on the file of a store that no node has open.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Verifies a store and prints a line for each bucket, without writing to it.
    ///
    /// Exit code: 0 if the store is intact, 5 if something is damaged.
    Check {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replaces a store by a new file with every intact row, and keeps the old file next to it.
    ///
    /// Prints what is lost. An intact store is not changed.
    ///
    /// Exit code: 0 if no row is lost, 5 if rows are lost.
    Repair {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Writes the new file here, and leaves the old one where it is.
        #[arg(long, value_name = "NEW")]
        output: Option<PathBuf>,
    },
    /// Prints every intact row as a line of JSON, and reports damage on stderr, without writing to the store.
    ///
    /// A line has `bucket`, or `table` if the file is not a store. `key` and `value` are text; bytes that are not text
    /// are in `key_hex` and `value_hex`. A row that expires has `expires_at_ms`.
    ///
    /// Exit code: 0 if the store is intact, 5 if something is damaged.
    Export {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Prints JSON, the only supported format.
        #[arg(long)]
        json: bool,
    },
}
