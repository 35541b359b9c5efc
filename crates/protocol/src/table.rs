//! The process table on the wire: a page of rows as arrays, with the list of their columns.

use serde::{Deserialize, Serialize};

/// A column of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// `<node.slot.generation>`.
    Pid,
    /// The registered name, else the label, else empty.
    Name,
    /// `running`, `runnable`, `waiting`, `sleeping`, `io`, `exiting`; `stuck` for a poll that does not return.
    State,
    /// Reductions a second since the client's last rows; empty for a process that was not among them.
    RedsPerSec,
    /// Reductions since the process was spawned.
    Reds,
    /// Share of one scheduler since the client's last rows, 0–100; empty as well.
    BusyPct,
    /// Control block, future and mailbox.
    MemoryBytes,
    /// Messages waiting.
    MailboxLen,
    /// Messages received a second since the client's last rows; empty as well.
    MsgsPerSec,
    /// Messages received since the process was spawned.
    Messages,
    /// Milliseconds since it was spawned.
    AgeMs,
    /// The pid of the process that spawned it.
    Parent,
    /// `native` or `wasm`.
    Kind,
    /// What its body was made from, such as the name of a module; empty for native processes, as are those that follow.
    Module,
    /// The set of capabilities that it has.
    Profile,
    /// Linear memory.
    LinearMemoryBytes,
    /// Elements of its tables.
    TableElements,
    /// How often it was taken off its scheduler because its time was up.
    EpochSlices,
    /// What it asked the node for last.
    LastHostCall,
    /// Bytes of messages that it sent and that are not received yet.
    SentBytes,
}

impl Column {
    /// All columns, in the order of a row that asks for none in particular.
    pub const ALL: [Self; 20] = [
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
    ];

    /// The column's word on the wire and in a filter.
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
            Self::MsgsPerSec => "msgs_per_sec",
            Self::Messages => "messages",
            Self::AgeMs => "age_ms",
            Self::Parent => "parent",
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

    /// Whether its values are rates, for which the node needs two looks at each process.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::RedsPerSec | Self::BusyPct | Self::MsgsPerSec)
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing to show.
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
    /// The view that this page answers.
    pub id: u32,
    /// Counts this client's pages.
    pub seq: u64,
    /// Names the order: the same epoch means the same processes in the same places.
    pub epoch: u64,
    /// Processes alive.
    pub total: u64,
    /// Processes that the filter lets through.
    pub matched: u64,
    /// Rows before the first one here.
    pub offset: u64,
    /// Milliseconds since the order was made.
    pub order_age_ms: u64,
    /// Why the order is older than asked for; `null` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// CPU time of making the order, in microseconds.
    #[serde(default)]
    pub cost_us: f64,
    /// What the values of each row are.
    pub columns: Vec<Column>,
    /// The rows; one that has ended keeps its place until the next order, its state `exited`.
    pub rows: Vec<Vec<Cell>>,
}
