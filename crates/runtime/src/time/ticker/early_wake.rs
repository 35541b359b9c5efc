//! Early wake-ups: learns how long before a deadline to request a wake-up, so that little time is spent awake before
//! it.
//!
//! ```text
//!   woken too early, and `early` spent awake ──▶ lead += (budget − early) / 16 ┐
//!   woken too late                         ──▶ lead += budget / 16           ┴─▶ the mean of `early` is the budget
//!   request deadline − lead ──▶ mostly woken just before the deadline, and awake at it
//! ```
//!
//! The time from a timer interrupt to the first instruction of a thread is 2 to 20 µs, depending on the machine. It is
//! nearly constant, except that some wake-ups take two or three times as long. A thread that requests the deadline
//! itself is late by this time at every tick. The lead is not spinning before a tick: the time spent awake covers the
//! *spread* of the wake-ups, not their length. A thread's own ticker spends half a microsecond on average, and a
//! two-hundredth of a period at most. The driver of processes spends hardly any: it would gain less than the wake-up of
//! the process takes. Never reads a clock.

/// A longer lateness is a preemption, and says nothing about wake-ups. In nanoseconds.
const PREEMPTED_NS: u64 = 100_000;
/// Longest lead, in nanoseconds.
const LEAD_MAX_NS: u64 = 40_000;
/// Mean time that a thread spends awake before a tick, in nanoseconds; at most one `PERIODS`th of a period.
const BUDGET_NS: u64 = 500;
const PERIODS: u64 = 200;
/// Mean time that the driver of processes spends awake before a tick, in nanoseconds.
const DRIVER_BUDGET_NS: u64 = 200;
/// Time to a tick, apart from the lead, below which the lead is not used. In nanoseconds.
const REST_MIN_NS: u64 = 1_000;
/// A shorter wait is spent awake: a sleep would take more CPU time. In nanoseconds.
const AWAKE_MAX_NS: u64 = 2_000;
/// Each wake-up corrects one `GAIN`th of the error.
const GAIN: u64 = 16;
/// Resolution of a lead, in parts per nanosecond: steps are small.
const PARTS: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyWake {
    /// Lead, in parts of a nanosecond.
    parts: u64,
    /// Mean time that may be spent awake, in nanoseconds.
    budget_ns: u64,
}

impl EarlyWake {
    /// Creates the lead of the driver of processes.
    pub(super) const fn of_driver() -> Self {
        Self { parts: 0, budget_ns: DRIVER_BUDGET_NS }
    }

    /// Creates the lead of a thread that ticks once per `period_ns`.
    pub(super) fn of_thread(period_ns: u64) -> Self {
        Self { parts: 0, budget_ns: BUDGET_NS.min(period_ns / PERIODS) }
    }

    /// Returns the instant to request in order to be awake at `at_ns`.
    ///
    /// Uses no lead if little more than the lead is left: ticks that dense share one wake-up.
    pub(super) const fn before(self, at_ns: u64, now_ns: u64) -> u64 {
        let lead_ns = self.parts / PARTS;
        if at_ns.saturating_sub(now_ns) > lead_ns + REST_MIN_NS { at_ns - lead_ns } else { at_ns }
    }

    /// Same as [`before`](Self::before), for a thread that sleeps for no other tick: if the time is too short for the
    /// lead, returns the earliest possible instant.
    ///
    /// A sleep takes a minimum time, 16 µs in a virtual machine, however short the request. If a thread that woke late
    /// slept until the next tick itself, it would be late by as much again, and so on forever. By sleeping as briefly
    /// as possible, it makes up for a part of it each time. A wait below the CPU time of a sleep is spent awake.
    pub(super) const fn soon_before(self, at_ns: u64, now_ns: u64) -> u64 {
        let (lead_ns, left_ns) = (self.parts / PARTS, at_ns.saturating_sub(now_ns));
        if lead_ns == 0 {
            at_ns
        } else if left_ns > lead_ns + REST_MIN_NS {
            at_ns - lead_ns
        } else if left_ns > AWAKE_MAX_NS {
            now_ns + super::clock::SLEEP_MIN_NS + 1
        } else {
            now_ns
        }
    }

    /// Returns the lateness for [`woke`](Self::woke), measured from the instant that should have been requested for
    /// `at_ns`.
    pub(super) const fn late(self, at_ns: u64, woken_ns: u64) -> u64 {
        (woken_ns + self.parts / PARTS).saturating_sub(at_ns)
    }

