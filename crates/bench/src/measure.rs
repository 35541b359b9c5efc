//! Measures a run: counts and latencies, the pace of its operations, and the readings of clocks, CPU time and memory.

pub(crate) mod allocations;
pub(crate) mod clock;
pub(crate) mod duty_cycle;
pub(crate) mod histogram;
pub(crate) mod interval;
pub(crate) mod latency;
pub(crate) mod live_bytes;
pub(crate) mod meter;
pub(crate) mod pace;
pub(crate) mod rng;
pub(crate) mod sampler;
pub(crate) mod schedule;
pub(crate) mod steady;
pub(crate) mod usage;
