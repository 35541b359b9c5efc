//! Resource profiles: the part of the machine that a run may use.
//!
//! ```text
//!   the whole = cores/2 ──▶ max 1/1 · balanced 4/5 · light 1/2 of it
//!                                          │
//!                        workers = the share, rounded up;  duty = share / workers
//!
//!   2 cores:  light 1 worker at 50 %   balanced 1 at 80 %   max 1 at 100 %
//!   8 cores:  light 2 at 100 %         balanced 4 at 80 %   max 4 at 100 %
//! ```
//!
//! The shares are a quarter, two fifths and half of the cores. The number of workers is rounded up and the duty takes
//! the excess back, so the profiles differ on every machine and their ratio is always 5 : 8 : 10.

use std::fmt;

use rusm_protocol::ResourceProfileMeta;

/// A resource profile: the part of the machine that a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Workers for a quarter of the cores.
    Light,
    /// Workers for two fifths of the cores.
    Balanced,
    /// Workers for half of the cores; the processes that they spawn keep the other half busy.
    Max,
}

/// Part of the time that a worker works, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// The whole time.
    pub const WHOLE: Self = Self(1.0);

    /// Returns the fraction, above 0 and at most 1.
    pub const fn fraction(self) -> f64 {
        self.0
    }

    /// Returns this share multiplied by `fraction`.
    pub(crate) fn times(self, fraction: f64) -> Self {
        Self((self.0 * fraction).clamp(f64::MIN_POSITIVE, 1.0))
    }

    /// Returns true if the worker never rests.
    pub fn is_whole(self) -> bool {
        self.0 >= 1.0
    }
}

/// Number of workers of a profile, and the part of the time that each works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workers {
    /// Number of workers, at least 1.
    pub count: u64,
    /// Part of the time that each works.
    pub duty: Share,
}

impl Profile {
    /// All profiles, smallest first.
    pub const ALL: [Self; 3] = [Self::Light, Self::Balanced, Self::Max];

    /// Returns the id used in commands.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Balanced => "balanced",
            Self::Max => "max",
        }
    }

    /// Returns the profile with an id.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.id() == id)
    }

    /// Returns tenths of the share of the largest profile.
    const fn tenths(self) -> u64 {
        match self {
            Self::Light => 5,
            Self::Balanced => 8,
            Self::Max => 10,
        }
    }

    /// Returns the workers for a machine with this number of cores.
    pub fn workers(self, cores: usize) -> Workers {
        let twentieths = cores.max(1) as u64 * self.tenths();
        let count = twentieths.div_ceil(20);
        Workers { count, duty: Share(twentieths as f64 / (count * 20) as f64) }
    }

    /// Returns the duty for a given number of workers: it does not depend on that number.
    pub fn duty(self) -> Share {
        Share(self.tenths() as f64 / 10.0)
    }

    /// Returns the description for clients on a machine with this number of cores.
    pub fn meta(self, cores: usize) -> ResourceProfileMeta {
        let (label, part) = match self {
            Self::Light => ("Light", "a quarter"),
            Self::Balanced => ("Balanced", "two fifths"),
            Self::Max => ("Max", "half"),
        };
        let Workers { count, duty } = self.workers(cores);
        let workers = if count == 1 { "worker" } else { "workers" };
        ResourceProfileMeta {
            id: self.id().to_owned(),
            label: label.to_owned(),
            description: format!(
                "workers for {part} of the cores: {count} {workers} at {:.0} % here",
                duty.fraction() * 100.0
            ),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn on_two_cores_the_profiles_differ_by_duty() {
        let workers = Profile::ALL.map(|profile| profile.workers(2));

        assert_eq!(workers.map(|workers| workers.count), [1, 1, 1]);
        assert_eq!(workers.map(|workers| workers.duty), [Share(0.5), Share(0.8), Share(1.0)]);
    }

    #[test]
    fn an_odd_number_of_cores_has_its_share_of_them_as_well() {
        let of = |cores| Profile::ALL.map(|profile| profile.workers(cores)).map(|it| (it.count, it.duty.fraction()));

        assert_eq!(of(1), [(1, 0.25), (1, 0.4), (1, 0.5)]);
        assert_eq!(of(3), [(1, 0.75), (2, 0.6), (2, 0.75)]);
    }

    #[test]
    fn an_id_leads_back_to_its_profile() {
        for profile in Profile::ALL {
            assert_eq!(Profile::of_id(profile.id()), Some(profile));
        }
        assert_eq!(Profile::of_id("huge"), None);
    }

    proptest! {
        #[test]
        fn a_profile_is_the_same_part_of_every_machine(cores in 1_usize..1024) {
            let work = Profile::ALL.map(|profile| {
                let workers = profile.workers(cores);
                workers.count as f64 * workers.duty.fraction()
            });

            for (work, part) in work.into_iter().zip([0.25, 0.4, 0.5]) {
                prop_assert!((work / cores as f64 - part).abs() < 1e-9);
            }
        }

        #[test]
        fn no_profile_is_without_workers_or_asks_for_more_than_all_the_time(cores in 0_usize..1024) {
            for profile in Profile::ALL {
                let workers = profile.workers(cores);

                prop_assert!(workers.count >= 1 && workers.count <= cores.max(1) as u64);
                prop_assert!(workers.duty.fraction() > 0.0 && workers.duty <= Share::WHOLE);
            }
        }
    }
}
