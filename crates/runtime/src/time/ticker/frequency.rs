//! Frequencies as exact ratios: 44,100 Hz and 3 Hz, for example, have no period in whole nanoseconds, so no frequency
//! is ever rounded to such a period.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// Highest frequency, in hertz: the clock has a resolution of a nanosecond.
pub const FREQUENCY_MAX_HZ: u64 = 1_000_000_000;
/// Longest period.
pub const PERIOD_MAX: Duration = Duration::from_hours(365 * 24);

const SECOND_NS: u64 = 1_000_000_000;
/// Largest numerator and denominator: their sums and products do not overflow in the grid.
const PART_MAX: u64 = 1 << 60;

/// A frequency: an exact ratio of whole numbers, in hertz.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
/// use rusm::ticker::Frequency;
///
/// assert_eq!(Frequency::ratio(2, 6)?, Frequency::of_period(Duration::from_secs(3))?);
/// assert_eq!(Frequency::hz(44_100)?.to_string(), "44.1 kHz");
/// assert_eq!(Frequency::hz(0).unwrap_err().to_string(), "frequency of 0/1 Hz never fires");
/// # Ok::<(), rusm::ticker::FrequencyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frequency {
    num: u64,
    den: u64,
}

/// Error returned for an invalid frequency; each variant holds the request, as a ratio in hertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrequencyError {
    /// A frequency or a denominator of 0, or a period of 0.
    #[error("frequency of {num}/{den} Hz never fires")]
    Zero {
        /// The numerator.
        num: u64,
        /// The denominator.
        den: u64,
    },
    /// More than a billion a second.
    #[error("frequency of {num}/{den} Hz is over {FREQUENCY_MAX_HZ} Hz")]
    TooFast {
        /// The numerator.
        num: u64,
        /// The denominator.
        den: u64,
    },
    /// Less than once a year.
    #[error("frequency of {num}/{den} Hz is less than once in {} days", PERIOD_MAX.as_secs() / 86_400)]
    TooSlow {
        /// The numerator.
        num: u64,
        /// The denominator.
        den: u64,
    },
    /// Numbers too large to compute with.
    #[error("frequency of {num}/{den} Hz has a numerator or denominator over 2^60")]
    TooFine {
        /// The numerator.
        num: u64,
        /// The denominator.
        den: u64,
    },
}

impl Frequency {
    /// Creates a frequency of a whole number of hertz.
    ///
    /// # Errors
    /// [`FrequencyError`] for 0 and for more than a billion.
    pub fn hz(hz: u64) -> Result<Self, FrequencyError> {
        Self::ratio(hz, 1)
    }

    /// Creates a frequency of `num` firings in `den` seconds.
    ///
    /// # Errors
    /// [`FrequencyError`] if one of them is 0, for more than a billion a second, for less than one a year, and if a
    /// part of the reduced ratio is over 2^60.
    pub fn ratio(num: u64, den: u64) -> Result<Self, FrequencyError> {
        if num == 0 || den == 0 {
            return Err(FrequencyError::Zero { num, den });
        }
        if u128::from(num) > u128::from(FREQUENCY_MAX_HZ) * u128::from(den) {
            return Err(FrequencyError::TooFast { num, den });
        }
        if u128::from(den) > u128::from(PERIOD_MAX.as_secs()) * u128::from(num) {
            return Err(FrequencyError::TooSlow { num, den });
        }
        let divisor = common_divisor(num, den);
        let reduced = Self { num: num / divisor, den: den / divisor };
        if reduced.num > PART_MAX || reduced.den > PART_MAX {
            return Err(FrequencyError::TooFine { num, den });
        }
        Ok(reduced)
    }

    /// Creates a frequency of one firing per `period`.
    ///
    /// # Errors
    /// [`FrequencyError`] for a period of 0 and for a period of over a year.
    pub fn of_period(period: Duration) -> Result<Self, FrequencyError> {
        let den = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Self::ratio(SECOND_NS, den)
    }

    /// Returns the frequency in hertz, to the precision of a float.
    pub fn as_hz(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Returns the period, rounded down to whole nanoseconds.
    pub fn period(self) -> Duration {
        Duration::from_nanos((u128::from(self.den) * u128::from(SECOND_NS) / u128::from(self.num)) as u64)
    }

    /// Returns the number of firings per tick, so that there are at most `tick_rate` ticks a second.
    pub(super) fn batch(self, tick_rate: Self) -> u64 {
        let firings = u128::from(self.num) * u128::from(tick_rate.den);
        firings.div_ceil(u128::from(self.den) * u128::from(tick_rate.num)).try_into().unwrap_or(u64::MAX)
    }

    /// Returns the period of `batch` firings in nanoseconds, as a numerator and a denominator.
    pub(super) fn period_of(self, batch: u64) -> (u128, u64) {
        (u128::from(self.den) * u128::from(SECOND_NS) * u128::from(batch), self.num)
    }
}

const fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hz = self.as_hz();
        let (value, unit) = match hz {
            hz if hz >= 1e9 => (hz / 1e9, "GHz"),
            hz if hz >= 1e6 => (hz / 1e6, "MHz"),
            hz if hz >= 1e3 => (hz / 1e3, "kHz"),
            _ if self.den == 1 => (hz, "Hz"),
            _ => return write!(f, "{}/{} Hz", self.num, self.den),
        };
        write!(f, "{} {unit}", (value * 1e3).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_its_number() {
        let refused = |num, den| Frequency::ratio(num, den).unwrap_err().to_string();

        assert_eq!(refused(1_000_000_001, 1), "frequency of 1000000001/1 Hz is over 1000000000 Hz");
        assert_eq!(refused(0, 1), "frequency of 0/1 Hz never fires");
        assert_eq!(Frequency::hz(0).unwrap_err().to_string(), "frequency of 0/1 Hz never fires");
        assert_eq!(refused(1, 0), "frequency of 1/0 Hz never fires");
        assert_eq!(refused(1, 40_000_000), "frequency of 1/40000000 Hz is less than once in 365 days");
        assert_eq!(
            refused((1 << 61) + 1, 1 << 61),
            format!("frequency of {}/{} Hz has a numerator or denominator over 2^60", (1_u64 << 61) + 1, 1_u64 << 61)
        );
        assert!(Frequency::of_period(Duration::ZERO).is_err());
        assert!(Frequency::of_period(Duration::MAX).is_err());
    }

    #[test]
    fn a_tick_stands_for_as_many_firings_as_keep_to_the_tick_rate() {
        let hz = |hz| Frequency::hz(hz).unwrap();

        assert_eq!(hz(100_000_000).batch(hz(10_000)), 10_000);
        assert_eq!(hz(44_100).batch(hz(10_000)), 5);
        assert_eq!(hz(1_000).batch(hz(1_000_000_000)), 1);
        assert_eq!(Frequency::ratio(1, 3).unwrap().batch(hz(1)), 1);
    }

    #[test]
    fn a_frequency_reads_well() {
        let shown = [(1_000_000_000, 1), (48_000, 1), (44_100, 1), (3, 1), (1, 3), (2_500_000, 1)]
            .map(|(num, den)| Frequency::ratio(num, den).unwrap().to_string());

        assert_eq!(shown, ["1 GHz", "48 kHz", "44.1 kHz", "3 Hz", "1/3 Hz", "2.5 MHz"]);
    }
}
