//! Decides when a worker with a limited CPU share must rest.
//!
//! ```text
//!   worked ──▶ debt of rest grows by worked · (1 − share) / share
//!   debt ≥ REST_MIN ──▶ sleep ──▶ debt shrinks by the actual length of the sleep
//! ```
//!
//! Never reads a clock. A sleep that takes too long is compensated by a longer period of work, so the share holds over
//! time however late the timers are.

use std::time::Duration;

use crate::run::profile::Share;

/// Minimum length of a rest: several times the timer granularity.
const REST_MIN: Duration = Duration::from_millis(4);

/// Balance of work and rest of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DutyCycle {
    /// Required rest per nanosecond of work, in nanoseconds.
    rest_per_work: f64,
    /// Rest owed, in nanoseconds; negative after a sleep that took too long.
    debt_ns: f64,
}

impl DutyCycle {
    /// Creates the balance of a worker; returns `None` if the share is unlimited.
    pub(crate) fn new(share: Share) -> Option<Self> {
        (!share.is_whole()).then(|| Self { rest_per_work: (1.0 - share.fraction()) / share.fraction(), debt_ns: 0.0 })
    }

    /// Records work, and returns the length of the rest if one is due now.
    pub(crate) fn worked(&mut self, work: Duration) -> Option<Duration> {
        self.debt_ns += work.as_nanos() as f64 * self.rest_per_work;
        let due = Duration::from_nanos(self.debt_ns.max(0.0) as u64);
        (due >= REST_MIN).then_some(due)
    }

    /// Records the actual length of a rest.
    pub(crate) fn rested(&mut self, rest: Duration) {
        self.debt_ns -= rest.as_nanos() as f64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::profile::Profile;

    #[test]
    fn a_whole_share_never_rests() {
        assert!(DutyCycle::new(Share::WHOLE).is_none());
    }

    proptest! {
        #[test]
        fn the_share_holds_whatever_the_sleeps_take(
            steps in prop::collection::vec((1_u64..3_000, 0_u64..8_000), 2_000..4_000),
            light: bool,
        ) {
            let share = if light { Profile::Light.duty() } else { Profile::Balanced.duty() };
            let mut duty = DutyCycle::new(share).unwrap();
            let (mut worked, mut rested) = (Duration::ZERO, Duration::ZERO);

            for (work_us, late_us) in steps {
                let work = Duration::from_micros(work_us);
                worked += work;
                if let Some(rest) = duty.worked(work) {
                    let slept = rest + Duration::from_micros(late_us);
                    rested += slept;
                    duty.rested(slept);
                }
            }

            let seen = worked.as_secs_f64() / (worked + rested).as_secs_f64();
            prop_assert!((seen - share.fraction()).abs() < 0.02, "{seen}");
        }
    }
}
