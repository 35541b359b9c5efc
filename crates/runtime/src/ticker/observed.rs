//! Tickers as observers see them. What is read here is counted anyway; nobody pays for not being looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::driver::Tickers;
use super::gauge::{Gauge, Lateness};
use super::ledger::Account;
use super::{Frequency, Overrun, Plan, Spin};
use crate::pid::Pid;

/// A ticker, and what it has done so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickerReport {
    /// Unlike every other of its runtime; 0 for one of a thread.
    pub id: u64,
    /// The process that it belongs to; `None` for one of a thread.
    pub pid: Option<Pid>,
    /// Firings a second.
    pub frequency: Frequency,
    /// Firings of one tick: K.
    pub batch: u64,
    /// What becomes of ticks whose time had passed.
    pub overrun: Overrun,
    /// Spinning before a tick.
    pub spin: Spin,
    /// Every firing that was due.
    pub account: Account,
    /// Nanoseconds spun before its ticks.
    pub spun_ns: u64,
    /// How late batches began; `None` if nobody measures.
    pub lateness: Option<Lateness>,
    /// What came of asking for `SCHED_FIFO`, for one of a thread; `None` if nobody asked.
    pub realtime: Option<Result<(), String>>,
}

/// The thread that wakes processes at their ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickerDriver {
    /// Its tickers.
    pub tickers: u64,
    /// Its priority in `SCHED_FIFO`, or why it has none; `None` if nobody asked.
    pub realtime: Option<Result<u8, String>>,
}

/// What the runtime keeps of a ticker to show it.
pub(super) struct Shown {
    pub(super) pid: Pid,
    pub(super) plan: Plan,
    pub(super) gauge: Arc<Gauge>,
}

impl Tickers {
    /// Shows a ticker to observers; gives its id.
    pub(super) fn show(&self, shown: Shown) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.shown.lock().insert(id, shown);
        id
    }

    pub(super) fn hide(&self, id: u64) {
        self.shown.lock().remove(&id);
    }
}

/// Reads at most `most` tickers, the oldest first.
pub(crate) fn read_tickers(tickers: &Tickers, most: usize) -> Vec<TickerReport> {
    let shown = tickers.shown.lock();
    shown.iter().take(most).map(|(id, shown)| report(*id, Some(shown.pid), &shown.plan, &shown.gauge)).collect()
}

/// Reads the driver.
pub(crate) fn read_driver(tickers: &Tickers) -> TickerDriver {
    let realtime = tickers.realtime.lock().clone().map(|entered| entered.map(std::num::NonZeroU8::get));
    TickerDriver { tickers: tickers.shown.lock().len() as u64, realtime }
}

pub(super) fn report(id: u64, pid: Option<Pid>, plan: &Plan, gauge: &Gauge) -> TickerReport {
    TickerReport {
        id,
        pid,
        frequency: plan.frequency,
        batch: plan.grid.batch(),
        overrun: plan.options.overrun,
        spin: plan.options.spin,
        account: gauge.account(),
        spun_ns: gauge.spun_ns(),
        lateness: gauge.lateness(),
        realtime: None,
    }
}
