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

use std::cell::{Cell as Plain, RefCell};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::{Local, SchedulerShared};

/// Shorter polls on average are not worth the cache misses of a steal, no matter how many processes are queued.
const SHORT_POLL_NS: u64 = 1_000;
/// A queue that needs less time is not worth a steal.
const QUICK_NS: u64 = 8_000;
/// Time between two observations.
const LOOK_NS: u64 = 10_000;
/// A queue of short polls that was never empty for this time will probably not be empty soon.
const LASTING_NS: u64 = 50_000;
/// Time for which a queue that was worth a steal is stolen from without observation, unless it holds one process only.
const TRUST_NS: u64 = 1_000_000;
/// Spins between two reads of the clock.
const LOOK_ROUNDS: u32 = 32;
/// Time between two checks of a monitored peer.
const ROUND: Duration = Duration::from_millis(1);
/// A check that comes sooner after the last one is not meaningful.
const ROUND_MIN_NS: u64 = 500_000;

/// Result of observing another scheduler's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The queue lasts longer than a steal takes.
    Lasting,
    /// The queue is emptied sooner than a steal would help, and filled again.
    Brisk,
    /// The queue stays empty, or this scheduler has something else to do.
    Over,
}

/// One observation of another scheduler.
#[derive(Clone, Copy, Debug)]
struct Sight {
    at_ns: u64,
    refills: u64,
    polls: u64,
    queued: usize,
}

impl Sight {
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
    fn verdict(self, last: Self, then: Self) -> Option<Verdict> {
        let (poll_ns, refilled) = (self.poll_ns(then), self.refills != then.refills);
        if poll_ns >= SHORT_POLL_NS && poll_ns * then.queued as u64 >= QUICK_NS {
            Some(Verdict::Lasting)
        } else if last.queued == 0 && then.queued == 0 && last.refills == then.refills {
            Some(Verdict::Over)
        } else if refilled && poll_ns < SHORT_POLL_NS {
            Some(Verdict::Brisk)
        } else {
            let decided = if refilled { Verdict::Brisk } else { Verdict::Lasting };
            (then.at_ns - self.at_ns >= LASTING_NS).then_some(decided)
        }
    }
}

/// Peers that this scheduler monitors while it sleeps.
#[derive(Default)]
pub(super) struct Wards {
    seen: RefCell<Vec<(usize, Sight)>>,
    any: Plain<bool>,
    /// The scheduler to steal from without observation, and the end of that time.
    trusted: Plain<(usize, u64)>,
    alarm: RefCell<Option<Pin<Box<Sleep>>>>,
}

impl Wards {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.get()
    }

    /// Lets the reactor wake this scheduler for its next check.
    pub(super) fn wake_soon(&self, cx: &mut TaskContext<'_>) {
        if !self.any() {
            return;
        }
        let mut alarm = self.alarm.borrow_mut();
        let alarm = alarm.get_or_insert_with(|| Box::pin(sleep(ROUND)));
        alarm.as_mut().reset(Instant::now() + ROUND);
        if alarm.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

impl SchedulerShared {
    /// Returns true if another scheduler monitors this queue, so that enqueuing need not wake one.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.load(Ordering::Relaxed) != 0
    }
}

impl Local {
    /// Observes another scheduler until it is clear whether to steal from its queue.
    pub(super) fn observe(&self, id: usize) -> Verdict {
        let other = &self.shared.schedulers[id];
        let first = Sight::of(other, self.stopwatch.now_ns());
        let (trusted, until_ns) = self.wards.trusted.get();
        if trusted == id && first.at_ns < until_ns && first.queued > 1 {
            return Verdict::Lasting;
        }
        let mut last = first;
        loop {
            for _ in 0..LOOK_ROUNDS {
                std::hint::spin_loop();
            }
            if !self.shared.injector.is_empty() || !self.me.pinned.is_empty() || self.shared.is_stopped() {
                return Verdict::Over;
            }
            let now_ns = self.stopwatch.now_ns();
            if now_ns - last.at_ns < LOOK_NS {
                continue;
            }
            let then = Sight::of(other, now_ns);
            if let Some(verdict) = first.verdict(last, then) {
                if verdict == Verdict::Lasting {
                    self.wards.trusted.set((id, now_ns + TRUST_NS));
                }
                return verdict;
            }
            last = then;
        }
    }

