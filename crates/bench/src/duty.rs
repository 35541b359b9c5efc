//! When a worker that may not work all the time has to rest.
//!
//! ```text
//!   worked ──▶ debt of rest grows by worked · (1 − share) / share
//!   debt ≥ REST_MIN ──▶ sleep ──▶ debt shrinks by what the sleep really took
//! ```
//!
//! Never reads a clock. A sleep that takes too long is given back by a longer stretch of work, so the share holds over
//! time whatever the timers do.

use std::time::Duration;

use crate::profile::Share;

/// The shortest rest: several times the granularity of the timers.
const REST_MIN: Duration = Duration::from_millis(4);

/// The balance of work and rest of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duty {
    /// Rest for each nanosecond of work.
    rest_per_work: f64,
    /// Rest that is due, in nanoseconds; below zero after a sleep that took too long.
    debt_ns: f64,
}

impl Duty {
    /// The duty of a worker; `None` if it may work all the time.
    pub(crate) fn new(share: Share) -> Option<Self> {
        (!share.is_whole()).then(|| Self { rest_per_work: (1.0 - share.fraction()) / share.fraction(), debt_ns: 0.0 })
    }

    /// Counts work, and says how long to rest now, if at all.
    pub(crate) fn worked(&mut self, work: Duration) -> Option<Duration> {
        self.debt_ns += work.as_nanos() as f64 * self.rest_per_work;
        let due = Duration::from_nanos(self.debt_ns.max(0.0) as u64);
        (due >= REST_MIN).then_some(due)
    }

    /// Counts a rest by what it really took.
    pub(crate) fn rested(&mut self, rest: Duration) {
        self.debt_ns -= rest.as_nanos() as f64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Profile;

    #[test]
    fn a_whole_share_never_rests() {
        assert!(Duty::new(Share::WHOLE).is_none());
    }

    proptest! {
        #[test]
        fn the_share_holds_whatever_the_sleeps_take(
            steps in prop::collection::vec((1_u64..3_000, 0_u64..8_000), 2_000..4_000),
            light: bool,
        ) {
            let share = if light { Profile::Light.duty() } else { Profile::Balanced.duty() };
            let mut duty = Duty::new(share).unwrap();
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
