//! Decides whether another scheduler's queue is worth stealing from, and monitors a queue that is not.
//!
//! ```text
//!   observe ──▶ lasting: takes long, or is never empty ──▶ steal
//!          ├──▶ over: nothing is queued any more       ──▶ sleep
//!          └──▶ brisk: emptied and filled again        ──▶ monitor: sleep, but check each millisecond
//! ```
//!
//! Running a process on another core costs some cache misses on both cores. This is more than a process that lives for
//! a hundred nanoseconds is worth, and more than a scheduler needs to empty a short queue itself. Such a queue is left
//! alone, and its scheduler wakes no other one while it is monitored. Its next poll may still be a long one, so the
//! monitor keeps checking: work behind a long poll is stolen after at most two checks.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::busy_time::BusyTimer;
use super::shared::SchedulerShared;

/// Shorter polls on average are not worth the cache misses of a steal, no matter how many processes are queued.
const SHORT_POLL_NS: u64 = 1_000;
/// A queue that needs less time is not worth a steal.
const QUEUE_TIME_MIN_NS: u64 = 8_000;
/// Time between two observations.
const SAMPLE_INTERVAL_NS: u64 = 10_000;
/// A queue of short polls that was never empty for this time will probably not be empty soon.
const LASTING_NS: u64 = 50_000;
/// Time for which a queue that was worth a steal is stolen from without observation, unless it holds one process only.
const TRUST_NS: u64 = 1_000_000;
/// Spins between two reads of the clock.
const SPINS_PER_SAMPLE: u32 = 32;
/// Time between two checks of a monitored peer.
const MONITOR_INTERVAL: Duration = Duration::from_millis(1);
/// A check that comes sooner after the last one is not meaningful.
const MONITOR_INTERVAL_MIN_NS: u64 = 500_000;

/// Result of observing another scheduler's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StealDecision {
    /// The queue lasts longer than a steal takes.
    Steal,
    /// The queue is emptied sooner than a steal would help, and filled again.
    Monitor,
    /// The queue stays empty, or this scheduler has something else to do.
    Stop,
}

/// One observation of another scheduler.
#[derive(Clone, Copy, Debug)]
struct QueueSample {
    at_ns: u64,
    refills: u64,
    polls: u64,
    queued: usize,
}

impl QueueSample {
    fn of(other: &SchedulerShared, at_ns: u64) -> Self {
        Self {
            at_ns,
            refills: other.counters.refills.load(Ordering::Relaxed),
            polls: other.counters.polls.load(Ordering::Relaxed),
            queued: other.stealer.len(),
        }
    }

    /// Returns the average duration of a poll up to `then`.
    fn poll_ns(self, then: Self) -> u64 {
        (then.at_ns - self.at_ns) / (then.polls - self.polls + 1)
    }

    /// Decides from the first observation, the last one and `then`. `None`: observe again.
    fn decision(self, last: Self, then: Self) -> Option<StealDecision> {
        let (poll_ns, refilled) = (self.poll_ns(then), self.refills != then.refills);
        if poll_ns >= SHORT_POLL_NS && poll_ns * then.queued as u64 >= QUEUE_TIME_MIN_NS {
            Some(StealDecision::Steal)
        } else if last.queued == 0 && then.queued == 0 && last.refills == then.refills {
            Some(StealDecision::Stop)
        } else if refilled && poll_ns < SHORT_POLL_NS {
            Some(StealDecision::Monitor)
        } else {
            let decided = if refilled { StealDecision::Monitor } else { StealDecision::Steal };
            (then.at_ns - self.at_ns >= LASTING_NS).then_some(decided)
        }
    }
}

/// Peers that this scheduler monitors while it sleeps.
#[derive(Default)]
pub(super) struct StealMonitor {
    peers: RefCell<Vec<(usize, QueueSample)>>,
    any: Cell<bool>,
    /// The scheduler to steal from without observation, and the end of that time.
    trusted: Cell<(usize, u64)>,
    timer: RefCell<Option<Pin<Box<Sleep>>>>,
}

