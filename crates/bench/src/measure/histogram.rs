//! Distribution of a quantity in nanoseconds: a histogram with cells for a table.

use hdrhistogram::Histogram;

use crate::measure::latency::histogram;
use crate::report::table::Cell;

/// A histogram of nanoseconds with three exact digits.
#[derive(Clone, Debug)]
pub(crate) struct NanosHistogram(Histogram<u64>);

impl Default for NanosHistogram {
    fn default() -> Self {
        Self(histogram())
    }
}

impl NanosHistogram {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // This cannot fail: both histograms have the same bounds.
        self.0.add(&other.0).ok();
    }

    /// Returns the value at a percentile; `None` without values.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_percentile(percent) as f64)
    }

    /// Returns the percentage of values that are at least `ns`; `None` without values.
    pub(crate) fn pct_from(&self, ns: u64) -> Option<f64> {
        let from = |ns| self.0.count_between(ns, u64::MAX) as f64;
        (!self.0.is_empty()).then(|| from(ns) / self.0.len() as f64 * 100.0)
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    pub(crate) fn max(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64)
    }

    /// Returns mean, p50, p99, p99.9 and maximum.
    pub(crate) fn cells(&self) -> [Cell; 5] {
        [
            self.mean().into(),
            self.percentile(50.0).into(),
            self.percentile(99.0).into(),
            self.percentile(99.9).into(),
            self.max().into(),
        ]
    }
}
