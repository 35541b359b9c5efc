//! Timer service of a runtime: a queue under one lock, and the thread that sleeps until the first timer is due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::queue::{Due, Queue};
use super::timer::{Timer, TimerCounters};
use crate::process::small_map::SmallMap;
use crate::runtime::panics;

/// Timer service of a runtime: a queue, and a thread that is started with the first timer.
#[derive(Default)]
pub(crate) struct Timers {
    state: Mutex<ServiceState>,
    /// Signals an instant before the one slept for, or the end of the service.
    changed: Condvar,
    #[cfg(feature = "test")]
    pub(super) clock: std::sync::OnceLock<super::virtual_clock::VirtualClock>,
    fired: AtomicU64,
    skipped: AtomicU64,
}

#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) queue: Queue<Timer>,
    /// Instant until which the thread sleeps; 0 while it is awake or does not exist.
    pub(super) sleep_until_ns: u64,
    pub(super) runner: Option<Runner>,
    /// Timers of processes that have ended, which the thread still has to drop.
    ended: Vec<Due>,
    stopped: bool,
}

/// Thread or task that fires timers.
pub(super) enum Runner {
    Thread(JoinHandle<()>),
    /// A task in virtual time, which sleeps until it is notified.
    #[cfg(feature = "test")]
    Task(std::sync::Arc<tokio::sync::Notify>),
}

/// Number of timers of a target from which on they are in the bulk.
const BULK_MIN: usize = 64;

/// Largest number of timers taken out of the queue at once.
pub(super) const BATCH: usize = 256;
/// Maximum number of timers of ended processes that wait to be dropped.
const ENDED_MAX: usize = 1 << 19;

impl Timers {
    pub(super) fn lock(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock()
    }

    /// Returns the time of the virtual clock, if there is one.
    #[cfg(feature = "test")]
    pub(super) fn virtual_ns(&self) -> Option<u64> {
        self.clock.get().map(super::virtual_clock::VirtualClock::now_ns)
    }

    /// Returns the counts of timers.
    pub(crate) fn counters(&self) -> TimerCounters {
        TimerCounters {
            pending: self.lock().queue.len() as u64,
            fired_total: self.fired.load(Ordering::Relaxed),
            skipped_total: self.skipped.load(Ordering::Relaxed),
        }
    }

