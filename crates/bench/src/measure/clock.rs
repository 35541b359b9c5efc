//! Measures the cost of reading the clock on this machine. Reports show the cost of a read; the sampler uses the cost
//! of timing to choose which share of the operations is timed.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use crate::measure::meter::Meter;

const BATCHES: u32 = 8;
const READS: u32 = 256;

/// Cost of reading the clock, in nanoseconds: the minimum over several batches, so that preempted batches do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockCost {
    /// Cost of one read.
    pub(crate) read_ns: f64,
    /// Cost of timing one operation: two reads, and recording the difference in a histogram.
    pub(crate) timing_ns: f64,
}

impl ClockCost {
    /// Measures both costs in less than a millisecond.
    pub(crate) fn measure() -> Self {
        let mut recorder = Arc::new(Meter::new(1, 1, 1)).recorder();
        Self {
            read_ns: best(|| {
                black_box(Instant::now());
            }),
            timing_ns: best(|| {
                let stamp = recorder.begin();
                recorder.end(stamp);
            }),
        }
    }
}

/// Returns the time of one call, in nanoseconds: the mean of a batch, and the smallest one of all batches.
fn best(mut work: impl FnMut()) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        (0..READS).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_costs_more_than_one_read() {
        let cost = ClockCost::measure();

        assert!(cost.read_ns > 0.0 && cost.timing_ns > cost.read_ns, "{cost:?}");
    }
}
