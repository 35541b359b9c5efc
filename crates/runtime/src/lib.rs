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
//! protocol. Its only global mutable state is the panic hook and a list of the runtimes, through which a reply that is
//! dropped on another thread finds its caller, so one test can run two runtimes.

pub mod counter;
#[doc(hidden)]
pub mod embed;
mod links;
mod mailbox;
pub mod observe;
mod process;
mod rng;
mod runtime;
mod scheduler;
pub mod stream;
mod supervision;
mod sync;
#[cfg(feature = "test")]
pub mod test;
mod time;
pub mod topic;

/// Metrics of the application, beside those of the node.
pub mod metrics {
    pub use crate::observe::metrics::*;
}

pub use links::groups::{GroupError, Joined, Left};
pub use links::name::{NAME_MAX_BYTES, NameError, check_name};
pub use links::registry::RegisterError;
pub use links::signal::{Down, Exit, MonitorRef};
pub use mailbox::call::{CallError, Caller};
pub use mailbox::message::{INLINE_MESSAGE_BYTES, Message};
pub use mailbox::request::{ReplyTo, Request};
pub use mailbox::tagged::TaggedBytes;
pub use process::context::{Context, Receive, ReceiveMatch, ReceiveOf, Sending};
pub use process::error::{InitError, MailboxBound, SpawnError, TrySendError};
pub use process::exit::{Detail, ExitReason, Outcome};
pub use process::pid::{ParsePidError, Pid};
pub use process::spawn::options::SpawnOptions;
pub use process::start::Starting;
pub use runtime::config::{Config, StartError, defaults};
pub use runtime::crashes::{Crash, CrashHook};
pub use runtime::handle::{Handle, Watch};
pub use runtime::hooks::{Hook, ProcessExit, ProcessSpawn, SlowPoll};
pub use runtime::panics::PanicInfo;
pub use runtime::{Runtime, ShutdownReport, cgroup, remote};
pub use stream::ring;
pub use supervision::tasks::{OutsideTask, Task, Tasks};
pub use supervision::tied::Tied;
pub use supervision::{actor, pipeline, pool, registry, server, state_machine, supervisor, table};
pub use time::ticker;
pub use time::timers::timer::TimerRef;
