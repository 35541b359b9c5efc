//! An Erlang-style actor runtime with built-in observability.
//!
//! ```text
//!   Runtime ─▶ schedulers ─▶ processes (slots of the process table)
//!                 │               │  gate: inbox and scheduling state in one word
//!                 │               └─ Context: receive, send, spawn, sleep, register
//!                 └─ counters that only go up ─▶ observers
//! ```
//!
//! A process is a future with a [`Pid`], a bounded mailbox and an [`ExitReason`]. [`Runtime::start`] starts a few
//! scheduler threads, which run millions of processes. tokio's sockets and timers work inside a process. Processes and
//! schedulers update relaxed counters as they run, and observers read those counters; see [`observe`].
//!
//! Invariants: the core of this crate refers neither to WebAssembly, nor to the observers' sockets, nor to the wire
//! protocol. Its only global mutable state is the panic hook, so one test can run two runtimes.

mod body_info;
mod busy_time;
mod call;
pub mod cgroup;
mod config;
mod context;
pub mod counter;
#[doc(hidden)]
pub mod embed;
mod engines;
mod error;
mod events;
mod exit;
mod file_limit;
mod free_list;
mod gate;
mod groups;
mod handle;
mod header;
mod lifo_slot;
mod mailbox;
mod mailbox_budget;
mod message;
pub mod observe;
mod override_stack;
mod panics;
mod parking;
mod pid;
mod realtime;
pub mod ring;
mod running;
mod runtime;
mod schedule_fuzzer;
mod scheduler;
mod send;
pub mod server;
mod side_table;
mod signal;
mod small_map;
mod spawn;
mod starting;
pub mod state_machine;
mod stores;
pub mod stream;
pub mod supervisor;
mod sync;
mod table;
mod tagged;
mod task;
#[cfg(feature = "test")]
pub mod test;
pub mod ticker;
mod timeout;
mod timers;
pub mod topic;
mod waker;
mod watchdog;

pub use call::{CallError, Caller, ReplyTo, Request};
pub use config::{Config, StartError, defaults};
pub use context::{Context, Receive, ReceiveMatch, ReceiveOf, Sending};
pub use error::{MailboxBound, SpawnError, TrySendError};
pub use exit::{Detail, ExitReason, Outcome, PanicInfo};
pub use groups::{GroupError, Joined, Left};
pub use handle::{Handle, Watch};
pub use message::{INLINE_MESSAGE_BYTES, Message};
pub use pid::{ParsePidError, Pid};
pub use runtime::{Runtime, ShutdownReport};
pub use side_table::{NAME_MAX_BYTES, RegisterError};
pub use signal::{Down, Exit, MonitorRef};
pub use starting::{InitError, Starting};
pub use tagged::TaggedBytes;
pub use timers::TimerRef;