    /// Learns from a sleep that ended `late_ns` after the requested instant.
    pub(super) fn woke(&mut self, late_ns: u64) {
        if late_ns >= PREEMPTED_NS {
            return;
        }
        if self.parts == 0 {
            // The first lateness is as good an estimate as any.
            self.parts = late_ns.min(LEAD_MAX_NS) * PARTS;
            return;
        }
        let budget = self.budget_ns * PARTS;
        let early = self.parts.saturating_sub(late_ns * PARTS);
        self.parts = (self.parts + budget / GAIN).saturating_sub(early / GAIN).min(LEAD_MAX_NS * PARTS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD_NS: u64 = 100_000;
    const AT_NS: u64 = 1_000_000;

    fn lead_ns(lead: EarlyWake) -> u64 {
        AT_NS - lead.before(AT_NS, 0)
    }

    /// Returns the mean time spent awake if wake-ups take the times in `wakes_ns` in turn.
    fn early_ns(wakes_ns: &[u64], period_ns: u64) -> u64 {
        let (mut lead, mut early_ns, turns) = (EarlyWake::of_thread(period_ns), 0, 20_000);
        for turn in 0..2 * turns {
            let late_ns = wakes_ns[turn % wakes_ns.len()];
            early_ns += if turn >= turns { lead_ns(lead).saturating_sub(late_ns) } else { 0 };
            lead.woke(late_ns);
        }
        early_ns / turns as u64
    }

    #[test]
    fn what_is_waited_out_awake_is_the_budget_whatever_wake_ups_take() {
        assert!((470..=530).contains(&early_ns(&[15_000], PERIOD_NS)));
        assert!((470..=530).contains(&early_ns(&[14_000, 15_000, 20_000, 15_500, 16_000], PERIOD_NS)));
        assert!((470..=530).contains(&early_ns(&[2_000, 2_000, 2_000, 2_000, 35_000], PERIOD_NS)));
    }

    #[test]
    fn of_a_short_period_it_is_a_two_hundredth() {
        assert!((80..=120).contains(&early_ns(&[4_000, 5_000], 20_000)));
    }

    #[test]
    fn a_preemption_teaches_it_nothing_and_it_never_grows_without_end() {
        let mut lead = EarlyWake::of_thread(PERIOD_NS);

        lead.woke(3_000_000);
        assert_eq!(lead.before(AT_NS, 0), AT_NS);
        (0..10_000).for_each(|_| lead.woke(99_000));

        assert_eq!(lead_ns(lead), LEAD_MAX_NS);
    }

    #[test]
    fn dense_ticks_have_none() {
        let mut lead = EarlyWake::of_thread(PERIOD_NS);
        (0..1_000).for_each(|_| lead.woke(10_000));
        assert!((10_400..10_600).contains(&lead_ns(lead)), "{lead:?}");

        assert_eq!((lead.before(50_000, 39_000), lead.before(50_000, 60_000)), (50_000, 50_000));
        assert!(lead.before(50_000, 29_200) < 39_600, "a tick of 48 kHz");
    }

    #[test]
    fn who_is_late_once_is_on_time_again_after_some_short_sleeps() {
        // A sleep takes 16 µs longer than requested, and never less than 17 µs.
        let sleep = |until_ns: u64, now_ns: u64| (until_ns + 16_000).max(now_ns + 17_000);
        let (mut lead, period_ns, mut now_ns) = (EarlyWake::of_thread(20_833), 20_833, 0);
        lead.woke(16_000);
        let mut late_ns = Vec::new();

        for tick in 1..12 {
            let at_ns = tick * period_ns;
            let until_ns = lead.soon_before(at_ns, now_ns);
            if until_ns > now_ns {
                now_ns = sleep(until_ns, now_ns);
                lead.woke(lead.late(at_ns, now_ns));
            }
            now_ns = now_ns.max(at_ns);
            if tick == 3 {
                // Something else occupies the processor.
                now_ns += 17_000;
            }
            late_ns.push(now_ns - at_ns);
        }

        assert!(late_ns[3] > 10_000 && late_ns[8..].iter().all(|late_ns| *late_ns < 500), "{late_ns:?}");
    }

    #[test]
    fn what_is_hardly_a_sleep_is_waited_out_awake() {
        let mut lead = EarlyWake::of_thread(PERIOD_NS);
        lead.woke(10_000);

        assert_eq!(lead.soon_before(AT_NS, AT_NS - 1_500), AT_NS - 1_500);
        assert!((AT_NS - 5_000..AT_NS - 4_000).contains(&lead.soon_before(AT_NS, AT_NS - 5_000)));
    }

    proptest! {
        #[test]
        fn it_never_waits_out_more_than_the_budget_in_the_mean(wakes_ns in prop::collection::vec(500_u64..90_000, 1..20), period_ns in 10_000_u64..1_000_000) {
            let budget_ns = BUDGET_NS.min(period_ns / PERIODS);

            prop_assert!(early_ns(&wakes_ns, period_ns) <= budget_ns + 50);
        }
    }
}
