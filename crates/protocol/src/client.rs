//! Messages from an observer to a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    CausesView, ClusterView, Column, CpuView, EnginesView, EventsRequest, HistoryView, InspectView, PastView,
    ResultsView, RunSettings, SchedulersView, ServeView, StoresView, TimeView, TopicsView, TraceRequest, TreeView,
    ViewWindow, WaitsView,
};

/// A message from an observer to a node.
///
/// Messages that change something may carry an `id`; the node answers with an `ack` or an `error` that has the same id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Starts a scenario; a scenario that is already running is stopped first. Needs the control role.
    Run {
        /// Id of the scenario, as listed in `hello`.
        scenario: String,
        /// Parameters by name; omitted ones keep their defaults.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        params: BTreeMap<String, String>,
        /// Settings of the measurement.
        #[serde(flatten)]
        settings: Box<RunSettings>,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Stops the running scenario. Needs the control role.
    Stop {
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Pauses the running scenario, or lets it go on. Its clock does not count the pause. Needs the control role.
    Pause {
        /// True to pause.
        paused: bool,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Turns this client's process table on or off. The tables of other clients do not change.
    SetObserverDetail {
        /// True to receive rows.
        enabled: bool,
    },
    /// Selects the resource profile; a running scenario restarts with it. Needs the control role.
    SetResourceProfile {
        /// Id of the profile, as listed in `hello`.
        profile: String,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Limits the number of frames per second for this client; the node's own rate is the upper limit.
    Watch {
        /// Frames per second, from 0.1 to 60.
        frame_hz: f64,
    },
    /// Selects the part of the process table that this client receives. Replaces the client's earlier view.
    View(View),
    /// Requests one process in full, four times a second, until another process or `null` is requested.
    Detail {
        /// `<node.slot.generation>`, or `null` for none.
        pid: Option<String>,
    },
    /// Requests one process in depth, which watches it. Replaces the client's earlier request.
    Inspect {
        /// The view; `null` to watch no process.
        view: Option<InspectView>,
    },
    /// Selects what this client receives about the causes of failures. Replaces the client's earlier view.
    Causes {
        /// The view; `null` to receive nothing.
        view: Option<CausesView>,
    },
    /// Selects the part of the supervision tree that this client receives. Replaces the client's earlier view.
    Tree {
        /// The view; `null` to receive none.
        view: Option<TreeView>,
    },
    /// Selects what this client receives about the node's engines. Replaces the client's earlier view.
    Engines {
        /// The view; `null` to receive nothing.
        view: Option<EnginesView>,
    },
    /// Turns the node's tickers and streams on or off for this client. Replaces the client's earlier view.
    Time {
        /// The view; `null` to receive nothing.
        view: Option<TimeView>,
    },
    /// Selects what this client receives about the node's stores. Replaces the client's earlier view.
    Stores {
        /// The view; `null` to receive nothing.
        view: Option<StoresView>,
    },
    /// Selects what this client receives about the node's topics. Replaces the client's earlier view.
    Topics {
        /// The view; `null` to receive nothing.
        view: Option<TopicsView>,
    },
    /// Selects what this client receives about the node's CPU time. Replaces the client's earlier view.
    Cpu {
        /// The view; `null` to receive nothing.
        view: Option<CpuView>,
    },
    /// Selects what this client receives about the node's schedulers. Replaces the client's earlier view.
    Schedulers {
        /// The view; `null` to receive nothing.
        view: Option<SchedulersView>,
    },
    /// Selects what this client receives about the node's servers. Replaces the client's earlier view.
    Serve {
        /// The view; `null` to receive nothing.
        view: Option<ServeView>,
    },
    /// Selects what this client receives about the cluster. Replaces the client's earlier view.
    Cluster {
        /// The view; `null` to receive nothing.
        view: Option<ClusterView>,
    },
    /// Selects what this client receives about the results of scenarios. Replaces the client's earlier view.
    Results {
        /// The view; `null` to receive nothing.
        view: Option<ResultsView>,
    },
    /// Requests a part of the JSON report of a result. The node answers with `report` or `error`.
    Report {
        /// Number of the result.
        run: u64,
        /// Number of bytes to skip.
        #[serde(default)]
        offset: u64,
        /// Id of the answer.
        id: u64,
    },
    /// Selects the part of the list of waits that this client receives. Replaces the client's earlier view.
    Waits {
        /// The view; `null` to receive nothing.
        view: Option<WaitsView>,
    },
    /// Starts a trace, which replaces a running one of any client; `null` ends the trace of this client.
    Trace {
        /// The trace; `null` for none.
        trace: Option<TraceRequest>,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Turns the newest events on or off for this client; they are sent up to four times a second, when there are new
    /// ones.
    Events(EventsRequest),
    /// Requests one recorded instant. The answer is `past`, once.
    Past(PastView),
    /// Requests the figures of the last minutes. The answer is `history`, once.
    History(HistoryView),
    /// Stops a child of a supervisor as its specification says, and starts it again; starts one that has ended. This is
    /// not a crash: it uses none of the supervisor's restarts. Needs the control role.
    RestartChild {
        /// Path of the child's row in the supervision tree.
        path: String,
        /// Id to which the node answers with `ack` or `error`, when the child runs again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Ends a process. Needs the control role.
    Kill {
        /// `<node.slot.generation>`.
        pid: String,
        /// Exit reason that the process receives.
        #[serde(default)]
        reason: KillReason,
        /// Words of the reason, at most [`KILL_TEXT_MAX_BYTES`](crate::KILL_TEXT_MAX_BYTES). `error` needs some, `kill` has
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Replaces the filter of the node's log, until the node ends. Needs the control role.
    SetLogFilter {
        /// A level, or a filter such as `info,rusm_store=trace`, at most
        /// [`LOG_FILTER_MAX_BYTES`](crate::LOG_FILTER_MAX_BYTES).
        filter: String,
        /// Id to which the node answers with `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Ends every process that a filter matches, including those that start meanwhile. Needs the control role.
    KillAll {
        /// A filter as in a view, for example `module=bomb`; not empty.
        filter: String,
        /// Exit reason that the processes receive.
        #[serde(default)]
        reason: KillReason,
        /// Id to which the node answers with `killed` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
}

impl ClientMessage {
    /// Returns the id of a message that changes something, or that reads a result by its number, if it has one.
    pub const fn command_id(&self) -> Option<u64> {
        match self {
            Self::Run { id, .. }
            | Self::Stop { id }
            | Self::Pause { id, .. }
            | Self::SetResourceProfile { id, .. }
            | Self::RestartChild { id, .. }
            | Self::SetLogFilter { id, .. }
            | Self::Kill { id, .. }
            | Self::KillAll { id, .. }
            | Self::Trace { id, .. } => *id,
            Self::Report { id, .. } => Some(*id),
            _ => None,
        }
    }
}

/// The exit reason sent by `kill` and `kill_all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// `shutdown`: a request; a process that traps exits may continue.
    Shutdown,
    /// `kill`: cannot be trapped.
    #[default]
    Kill,
    /// `error`: an abnormal reason with words; a process that traps exits may continue. Not for `kill_all`.
    Error,
}

/// A page of the process table: its rows, their order and the refresh rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Echoed in `rows`, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Columns of each row, in this order; empty for all columns.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// Column by which the table is sorted.
    #[serde(default)]
    pub sort: SortKey,
    /// Filter for processes, for example `name=kv* and mailq>0`; free text matches names and pids; empty matches all.
    #[serde(default)]
    pub filter: String,
    /// Range of rows of the sorted table.
    #[serde(default)]
    pub window: ViewWindow,
    /// Pid of a process that fixes the window: it moves with every order, and `offset` counts only if the process
    /// does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<String>,
    /// Refreshes of the visible values per second, 1–10.
    #[serde(default = "default_rows_hz")]
    pub hz: f64,
    /// True to sort the table again now, whatever the age of its order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reorder: bool,
    /// True if the state of a parked process says what it waits for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

const fn default_rows_hz() -> f64 {
    4.0
}

impl Default for View {
    fn default() -> Self {
        Self {
            id: 0,
            columns: Vec::new(),
            sort: SortKey::default(),
            filter: String::new(),
            window: ViewWindow::default(),
            around: None,
            hz: default_rows_hz(),
            reorder: false,
            waits: false,
        }
    }
}

/// The sort order of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortKey {
    /// Column by which rows are compared.
    pub key: Column,
    /// True to sort in descending order.
    #[serde(default)]
    pub desc: bool,
}

impl Default for SortKey {
    fn default() -> Self {
        Self { key: Column::RedsPerSec, desc: true }
    }
}
