//! Tickers in virtual time: a task of the reactor that moves the paused clock to the exact instant of the next tick.
//!
//! ```text
//!   next tick ──▶ asleep until the millisecond before it: the clock jumps there when nothing is left to run
//!            └──▶ yields until nothing has run meanwhile ──▶ advances the clock by the rest
//! ```
//!
//! tokio's own timers fire at whole milliseconds, so between two of them only tickers can be due.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Reactor;
use tokio::sync::Notify;
use tokio::time::{Instant, advance, timeout_at};

use super::driver::Driver;
use crate::observe::idle_progress;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;
use crate::time::nanos;
use crate::time::timers::virtual_clock::VirtualClock;

const MILLISECOND_NS: u64 = 1_000_000;
/// Number of consecutive checks that must find that nothing has run: code may wake a task, and that task a process.
const IDLE_CHECKS: u32 = 3;

/// Makes the tickers of a runtime follow the clock of this reactor. The task drives them until it is dropped.
pub(crate) fn drive_virtual(shared: Arc<RuntimeShared>) -> impl Future<Output = ()> + Send {
    let (started, changed) = (Instant::now(), Arc::new(Notify::new()));
    shared.tickers.use_virtual_clock(VirtualClock::new(Reactor::current(), started), Arc::clone(&changed));
    async move {
        let mut driver = Driver::default();
        loop {
            let now_ns = nanos(started.elapsed());
            driver.accept_new(&shared.tickers);
            let next_ns = driver.pass(&shared.tickers, now_ns);
            let at_ns = match (next_ns, now_ns % MILLISECOND_NS) {
                (None, 0) => {
                    changed.notified().await;
                    continue;
                }
                (Some(at_ns), 0) if at_ns - now_ns >= MILLISECOND_NS => {
                    let before_ns = at_ns / MILLISECOND_NS * MILLISECOND_NS;
                    // Elapsed or notified: the next round finds out.
                    drop(timeout_at(started + Duration::from_nanos(before_ns), changed.notified()).await);
                    continue;
                }
                (Some(at_ns), 0) => at_ns,
                // Return to a whole millisecond: only from there does the clock jump to whole milliseconds.
                (next_ns, since_ns) => next_ns.unwrap_or(u64::MAX).min(now_ns - since_ns + MILLISECOND_NS),
            };
            // Code that ran meanwhile may have moved the clock as well.
            if wait_until_idle(&shared, &changed).await && nanos(started.elapsed()) == now_ns {
                advance(Duration::from_nanos(at_ns - now_ns)).await;
            }
        }
    }
}

/// Lets all other code run until none is left to run; returns false if a ticker was added meanwhile.
async fn wait_until_idle(shared: &Arc<RuntimeShared>, changed: &Notify) -> bool {
    let handle = Handle::new(Arc::clone(shared));
    let (mut last, mut checks) = (None, 0);
    while checks < IDLE_CHECKS {
        tokio::select! {
            biased;
            () = changed.notified() => return false,
            () = tokio::task::yield_now() => {}
        }
        // A seeded schedule hides its runnable processes, but its scheduler sleeps only if nothing is runnable.
        let now = idle_progress(&handle).filter(|_| shared.schedulers.iter().all(|scheduler| scheduler.is_asleep()));
        checks = if now.is_some() && now == last { checks + 1 } else { 0 };
        last = now;
    }
    true
}