    /// Starts to monitor another scheduler.
    pub(super) fn guard(&self, id: usize) {
        let other = &self.shared.schedulers[id];
        let me = self.id as u32 + 1;
        if other.guard.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.wards.seen.borrow_mut().push((id, Sight::of(other, self.stopwatch.now_ns())));
            self.wards.any.set(true);
        }
    }

    /// Checks the monitored peers after a sleep. Peers with brisk queues stay monitored; the others are released.
    #[inline]
    pub(super) fn look_after_wards(&self, now_ns: u64) {
        if self.wards.any() {
            self.make_a_round(now_ns);
        }
    }

    #[cold]
    fn make_a_round(&self, now_ns: u64) {
        self.wards.seen.borrow_mut().retain_mut(|(id, seen)| {
            if now_ns - seen.at_ns < ROUND_MIN_NS {
                return true;
            }
            let other = &self.shared.schedulers[*id];
            let then = Sight::of(other, now_ns);
            let stays = then.refills != seen.refills && seen.poll_ns(then) < SHORT_POLL_NS;
            *seen = then;
            if !stays {
                other.guard.store(0, Ordering::Relaxed);
            }
            stays
        });
        self.wards.any.set(!self.wards.seen.borrow().is_empty());
    }

    /// Releases all monitored peers: this scheduler has found work.
    #[inline]
    pub(super) fn release_wards(&self) {
        if self.wards.any.replace(false) {
            for (id, _) in self.wards.seen.borrow_mut().drain(..) {
                self.shared.schedulers[id].guard.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Sight = Sight { at_ns: 0, refills: 7, polls: 100, queued: 9 };

    fn at(at_ns: u64, polls: u64, refills: u64, queued: usize) -> Sight {
        Sight { at_ns, refills: FIRST.refills + refills, polls: FIRST.polls + polls, queued }
    }

    fn verdict(then: Sight) -> Option<Verdict> {
        FIRST.verdict(FIRST, then)
    }

    #[test]
    fn what_waits_behind_long_polls_is_taken() {
        assert_eq!(verdict(at(LOOK_NS, 0, 0, 1)), Some(Verdict::Lasting));
        assert_eq!(verdict(at(LOOK_NS, 0, 1, 1)), Some(Verdict::Lasting), "also if the queue was empty in between");
        assert_eq!(verdict(at(LOOK_NS, 4, 0, 4)), Some(Verdict::Lasting), "also behind several shorter polls");
        assert_eq!(verdict(at(LOOK_NS, 0, 1, 0)), None, "it may come back");
    }

    #[test]
    fn short_polls_are_left_alone_unless_the_queue_lasts() {
        assert_eq!(verdict(at(LOOK_NS, 100, 0, 400)), None);
        assert_eq!(verdict(at(LASTING_NS, 500, 0, 400)), Some(Verdict::Lasting));
        assert_eq!(verdict(at(LOOK_NS, 100, 1, 400)), Some(Verdict::Brisk));
        assert_eq!(verdict(at(LOOK_NS, 100, 1, 0)), Some(Verdict::Brisk));
    }

    #[test]
    fn a_short_queue_of_longer_polls_is_looked_at_for_longer() {
        assert_eq!(verdict(at(LOOK_NS, 4, 1, 1)), None);
        assert_eq!(verdict(at(LASTING_NS, 20, 5, 1)), Some(Verdict::Brisk), "as one is that will be run at once");
    }

    #[test]
    fn an_empty_queue_that_nobody_fills_is_over() {
        let empty = at(LOOK_NS, 5, 1, 0);

        assert_eq!(FIRST.verdict(empty, at(2 * LOOK_NS, 10, 1, 0)), Some(Verdict::Over));
        assert_eq!(FIRST.verdict(empty, at(2 * LOOK_NS, 10, 2, 0)), None);
    }
}
