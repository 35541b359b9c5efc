//! Tickers of processes: `every`, and the ticker that it uses.

use std::fmt;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use super::driver::{Entry, Owner, TickerRecord, Tickers};
use super::frequency::Frequency;
use super::governor::Governor;
use super::ledger::{Firings, Ledger, TickCounts};
use super::metrics::TickMetrics;
use super::observed::{TickerRegistration, TickerReport, report};
use super::options::{Epoch, Overrun, Plan, TickerError, TickerOptions};
use super::wake_signal::WakeSignal;
use crate::process::context::Context;
use crate::process::header::WAIT_SLEEP;
use crate::runtime::handle::Handle;
use crate::scheduler::{self, Local};
use crate::time::nanos;

impl Context {
    /// Calls `each` with the due firings, repeatedly, until it breaks; returns the value of the break.
    ///
    /// The driver wakes the process at each tick; see [`ticker`](crate::time::ticker) and [`TickerOptions`]. Code that
    /// awaits between two batches uses [`ticker`](Self::ticker) instead.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # use rusm::{Config, Runtime};
    /// use std::ops::ControlFlow;
    /// use rusm::ticker::{Frequency, TickerOptions};
    ///
    /// # let runtime = Runtime::start(Config::default())?;
    /// let pid = runtime.spawn(|ctx| async move {
    ///     let frequency = Frequency::hz(1_000).expect("a whole number of hertz below a billion");
    ///     let mut fired = 0;
    ///     let sum = ctx.every(frequency, TickerOptions::default(), |firings| {
    ///         fired += firings.count;
    ///         if fired < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(fired) }
    ///     });
    ///     assert_eq!(sum.await.expect("these options go together"), 5);
    /// })?;
    /// # assert_eq!(runtime.wait(pid), rusm::ExitReason::Normal);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TickerError`] if options contradict each other, or if the system cannot create the driver's thread.
    pub async fn every<T>(
        &self,
        frequency: Frequency,
        options: TickerOptions,
        mut each: impl FnMut(Firings) -> ControlFlow<T>,
    ) -> Result<T, TickerError> {
        let mut ticker = self.ticker(frequency, options)?;
        loop {
            if let ControlFlow::Break(value) = each(ticker.next().await) {
                return Ok(value);
            }
        }
    }

    /// Creates a ticker of this process.
    ///
    /// # Errors
    /// [`TickerError`] if options contradict each other, for more than a million ticks a second, and if the system
    /// cannot create the driver's thread.
    pub fn ticker(&self, frequency: Frequency, options: TickerOptions) -> Result<ProcessTicker<'_>, TickerError> {
        let plan = Plan::of_process(frequency, options)?;
        let tickers = Arc::clone(&self.running().local.shared.tickers);
        let (ledger, epoch_ns) = plan.ledger(tickers.now_ns());
        let (wake_signal, metrics) = (Arc::new(WakeSignal::default()), Arc::new(TickMetrics::new(plan.measures())));
        wake_signal.lock().due = ledger.grid().passed();
        let entry = Entry {
            wake_signal: Arc::clone(&wake_signal),
            metrics: Some(Arc::clone(&metrics)),
            grid: *ledger.grid(),
            epoch_ns,
            slipped_ns: 0,
            spin: options.spin,
            governor: Governor::new(plan.grid.period_ns()),
            once: false,
        };
        tickers.drive(entry, options.realtime)?;
        let record = TickerRecord { owner: Owner::Process(self.pid()), plan, metrics: Arc::clone(&metrics) };
        let registration = TickerRegistration::of(&tickers, record);
        Ok(ProcessTicker {
            ctx: self,
            plan,
            ledger,
            epoch_ns,
            wake_signal,
            metrics,
            waited: false,
            registration,
            tickers,
        })
    }

    /// Waits for `delay`, with a precision of some microseconds, where [`sleep`](Self::sleep) has one of a millisecond.
    ///
    /// The driver of tickers wakes the process. Each call costs some microseconds of CPU time, so it is for short
    /// delays that must be precise. If the system cannot create the driver's thread, it is a `sleep`.
    pub async fn sleep_precise(&self, delay: Duration) {
        let tickers = Arc::clone(&self.running().local.shared.tickers);
        if !sleep_through_driver(tickers, delay).await {
            self.sleep(delay).await;
        }
    }
}

/// Makes the driver of tickers wake the running process after `delay`; returns false at once if it cannot.
pub(crate) async fn sleep_through_driver(tickers: Arc<Tickers>, delay: Duration) -> bool {
    let Ok(frequency) = Frequency::of_period(delay) else {
        // The delay is zero or over a year.
        return false;
    };
    let plan = Plan { frequency, options: TickerOptions::default(), grid: super::grid::Grid::new(frequency, 1) };
    let sleep = Sleep { wake_signal: Arc::new(WakeSignal::default()), tickers };
    let entry = Entry {
        wake_signal: Arc::clone(&sleep.wake_signal),
        metrics: None,
        grid: plan.grid,
        epoch_ns: sleep.tickers.now_ns(),
        slipped_ns: 0,
        spin: plan.options.spin,
        governor: Governor::new(plan.grid.period_ns()),
        once: true,
    };
    if sleep.tickers.drive(entry, None).is_err() {
        return false;
    }
    poll_fn(|cx| {
        let mut state = sleep.wake_signal.lock();
        if state.due > 0 {
            return Poll::Ready(());
        }
        state.wait(cx.waker());
        if let Some(running) = scheduler::local().and_then(Local::running) {
            running.record_wait(WAIT_SLEEP);
        }
        Poll::Pending
    })
    .await;
    true
}

