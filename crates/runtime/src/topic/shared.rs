//! What all handles of one topic share.

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

/// See the module.
pub(crate) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) log: Log,
    /// Longest payload, in bytes.
    pub(super) payload_max: usize,
    runtime: Weak<runtime::Shared>,
    /// Whoever keeps what is published beyond the end of the node.
    pub(super) journal: Option<Arc<dyn Journal>>,
    seats: Mutex<FxHashMap<u64, Arc<Seat>>>,
    pub(super) subscriptions: Mutex<BTreeMap<Arc<str>, Arc<Inner>>>,
    next_seat: AtomicU64,
    /// What subscribers lost that are gone.
    pub(super) dropped_before: AtomicU64,
    /// Times that a publisher found no room.
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

    /// Nanoseconds of the runtime; 0 once it is gone.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.runtime.upgrade().map_or(0, |runtime| runtime.now_ns())
    }

    /// Calls back at an instant, unless the runtime is gone.
    pub(super) fn call_at(&self, at_ns: u64, call: impl FnOnce() + Send + 'static) -> Option<CallRef> {
        self.runtime.upgrade().map(|runtime| runtime.call_at(at_ns, call))
    }

    /// Forgets a call that has not begun.
    pub(super) fn forget_call(&self, call: CallRef) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.forget_call(call);
        }
    }

    /// Appends messages until one is refused; gives the reason, and whether somebody is to be woken.
    #[inline]
    pub(super) fn append(&self, messages: &mut impl Source) -> (Result<(), Refused>, bool) {
        let (outcome, wakes) = self.log.append(messages, || self.now_ns());
        if outcome == Err(Refused::Full) {
            self.full_total.fetch_add(1, Ordering::Relaxed);
        }
        (outcome, wakes)
    }

    /// Wakes everybody for whom there are messages.
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

    /// From now on subscriptions live for as long as somebody has a handle of one: they hold the topic in turn.
    pub(super) fn let_go_of_subscriptions(&self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        drop(subscriptions);
    }

    /// Looks at every subscriber.
    pub(super) fn each_seat(&self, mut look: impl FnMut(u64, &Seat)) {
        for (id, seat) in &*self.seats.lock() {
            look(*id, seat);
        }
    }

    pub(super) fn seat_count(&self) -> usize {
        self.seats.lock().len()
    }
}
