//! A scheduler: a thread that runs processes from its queue, steals when the queue is empty, and drives its own
//! reactor.
//!
//! ```text
//!              spawn, requeue ──▶ queue ──▶ run        (other schedulers steal from the far end)
//!   message wakes a receiver ──▶ LIFO slot ▶ run next  (at most LIFO_STREAK_MAX in a row)
//!      other threads ──▶ injector ──┘
//!    guest at its slice's end ──▶ preempted ──▶ run when nothing is ready, and after 1 ms at the latest
//!      no work? steal from lasting queues ─▶ spin a little ─▶ sleep in the reactor until I/O, a timer or a wake-up
//! ```
//!
//! A process that is pinned to a scheduler waits in a separate queue of that scheduler, from which no other one steals.
//!
//! The loop is one task of a tokio current-thread runtime, which polls sockets and timers between slices. When the
//! reactor wakes a process, that process is queued on this thread, and the task of the loop must be woken too:
//! otherwise the thread would sleep while its queue has work.

mod busy_time;
pub(crate) mod fuzzer;
mod idle;
pub(crate) mod lifo_slot;
mod local;
pub(crate) mod parking;
mod pause;
mod queue;
mod reap;
mod run;
mod shared;
mod start;
mod steal_monitor;
pub(crate) mod turn_end;
pub(crate) mod watchdog;

pub(crate) use local::{Local, local};
pub(crate) use pause::Pause;
pub(crate) use queue::{enqueue, retry_steal, wake};
pub(crate) use run::{dropped_replies, traced};
pub(crate) use shared::{Counters, SchedulerShared};
