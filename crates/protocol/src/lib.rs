//! The messages between a rusm node and its observers: JSON text over WebSocket, one message per frame.
//!
//! ```text
//!   observer ── ClientMessage ──▶ node        run, stop, view, kill, ...
//!   observer ◀── ServerMessage ── node        hello, tick, rows, tree, engines, time, stores, topics, process, events, ack, error
//! ```
//!
//! The protocol rests on two rules. First, a reader ignores fields that it does not know, so any version may add
//! fields. Second, a message that replaces another (`tick`, `rows`, `tree`, `engines`, `time`, `stores`, `topics`)
//! holds the complete state of its moment, so an observer may miss any of them without becoming wrong. This crate has
//! types and text encoding, but no clocks and no sockets.

mod client;
mod decode;
mod engines;
mod events;
mod frame;
mod lints;
mod scenario;
mod server;
mod stores;
mod table;
mod time;
mod topics;
mod tree;

// For the node, whose errors suggest names in the same way as the errors of this crate.
pub use rusm_text::suggestion;

pub use client::{ClientMessage, KillReason, SortKey, View, ViewWindow};
pub use decode::{DecodeError, command_id, decode_client, decode_server, encode};
pub use engines::{
    CacheInfo, CountInfo, EngineInfo, Engines, EnginesView, FaultDetail, FaultId, FaultInfo, ModuleInfo, SlotsInfo,
};
pub use events::{EventInfo, Events};
pub use frame::{
    Frame, LatencySnapshot, LogSnapshot, MemorySnapshot, ObserverSnapshot, ProcessInfo, ProcessStatus,
    SchedulerSnapshot, SnapshotCost, TimeSeriesSnapshot,
};
pub use lints::{Lint, LintInfo};
pub use scenario::{ParameterMeta, ResourceProfileMeta, ScenarioMeta, Unit};
pub use server::{Bonds, ErrorCode, FactInfo, Hello, NodeInfo, ProcessDetail, Role, ServerMessage};
pub use stores::{BucketInfo, KeyInfo, KeysInfo, KeysView, StoreInfo, Stores, StoresView};
pub use table::{Cell, Column, Rows};
pub use time::{StreamInfo, TickerInfo, Time, TimeView, WaitInfo};
pub use topics::{ReceiverInfo, TopicInfo, Topics, TopicsView};
pub use tree::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeRows, TreeView};

/// The version that `hello` announces. It grows when a reader of the old version could be wrong, not when fields are
/// added.
pub const PROTOCOL_VERSION: u32 = 1;

/// The WebSocket subprotocol that a client on TCP must request.
pub const SUBPROTOCOL: &str = "rusm.v1";

/// The TCP port of a node that listens on TCP without naming a port.
pub const DEFAULT_PORT: u16 = 4000;

/// Maximum size of a message from a client, in bytes.
pub const CLIENT_MESSAGE_MAX_BYTES: usize = 64 * 1024;

/// Maximum size of a message from a node, in bytes; a client rejects larger ones.
pub const SERVER_MESSAGE_MAX_BYTES: usize = 1024 * 1024;

/// Maximum number of rows that one view may request.
pub const VIEW_ROWS_MAX: u32 = 200;

/// Maximum number of supervisors that one view of the tree may open.
pub const TREE_OPEN_MAX: usize = 256;

/// Number of rows in a `tick` for a client that enabled observer detail and sent no view.
pub const DETAIL_ROWS: u32 = 64;

/// Maximum number of lints that a frame lists.
pub const LINTS_SHOWN: usize = 16;

/// Number of points in a frame's throughput window.
pub const THROUGHPUT_POINTS: usize = 120;
