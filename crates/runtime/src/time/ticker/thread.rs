//! A ticker for a thread that waits without the driver.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::clock::{self, SLEEP_MIN_NS, Slack};
use super::driver::{Owner, TickerRecord};
use super::early_wake::EarlyWake;
use super::frequency::Frequency;
use super::governor::Governor;
use super::ledger::{Firings, Ledger, TickCounts};
use super::metrics::TickMetrics;
use super::observed::{TickerRegistration, TickerReport, report};
use super::options::{Epoch, Plan, Spin, TickerError, TickerOptions};
use crate::runtime::handle::Handle;
use crate::time::nanos;
use crate::time::realtime::Realtime;

/// A ticker of the thread that created it.
///
/// It sets the thread's timer slack, and its scheduling policy if requested, and restores both when it is dropped.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ticker::{Frequency, Ticker, TickerOptions};
///
/// let mut ticker = Ticker::new(Frequency::hz(10_000)?, TickerOptions::default())?;
/// for _ in 0..3 {
///     let firings = ticker.wait();
///     assert_eq!(firings.count, 1);
/// }
/// assert_eq!(ticker.report().account.fired, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ticker {
    plan: Plan,
    ledger: Ledger,
    epoch_ns: u64,
    /// Instant of the next tick, in nanoseconds.
    tick_ns: u64,
    /// Largest number of ticks that the fast path of a wait makes up for.
    catch_up_max: u64,
    governor: Governor,
    early_wake: EarlyWake,
    metrics: Arc<TickMetrics>,
    /// Registration with observers, and the label.
    registration: Option<(TickerRegistration, Owner)>,
    realtime: Option<Result<Realtime, String>>,
    _slack: Slack,
    /// Not `Send`: the settings that it has changed belong to this thread.
    _thread: PhantomData<*const ()>,
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Ticker {
    /// Creates a ticker for this thread.
    ///
    /// # Errors
    /// [`TickerError`] if options contradict each other.
    pub fn new(frequency: Frequency, options: TickerOptions) -> Result<Self, TickerError> {
        let plan = Plan::of(frequency, options)?;
        let slack = Slack::set(nanos(options.slack));
        let realtime = options.realtime.map(|priority| Realtime::enter(priority).map_err(|error| error.to_string()));
        let (ledger, epoch_ns) = plan.ledger(clock::now_ns());
        Ok(Self {
            metrics: Arc::new(TickMetrics::new(plan.measures())),
            registration: None,
            plan,
            catch_up_max: if options.spin == Spin::Governed { 0 } else { ledger.catch_up_max() },
            tick_ns: epoch_ns.saturating_add(ledger.next_ns()),
            ledger,
            epoch_ns,
            governor: Governor::new(plan.grid.period_ns()),
            early_wake: EarlyWake::of_thread(plan.grid.period_ns()),
            realtime,
            _slack: slack,
            _thread: PhantomData,
        })
    }

    /// Shows the ticker to the observers of a runtime, under this label. By default observers do not see it.
    #[must_use]
    pub fn observed_by(mut self, runtime: &Handle, label: &str) -> Self {
        let owner = Owner::Thread(Some(label.into()));
        let record = TickerRecord { owner: owner.clone(), plan: self.plan, metrics: Arc::clone(&self.metrics) };
        self.registration = Some((TickerRegistration::of(&runtime.shared.tickers, record), owner));
        self
    }

    /// Waits for the next batch; returns it at once if its time has passed and the policy does not drop it.
    #[inline]
    pub fn wait(&mut self) -> Firings {
        let now = clock::now_ns();
        // Fast path of a burst: a ticker that overruns at each wait should cost little more than a clock read.
        if let Some(late_ns) = now.checked_sub(self.tick_ns) {
            let (behind, ns) = self.ledger.grid().behind_even(late_ns);
            if behind <= self.catch_up_max {
                let firings = self.ledger.catch_up(behind, ns);
                self.tick_ns = self.tick_ns.saturating_add(ns);
                return self.measured(firings, late_ns);
            }
        }
        self.wait_for_tick(now)
    }

    #[inline]
    fn measured(&self, mut firings: Firings, late_ns: u64) -> Firings {
        if self.registration.is_some() {
            self.metrics.show(&self.ledger.account());
        }
        if self.plan.measures() {
            firings.late_ns = Some(late_ns);
            self.metrics.late(late_ns);
        }
        firings
    }

    #[inline(never)]
    fn wait_for_tick(&mut self, mut now: u64) -> Firings {
        if let Some(late_ns) = now.checked_sub(self.tick_ns) {
            if self.plan.options.spin == Spin::Governed {
                self.governor.overran(late_ns);
            }
            if let Some(firings) = self.take(late_ns, now, false) {
                return firings;
            }
        }
        loop {
            now = match self.sleep(now, self.tick_ns) {
                Some(ended) => ended,
                None if self.plan.measures() => clock::now_ns(),
                // The exact time is not needed: the tick has come, and the next wait finds all other due ticks.
                None => self.tick_ns,
            };
            let Some(late_ns) = now.checked_sub(self.tick_ns) else { continue };
            if self.ledger.grid().behind(late_ns) == 1 {
                let firings = self.ledger.take_waited();
                self.tick_ns = self.epoch_ns.saturating_add(self.ledger.next_ns());
                return self.measured(firings, late_ns);
            }
            if let Some(firings) = self.take(late_ns, now, true) {
                return firings;
            }
        }
    }

    /// Takes ticks by the policy; the first of them is late by `late_ns`.
    fn take(&mut self, late_ns: u64, now: u64, waited: bool) -> Option<Firings> {
        let (tick_ns, epoch_ns) = (self.tick_ns, self.epoch_ns);
        let due = self.ledger.grid().passed() + self.ledger.grid().behind(late_ns);
        let taken = self.ledger.take(due, waited, || now.saturating_sub(epoch_ns));
        self.tick_ns = epoch_ns.saturating_add(self.ledger.next_ns());
        let firings = taken?;
        let late_ns = now.saturating_sub(self.ledger.due_ns(&firings, tick_ns, epoch_ns));
        Some(self.measured(firings, late_ns))
    }

    /// Waits until a tick; returns the time if it read the clock.
    fn sleep(&mut self, now: u64, tick_ns: u64) -> Option<u64> {
        let spin_ns = match self.plan.options.spin {
            Spin::Off => None,
            Spin::Fixed(spin) => Some(nanos(spin)),
            Spin::Governed => Some(self.governor.spin_ns()).filter(|spin_ns| *spin_ns > 0),
        };
        let asleep_until = match spin_ns {
            None => self.early_wake.soon_before(tick_ns, now),
            Some(spin_ns) => tick_ns.saturating_sub(spin_ns),
        };
        let mut woken = now;
        if asleep_until > now + SLEEP_MIN_NS {
            clock::sleep_until(asleep_until);
            if self.plan.options.spin == Spin::Off && !self.plan.options.early_wake {
                return None;
            }
            woken = clock::now_ns();
            let late_ns = woken.saturating_sub(asleep_until);
            if self.plan.options.early_wake {
                self.early_wake.woke(if spin_ns.is_none() { self.early_wake.late(tick_ns, woken) } else { late_ns });
            }
            if self.plan.options.spin == Spin::Governed {
                self.governor.woke(late_ns);
            }
            if woken >= tick_ns {
                return Some(woken);
            }
        }
        let now = clock::spin_until(tick_ns, || false);
        self.metrics.spun(now - woken);
        if self.plan.options.spin == Spin::Governed {
            self.governor.overran(now.saturating_sub(tick_ns));
        }
        Some(now)
    }

    /// Returns the instant from which its periods are counted, without slips.
    pub const fn epoch(&self) -> Epoch {
        Epoch(self.epoch_ns)
    }

    /// Returns the counts of all firings that have been due.
    #[inline]
    pub const fn account(&self) -> TickCounts {
        self.ledger.account()
    }

    /// Returns a report for observers.
    pub fn report(&self) -> TickerReport {
        // A ticker without observers does not update its metrics at each wait.
        self.metrics.show(&self.ledger.account());
        let realtime = self.realtime.as_ref().map(|entered| entered.as_ref().err().cloned().map_or(Ok(()), Err));
        let unseen = (0, &Owner::Thread(None));
        let (id, owner) = self.registration.as_ref().map_or(unseen, |(registration, owner)| (registration.id, owner));
        TickerReport { realtime, ..report(id, owner, &self.plan, &self.metrics) }
    }
}
