//! Data of timers: references, counters, and the timers in the queue.

use std::fmt;

use super::queue::Due;
use crate::mailbox::queue::Envelope;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// Reference to a timer, unique in its runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use std::time::Duration;
///
/// runtime.block_on(|ctx| async move {
///     let never = ctx.send_after(ctx.pid(), Duration::from_secs(60), "late");
///     ctx.send_after(ctx.pid(), Duration::from_millis(1), "soon");
///     assert_eq!(ctx.receive_of::<&str>().await, "soon");
///     assert!(ctx.cancel(never).is_some());
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerRef {
    pub(super) target: Pid,
    /// 0 for a timer that was set for a process that had ended.
    pub(super) id: u64,
}

impl TimerRef {
    /// Returns the number of the timer; 0 if it was set for a process that had ended.
    pub const fn id(self) -> u64 {
        self.id
    }
}

impl fmt::Debug for TimerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#Timer<{}.{}>", self.target, self.id)
    }
}

/// Counters of the timers of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounters {
    /// Number of timers that have not fired yet. Intervals count until they are cancelled.
    pub pending: u64,
    /// Number of times that timers have fired.
    pub fired_total: u64,
    /// Number of interval ticks that were skipped because of a full mailbox.
    pub skipped_total: u64,
}

/// Reference to a scheduled call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRef(pub(super) Due);

/// A timer in the queue.
pub(super) struct Timer {
    pub(super) target: Pid,
    pub(super) action: Action,
}

/// Action of a timer when it fires.
pub(super) enum Action {
    Send(Envelope),
    Repeat(Box<Repeat>),
    Exit(Box<(Option<Pid>, ExitReason)>),
    /// A call of the runtime itself, without a target process.
    Call(Box<dyn FnOnce() + Send>),
}

/// An interval.
pub(super) struct Repeat {
    pub(super) period_ns: u64,
    pub(super) copy: Box<dyn Fn() -> Envelope + Send>,
}
