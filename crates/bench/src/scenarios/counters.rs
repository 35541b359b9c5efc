//! Scenarios of counters: the seed's harness on real processes.

pub(crate) mod counter_micro;
pub(crate) mod counter_redb;
pub(crate) mod counter_sweep;
pub(crate) mod flags;
pub(crate) mod harness;
pub(crate) mod load;
pub(crate) mod oracle;
pub(crate) mod summary;
pub(crate) mod variants;
