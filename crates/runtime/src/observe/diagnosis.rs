//! What observers read to find the cause of a problem: queues of schedulers, waits of processes, and traces.

pub(crate) mod queues;
pub(crate) mod trace;
pub(crate) mod traces;
pub(crate) mod waits;