impl Handle {
    /// Returns the instant after `delay`, at which tickers can start in phase; see [`Start::At`](super::Start::At).
    pub fn epoch_after(&self, delay: Duration) -> Epoch {
        Epoch(self.shared.tickers.now_ns().saturating_add(nanos(delay)))
    }
}

/// A sleep. Dropping it tells the driver that no process waits for it any more.
struct Sleep {
    wake_signal: Arc<WakeSignal>,
    tickers: Arc<Tickers>,
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.wake_signal.lock();
        state.end();
        if state.due == 0 {
            self.tickers.count_ended();
        }
    }
}

/// A ticker of a process; see [`Context::ticker`].
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ticker::{Frequency, TickerOptions};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let mut ticker = ctx.ticker(Frequency::hz(1_000)?, TickerOptions::default())?;
///     let mut fired = 0;
///     while fired < 5 {
///         fired += ticker.next().await.count;
///     }
///     assert!(ticker.account().fired >= 5);
///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct ProcessTicker<'a> {
    ctx: &'a Context,
    plan: Plan,
    ledger: Ledger,
    epoch_ns: u64,
    wake_signal: Arc<WakeSignal>,
    metrics: Arc<TickMetrics>,
    /// True if the next tick was waited for.
    waited: bool,
    registration: TickerRegistration,
    tickers: Arc<Tickers>,
}

impl fmt::Debug for ProcessTicker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessTicker").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl ProcessTicker<'_> {
    /// Waits for the next batch; returns it at once if its time has passed and the policy does not drop it.
    ///
    /// Dropping the future takes no tick. A tick that comes before the next call was not waited for: the policy applies
    /// to it.
    pub async fn next(&mut self) -> Firings {
        let wait = TickWait(self);
        poll_fn(|cx| wait.0.poll(cx)).await
    }

    fn poll(&mut self, cx: &TaskContext<'_>) -> Poll<Firings> {
        let running = self.ctx.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        // Otherwise a ticker that never catches up would occupy its scheduler.
        if !running.consume_budget(cx) {
            return Poll::Pending;
        }
        loop {
            let mut state = self.wake_signal.lock();
            if !self.ledger.is_behind(state.due) {
                state.wait(cx.waker());
                self.waited = true;
                running.record_wait(WAIT_SLEEP);
                return Poll::Pending;
            }
            let due = state.due;
            drop(state);
            if let Some(firings) = self.take(due) {
                return Poll::Ready(firings);
            }
        }
    }

    fn take(&mut self, due: u64) -> Option<Firings> {
        let tick_ns = self.epoch_ns.saturating_add(self.ledger.next_ns());
        let mut now_ns = self.plan.measures().then(|| self.tickers.now_ns());
        let waited = std::mem::take(&mut self.waited);
        let slipped_ns = self.ledger.account().slipped_ns;
        let (tickers, epoch_ns) = (&self.tickers, self.epoch_ns);
        let taken =
            self.ledger.take(due, waited, || now_ns.get_or_insert_with(|| tickers.now_ns()).saturating_sub(epoch_ns));
        self.metrics.show(&self.ledger.account());
        if self.plan.options.overrun == Overrun::Slip && self.ledger.account().slipped_ns > slipped_ns {
            let mut state = self.wake_signal.lock();
            state.slipped_ns = self.ledger.account().slipped_ns;
            state.due = self.ledger.grid().passed();
        }
        let mut firings = taken?;
        if let Some(now_ns) = now_ns.filter(|_| self.plan.measures()) {
            let late_ns = now_ns.saturating_sub(self.ledger.due_ns(&firings, tick_ns, self.epoch_ns));
            firings.late_ns = Some(late_ns);
            self.metrics.late(late_ns);
        }
        Some(firings)
    }

    /// Returns the instant from which its periods are counted, without slips.
    pub const fn epoch(&self) -> Epoch {
        Epoch(self.epoch_ns)
    }

    /// Returns the counts of all firings that have been due.
    pub const fn account(&self) -> TickCounts {
        self.ledger.account()
    }

    /// Returns a report for observers.
    pub fn report(&self) -> TickerReport {
        report(self.registration.id, &Owner::Process(self.ctx.pid()), &self.plan, &self.metrics)
    }
}

/// A wait for a tick. If it is dropped before the tick has come, the tick was not waited for.
struct TickWait<'a, 'b>(&'a mut ProcessTicker<'b>);

impl Drop for TickWait<'_, '_> {
    fn drop(&mut self) {
        if self.0.waited {
            self.0.waited = self.0.ledger.is_behind(self.0.wake_signal.lock().due);
        }
    }
}

impl Drop for ProcessTicker<'_> {
    fn drop(&mut self) {
        self.wake_signal.lock().end();
        self.tickers.count_ended();
    }
}
