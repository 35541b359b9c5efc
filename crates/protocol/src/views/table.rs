//! The process table on the wire: a page of rows as arrays, with the list of their columns.
//!
//! A client requests a page with a [`View`](crate::View) and receives [`Rows`]. Tables of results have the same cells.

use serde::{Deserialize, Serialize};

/// A column of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Pid of the process: `<node.slot.generation>`.
    Pid,
    /// Registered name; otherwise the label; otherwise empty.
    Name,
    /// `running`, `runnable`, `waiting`, `sleeping`, `io`, `exiting`, or `stuck` if a poll does not return.
    State,
    /// Reductions per second since the client's last rows; empty for a process that was not among them.
    RedsPerSec,
    /// Number of reductions since the process was spawned.
    Reds,
    /// Share of one scheduler since the client's last rows, 0–100; empty for a process that was not among them.
    BusyPct,
    /// Size of control block, future and mailbox, in bytes.
    MemoryBytes,
    /// Number of messages waiting in the mailbox.
    MailboxLen,
    /// Messages received per second since the client's last rows; empty for a process that was not among them.
    MsgsPerSec,
    /// Number of messages received since the process was spawned.
    Messages,
    /// Time since the process was spawned, in milliseconds.
    AgeMs,
    /// Pid of the process that spawned it.
    Parent,
    /// `native` or `wasm`.
    Kind,
    /// Source of its body, for example the name of a module. This column and those from here to `SentBytes` are empty for
    /// native processes.
    Module,
    /// Profile: the set of capabilities that the process has.
    Profile,
    /// Size of its linear memory, in bytes.
    LinearMemoryBytes,
    /// Number of elements of its tables.
    TableElements,
    /// Number of times that it was taken off its scheduler because its time slice was over.
    EpochSlices,
    /// Last call that it made to the host.
    LastHostCall,
    /// Bytes of messages that it sent and that are not received yet.
    SentBytes,
    /// Size of the messages waiting in the mailbox, in bytes.
    MailboxBytes,
    /// Number of linked processes.
    Links,
    /// Number of processes that it monitors.
    Monitors,
    /// Messages that arrived per second since the client's last rows; empty for a process that was not among them.
    ArrivalsPerSec,
}

impl Column {
    /// All columns, in the order used if a view requests no particular columns.
    pub const ALL: [Self; 24] = [
        Self::Pid,
        Self::Name,
        Self::State,
        Self::RedsPerSec,
        Self::Reds,
        Self::BusyPct,
        Self::MemoryBytes,
        Self::MailboxLen,
        Self::MsgsPerSec,
        Self::Messages,
        Self::AgeMs,
        Self::Parent,
        Self::Kind,
        Self::Module,
        Self::Profile,
        Self::LinearMemoryBytes,
        Self::TableElements,
        Self::EpochSlices,
        Self::LastHostCall,
        Self::SentBytes,
        Self::MailboxBytes,
        Self::Links,
        Self::Monitors,
        Self::ArrivalsPerSec,
    ];

    /// Returns the name of the column on the wire and in a filter.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Name => "name",
            Self::State => "state",
            Self::RedsPerSec => "reds_per_sec",
            Self::Reds => "reds",
            Self::BusyPct => "busy_pct",
            Self::MemoryBytes => "memory_bytes",
            Self::MailboxLen => "mailbox_len",
            Self::MailboxBytes => "mailbox_bytes",
            Self::MsgsPerSec => "msgs_per_sec",
            Self::ArrivalsPerSec => "arrivals_per_sec",
            Self::Messages => "messages",
            Self::AgeMs => "age_ms",
            Self::Parent => "parent",
            Self::Links => "links",
            Self::Monitors => "monitors",
            Self::Kind => "kind",
            Self::Module => "module",
            Self::Profile => "profile",
            Self::LinearMemoryBytes => "linear_memory_bytes",
            Self::TableElements => "table_elements",
            Self::EpochSlices => "epoch_slices",
            Self::LastHostCall => "last_host_call",
            Self::SentBytes => "sent_bytes",
        }
    }

    /// Returns the feature of the nodes that know this column; `None` if all nodes do.
    pub const fn feature(self) -> Option<&'static str> {
        match self {
            Self::MailboxBytes | Self::Links | Self::Monitors => Some("bond_columns"),
            Self::ArrivalsPerSec => Some("arrivals_column"),
            _ => None,
        }
    }

    /// Returns true if the values are rates, for which the node must sample each process twice.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::RedsPerSec | Self::BusyPct | Self::MsgsPerSec | Self::ArrivalsPerSec)
    }
}

/// One value of a row. The wire format omits the variant, so their order matters: the first that fits is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    Empty(()),
    /// A count.
    Count(u64),
    /// A rate or a share.
    Rate(f64),
    /// A pid, a name or a state.
    Text(String),
}

/// A page of the process table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Id of the view that this page answers.
    pub id: u32,
    /// Number of this page, counted per client.
    pub seq: u64,
    /// Number of the order: pages of one epoch have the same processes in the same places.
    pub epoch: u64,
    /// Number of live processes.
    pub total: u64,
    /// Number of processes that the filter matches.
    pub matched: u64,
    /// Number of rows before the first one of this page.
    pub offset: u64,
    /// Age of the order, in milliseconds.
    pub order_age_ms: u64,
    /// Reason why the order is older than requested; `null` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// CPU time of sorting, in microseconds.
    #[serde(default)]
    pub cost_us: f64,
    /// Columns of each row.
    pub columns: Vec<Column>,
    /// The rows. A process that has ended keeps its row, in the state `exited`, until the next order.
    pub rows: Vec<Vec<Cell>>,
    /// Fill of the mailbox of each row, in per cent of its capacity; absent if no mailbox of this page holds a message, or
    /// if the view does not show their lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mailbox_fill_pct: Vec<u8>,
}

/// The range of rows that a view shows of a sorted table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewWindow {
    /// Number of rows skipped.
    #[serde(default)]
    pub offset: u64,
    /// Number of rows requested, at most [`VIEW_ROWS_MAX`](crate::VIEW_ROWS_MAX).
    pub len: u32,
}

impl Default for ViewWindow {
    fn default() -> Self {
        Self { offset: 0, len: 50 }
    }
}
