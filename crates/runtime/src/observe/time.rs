//! Timers and tickers.

use crate::runtime::handle::Handle;
use crate::time::ticker::{self, TickerDriver, TickerReport};
use crate::time::timers::timer::TimerCounters;

/// Reads the counters of the runtime's timers.
pub fn timers(runtime: &Handle) -> TimerCounters {
    runtime.shared.timers.counters()
}

/// Returns the oldest `limit` tickers: of processes, and of threads with
/// [`observed_by`](crate::time::ticker::Ticker::observed_by).
pub fn tickers(runtime: &Handle, limit: usize) -> Vec<TickerReport> {
    ticker::read_tickers(&runtime.shared.tickers, limit)
}

/// Reads the state of the thread that wakes processes at their ticks.
pub fn ticker_driver(runtime: &Handle) -> TickerDriver {
    ticker::read_driver(&runtime.shared.tickers)
}
