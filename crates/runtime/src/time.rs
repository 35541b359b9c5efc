//! Time: timers of processes, tickers for exact periodic work, and real-time priorities of threads.

pub(crate) mod override_stack;
pub(crate) mod realtime;
pub mod ticker;
pub(crate) mod timers;
