//! Detects growth of a quantity: its plateau, and the slope after it.
//!
//! ```text
//!   ______/‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾      the rise is cut off: the first tenth, or more until the rest is without a trend
//! ```
//!
//! The quantity grows if it has a rising trend with over 99 % confidence that would add over 10 % of the plateau in
//! four hours. If the system reports them separately, resident memory is judged without file pages: those depend on
//! what other programs do.

use serde::Serialize;

use super::SoakSample;
use crate::judge::statistics::{mann_kendall, median, theil_sen};

const RSS: &str = "rss_bytes";
const PSS: &str = "pss_bytes";
const OWN: &str = "own_bytes";
/// Minimum number of samples for a result.
const SAMPLES_MIN: usize = 30;
/// Maximum number of points; longer series are thinned out, because neighbours are alike and the tests compare all
/// pairs.
const POINTS_MAX: usize = 300;
/// Parts of the series that are cut off, tried in this order.
const CUTS: [f64; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];
/// p-value above which a trend may be chance: the plateau is reached.
const PLATEAU_P: f64 = 0.05;
/// p-value below which a trend is not chance.
const GROWTH_P: f64 = 0.01;
/// Time over which growth is measured, in seconds: four hours.
const HORIZON_S: f64 = 4.0 * 3_600.0;
/// Maximum growth in that time, as a part of the plateau.
const GROWTH_MAX: f64 = 0.1;
/// Minimum plateau for judging growth: relative to a plateau near zero, any growth would be too large.
const PLATEAU_MIN: f64 = 10.0;

/// Trend of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Name, which ends in the unit.
    pub name: String,
    /// Start of the plateau, in seconds.
    pub plateau_from_s: f64,
    /// Value at the start of the plateau: the median of its first tenth.
    pub plateau: f64,
    /// Change per second (Theil–Sen).
    pub slope_per_s: f64,
    /// Lower end of its 95 % confidence interval.
    pub slope_low_per_s: f64,
    /// Upper end of its 95 % confidence interval.
    pub slope_high_per_s: f64,
    /// Probability that such a trend arises by chance (Mann–Kendall).
    pub trend_p: f64,
    /// Growth in four hours at this slope, as a part of the plateau, or of 10 if the plateau is smaller.
    pub growth_4h: f64,
    /// True if the growth is too large.
    pub grows: bool,
}

impl Growth {
    /// Returns the trend of a series of seconds and values; `None` for fewer than thirty.
    pub fn of(name: &str, series: &[(f64, f64)]) -> Option<Self> {
        if series.len() < SAMPLES_MIN {
            return None;
        }
        let points = thinned(series);
        let kept = |cut: f64| &points[(points.len() as f64 * cut) as usize..];
        let p = |points: &[(f64, f64)]| mann_kendall(&points.iter().map(|(_, y)| *y).collect::<Vec<_>>()).p;
        let points = CUTS.into_iter().map(kept).find(|kept| p(kept) > PLATEAU_P).unwrap_or_else(|| kept(CUTS[0]));
        let line = theil_sen(points, 0.95)?;
        let first: Vec<f64> = points[..points.len().div_ceil(10)].iter().map(|(_, y)| *y).collect();
        let (plateau, trend_p) = (median(&first)?, p(points));
        let growth_4h = line.slope * HORIZON_S / plateau.max(PLATEAU_MIN);
        Some(Self {
            name: name.to_owned(),
            plateau_from_s: points[0].0,
            plateau,
            slope_per_s: line.slope,
            slope_low_per_s: line.low,
            slope_high_per_s: line.high,
            trend_p,
            growth_4h,
            grows: trend_p < GROWTH_P && line.slope > 0.0 && growth_4h > GROWTH_MAX,
        })
    }

    /// Returns the trends of all quantities in the samples.
    pub(crate) fn all_of(samples: &[SoakSample]) -> Vec<Self> {
        type Pick = fn(&SoakSample) -> Option<u64>;
        let picks: [(&str, Pick); 9] = [
            (RSS, |sample| sample.rss_bytes),
            (PSS, |sample| sample.pss_bytes),
            (OWN, |sample| sample.own_bytes),
            ("live_bytes", |sample| sample.live_bytes),
            ("processes", |sample| Some(sample.processes)),
            ("instances", |sample| Some(sample.instances)),
            ("queued", |sample| sample.queued),
            ("fds", |sample| sample.fds),
            ("threads", |sample| sample.threads),
        ];
        // Skip samples without a value: a process that has run out of file descriptors cannot count them, and the
        // samples before that still show how it got there.
        let series = |pick: Pick| -> Vec<(f64, f64)> {
            samples.iter().filter_map(|sample| Some((sample.at_s, pick(sample)? as f64))).collect()
        };
        let mut growths: Vec<Self> =
            picks.into_iter().filter_map(|(name, pick)| Self::of(name, &series(pick))).collect();
        if growths.iter().any(|growth| growth.name == OWN) {
            for growth in growths.iter_mut().filter(|growth| growth.name == RSS || growth.name == PSS) {
                growth.grows = false;
            }
        }
        growths
    }
}

