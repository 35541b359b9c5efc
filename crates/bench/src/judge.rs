//! Draws conclusions from measurements: statistics, comparisons, limits, and growth over a long time.

pub(crate) mod anomalies;
pub(crate) mod backlog;
pub(crate) mod compare;
pub(crate) mod saturate;
pub(crate) mod scenario_system;
pub(crate) mod soak;
pub(crate) mod statistics;
pub(crate) mod sweep;
