//! An Erlang-style actor runtime that can be watched.
//!
//! ```text
//!   Runtime ─▶ schedulers ─▶ processes (slots of the process table)
//!                 │               │  gate: inbox and schedule in one word
//!                 │               └─ Context: receive, send, spawn, sleep, register
//!                 └─ counters that only go up ─▶ observers
//! ```
//!
//! A process is a future with a [`Pid`], a bounded mailbox and an [`ExitReason`]; [`Runtime::start`] runs millions of them
//! on a few threads of its own. Sockets and timers of tokio work inside them. Everything an observer wants to know is in
//! relaxed counters that processes and schedulers keep as they go; see [`observe`].
//!
//! Invariants: this crate's core names neither wasm, nor sockets of an observer, nor the wire protocol; it has no global
//! mutable state but the panic hook, so two runtimes can live in one test.

mod call;
mod cell;
pub mod cgroup;
mod chance;
mod config;
#[cfg(feature = "console")]
pub mod console;
mod context;
pub mod counter;
mod engines;
mod error;
mod events;
mod exit;
mod extra;
#[cfg(any(feature = "store", feature = "wasm"))]
mod file_limit;
mod gate;
mod groups;
mod handle;
mod holdings;
mod layers;
mod mailbox;
mod mailbox_budget;
mod message;
mod next;
pub mod observe;
mod panics;
mod parking;
mod pid;
mod post;
mod realtime;
pub mod ring;
mod running;
mod runtime;
mod scheduler;
pub mod server;
mod signal;
mod slab;
mod small_map;
mod spawn;
mod starting;
pub mod state_machine;
mod stock;
mod stopwatch;
#[cfg(feature = "store")]
pub mod store;
mod stores;
pub mod stream;
pub mod supervisor;
mod sync;
mod tagged;
mod task;
#[cfg(feature = "test")]
pub mod test;
pub mod ticker;
mod timeout;
mod timers;
pub mod topic;
mod waker;
#[cfg(feature = "wasm")]
pub mod wasm;
mod watch;

pub use call::{CallError, Caller, ReplyTo, Request};
pub use config::{Config, StartError, defaults};
pub use context::{Context, Receive, ReceiveMatch, ReceiveOf, Sending};
pub use error::{MailboxBound, SpawnError, TrySendError};
pub use exit::{Detail, ExitReason, Outcome, PanicInfo};
pub use groups::{GroupError, Joined, Left};
pub use handle::{Handle, Watch};
pub use holdings::{NAME_MAX_BYTES, RegisterError};
pub use message::{INLINE_MESSAGE_BYTES, Message};
pub use pid::{ParsePidError, Pid};
pub use runtime::{Runtime, Shutdown};
pub use signal::{Down, Exit, MonitorRef};
pub use starting::{InitError, Starting};
pub use tagged::TaggedBytes;
pub use timers::TimerRef;
