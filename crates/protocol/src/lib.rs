//! The messages between a rusm node and its observers: JSON text over WebSocket, one message per frame.
//!
//! ```text
//!   observer ── ClientMessage ──▶ node        run, stop, view, kill, ...
//!   observer ◀── ServerMessage ── node        hello, tick, rows, tree, engines, time, stores, topics, cpu,
//!                                             schedulers, serve, cluster, results, process, events, report, past, history, ack, error
//! ```
//!
//! The protocol rests on two rules. First, a reader ignores fields that it does not know, so any version may add
//! fields. Second, a message that replaces another (`tick`, `rows`, `tree`, `engines`, `time`, `stores`, `topics`, `cpu`,
//! `schedulers`, `serve`, `cluster`) holds the complete state of its moment, so an observer may miss any of them without
//! becoming wrong. This crate has types and text encoding, but no clocks and no sockets.

mod client;
mod decode;
mod filter;
mod frame;
mod limits;
mod lints;
mod scenario;
mod server;
mod views;

// For the node: its errors suggest names in the same way as the errors of this crate.
pub use rusm_text::{QueryError, suggestion};

pub use client::{ClientMessage, KillReason, SortKey, View};
pub use decode::{DecodeError, command_id, decode_client, decode_server, encode};
pub use filter::requests::{REQUEST_FIELDS, REQUEST_STATES, RequestFilter, RequestSubject};
pub use filter::{FILTER_FIELDS, FilterField, FilterFieldInfo, FilterSubject, FilterValues, ProcessFilter, STATES};
pub use frame::{
    DelaysInfo, Frame, LatencySnapshot, LogSnapshot, MemorySnapshot, MemoryUses, ObserverSnapshot, ProcessInfo,
    ProcessStatus, SchedulerSnapshot, SnapshotCost, TimeSeriesSnapshot,
};
pub use limits::{
    BACKLOG_MAX, CLIENT_MESSAGE_MAX_BYTES, CURVE_POINTS_MAX, DEFAULT_PORT, DETAIL_ROWS, HISTORY_POINTS,
    HISTORY_SCHEDULERS, KILL_TEXT_MAX_BYTES, LINTS_SHOWN, LOG_FILTER_MAX_BYTES, PROTOCOL_VERSION,
    REPORT_PART_MAX_BYTES, RESULT_COLUMNS_MAX, RESULT_LINES_MAX, RESULT_TABLES_MAX, SERVER_MESSAGE_MAX_BYTES,
    SUBPROTOCOL, THROUGHPUT_POINTS, TRACE_PER_SEC_MAX, TRACE_SECONDS_MAX, TREE_OPEN_MAX, VIEW_ROWS_MAX,
};
pub use lints::{Lint, LintInfo};
pub use scenario::{ParameterMeta, ResourceProfileMeta, ScenarioMeta, Unit};
pub use server::causes::{CauseDetail, CauseInfo, Causes, CausesView};
pub use server::inspection::{
    BacktraceInfo, BondPage, BondView, EndedInfo, InspectView, Inspection, MailboxInfo, MessageInfo, NamedPid,
    PollInfo, ReachInfo, SenderInfo, SupervisedInfo, WaitsFor,
};
pub use server::trace::{Trace, TraceEvent, TraceRequest, TraceScope};
pub use server::waits::{WaitRow, Waits, WaitsView};
pub use server::{Bonds, ErrorCode, FactInfo, Hello, NodeInfo, Past, ProcessDetail, Role, ServerMessage};
pub use views::cluster::{Cluster, ClusterNode, ClusterView, NameInfo, OwnNode, VitalsInfo};
pub use views::cpu::{Cpu, CpuGroup, CpuPart, CpuRow, CpuView};
pub use views::engines::{
    CacheInfo, CountInfo, EngineInfo, Engines, EnginesView, FaultDetail, FaultId, FaultInfo, ModuleInfo, SlotsInfo,
};
pub use views::events::{EventDetail, EventInfo, Events, EventsRequest, LogLine};
pub use views::past::{History, HistoryRun, HistorySeries, HistoryView, PastView};
pub use views::results::{
    Curve, CurvePoint, GateInfo, NamedText, ReportPart, ResultColumn, ResultTable, Results, ResultsView, RunComparison,
    RunEntry, RunResult, RunSettings,
};
pub use views::schedulers::{IdleInfo, SchedulerInfo, Schedulers, SchedulersView};
pub use views::serve::{LimitInfo, RequestInfo, RequestSort, RouteInfo, RouteSort, Serve, ServeView, ServerInfo};
pub use views::stores::{BucketInfo, KeyInfo, KeysInfo, KeysView, StoreInfo, Stores, StoresView, TableInfo};
pub use views::table::{Cell, Column, Rows, ViewWindow};
pub use views::time::{StreamInfo, TickerInfo, Time, TimeView, WaitInfo};
pub use views::topics::{ReceiverInfo, TopicInfo, TopicSort, Topics, TopicsView};
pub use views::tree::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeRows, TreeSum, TreeView};
