//! Version, names and limits of the protocol.

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

/// Maximum number of events per second of a trace.
pub const TRACE_PER_SEC_MAX: u32 = 1_000;

/// Maximum duration of a trace, in seconds.
pub const TRACE_SECONDS_MAX: u32 = 10;

/// Maximum length of the words of an exit reason, in bytes.
pub const KILL_TEXT_MAX_BYTES: usize = 255;

/// Maximum length of a filter of the log, in bytes.
pub const LOG_FILTER_MAX_BYTES: usize = 256;

/// Number of points in a frame's throughput window.
pub const THROUGHPUT_POINTS: usize = 120;

/// Maximum number of past events, and of past log lines, in the first answer to a request for events.
pub const BACKLOG_MAX: u32 = 256;
/// Maximum number of tables of a result.
pub const RESULT_TABLES_MAX: usize = 32;

/// Maximum number of columns of a result's table.
pub const RESULT_COLUMNS_MAX: usize = 24;

/// Maximum number of notes, printed lines and facts of a result, of each kind; a table has at most 16 notes.
pub const RESULT_LINES_MAX: usize = 200;

/// Maximum number of points of a result's curve.
pub const CURVE_POINTS_MAX: usize = 256;

/// Maximum size of a part of a report, in bytes.
pub const REPORT_PART_MAX_BYTES: usize = 256 * 1024;

/// Number of points that a `history` has at most: fifteen minutes of seconds.
pub const HISTORY_POINTS: usize = 900;

/// Number of schedulers with figures of their own in a `history`.
pub const HISTORY_SCHEDULERS: usize = 16;
