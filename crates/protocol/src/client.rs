//! What an observer may say to a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Column, EnginesView, StoresView, TimeView, TopicsView, TreeView};

/// A message from an observer to a node.
///
/// Messages that change something may carry an `id`; the node answers it with `ack` or with an `error` of the same id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Starts a scenario; one that runs already is stopped first. Needs the control role.
    Run {
        /// The scenario's id, as `hello` lists it.
        scenario: String,
        /// Parameters by name; those left out keep their defaults.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        params: BTreeMap<String, String>,
        /// Answered by `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Stops the running scenario. Needs the control role.
    Stop {
        /// Answered by `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Turns this client's process table on or off. Other clients' tables do not change.
    SetObserverDetail {
        /// Whether rows are wanted.
        enabled: bool,
    },
    /// Chooses the resource profile; a running scenario starts again with it. Needs the control role.
    SetResourceProfile {
        /// The profile's id, as `hello` lists it.
        profile: String,
        /// Answered by `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// How many frames a second this client wants at most; the node's own rate is the ceiling.
    Watch {
        /// Frames a second, 1 or more.
        frame_hz: f64,
    },
    /// What part of the process table this client sees. It replaces the client's earlier view.
    View(View),
    /// Asks for one process in full, four times a second, until another or `null` is asked for.
    Detail {
        /// `<node.slot.generation>`, or `null` for none.
        pid: Option<String>,
    },
    /// What part of the tree of supervisors this client sees, instead of what it saw before, or none.
    Tree {
        /// `null` for none.
        view: Option<TreeView>,
    },
    /// What this client sees of the node's engines, instead of what it saw before, or nothing.
    Engines {
        /// `null` for nothing.
        view: Option<EnginesView>,
    },
    /// Whether this client sees the node's tickers and streams, instead of what it saw before.
    Time {
        /// `null` for not.
        view: Option<TimeView>,
    },
    /// What this client sees of the node's stores, instead of what it saw before, or nothing.
    Stores {
        /// `null` for nothing.
        view: Option<StoresView>,
    },
    /// What this client sees of the node's topics, instead of what it saw before, or nothing.
    Topics {
        /// `null` for nothing.
        view: Option<TopicsView>,
    },
    /// Asks for the newest events, up to four times a second when there are new ones, or for none.
    Events {
        /// Whether events are wanted.
        enabled: bool,
    },
    /// Ends a process. Needs the control role.
    Kill {
        /// `<node.slot.generation>`.
        pid: String,
        /// The exit reason it gets.
        #[serde(default)]
        reason: KillReason,
        /// Answered by `ack` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Ends every process that a filter lets through, those that start meanwhile too. Needs the control role.
    KillAll {
        /// A filter as in a view, such as `module=bomb`; not empty.
        filter: String,
        /// The exit reason they get.
        #[serde(default)]
        reason: KillReason,
        /// Answered by `killed` or `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
}

/// The exit reason that `kill` and `kill_all` send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// `shutdown`: asks; a process that traps exits may go on.
    Shutdown,
    /// `kill`: cannot be trapped.
    #[default]
    Kill,
}

/// A page of the process table: which rows, in which order, how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Echoed in `rows`, so that a client can drop answers to a view that it has left.
    pub id: u32,
    /// The columns of each row, in this order; empty means all.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// The column that orders the table.
    #[serde(default)]
    pub sort: SortKey,
    /// Which processes: `name=kv* and mailq>0`; free text matches names and pids; empty means all.
    #[serde(default)]
    pub filter: String,
    /// Which rows of the ordered table.
    #[serde(default)]
    pub window: ViewWindow,
    /// Refreshes of the visible values a second, 1–10.
    #[serde(default = "default_rows_hz")]
    pub hz: f64,
    /// Whether the order is to be made anew now, whatever its age.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reorder: bool,
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
            hz: default_rows_hz(),
            reorder: false,
        }
    }
}

/// The order of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortKey {
    /// The column compared.
    pub key: Column,
    /// Largest first.
    #[serde(default)]
    pub desc: bool,
}

impl Default for SortKey {
    fn default() -> Self {
        Self { key: Column::RedsPerSec, desc: true }
    }
}

/// Which rows of an ordered table a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewWindow {
    /// Rows skipped.
    #[serde(default)]
    pub offset: u64,
    /// Rows wanted, at most [`VIEW_ROWS_MAX`](crate::VIEW_ROWS_MAX).
    pub len: u32,
}

impl Default for ViewWindow {
    fn default() -> Self {
        Self { offset: 0, len: 50 }
    }
}
