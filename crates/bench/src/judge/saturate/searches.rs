//! Repeated searches for the highest stable rate: a single result may be luck.

use serde::Serialize;

use super::level::Level;
use super::system::{SaturateOptions, SystemError, SystemUnderTest, bisect, offer_undisturbed, sort};
use crate::judge::statistics::median;

/// Relative distance below and above the first result at which a search starts, and by which it moves on if that is not
/// enough.
const STEP: f64 = 0.1;
/// Maximum number of steps down or up: to about a half, and to about twice the rate.
const STEPS_MAX: u32 = 7;
/// Maximum distance of a search's result from the median, as a part of the median.
const AGREE: f64 = 0.05;

/// Results of all searches for the highest stable rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Searches {
    /// Rates found, in operations per second, without the searches that found none.
    pub rates: Vec<f64>,
    /// Number of searches.
    pub count: u32,
    /// Largest distance of a rate from the median, as a part of the median; `null` for fewer than two rates.
    pub spread: Option<f64>,
}

impl Searches {
    /// Repeats the search around the rate that a first search found; its levels are in `levels`. Does nothing without
    /// such a rate.
    pub(crate) fn again(
        system: &mut impl SystemUnderTest,
        levels: &mut Vec<Level>,
        capacity: f64,
        first: Option<f64>,
        options: &SaturateOptions,
        seen: &mut impl FnMut(&str),
        is_good: impl Fn(&Level) -> bool,
    ) -> Result<Self, SystemError> {
        let Some(first) = first else { return Ok(Self { count: 1, ..Self::default() }) };
        let mut rates = vec![first];
        for search in 2..=options.searches {
            let mut of_this = Vec::new();
            let mut end = |system: &mut _, mut factor: f64, step: f64, wanted: bool| -> Result<(), SystemError> {
                for _ in 0..STEPS_MAX {
                    let level = offer_undisturbed(system, first * factor, seen)?;
                    let is_reached = is_good(&level) == wanted;
                    of_this.push(Level { load: first * factor / capacity, ..level });
                    if is_reached {
                        break;
                    }
                    factor *= step;
                }
                Ok(())
            };
            end(system, 1.0 - STEP, 1.0 - STEP, true)?;
            end(system, 1.0 + STEP, 1.0 + STEP, false)?;
            let found = bisect(system, &mut of_this, capacity, seen, &is_good)?;
            seen(&format!("search {search} of {}: {:.0} operations a second", options.searches, found.unwrap_or(0.0)));
            rates.extend(found);
            levels.extend(of_this.into_iter().map(|level| Level { search, ..level }));
        }
        sort(levels);
        Ok(Self::of(rates, options.searches))
    }

    fn of(rates: Vec<f64>, count: u32) -> Self {
        let middle = median(&rates).filter(|_| rates.len() > 1);
        let farthest = |middle: f64| rates.iter().map(|rate| (rate / middle - 1.0).abs()).fold(0.0, f64::max);
        Self { spread: middle.map(farthest), rates, count }
    }

    /// Returns the median rate.
    pub fn median(&self) -> Option<f64> {
        median(&self.rates)
    }

    /// Returns true if all searches found a rate close to the median. If there was only one, that it found a rate.
    pub fn agree(&self) -> bool {
        self.rates.len() == self.count as usize && self.spread.is_none_or(|spread| spread <= AGREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with another highest rate in each search; the first offer of every rate is disturbed.
    struct Moody {
        highest: Vec<f64>,
        offered: Vec<f64>,
    }

    impl SystemUnderTest for Moody {
        fn closed(&mut self, _: Option<u64>) -> Result<f64, SystemError> {
            Ok(1_000.0)
        }

        fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError> {
            // A search begins with the step below the first result.
            if (per_sec - 0.9 * 1_000.0).abs() < 1e-9 && self.highest.len() > 1 {
                self.highest.remove(0);
            }
            let is_first = !self.offered.contains(&per_sec);
            self.offered.push(per_sec);
            let stable = per_sec <= self.highest[0] && !is_first;
            Ok(Level { offered_per_sec: per_sec, stable, disturbed: is_first, ..Level::default() })
        }
    }

    fn searches(highest: &[f64]) -> Searches {
        let mut system = Moody { highest: [&[0.0], highest].concat(), offered: Vec::new() };
        let options = SaturateOptions { searches: highest.len() as u32 + 1, ..SaturateOptions::default() };
        Searches::again(&mut system, &mut Vec::new(), 1_000.0, Some(1_000.0), &options, &mut |_| (), |level| {
            level.stable
        })
        .unwrap()
    }

    #[test]
    fn searches_that_come_out_within_five_per_cent_agree() {
        let found = searches(&[1_010.0, 980.0, 1_020.0]);

        assert_eq!((found.rates.len(), found.count), (4, 4), "{found:?}");
        assert!(found.agree() && found.spread.is_some_and(|spread| spread > 0.01), "{found:?}");
    }

    #[test]
    fn one_that_comes_out_far_away_makes_them_disagree() {
        let found = searches(&[1_010.0, 700.0]);

        assert!(found.rates.iter().any(|rate| (680.0..=700.0).contains(rate)), "{found:?}");
        assert!(!found.agree(), "{found:?}");
    }

    #[test]
    fn a_search_that_finds_nothing_is_no_agreement() {
        assert!(!Searches::of(vec![1.0, 1.0], 3).agree());
        assert!(Searches::of(vec![1.0], 1).agree() && Searches { count: 1, ..Searches::default() }.median().is_none());
    }
}
