//! How much before a deadline to ask the kernel for a wake-up: as much as lets so little time be waited out awake.
//!
//! ```text
//!   woken too early, and `early` waited out ──▶ lead += (budget − early) / 16 ┐
//!   woken too late                          ──▶ lead += budget / 16           ┴─▶ the mean of `early` is the budget
//!   ask for deadline − lead ──▶ mostly woken just before the deadline, and awake at it
//! ```
//!
//! From the interrupt of a timer to the first instruction of a thread it takes 2 to 20 µs, by the machine, and that is nearly
//! the same each time, but for some that take twice or three times as long. Whoever asks for the deadline itself is late by it at every
//! tick. This is no spinning before a tick: what is waited for awake is the *spread* of the wake-ups and not their length. A thread's
//! own ticker waits out half a microsecond and a two-hundredth of a period at most, in the mean. The driver of processes hardly anything: what it would win is less than
//! the wake-up of the process takes. Never reads a clock.

/// Later than this is a preemption and says nothing about wake-ups.
const PREEMPTED_NS: u64 = 100_000;
/// The longest lead.
const LEAD_MAX_NS: u64 = 40_000;
/// What a thread waits out awake before a tick, in the mean: so much, and such a part of a period at most.
const BUDGET_NS: u64 = 500;
const PERIODS: u64 = 200;
/// What the driver of processes does.
const DRIVER_BUDGET_NS: u64 = 200;
/// What must be left of the time to a tick beside the lead, or there is none.
const REST_MIN_NS: u64 = 1_000;
/// What takes less than this is not slept for: a sleep takes more of the processor.
const AWAKE_MAX_NS: u64 = 2_000;
/// The part of an error that one wake-up takes off.
const GAIN: u64 = 16;
/// Parts of a nanosecond that a lead is kept in: steps are small.
const PARTS: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    /// How much earlier to ask, in parts of a nanosecond.
    parts: u64,
    /// What may be waited out awake, in the mean.
    budget_ns: u64,
}

impl Lead {
    /// That of the driver of processes.
    pub(super) const fn of_driver() -> Self {
        Self { parts: 0, budget_ns: DRIVER_BUDGET_NS }
    }

    /// That of a thread that ticks once in `period_ns`.
    pub(super) fn of_thread(period_ns: u64) -> Self {
        Self { parts: 0, budget_ns: BUDGET_NS.min(period_ns / PERIODS) }
    }

    /// The instant to ask for, to be awake at `at_ns`.
    ///
    /// Where little more than the lead is left there is none: ticks as dense as that come in one wake-up.
    pub(super) const fn before(self, at_ns: u64, now_ns: u64) -> u64 {
        let lead_ns = self.parts / PARTS;
        if at_ns.saturating_sub(now_ns) > lead_ns + REST_MIN_NS { at_ns - lead_ns } else { at_ns }
    }

    /// The same for one who sleeps for no other tick: where the time is too short for the lead, the next instant that there is.
    ///
    /// A sleep takes what it takes, 16 µs in a virtual machine, however short it was to be. Whoever woke late and sleeps until
    /// the next tick itself is late by as much again, and so on for ever; one who sleeps as shortly as can be makes up
    /// for a part of it each time. What is less than a sleep takes of the processor is waited out awake.
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

    /// How late a sleep for this instant ended, as [`woke`](Self::woke) wants to know it: from where it should have been for.
    pub(super) const fn late(self, at_ns: u64, woken_ns: u64) -> u64 {
        (woken_ns + self.parts / PARTS).saturating_sub(at_ns)
    }

    /// Learns that a sleep ended `late_ns` after the instant it was for.
    pub(super) fn woke(&mut self, late_ns: u64) {
        if late_ns >= PREEMPTED_NS {
            return;
        }
        if self.parts == 0 {
            // The first is as good a guess as any.
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

    fn lead_ns(lead: Lead) -> u64 {
        AT_NS - lead.before(AT_NS, 0)
    }

    /// What is waited out awake, in the mean, with wake-ups that take so long in turn.
    fn early_ns(wakes_ns: &[u64], period_ns: u64) -> u64 {
        let (mut lead, mut early_ns, turns) = (Lead::of_thread(period_ns), 0, 20_000);
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
        let mut lead = Lead::of_thread(PERIOD_NS);

        lead.woke(3_000_000);
        assert_eq!(lead.before(AT_NS, 0), AT_NS);
        (0..10_000).for_each(|_| lead.woke(99_000));

        assert_eq!(lead_ns(lead), LEAD_MAX_NS);
    }

    #[test]
    fn dense_ticks_have_none() {
        let mut lead = Lead::of_thread(PERIOD_NS);
        (0..1_000).for_each(|_| lead.woke(10_000));
        assert!((10_400..10_600).contains(&lead_ns(lead)), "{lead:?}");

        assert_eq!((lead.before(50_000, 39_000), lead.before(50_000, 60_000)), (50_000, 50_000));
        assert!(lead.before(50_000, 29_200) < 39_600, "a tick of 48 kHz");
    }

    #[test]
    fn who_is_late_once_is_on_time_again_after_some_short_sleeps() {
        // A sleep takes 16 µs longer than it should, and never less than 17.
        let sleep = |until_ns: u64, now_ns: u64| (until_ns + 16_000).max(now_ns + 17_000);
        let (mut lead, period_ns, mut now_ns) = (Lead::of_thread(20_833), 20_833, 0);
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
                // Something else takes the processor.
                now_ns += 17_000;
            }
            late_ns.push(now_ns - at_ns);
        }

        assert!(late_ns[3] > 10_000 && late_ns[8..].iter().all(|late_ns| *late_ns < 500), "{late_ns:?}");
    }

    #[test]
    fn what_is_hardly_a_sleep_is_waited_out_awake() {
        let mut lead = Lead::of_thread(PERIOD_NS);
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
