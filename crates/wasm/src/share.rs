//! CPU share of a guest: a guest that exceeds its share pauses.
//!
//! ```text
//!   its turn ─ no debt ─▶ it runs until it waits or its epoch ends ─▶ owes the time it ran, less its share
//!           └ debt ─▶ it pauses until it may run for a tick again
//! ```
//!
//! Epochs interrupt a guest that runs without a pause, so it owes a tick or two. Host calls and memory fills, in which
//! no epoch ends, add to the debt as well. Unused time is saved, up to two ticks' worth, so a guest that mostly waits
//! never pauses.

use std::future::Future;
use std::pin::Pin;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::vitals::Vitals;
use rusm_runtime::embed::guest::waits_for_time;

/// Maximum running time that a guest may save, in ticks.
const KEPT_TICKS: i64 = 2;

/// CPU share of one guest.
pub(super) struct Share {
    account: Account,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Share {
    /// Creates a share of `percent`, 1 to 100; `None` for 100.
    pub(super) fn new(percent: u8, tick: Duration) -> Option<Box<Self>> {
        let some = || Box::new(Self { account: Account::new(percent, tick, Instant::now()), rest: None });
        (percent < 100).then(some)
    }

    /// Returns true if the guest may run now; otherwise wakes its process when it may.
    #[inline(never)]
    pub(super) fn may_run(&mut self, cx: &mut TaskContext<'_>, vitals: &Vitals) -> bool {
        loop {
            if let Some(rest) = &mut self.rest {
                if rest.as_mut().poll(cx).is_pending() {
                    waits_for_time();
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

    /// Records that the guest ran since `may_run` returned true.
    #[inline(never)]
    pub(super) fn ran(&mut self) {
        self.account.ran(Instant::now());
    }
}

/// Debt of a guest, in nanoseconds of running time; negative if it has saved time.
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

    /// Credits the guest's share of the time that passed without it.
    fn passes(&mut self, now: Instant) {
        let passed_ns = self.until(now);
        self.owed_ns = (self.owed_ns - passed_ns * self.percent / 100).max(-KEPT_TICKS * self.tick_ns);
    }

    /// Charges the time that the guest ran until now, less its share of that time.
    fn ran(&mut self, now: Instant) {
        let ran_ns = self.until(now);
        self.owed_ns += ran_ns - ran_ns * self.percent / 100;
    }

    fn until(&mut self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.as_of, now));
        // Avoids an overflow below; a longer time pays off any debt.
        passed.min(Duration::from_secs(1_000_000)).as_nanos() as i64
    }

    /// Returns how long a guest with a debt must pause.
    fn rest(&self) -> Option<Duration> {
        let wait_ns = (self.owed_ns + self.tick_ns) * 100 / self.percent;
        (self.owed_ns > 0).then(|| Duration::from_nanos(wait_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Simulates a guest that always wants to run, in slices of `slice`, with pauses that end late by `late`; returns
    /// its share in percent.
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
        // Half of five ticks: two and a half ticks of debt, less the two that were saved.
        account.ran(later + 5 * MS);
        assert_eq!(account.rest(), Some(3 * MS));
    }

    #[test]
    fn a_share_of_all_is_none() {
        assert!(Share::new(100, MS).is_none() && Share::new(99, MS).is_some());
    }
}
