//! Reports of tickers for observers. They read what is counted anyway, so tickers without observers cost nothing more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::driver::{Owner, TickerRecord, Tickers};
use super::frequency::Frequency;
use super::ledger::TickCounts;
use super::metrics::{Lateness, TickMetrics};
use super::options::{Overrun, Plan, Spin};
use crate::process::pid::Pid;

/// Report of a ticker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickerReport {
    /// Number of the ticker, unique within its runtime; 0 if no runtime shows it.
    pub id: u64,
    /// Process that it belongs to; `None` for the ticker of a thread.
    pub pid: Option<Pid>,
    /// Label of the ticker of a thread.
    pub label: Option<Arc<str>>,
    /// Number of firings per second.
    pub frequency: Frequency,
    /// Number of firings per tick: K.
    pub batch: u64,
    /// Handling of ticks that had passed before they were waited for.
    pub overrun: Overrun,
    /// Spinning before a tick.
    pub spin: Spin,
    /// Counts of all firings that were due.
    pub account: TickCounts,
    /// Time spent spinning before its ticks, in nanoseconds.
    pub spun_ns: u64,
    /// Lateness of its batches; `None` if it is not measured.
    pub lateness: Option<Lateness>,
    /// Outcome of the request for `SCHED_FIFO`, for the ticker of a thread; `None` without a request.
    pub realtime: Option<Result<(), String>>,
}

/// The thread that wakes processes at their ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickerDriver {
    /// Number of tickers that observers see: those of the driver, and those of threads.
    pub tickers: u64,
    /// Number of tickers ever created: the id of the newest.
    pub created_total: u64,
    /// Its priority in `SCHED_FIFO`, or the error of the request; `None` without a request.
    pub realtime: Option<Result<u8, String>>,
}

/// Registration of a ticker, which observers see until this is dropped.
pub(super) struct TickerRegistration {
    pub(super) id: u64,
    tickers: Arc<Tickers>,
}

impl TickerRegistration {
    pub(super) fn of(tickers: &Arc<Tickers>, record: TickerRecord) -> Self {
        let id = tickers.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        tickers.records.lock().insert(id, record);
        Self { id, tickers: Arc::clone(tickers) }
    }
}

impl Drop for TickerRegistration {
    fn drop(&mut self) {
        self.tickers.records.lock().remove(&self.id);
    }
}

/// Returns reports of at most `limit` tickers, the oldest first.
pub(crate) fn read_tickers(tickers: &Tickers, limit: usize) -> Vec<TickerReport> {
    let record = tickers.records.lock();
    record.iter().take(limit).map(|(id, record)| report(*id, &record.owner, &record.plan, &record.metrics)).collect()
}

/// Returns a report of the driver.
pub(crate) fn read_driver(tickers: &Tickers) -> TickerDriver {
    let realtime = tickers.realtime.lock().clone().map(|entered| entered.map(std::num::NonZeroU8::get));
    let created_total = tickers.last_id.load(Ordering::Relaxed);
    TickerDriver { tickers: tickers.records.lock().len() as u64, created_total, realtime }
}

pub(super) fn report(id: u64, owner: &Owner, plan: &Plan, metrics: &TickMetrics) -> TickerReport {
    let (pid, label) = match owner {
        Owner::Process(pid) => (Some(*pid), None),
        Owner::Thread(label) => (None, label.clone()),
    };
    TickerReport {
        id,
        pid,
        label,
        frequency: plan.frequency,
        batch: plan.grid.batch(),
        overrun: plan.options.overrun,
        spin: plan.options.spin,
        account: metrics.account(),
        spun_ns: metrics.spun_ns(),
        lateness: metrics.lateness(),
        realtime: None,
    }
}
