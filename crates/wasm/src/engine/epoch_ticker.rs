//! Epoch ticker, which makes guests yield: a thread that counts epochs while guests run and sleeps while none does.
//!
//! ```text
//!   scheduler: a guest starts its turn, or reaches the end of an epoch ─▶ set this scheduler's flag ─ asleep? wake it
//!   ticker: every tick, epoch + 1, clear all flags ─ no flag was set for a while: sleep
//! ```
//!
//! If its flag is already set, a scheduler only loads it. Should the ticker clear the flag at that moment, it still
//! makes many ticks before it sleeps, and the first of them ends the guest's epoch, which sets the flag again. A
//! scheduler sets its flag before it checks whether the ticker sleeps, and the ticker announces its sleep before it
//! checks the flags. Both are sequentially consistent, so one of them sees the other: *a guest never runs without
//! ticks.*

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use rusm_runtime::embed::SCHEDULERS_MAX;
use rusm_runtime::embed::run_ahead_of_schedulers;

/// Number of ticks without a running guest after which the ticker sleeps.
const IDLE_TICKS: u32 = 50;

/// Counts epochs while guests run.
pub(crate) struct EpochTicker {
    shared: Arc<TickerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct TickerState {
    /// Number of ticks.
    ticks: AtomicU64,
    /// A flag for each scheduler of all runtimes that share the engine: a guest ran there since the last tick.
    ran: Box<[CachePadded<AtomicBool>]>,
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    wakeup: Condvar,
}

impl EpochTicker {
    /// Starts the thread; `advance` is called at each tick.
    pub(crate) fn start(tick: Duration, advance: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(TickerState {
            ticks: AtomicU64::new(0),
            ran: (0..SCHEDULERS_MAX).map(|_| CachePadded::default()).collect(),
            asleep: AtomicBool::new(false),
            stopped: Mutex::new(false),
            wakeup: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("rusm-epochs".to_owned()).spawn(move || {
            run_ahead_of_schedulers();
            own.run(tick, advance);
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Number of ticks.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.shared.ticks.load(Ordering::Relaxed)
    }

    /// Records that a guest begins to run on this scheduler, or still runs there at the end of an epoch.
    #[inline]
    pub(crate) fn mark_running(&self, scheduler: usize) {
        let ran = &self.shared.ran[scheduler];
        if !ran.load(Ordering::Relaxed) {
            self.shared.set_flag(ran);
        }
    }

    /// Returns true if no guest has run for a while.
    pub(crate) fn is_asleep(&self) -> bool {
        self.shared.asleep.load(Ordering::SeqCst)
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.wakeup.notify_all();
        if let Some(thread) = self.thread.get_mut().take() {
            // A panic of the ticker needs no further report.
            drop(thread.join());
        }
    }
}

impl TickerState {
    fn any_ran(&self) -> bool {
        self.ran.iter().any(|ran| ran.load(Ordering::SeqCst))
    }

    #[cold]
    fn set_flag(&self, ran: &AtomicBool) {
        ran.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Clears all flags; returns true if one was set.
    fn clear_flags(&self) -> bool {
        let lower = |ran: &AtomicBool| ran.load(Ordering::Relaxed) && ran.swap(false, Ordering::SeqCst);
        self.ran.iter().filter(|ran| lower(ran)).count() != 0
    }

    #[cold]
    fn wake(&self) {
        let _stopped = self.stopped.lock();
        self.asleep.store(false, Ordering::SeqCst);
        self.wakeup.notify_all();
    }

    fn run(&self, tick: Duration, advance: impl Fn()) {
        let mut idle_ticks = 0;
        let mut stopped = self.stopped.lock();
        while !*stopped {
            if idle_ticks >= IDLE_TICKS {
                self.asleep.store(true, Ordering::SeqCst);
                if self.any_ran() {
                    self.asleep.store(false, Ordering::SeqCst);
                } else {
                    let asleep = |stopped: &mut bool| !*stopped && self.asleep.load(Ordering::SeqCst);
                    self.wakeup.wait_while(&mut stopped, asleep);
                }
                idle_ticks = 0;
                continue;
            }
            self.wakeup.wait_for(&mut stopped, tick);
            self.ticks.fetch_add(1, Ordering::Relaxed);
            advance();
            idle_ticks = if self.clear_flags() { 0 } else { idle_ticks + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_ticks_while_a_guest_runs_and_sleeps_when_none_does() {
        let (tell, told) = mpsc::channel();
        let ticker = EpochTicker::start(Duration::from_millis(1), move || {
            tell.send(()).ok();
        })
        .unwrap();

        for _ in 0..2 * IDLE_TICKS {
            ticker.mark_running(3);
            told.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        // The loop ends when the ticker stops.
        while !ticker.is_asleep() {
            std::thread::yield_now();
        }
        let before = ticker.ticks();
        ticker.mark_running(0);

        while ticker.ticks() == before {
            std::thread::yield_now();
        }
    }
}
