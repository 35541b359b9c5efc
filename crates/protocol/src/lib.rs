//! The words a rusm node and its observers say to each other: JSON text over WebSocket, one message a frame.
//!
//! ```text
//!   observer ── ClientMessage ──▶ node        run, stop, view, kill, ...
//!   observer ◀── ServerMessage ── node        hello, tick, rows, tree, engines, time, stores, topics, process, events, ack, error
//! ```
//!
//! Two promises hold the wire together. A reader ignores fields that it does not know, so every version may add some; and
//! a message that replaces another (`tick`, `rows`, `tree`, `engines`, `time`, `stores`, `topics`) carries the whole truth of its moment, so dropping any of
//! them never makes an observer wrong. This crate has types and text, and neither clocks nor sockets.

mod client;
mod decode;
mod engines;
mod events;
mod frame;
mod lints;
mod nearest;
mod scenario;
mod server;
mod stores;
mod table;
mod time;
mod topics;
mod tree;

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
pub use nearest::suggestion;
pub use scenario::{ParameterMeta, ResourceProfileMeta, ScenarioMeta, Unit};
pub use server::{Bonds, ErrorCode, FactInfo, Hello, NodeInfo, ProcessDetail, Role, ServerMessage};
pub use stores::{BucketInfo, KeyInfo, KeysInfo, KeysView, StoreInfo, Stores, StoresView};
pub use table::{Cell, Column, Rows};
pub use time::{StreamInfo, TickerInfo, Time, TimeView, WaitInfo};
pub use topics::{ReceiverInfo, TopicInfo, Topics, TopicsView};
pub use tree::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeRows, TreeView};

/// The version that `hello` announces. It grows when a reader of the old version could be wrong, not when fields are added.
pub const PROTOCOL_VERSION: u32 = 1;

/// The WebSocket subprotocol that a client on TCP must ask for.
pub const SUBPROTOCOL: &str = "rusm.v1";

/// The TCP port of a node that listens on TCP and names no other.
pub const DEFAULT_PORT: u16 = 4000;

/// The largest message a client may send, in bytes.
pub const CLIENT_MESSAGE_MAX_BYTES: usize = 64 * 1024;

/// The largest message a node sends, in bytes; a client refuses larger ones.
pub const SERVER_MESSAGE_MAX_BYTES: usize = 1024 * 1024;

/// The most rows one view may ask for.
pub const VIEW_ROWS_MAX: u32 = 200;

/// The most supervisors that one view of the tree may open.
pub const TREE_OPEN_MAX: usize = 256;

/// The rows of a `tick` for a client that enabled observer detail and sent no view.
pub const DETAIL_ROWS: u32 = 64;

/// The most lints that a frame lists.
pub const LINTS_SHOWN: usize = 16;

/// The points of a frame's throughput window.
pub const THROUGHPUT_POINTS: usize = 120;
