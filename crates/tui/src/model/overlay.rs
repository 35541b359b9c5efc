//! What lies over a view and takes the keys.

use rusm_protocol::KillReason;

use crate::model::bench::RunDialog;
use crate::model::keys::Context;

/// An overlay; at most one is open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    /// The keys that hold here.
    Help {
        /// Lines scrolled away.
        scroll: u16,
    },
    /// All that is known about the selected scenario.
    About {
        /// Lines scrolled away.
        scroll: u16,
    },
    /// A trap in full: the one that the Wasm view reads.
    Trap {
        /// Lines scrolled away.
        scroll: u16,
    },
    /// The question before a process is ended.
    Kill {
        /// Whose end it is.
        pid: String,
        /// Its name, or empty.
        name: String,
        /// What it will be told.
        reason: KillReason,
    },
    /// The question before all processes that a filter lets through are ended.
    KillAll {
        /// The filter of the table.
        filter: String,
        /// Processes that it lets through now.
        matched: u64,
        /// The exit reason that they get.
        reason: KillReason,
    },
    /// The columns that can sort.
    SortMenu {
        /// The column under the cursor, by its place in `Column::ALL`.
        at: usize,
    },
    /// The parameters of a scenario.
    Run(RunDialog),
}

impl Overlay {
    /// The keys that it takes.
    pub(crate) fn context(&self) -> Context {
        match self {
            Self::Help { .. } | Self::About { .. } | Self::Trap { .. } => Context::Help,
            Self::Kill { .. } | Self::KillAll { .. } => Context::Kill,
            Self::SortMenu { .. } => Context::SortMenu,
            Self::Run(_) => Context::RunDialog,
        }
    }
}