/// Returns at most [`POINTS_MAX`] points, each the median of its neighbours.
fn thinned(series: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let chunk = series.len().div_ceil(POINTS_MAX);
    let middle = |points: &[(f64, f64)]| {
        let values: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
        Some((points[points.len() / 2].0, median(&values)?))
    };
    series.chunks(chunk).filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn growth(len: u32, value: impl Fn(f64) -> f64) -> Growth {
        let series: Vec<(f64, f64)> = (0..len).map(f64::from).map(|at| (at, value(at))).collect();
        Growth::of("rss_bytes", &series).unwrap()
    }

    #[test]
    fn what_grows_from_nothing_grows() {
        let queued = growth(1_800, |at| (at - 600.0).max(0.0) * 100.0);
        let once = growth(1_800, |at| if at < 900.0 { 0.0 } else { 0.000_1 });

        assert!(queued.plateau < 1.0 && queued.grows && !once.grows, "{queued:?} {once:?}");
    }

    /// Deterministic pseudo-noise.
    fn noise(at: f64) -> f64 {
        ((at * 12.9898).sin() * 43_758.545).fract() * MIB
    }

    #[test]
    fn a_plateau_with_noise_does_not_grow() {
        let level = growth(3_600, |at| 100.0 * MIB + noise(at));

        assert!(!level.grows && level.trend_p > 0.01, "{level:?}");
    }

    #[test]
    fn a_leak_of_a_kilobyte_a_second_is_seen_under_noise_of_a_megabyte() {
        // 14.4 MB in four hours, of 100 MiB: over a tenth.
        let leak = growth(3_600, |at| 100.0 * MIB + noise(at) + 1_024.0 * at);

        assert!(leak.grows && (leak.slope_per_s - 1_024.0).abs() < 50.0, "{leak:?}");
        assert!(leak.slope_low_per_s < 1_024.0 && 1_024.0 < leak.slope_high_per_s, "{leak:?}");
    }

    #[test]
    fn the_rise_to_the_plateau_is_cut_off() {
        let risen = growth(600, |at| (at.min(120.0) + 10.0) * MIB + noise(at));

        assert!(!risen.grows && risen.plateau_from_s >= 120.0, "{risen:?}");
    }

    #[test]
    fn a_trend_that_is_sure_and_small_is_no_growth() {
        // 10 bytes per second are 0.14 % of 100 MiB in four hours.
        let small = growth(3_600, |at| 100.0 * MIB + 10.0 * at);

        assert!(!small.grows && small.trend_p < 0.01, "{small:?}");
    }

    #[test]
    fn files_that_leak_until_they_cannot_be_counted_are_seen() {
        let sample = |at: u32| SoakSample {
            at_s: f64::from(at),
            fds: (at < 99).then(|| u64::from(10 * at + 15)),
            ..SoakSample::default()
        };

        let growths = Growth::all_of(&(0..100).map(sample).collect::<Vec<_>>());

        assert!(growths.iter().any(|growth| growth.name == "fds" && growth.grows), "{growths:?}");
        assert!(growths.iter().all(|growth| growth.name != "rss_bytes"), "{growths:?}");
    }

    #[test]
    fn pages_of_files_that_come_back_are_no_growth() {
        let sample = |own: Option<u64>| {
            move |at: u32| SoakSample {
                at_s: f64::from(at),
                rss_bytes: Some(1_000_000 + 1_000 * u64::from(at)),
                own_bytes: own.map(|slope| 1_000_000 + slope * u64::from(at)),
                ..SoakSample::default()
            }
        };
        let grows = |own: Option<u64>| -> Vec<String> {
            let growths = Growth::all_of(&(0..100).map(sample(own)).collect::<Vec<_>>());
            growths.into_iter().filter(|growth| growth.grows).map(|growth| growth.name).collect()
        };

        assert_eq!(grows(Some(0)), [""; 0]);
        assert_eq!(grows(Some(1_000)), ["own_bytes"]);
        assert_eq!(grows(None), ["rss_bytes"], "where the system does not tell them apart");
    }

    #[test]
    fn a_minute_without_samples_shows_nothing() {
        assert_eq!(Growth::of("fds", &[(0.0, 1.0); 29]), None);
    }
}
