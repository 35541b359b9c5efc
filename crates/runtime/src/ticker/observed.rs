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
    /// Unlike every other of its runtime; 0 for one that no runtime knows.
    pub id: u64,
    /// The process that it belongs to; `None` for one of a thread.
    pub pid: Option<Pid>,
    /// What the owner of one of a thread calls it.
    pub label: Option<Arc<str>>,
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
    /// The tickers that observers see: its own, and those of threads.
    pub tickers: u64,
    /// Tickers that there ever were: the id of the youngest.
    pub made_total: u64,
    /// Its priority in `SCHED_FIFO`, or why it has none; `None` if nobody asked.
    pub realtime: Option<Result<u8, String>>,
}

/// What the runtime keeps of a ticker to show it.
pub(super) struct Shown {
    pub(super) owner: Owner,
    pub(super) plan: Plan,
    pub(super) gauge: Arc<Gauge>,
}

/// Whose it is.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    Process(Pid),
    Thread(Option<Arc<str>>),
}

/// A ticker that observers see for as long as this lives.
pub(super) struct Seen {
    pub(super) id: u64,
    tickers: Arc<Tickers>,
}

impl Seen {
    pub(super) fn of(tickers: &Arc<Tickers>, shown: Shown) -> Self {
        let id = tickers.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        tickers.shown.lock().insert(id, shown);
        Self { id, tickers: Arc::clone(tickers) }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.tickers.shown.lock().remove(&self.id);
    }
}

/// Reads at most `most` tickers, the oldest first.
pub(crate) fn read_tickers(tickers: &Tickers, most: usize) -> Vec<TickerReport> {
    let shown = tickers.shown.lock();
    shown.iter().take(most).map(|(id, shown)| report(*id, &shown.owner, &shown.plan, &shown.gauge)).collect()
}

/// Reads the driver.
pub(crate) fn read_driver(tickers: &Tickers) -> TickerDriver {
    let realtime = tickers.realtime.lock().clone().map(|entered| entered.map(std::num::NonZeroU8::get));
    let made_total = tickers.last_id.load(Ordering::Relaxed);
    TickerDriver { tickers: tickers.shown.lock().len() as u64, made_total, realtime }
}

pub(super) fn report(id: u64, owner: &Owner, plan: &Plan, gauge: &Gauge) -> TickerReport {
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
        account: gauge.account(),
        spun_ns: gauge.spun_ns(),
        lateness: gauge.lateness(),
        realtime: None,
    }
}
