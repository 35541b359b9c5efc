//! Panels and other parts that several views show.

pub(crate) mod big_text;
pub(crate) mod causes;
pub(crate) mod chart;
pub(crate) mod cost;
pub(crate) mod detail;
pub(crate) mod latency;
pub(crate) mod lints;
pub(crate) mod memory;
pub(crate) mod process_rows;
pub(crate) mod query_field;
pub(crate) mod schedulers;
