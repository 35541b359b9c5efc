//! What the programs of this package share: the median of their rounds, and the CPU time of the process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the median of the figures, of which there is at least one: for an even number, the mean of the middle two.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
}

/// Returns the CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Like [`cpu_time`], in nanoseconds.
pub fn cpu_ns() -> f64 {
    cpu_time().as_nanos() as f64
}
