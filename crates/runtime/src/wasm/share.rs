//! A guest's share of its scheduler: what it runs beyond that, it rests for.
//!
//! ```text
//!   its turn ─ nothing owed ─▶ it runs until it waits or its epoch ends ─▶ owes what it ran, less its share of the time since
//!           └ it owes ─▶ it rests until it has a tick's worth to run again
//! ```
//!
//! Epochs cut a guest that runs on and on, so it owes a tick or two; what a host call or a fill of memory takes longer, in which
//! no epoch ends, it owes as well. What a guest leaves unused it keeps, but not more than two ticks' worth: one that mostly waits
//! never notices that it has a share.

use std::future::Future;
use std::pin::Pin;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::vitals::Vitals;
use crate::cell::WAIT_SLEEP;
use crate::scheduler::{self, Local};

/// Ticks' worth of running that a guest may have left over.
const KEPT_TICKS: i64 = 2;

/// The share of one guest.
pub(super) struct Share {
    account: Account,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Share {
    /// A share of `percent`, 1 to 100; `None` for all of it.
    pub(super) fn new(percent: u8, tick: Duration) -> Option<Box<Self>> {
        let some = || Box::new(Self { account: Account::new(percent, tick, Instant::now()), rest: None });
        (percent < 100).then(some)
    }

    /// Whether the guest may run now; else its process is woken when it may.
    #[inline(never)]
    pub(super) fn may_run(&mut self, cx: &mut TaskContext<'_>, vitals: &Vitals) -> bool {
        loop {
            if let Some(rest) = &mut self.rest {
                if rest.as_mut().poll(cx).is_pending() {
                    if let Some(running) = scheduler::local().and_then(Local::running) {
                        running.waits_for(WAIT_SLEEP);
                    }
                    return false;
                }
                self.rest = None;
            }
            self.account.passes(Instant::now());
            let Some(rest) = self.account.rest() else { return true };
            vitals.count_rest();
            self.rest = Some(Box::pin(tokio::time::sleep(rest)));
        }
    }

    /// The guest ran from then until now.
    #[inline(never)]
    pub(super) fn ran(&mut self) {
        self.account.ran(Instant::now());
    }
}

/// What a guest owes, in nanoseconds of running; less than nothing is what it has left over.
struct Account {
    percent: i64,
    tick_ns: i64,
    owed_ns: i64,
    as_of: Instant,
}

impl Account {
    fn new(percent: u8, tick: Duration, now: Instant) -> Self {
        let tick_ns = tick.as_nanos() as i64;
        Self { percent: percent.into(), tick_ns, owed_ns: -KEPT_TICKS * tick_ns, as_of: now }
    }

    /// Time has passed without the guest; its share of it is the guest's.
    fn passes(&mut self, now: Instant) {
        let passed_ns = self.until(now);
        self.owed_ns = (self.owed_ns - passed_ns * self.percent / 100).max(-KEPT_TICKS * self.tick_ns);
    }

    /// The guest ran all the time until now; its share of it was its due.
    fn ran(&mut self, now: Instant) {
        let ran_ns = self.until(now);
        self.owed_ns += ran_ns - ran_ns * self.percent / 100;
    }

    fn until(&mut self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.as_of, now));
        // Whatever is longer pays all that can be owed.
        passed.min(Duration::from_secs(1_000_000)).as_nanos() as i64
    }

    /// How long a guest that owes has to rest.
    fn rest(&self) -> Option<Duration> {
        let wait_ns = (self.owed_ns + self.tick_ns) * 100 / self.percent;
        (self.owed_ns > 0).then(|| Duration::from_nanos(wait_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs a guest that always wants to, in slices of `slice`, with rests that take `late` too long; its share in percent.
    fn share_of(percent: u8, slice: Duration, late: Duration) -> f64 {
        let begin = Instant::now();
        let mut account = Account::new(percent, MS, begin);
        let (mut now, mut ran) = (begin, Duration::ZERO);
        while now < begin + 20_000 * MS {
            account.passes(now);
            if let Some(rest) = account.rest() {
                now += rest + late;
                continue;
            }
            now += slice;
            ran += slice;
            account.ran(now);
        }
        100.0 * ran.as_secs_f64() / (now - begin).as_secs_f64()
    }

    #[test]
    fn a_guest_that_always_wants_to_run_gets_its_share_whatever_its_slices() {
        for percent in [1, 10, 25, 50, 90, 99] {
            for slice in [MS / 100, MS / 3, MS, 2 * MS] {
                let share = share_of(percent, slice, Duration::ZERO);
                assert!((share - f64::from(percent)).abs() < 0.5, "{share} of {percent} % in slices of {slice:?}");
            }
        }
    }

    #[test]
    fn rests_that_take_a_little_too_long_are_made_good() {
        for percent in [1, 10, 25, 50] {
            let share = share_of(percent, MS, MS);
            assert!((share - f64::from(percent)).abs() < 0.5, "{share} of {percent} %");
        }
    }

    #[test]
    fn a_guest_that_mostly_waits_never_rests() {
        let mut now = Instant::now();
        let mut account = Account::new(25, MS, now);
        for _ in 0..10_000 {
            account.passes(now);
            assert_eq!(account.rest(), None);
            now += MS / 10;
            account.ran(now);
            now += MS;
        }
    }

    #[test]
    fn what_is_left_over_is_two_ticks_worth_however_long_it_waited() {
        let now = Instant::now();
        let mut account = Account::new(50, MS, now);
        let later = now + Duration::from_hours(1);
        account.passes(later);
        // Five ticks at half of them: two and a half owed, two of them left over.
        account.ran(later + 5 * MS);
        assert_eq!(account.rest(), Some(3 * MS));
    }

    #[test]
    fn a_share_of_all_is_none() {
        assert!(Share::new(100, MS).is_none() && Share::new(99, MS).is_some());
    }
}