impl StealMonitor {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.get()
    }

    /// Observes another scheduler until it is clear whether to steal from its queue, or until `must_stop`.
    pub(super) fn observe(
        &self,
        (id, other): (usize, &SchedulerShared),
        clock: &BusyTimer,
        must_stop: impl Fn() -> bool,
    ) -> StealDecision {
        let first = QueueSample::of(other, clock.now_ns());
        let (trusted, until_ns) = self.trusted.get();
        if trusted == id && first.at_ns < until_ns && first.queued > 1 {
            return StealDecision::Steal;
        }
        let mut last = first;
        loop {
            for _ in 0..SPINS_PER_SAMPLE {
                std::hint::spin_loop();
            }
            if must_stop() {
                return StealDecision::Stop;
            }
            let now_ns = clock.now_ns();
            if now_ns - last.at_ns < SAMPLE_INTERVAL_NS {
                continue;
            }
            let then = QueueSample::of(other, now_ns);
            if let Some(decision) = first.decision(last, then) {
                if decision == StealDecision::Steal {
                    self.trusted.set((id, now_ns + TRUST_NS));
                }
                return decision;
            }
            last = then;
        }
    }

    /// Starts to monitor another scheduler for the scheduler number `me`.
    pub(super) fn add(&self, me: usize, (id, other): (usize, &SchedulerShared), now_ns: u64) {
        let me = me as u32 + 1;
        if other.monitored_by.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.peers.borrow_mut().push((id, QueueSample::of(other, now_ns)));
            self.any.set(true);
        }
    }

    /// Checks the monitored peers after a sleep. Peers with brisk queues stay monitored; the others are released.
    #[inline]
    pub(super) fn check(&self, schedulers: &[Arc<SchedulerShared>], now_ns: u64) {
        if self.any() {
            self.recheck(schedulers, now_ns);
        }
    }

    #[cold]
    fn recheck(&self, schedulers: &[Arc<SchedulerShared>], now_ns: u64) {
        self.peers.borrow_mut().retain_mut(|(id, seen)| {
            if now_ns - seen.at_ns < MONITOR_INTERVAL_MIN_NS {
                return true;
            }
            let other = &schedulers[*id];
            let then = QueueSample::of(other, now_ns);
            let stays = then.refills != seen.refills && seen.poll_ns(then) < SHORT_POLL_NS;
            *seen = then;
            if !stays {
                other.monitored_by.store(0, Ordering::Relaxed);
            }
            stays
        });
        self.any.set(!self.peers.borrow().is_empty());
    }

    /// Releases all monitored peers: this scheduler has found work.
    #[inline]
    pub(super) fn release(&self, schedulers: &[Arc<SchedulerShared>]) {
        if self.any.replace(false) {
            for (id, _) in self.peers.borrow_mut().drain(..) {
                schedulers[id].monitored_by.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Lets the reactor wake this scheduler for its next check.
    pub(super) fn wake_soon(&self, cx: &mut TaskContext<'_>) {
        if !self.any() {
            return;
        }
        let mut timer = self.timer.borrow_mut();
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(MONITOR_INTERVAL)));
        timer.as_mut().reset(Instant::now() + MONITOR_INTERVAL);
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: QueueSample = QueueSample { at_ns: 0, refills: 7, polls: 100, queued: 9 };

    fn at(at_ns: u64, polls: u64, refills: u64, queued: usize) -> QueueSample {
        QueueSample { at_ns, refills: FIRST.refills + refills, polls: FIRST.polls + polls, queued }
    }

    fn decision(then: QueueSample) -> Option<StealDecision> {
        FIRST.decision(FIRST, then)
    }

    #[test]
    fn what_waits_behind_long_polls_is_taken() {
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 0, 0, 1)), Some(StealDecision::Steal));
        assert_eq!(
            decision(at(SAMPLE_INTERVAL_NS, 0, 1, 1)),
            Some(StealDecision::Steal),
            "also if the queue was empty in between"
        );
        assert_eq!(
            decision(at(SAMPLE_INTERVAL_NS, 4, 0, 4)),
            Some(StealDecision::Steal),
            "also behind several shorter polls"
        );
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 0, 1, 0)), None, "it may come back");
    }

    #[test]
    fn short_polls_are_left_alone_unless_the_queue_lasts() {
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 100, 0, 400)), None);
        assert_eq!(decision(at(LASTING_NS, 500, 0, 400)), Some(StealDecision::Steal));
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 100, 1, 400)), Some(StealDecision::Monitor));
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 100, 1, 0)), Some(StealDecision::Monitor));
    }

    #[test]
    fn a_short_queue_of_longer_polls_is_looked_at_for_longer() {
        assert_eq!(decision(at(SAMPLE_INTERVAL_NS, 4, 1, 1)), None);
        assert_eq!(
            decision(at(LASTING_NS, 20, 5, 1)),
            Some(StealDecision::Monitor),
            "as one is that will be run at once"
        );
    }

    #[test]
    fn an_empty_queue_that_nobody_fills_is_over() {
        let empty = at(SAMPLE_INTERVAL_NS, 5, 1, 0);

        assert_eq!(FIRST.decision(empty, at(2 * SAMPLE_INTERVAL_NS, 10, 1, 0)), Some(StealDecision::Stop));
        assert_eq!(FIRST.decision(empty, at(2 * SAMPLE_INTERVAL_NS, 10, 2, 0)), None);
    }
}