    /// Returns the size of the queued timers: their entries, without what a message of a timer has on the heap.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.lock().queue.len() * (size_of::<Due>() + size_of::<Timer>())) as u64
    }

    /// Queues a timer, and creates the thread with `start` for the first one; returns the timer's id. `others` are the
    /// target's timers.
    pub(super) fn insert(
        &self,
        at_ns: u64,
        timer: Timer,
        others: &SmallMap<u64, u64>,
        start: impl FnOnce() -> Option<Runner>,
    ) -> u64 {
        let mut state = self.lock();
        let id = if is_bulk(&mut state.queue, others) {
            state.queue.insert_bulk(at_ns, timer)
        } else {
            state.queue.insert(at_ns, timer)
        };
        if at_ns < state.sleep_until_ns {
            state.sleep_until_ns = at_ns;
            self.wake(&state);
        }
        if state.runner.is_none() && !state.stopped {
            state.runner = start();
        }
        id
    }

    fn wake(&self, state: &ServiceState) {
        match &state.runner {
            #[cfg(feature = "test")]
            Some(Runner::Task(changed)) => changed.notify_one(),
            Some(Runner::Thread(_)) | None => drop(self.changed.notify_one()),
        }
    }

    /// Puts an interval back that has ticked.
    pub(super) fn put_back(&self, due: Due, timer: Timer, others: &SmallMap<u64, u64>) {
        // Needs no wake-up: the timer thread itself calls this, and checks the queue before it sleeps.
        let mut state = self.lock();
        let is_bulk = is_bulk(&mut state.queue, others);
        state.queue.put_back(due, timer, is_bulk);
    }

    pub(super) fn remove(&self, due: Due) -> Option<Timer> {
        self.lock().queue.remove(due)
    }

    /// Drops the timers of a process that has ended. If they are many, the thread drops them, some at a time: a scheduler
    /// would be busy with them for long.
    pub(crate) fn drop_ended(&self, mut timers: SmallMap<u64, u64>) {
        let mut dues = Vec::with_capacity(timers.len());
        timers.drain(|id, at_ns| dues.push(Due { at_ns, id }));
        if dues.len() > BATCH {
            let mut state = self.lock();
            let has_thread = matches!(state.runner, Some(Runner::Thread(_))) && !state.stopped;
            if has_thread && state.ended.len() + dues.len() <= ENDED_MAX {
                state.ended.append(&mut dues);
                self.changed.notify_one();
            }
        }
        for due in dues {
            let timer = self.remove(due);
            panics::contain(|| drop(timer));
        }
    }

    /// Drops a batch of the timers of ended processes, without the lock: dropping a message may run any code.
    fn drop_batch(state: &mut MutexGuard<'_, ServiceState>) {
        let ServiceState { queue, ended, .. } = &mut **state;
        let rest = ended.len().saturating_sub(BATCH);
        let dropped: Vec<Timer> = ended.drain(rest..).filter_map(|due| queue.remove(due)).collect();
        MutexGuard::unlocked(state, || dropped.into_iter().for_each(|timer| panics::contain(|| drop(timer))));
    }

    pub(super) fn count_fired(&self) {
        self.fired.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sleeps until timers are due, and takes them out of the queue; returns `None` after the service was stopped.
    pub(super) fn wait(&self, now_ns: impl Fn() -> u64) -> Option<Vec<(Due, Timer)>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if !state.ended.is_empty() {
                Self::drop_batch(&mut state);
            }
            let now_ns = now_ns();
            let first_ns = state.queue.first_ns().unwrap_or(u64::MAX);
            if first_ns <= now_ns {
                state.sleep_until_ns = 0;
                return Some(state.queue.take_due(now_ns, BATCH));
            }
            if !state.ended.is_empty() {
                continue;
            }
            state.sleep_until_ns = first_ns;
            if first_ns == u64::MAX {
                self.changed.wait(&mut state);
            } else {
                self.changed.wait_for(&mut state, Duration::from_nanos(first_ns - now_ns));
            }
        }
    }

    pub(super) fn take_due(&self, now_ns: u64) -> Vec<(Due, Timer)> {
        self.lock().queue.take_due(now_ns, BATCH)
    }

    /// Takes due timers out of the queue if the system could not create the thread.
    pub(super) fn take_due_without_runner(&self, now_ns: u64) -> Vec<(Due, Timer)> {
        let mut state = self.lock();
        if state.stopped || state.runner.is_some() { Vec::new() } else { state.queue.take_due(now_ns, BATCH) }
    }

    /// Stops firing timers; returns the thread, which is about to end.
    pub(crate) fn stop(&self) -> Option<JoinHandle<()>> {
        let mut state = self.lock();
        state.stopped = true;
        self.changed.notify_one();
        match state.runner.take() {
            Some(Runner::Thread(thread)) => Some(thread),
            #[cfg(feature = "test")]
            Some(Runner::Task(_)) => None,
            None => None,
        }
    }
}

/// Returns true if one more timer of a target with these timers belongs to the bulk. At the limit the other timers are
/// moved there, too: all timers of a target stay in one map, and so in order.
fn is_bulk(queue: &mut Queue<Timer>, others: &SmallMap<u64, u64>) -> bool {
    let dues = || others.iter().map(|(id, at_ns)| Due { at_ns: *at_ns, id: *id });
    match others.len() {
        0 => false,
        1..BULK_MIN => queue.has_bulk() && dues().next().is_some_and(|due| queue.is_bulk(due)),
        BULK_MIN => {
            queue.move_to_bulk(dues());
            true
        }
        _ => true,
    }
}
