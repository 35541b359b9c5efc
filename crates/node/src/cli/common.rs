//! Flags that several commands have.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Settings of a runtime; environment and file can set them too.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonFlags {
    /// Reads this file instead of ./rusm.toml.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Number of scheduler threads [default: one for each core].
    #[arg(long, value_name = "N")]
    pub(crate) schedulers: Option<String>,
    /// Maximum number of live processes [default: 16000000].
    #[arg(long, value_name = "N")]
    pub(crate) process_limit: Option<String>,
    /// Maximum number of messages in a mailbox [default: 1024].
    #[arg(long, value_name = "N")]
    pub(crate) mailbox_capacity: Option<String>,
    /// Maximum heap size of the messages in one mailbox [default: 64MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) mailbox_bytes: Option<String>,
    /// Maximum heap size of the messages in all mailboxes [default: a quarter of the memory].
    #[arg(long, value_name = "SIZE")]
    pub(crate) mailbox_total_bytes: Option<String>,
    /// Log level: off, error, warn, info, debug, trace, or a filter such as `rusm_runtime=debug` [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub(super) log: Option<String>,
    /// Writes the log to this file instead of stderr.
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<String>,
    /// Format of the log: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<String>,
}

impl CommonFlags {
    /// Returns the given flags about the runtime as arguments for another `rusm` program, except for the number of
    /// schedulers, which recipes contain.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let numbers = [
            ("--process-limit", &self.process_limit),
            ("--mailbox-capacity", &self.mailbox_capacity),
            ("--mailbox-bytes", &self.mailbox_bytes),
            ("--mailbox-total-bytes", &self.mailbox_total_bytes),
        ];
        let numbers = numbers.into_iter().filter_map(|(flag, value)| Some((flag, OsString::from(value.as_ref()?))));
        let config = self.config.as_ref().map(|path| ("--config", path.clone().into_os_string()));
        config.into_iter().chain(numbers).flat_map(|(flag, value)| [OsString::from(flag), value]).collect()
    }
}

/// The share of the machine that scenarios may use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShareFlags {
    /// Share of the machine that scenarios use: light, balanced or max [default: balanced].
    #[arg(long, value_name = "PROFILE")]
    pub(super) profile: Option<String>,
}

impl ShareFlags {
    /// Returns true if the flag was given.
    pub(crate) const fn is_given(&self) -> bool {
        self.profile.is_some()
    }
}
