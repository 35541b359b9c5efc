//! Timers in virtual time: a task of the reactor fires them. The paused clock jumps when nothing is left to run.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Reactor;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::queue::Due;
use super::service::{BATCH, Runner, Timers};
use super::timer::Timer;
use super::virtual_clock::VirtualClock;
use crate::runtime::shared::RuntimeShared;
use crate::time::nanos;

/// Makes the timers of a runtime follow the clock of this reactor. The task fires them until it is dropped.
pub(crate) fn drive_virtual(shared: Arc<RuntimeShared>) -> impl Future<Output = ()> + Send {
    let (started, earlier) = (Instant::now(), Arc::new(Notify::new()));
    shared.timers.use_virtual_clock(VirtualClock::new(Reactor::current(), started), Arc::clone(&earlier));
    async move {
        loop {
            let (due, next_ns) = shared.timers.take_due_and_next(nanos(started.elapsed()));
            if !due.is_empty() {
                shared.fire(due);
                continue;
            }
            match next_ns {
                None => earlier.notified().await,
                // Elapsed or notified: the next round finds out.
                Some(at_ns) => drop(timeout_at(started + Duration::from_nanos(at_ns), earlier.notified()).await),
            }
        }
    }
}

impl Timers {
    fn use_virtual_clock(&self, clock: VirtualClock, earlier: Arc<Notify>) {
        let clock_is_new = self.clock.set(clock).is_ok();
        debug_assert!(clock_is_new, "a runtime has one clock");
        self.lock().runner = Some(Runner::Task(earlier));
    }

    /// Returns the timers that are due, and the first instant of the remaining ones.
    fn take_due_and_next(&self, now_ns: u64) -> (Vec<(Due, Timer)>, Option<u64>) {
        let mut state = self.lock();
        let due = state.queue.take_due(now_ns, BATCH);
        let next_ns = state.queue.first_ns();
        state.sleep_until_ns = if due.is_empty() { next_ns.unwrap_or(u64::MAX) } else { 0 };
        (due, next_ns)
    }
}
