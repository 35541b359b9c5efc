//! Scenarios of timers and tickers, and the tools that they share.

pub(crate) mod cyclictest;
pub(crate) mod ticking;
pub(crate) mod timer_empty;
pub(crate) mod timer_firing;
pub(crate) mod timer_jitter;
pub(crate) mod timer_kfactor;
pub(crate) mod timer_path;
pub(crate) mod timer_share;
pub(crate) mod timer_start;
pub(crate) mod timer_sweep;
pub(crate) mod timer_switch;
pub(crate) mod timer_tasks;
