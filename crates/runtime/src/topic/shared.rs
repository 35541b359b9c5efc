//! State that all handles of a topic share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::broadcast::state::SubscriberState;
use super::journal::Journal;
use super::log::{Log, Source};
use super::retention::AppendError;
use super::subscription::SubscriptionInner;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::turn_end::TurnEnd;
use crate::time::timers::timer::CallRef;

/// Shared state of a topic: its log, subscribers, subscriptions and counters.
pub(crate) struct TopicShared {
    pub(super) name: Arc<str>,
    pub(super) log: Log,
    /// Maximum length of a payload, in bytes.
    pub(super) payload_max: usize,
    runtime: Weak<RuntimeShared>,
    /// Persists messages and progress; `None` for a topic in memory.
    pub(super) journal: Option<Arc<dyn Journal>>,
    subscribers: Mutex<FxHashMap<u64, Arc<SubscriberState>>>,
    pub(super) subscriptions: Mutex<BTreeMap<Arc<str>, Arc<SubscriptionInner>>>,
    next_subscriber: AtomicU64,
    /// Number of messages that dropped subscribers had missed.
    pub(super) dropped_by_removed: AtomicU64,
    /// Number of publish attempts that found the topic full.
    pub(super) full_total: AtomicU64,
}

impl TopicShared {
    pub(super) fn new(name: Arc<str>, log: Log, payload_max: usize, runtime: Weak<RuntimeShared>) -> Self {
        Self {
            name,
            log,
            payload_max,
            runtime,
            journal: None,
            subscribers: Mutex::default(),
            subscriptions: Mutex::default(),
            next_subscriber: AtomicU64::new(0),
            dropped_by_removed: AtomicU64::new(0),
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
    pub(super) fn cancel_call(&self, call: CallRef) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.cancel_call(call);
        }
    }

    /// Appends messages until one is refused; returns the reason, and true if readers must be woken.
    #[inline]
    pub(super) fn append(&self, messages: &mut impl Source) -> (Result<(), AppendError>, bool) {
        let (outcome, wakes) = self.log.append(messages, || self.now_ns());
        if outcome == Err(AppendError::Full) {
            self.full_total.fetch_add(1, Ordering::Relaxed);
        }
        (outcome, wakes)
    }

    /// Wakes all readers that have messages.
    pub(crate) fn wake(&self) {
        for waiter in self.log.take_woken() {
            waiter.wake();
        }
    }

    pub(super) fn add_subscriber(&self, subscriber: &Arc<SubscriberState>) -> u64 {
        let id = self.next_subscriber.fetch_add(1, Ordering::Relaxed);
        self.subscribers.lock().insert(id, Arc::clone(subscriber));
        id
    }

    pub(super) fn remove_subscriber(&self, id: u64) {
        let removed = self.subscribers.lock().remove(&id);
        if let Some(subscriber) = removed {
            self.dropped_by_removed.fetch_add(subscriber.dropped(self.log.head()), Ordering::Relaxed);
        }
    }

    /// Drops the topic's references to its subscriptions. Subscriptions refer to the topic, so this breaks the
    /// reference cycle; from now on only their handles keep them alive.
    pub(super) fn release_subscriptions(&self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        drop(subscriptions);
    }

    /// Calls `look` for every subscriber.
    pub(super) fn for_each_subscriber(&self, mut look: impl FnMut(u64, &SubscriberState)) {
        for (id, subscriber) in &*self.subscribers.lock() {
            look(*id, subscriber);
        }
    }

    pub(super) fn subscriber_count(&self) -> usize {
        self.subscribers.lock().len()
    }
}

impl TurnEnd for TopicShared {
    fn end_turn(&self, _: Option<usize>) {
        self.wake();
    }
}
