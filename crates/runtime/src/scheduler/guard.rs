//! When another scheduler's queue is worth taking from, and who looks after one that is not.
//!
//! ```text
//!   observe ──▶ lasting: it will take long, or is never empty ──▶ steal
//!          ├──▶ over: nothing comes any more                  ──▶ sleep
//!          └──▶ brisk: emptied and filled again               ──▶ guard: asleep, but for a look each millisecond
//! ```
//!
//! To run a process elsewhere costs some cache misses on both cores: more than a process that lives for a hundred
//! nanoseconds is worth, and more than a scheduler needs to empty a short queue by itself. Such a scheduler is left
//! alone, and wakes nobody while it is guarded. Nobody can know that its next poll will be as short as the last ones, so
//! its guard comes back: what lies behind a long poll is taken after two of its looks at the latest.

use std::cell::{Cell as Plain, RefCell};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::{Local, SchedulerShared};

/// Shorter polls on average are not worth the cache misses of a steal, however many of them wait.
const SHORT_POLL_NS: u64 = 1_000;
/// Less time that the queue will take is not worth a steal.
const QUICK_NS: u64 = 8_000;
/// Time between two looks.
const LOOK_NS: u64 = 10_000;
/// A queue of short polls that was never empty for so long will not be soon.
const LASTING_NS: u64 = 50_000;
/// A queue that was worth a steal is taken from again without a look for so long, unless it holds a single process.
const TRUST_NS: u64 = 1_000_000;
/// Spins between two reads of the clock.
const LOOK_ROUNDS: u32 = 32;
/// Time between two looks of a guard.
const ROUND: Duration = Duration::from_millis(1);
/// A look of a guard after less than this tells nothing.
const ROUND_MIN_NS: u64 = 500_000;

/// What is to be done about another scheduler's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It outlasts a steal.
    Lasting,
    /// It is emptied sooner than a steal would help, and filled again.
    Brisk,
    /// There is nothing in it, or something else to do.
    Over,
}

/// What one look saw of another scheduler.
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

    /// How long polls were on average up to `then`.
    fn poll_ns(self, then: Self) -> u64 {
        (then.at_ns - self.at_ns) / (then.polls - self.polls + 1)
    }

    /// What the first look, the last one and `then` say together; `None` for one look more.
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

/// The schedulers that this one guards while it sleeps.
#[derive(Default)]
pub(super) struct Wards {
    seen: RefCell<Vec<(usize, Sight)>>,
    any: Plain<bool>,
    /// Until when the queue of whom is taken from without a look.
    trusted: Plain<(usize, u64)>,
    alarm: RefCell<Option<Pin<Box<Sleep>>>>,
}

impl Wards {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.get()
    }

    /// Has the reactor wake the guard for its next look.
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
    /// Whether a guard looks after its queue, so that it need wake nobody for it.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.load(Ordering::Relaxed) != 0
    }
}

impl Local {
    /// Watches another scheduler until it is known what is to be done about its queue.
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

    /// Looks after another scheduler from now on.
    pub(super) fn guard(&self, id: usize) {
        let other = &self.shared.schedulers[id];
        let me = self.id as u32 + 1;
        if other.guard.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.wards.seen.borrow_mut().push((id, Sight::of(other, self.stopwatch.now_ns())));
            self.wards.any.set(true);
        }
    }

    /// Looks at the wards after a sleep, and keeps those who certainly need nobody; the others are observed anew.
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

    /// Leaves the wards to themselves: this scheduler has something to run.
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
        assert_eq!(verdict(at(LOOK_NS, 0, 1, 1)), Some(Verdict::Lasting), "also where it was empty meanwhile");
        assert_eq!(verdict(at(LOOK_NS, 4, 0, 4)), Some(Verdict::Lasting), "or behind many that are less long");
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
