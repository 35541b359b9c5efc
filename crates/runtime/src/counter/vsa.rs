//! The vector-scalar accumulator: a counter that persists only its net change.
//!
//! ```text
//!   scalar S = opened at − committed        value in the store
//!   vector A = taken − committed            net change that is not stored yet, of either sign
//!   value    = S − A                        true value at any moment
//!
//!   update, try_consume, refund ──▶ stripes    in memory only
//!   flusher, every interval ──▶ due? ──▶ one commit for all that are due ──▶ committed += A
//! ```
//!
//! The true value is `opened at − taken`, which does not depend on `committed`: a commit can neither lose a unit nor
//! count one twice, provided that its outcome is known. If the outcome is unknown, because the store failed or the
//! flusher was killed during the commit, the value is read from the store before the next commit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::backend::{Backend, StripeSelector};
use super::commit_schedule::{CommitOptions, CommitOptionsError, CommitSchedule};
use super::store::{Change, CounterStore, CounterStoreError, Slot};
use super::stripes::Stripes;
use super::variant::{Admission, Counter};
use crate::time::ticker::clock;

/// A counter that persists only its net change; see [`counter`](crate::counter).
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{CommitOptions, Counters, MemoryStore, Vsa};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let stock = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), CommitOptions::balanced())?;
/// let seats = stock.counter("seats", 2)?;
/// assert!(seats.try_consume(2));
/// assert!(!seats.try_consume(1), "sold out");
/// assert_eq!(seats.refund(1), 1);
/// assert_eq!(seats.available(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Vsa {
    stripe_selector: StripeSelector,
    stripes: Stripes,
    slot: Slot,
    initial_value: i64,
    committed: AtomicI64,
    /// True while the outcome of the last commit is unknown.
    outcome_unknown: AtomicBool,
    schedule: Mutex<CommitSchedule>,
}

/// State of a counter at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VsaState {
    /// Value in the store.
    pub scalar: i64,
    /// Units taken since the last commit, minus the units given.
    pub vector: i64,
}

impl VsaState {
    /// Returns the true value.
    pub const fn value(&self) -> i64 {
        self.scalar.wrapping_sub(self.vector)
    }
}

impl fmt::Debug for Vsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vsa").field("slot", &self.slot).field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Vsa {
    pub(super) fn new(stripe_selector: StripeSelector, slot: Slot) -> Self {
        let initial_value = slot.value();
        Self {
            stripes: Stripes::new(stripe_selector.schedulers(), initial_value),
            stripe_selector,
            slot,
            initial_value,
            committed: AtomicI64::new(0),
            outcome_unknown: AtomicBool::new(false),
            schedule: Mutex::new(CommitSchedule::new(clock::now_ns())),
        }
    }

    /// Takes units unconditionally; negative units are given.
    #[inline]
    pub fn add(&self, units: i64) {
        self.stripes.update(self.stripe_selector.stripe(), units);
    }

    /// Takes units if they are available: all grants minus all refunds never exceed the units that existed.
    ///
    /// Units that [`add`](Self::add) takes are accounted for the next time that local credit runs out.
    #[inline]
    pub fn try_consume(&self, units: u64) -> bool {
        self.stripes.spend(self.stripe_selector.stripe(), units)
    }

    /// Gives back units that [`try_consume`](Self::try_consume) granted, at most as many; returns their number.
    #[inline]
    pub fn refund(&self, units: u64) -> u64 {
        self.stripes.refund(self.stripe_selector.stripe(), units)
    }

    /// Returns the available units: exact while no other thread takes or refunds, and off by such units otherwise.
    #[inline]
    pub fn available(&self) -> i64 {
        self.initial_value.wrapping_sub(self.stripes.taken())
    }

    /// Returns the stored value and the net change since.
    #[inline]
    pub fn state(&self) -> VsaState {
        let committed = self.committed.load(Ordering::Acquire);
        VsaState {
            scalar: self.initial_value.wrapping_sub(committed),
            vector: self.stripes.taken().wrapping_sub(committed),
        }
    }

    /// Returns the number of operations.
    pub fn operations(&self) -> u64 {
        self.stripes.totals().0
    }

    /// Returns the number of stripes that a reading sums up.
    pub fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// Returns the net change if it is due.
    fn due(&self, options: &CommitOptions, now_ns: u64, last: bool) -> Option<i64> {
        let (operations, taken) = self.stripes.totals();
        let net = taken.wrapping_sub(self.committed.load(Ordering::Relaxed));
        let due = self.schedule.lock().is_due(options, now_ns, operations, net);
        (due || last && net != 0).then_some(net)
    }

    /// Reads the value from the store if the outcome of the last commit is unknown.
    async fn reconcile<S: CounterStore>(&self, store: &S) -> Result<(), CounterStoreError> {
        if self.outcome_unknown.load(Ordering::Acquire) {
            let has = store.read(&self.slot).await?;
            self.committed.store(self.initial_value.wrapping_sub(has), Ordering::Release);
            self.outcome_unknown.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// Net changes in flight to the store. Their outcome is unknown if it is dropped without a call of `succeed`.
struct PendingCommit {
    counters: Vec<(Arc<Vsa>, i64)>,
    now_ns: u64,
}

impl PendingCommit {
    fn succeed(mut self) {
        for (counter, net) in self.counters.drain(..) {
            let committed = counter.committed.load(Ordering::Relaxed).wrapping_add(net);
            counter.committed.store(committed, Ordering::Release);
            let is_clean = counter.stripes.taken() == committed;
            counter.schedule.lock().committed(self.now_ns, is_clean);
        }
    }
}

impl Drop for PendingCommit {
    fn drop(&mut self) {
        for (counter, _) in &self.counters {
            counter.outcome_unknown.store(true, Ordering::Release);
            counter.schedule.lock().failed(self.now_ns);
        }
    }
}

impl<S: CounterStore> Counter<S> for Vsa {
    type Options = CommitOptions;
    type OptionsError = CommitOptionsError;

    fn check(options: &CommitOptions) -> Result<(), CommitOptionsError> {
        options.check()
    }

    fn open(backend: &Backend<S>, _: &CommitOptions, slot: Slot) -> Self {
        Self::new(backend.stripe_selector().clone(), slot)
    }

    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, CounterStoreError> {
        self.add(units);
        Ok(Admission::Granted)
    }

    fn value(&self) -> i64 {
        self.available()
    }

    fn interval(options: &CommitOptions) -> Option<Duration> {
        Some(options.interval)
    }

    async fn maintain(
        backend: &Backend<S>,
        options: &CommitOptions,
        counters: &[Arc<Self>],
        last: bool,
    ) -> Result<(), CounterStoreError> {
        for counter in counters {
            counter.reconcile(&**backend.store()).await?;
        }
        let now_ns = clock::now_ns();
        let due = |counter: &Arc<Self>| counter.due(options, now_ns, last).map(|net| (Arc::clone(counter), net));
        let pending = PendingCommit { counters: counters.iter().filter_map(due).collect(), now_ns };
        if pending.counters.is_empty() {
            return Ok(());
        }
        let change = |(counter, net): &(Arc<Self>, i64)| Change {
            slot: counter.slot.clone(),
            units: net.wrapping_neg(),
            events: 1,
        };
        backend.store().commit(pending.counters.iter().map(change).collect()).await?;
        pending.succeed();
        Ok(())
    }
}
