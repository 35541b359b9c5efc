//! Measures a run: counts and latencies, the pace of its operations, and the readings of clocks, CPU time and memory.
//!
//! ```text
//!   workers: schedule, pace, duty_cycle ──▶ meter, latency ──▶ sampler, every 100 ms ──▶ interval, histogram
//!                                                                 └ steady: end of the warm-up
//! ```
//!
//! `run/execution.rs` drives the sampler, and `report` shows the results. `allocations`, `clock`, `live_bytes` and
//! `usage` each read one quantity of the program or the system; `rng` makes runs repeatable.

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
