//! Processes: their identity, body, state in the process table, and the API inside a process.
//!
//! ```text
//!   spawn ──▶ slot of the table: header (one cache line), control block with the task ──▶ polled by a scheduler
//!                 └─▶ side table, only where it is needed: names, links, monitors, groups, label
//! ```

pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod free_list;
pub(crate) mod header;
pub(crate) mod pid;
pub(crate) mod running;
pub(crate) mod side_table;
pub(crate) mod side_table_guard;
pub(crate) mod small_map;
pub(crate) mod spawn;
pub(crate) mod start;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod waker;
