//! State that all handles of a topic share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::broadcast::Seat;
use super::journal::Journal;
use super::log::{Log, Refused, Source};
use super::subscription::Inner;
use crate::runtime;
use crate::timers::CallRef;

/// Shared state of a topic: its log, subscribers, subscriptions and counters.
pub(crate) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) log: Log,
    /// Maximum length of a payload, in bytes.
    pub(super) payload_max: usize,
    runtime: Weak<runtime::Shared>,
    /// Persists messages and progress; `None` for a topic in memory.
    pub(super) journal: Option<Arc<dyn Journal>>,
    seats: Mutex<FxHashMap<u64, Arc<Seat>>>,
    pub(super) subscriptions: Mutex<BTreeMap<Arc<str>, Arc<Inner>>>,
    next_seat: AtomicU64,
    /// Number of messages that dropped subscribers had missed.
    pub(super) dropped_before: AtomicU64,
    /// Number of publish attempts that found the topic full.
    pub(super) full_total: AtomicU64,
}

impl Shared {
    pub(super) fn new(name: Arc<str>, log: Log, payload_max: usize, runtime: Weak<runtime::Shared>) -> Self {
        Self {
            name,
            log,
            payload_max,
            runtime,
            journal: None,
            seats: Mutex::default(),
            subscriptions: Mutex::default(),
            next_seat: AtomicU64::new(0),
            dropped_before: AtomicU64::new(0),
            full_total: AtomicU64::new(0),
        }
    }

    /// Returns the runtime's clock in nanoseconds; 0 once the runtime is gone.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.runtime.upgrade().map_or(0, |runtime| runtime.now_ns())
    }

    /// Schedules a call at an instant, unless the runtime is gone.
    pub(super) fn call_at(&self, at_ns: u64, call: impl FnOnce() + Send + 'static) -> Option<CallRef> {
        self.runtime.upgrade().map(|runtime| runtime.call_at(at_ns, call))
    }

    /// Cancels a call that has not begun.
    pub(super) fn forget_call(&self, call: CallRef) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.forget_call(call);
        }
    }

    /// Appends messages until one is refused; returns the reason, and true if readers must be woken.
    #[inline]
    pub(super) fn append(&self, messages: &mut impl Source) -> (Result<(), Refused>, bool) {
        let (outcome, wakes) = self.log.append(messages, || self.now_ns());
        if outcome == Err(Refused::Full) {
            self.full_total.fetch_add(1, Ordering::Relaxed);
        }
        (outcome, wakes)
    }

    /// Wakes all readers that have messages.
    pub(crate) fn wake(&self) {
        for sleeper in self.log.take_woken() {
            sleeper.wake();
        }
    }

    pub(super) fn add_seat(&self, seat: &Arc<Seat>) -> u64 {
        let id = self.next_seat.fetch_add(1, Ordering::Relaxed);
        self.seats.lock().insert(id, Arc::clone(seat));
        id
    }

    pub(super) fn remove_seat(&self, id: u64) {
        let removed = self.seats.lock().remove(&id);
        if let Some(seat) = removed {
            self.dropped_before.fetch_add(seat.dropped(self.log.head()), Ordering::Relaxed);
        }
    }

    /// Drops the topic's references to its subscriptions. Subscriptions refer to the topic, so this breaks the
    /// reference cycle; from now on only their handles keep them alive.
    pub(super) fn let_go_of_subscriptions(&self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        drop(subscriptions);
    }

    /// Calls `look` for every subscriber.
    pub(super) fn each_seat(&self, mut look: impl FnMut(u64, &Seat)) {
        for (id, seat) in &*self.seats.lock() {
            look(*id, seat);
        }
    }

    pub(super) fn seat_count(&self) -> usize {
        self.seats.lock().len()
    }
}
