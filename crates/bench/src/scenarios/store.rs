//! Scenarios of the durable store.

pub(crate) mod dataset;
pub(crate) mod kv_storm;
pub(crate) mod kv_versus;
