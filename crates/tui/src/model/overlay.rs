//! Overlays, which cover a view and take its keys.

pub(crate) mod columns;
pub(crate) mod trace;
pub(crate) mod waits;

use rusm_protocol::KillReason;

use crate::model::input::commands::Candidate;
use crate::model::input::keys::Context;
use crate::model::input::line_edit::LineEdit;
use crate::model::overlay::columns::ColumnChooser;
use crate::model::panes::bench::run_dialog::RunDialog;

/// An overlay; at most one is open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    /// Help for the keys that apply here.
    Help {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// Full description of the selected scenario.
    About {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// Full description of the trap that the Wasm view has requested.
    Trap {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// An event in full: its reason, its backtrace, and its processes.
    Event {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// Another node than before; keys reach it after this is closed.
    OtherNode {
        /// Name and process id of the node.
        node: String,
        /// Name and process id of the node before.
        before: String,
    },
    /// The changes in the minute before the cursor.
    Compare {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// Confirmation before a process is ended.
    Kill {
        /// Pid of the process.
        pid: String,
        /// Name of the process, or empty.
        name: String,
        /// Exit reason that the process will receive.
        reason: KillReason,
        /// Number that was typed to confirm that many processes end with it.
        typed: String,
        /// Words of the exit reason, once they are asked for.
        words: Option<LineEdit>,
    },
    /// A cause of failures in full.
    Cause {
        /// Number of lines scrolled away.
        scroll: u16,
    },
    /// Confirmation before all processes that match a filter are ended.
    KillAll {
        /// Filter of the table.
        filter: String,
        /// Number of processes that match it now.
        matched: u64,
        /// Exit reason that the processes will receive.
        reason: KillReason,
    },
    /// Menu of columns to sort by.
    SortMenu {
        /// Index of the column under the cursor in `Column::ALL`.
        at: usize,
    },
    /// Chooser of the columns of the process table.
    Columns(ColumnChooser),
    /// Question before an action that cannot be undone.
    Confirm(Question),
    /// Settings and parameters of a measurement.
    Run(RunDialog),
    /// The command palette.
    Palette(Palette),
    /// Question before something that disturbs a node.
    Ask {
        /// The action, in a few words.
        question: String,
        /// The action after a yes.
        ask: Ask,
    },
    /// List of processes that wait for others.
    Waits,
    /// Trace of a process.
    Trace,
}

/// The command line and the lines that match it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Palette {
    pub(crate) edit: LineEdit,
    pub(crate) found: Vec<Candidate>,
    /// Index of the line under the cursor.
    pub(crate) at: usize,
    /// Why the line was not executed.
    pub(crate) error: Option<String>,
}

/// The action after a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Runs this scenario.
    Run(String),
    /// Stops the run.
    Stop,
    /// Selects this profile.
    Profile(String),
}

impl Overlay {
    /// Creates the confirmation before a process is ended.
    pub(crate) const fn kill(pid: String, name: String) -> Self {
        Self::Kill { pid, name, reason: KillReason::Shutdown, typed: String::new(), words: None }
    }

    /// Returns the key context of the overlay.
    pub(crate) fn context(&self) -> Context {
        match self {
            Self::Cause { .. } => Context::Cause,
            Self::Help { .. }
            | Self::About { .. }
            | Self::Trap { .. }
            | Self::Compare { .. }
            | Self::OtherNode { .. } => Context::Help,
            Self::Kill { words: Some(_), .. } => Context::KillWords,
            Self::Kill { .. } | Self::KillAll { .. } => Context::Kill,
            Self::Event { .. } => Context::Event,
            Self::Confirm(_) | Self::Ask { .. } => Context::Ask,
            Self::SortMenu { .. } => Context::SortMenu,
            Self::Columns(_) => Context::Columns,
            Self::Run(_) => Context::RunDialog,
            Self::Palette(_) => Context::Palette,
            Self::Waits => Context::Waits,
            Self::Trace => Context::Trace,
        }
    }
}

/// A question that is answered with yes or no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Quit, and end the node of this program.
    EndNode,
    /// Stop a child of a supervisor and start it again.
    RestartChild {
        /// Path of its row in the tree.
        path: String,
        /// Id of the child.
        name: String,
    },
}
