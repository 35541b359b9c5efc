//! Scenarios of processes: start, messages, failure and waiting.

pub(crate) mod fan_in;
pub(crate) mod fault_recovery;
pub(crate) mod parked;
pub(crate) mod ping_pong;
pub(crate) mod spawn_storm;
