//! State of a subscription, behind its lock: decides which consumer receives a message and handles its outcome.
//!
//! ```text
//!   log ─ cursor ─▶ take ──▶ leased ──▶ acknowledged: done
//!                    ▲          └──▶ returned, expired, its consumer ended ─▶ waits for retry ─▶ ready ─┐
//!                    └──────────────────────────────────────────────────────────────────────────────────┘
//!                                                                └──▶ attempts exhausted: dead-letter topic
//! ```
//!
//! Invariant: every message that the cursor has passed is acknowledged, dead-lettered, or in flight. Never reads a
//! clock.

mod redelivery;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::process::pid::Pid;
use crate::time::timers::timer::CallRef;
use crate::topic::cursor::Cursor;
use crate::topic::journal::{DeliveryOutcome, Journal, SavedProgress};
use crate::topic::log::Log;
use crate::topic::message::Message;
use crate::topic::shared::TopicShared;
use crate::topic::subscription::config::{Lease, SubscriptionAccount, SubscriptionConfig};
use crate::topic::subscription::in_flight::{AckId, AckStatus, DeliveryState, InFlight};
use crate::topic::subscription::ordering_keys::OrderingKeys;
use crate::topic::subscription::timer_wheel::TimerWheel;

/// Outstanding messages of a consumer, and its waker while it waits.
#[derive(Default)]
pub(crate) struct ConsumerState {
    pub(crate) is_used: bool,
    pub(crate) leased: usize,
    pub(crate) bytes: usize,
    pub(crate) pid: Option<Pid>,
    pub(crate) waker: Option<Waker>,
    /// It was woken and has not polled since.
    pub(crate) woken: bool,
}

/// Counters that never decrease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) acked: u64,
    pub(crate) nacked: u64,
    pub(crate) expired: u64,
    pub(crate) delivered: u64,
    pub(crate) redelivered: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) dropped: u64,
}

/// State of a subscription: its cursor, its messages in flight, and its consumers.
pub(crate) struct SubscriptionState {
    pub(crate) config: SubscriptionConfig,
    /// Names of the topic and the subscription, for the attributes of dead letters.
    names: (Arc<str>, Arc<str>),
    dead_letters: Option<Weak<TopicShared>>,
    pub(crate) cursor: Cursor,
    start: u64,
    pub(crate) in_flight: InFlight,
    ready: VecDeque<u32>,
    pub(crate) keys: OrderingKeys,
    wheel: TimerWheel,
    /// Time for which the timer is set.
    armed_ns: Option<u64>,
    pub(crate) timer: Option<CallRef>,
    pub(crate) consumers: Vec<ConsumerState>,
    /// Waiting consumers, in order of arrival.
    waiting: VecDeque<u32>,
    batch: u64,
    rng_state: u64,
    pub(crate) totals: Totals,
    /// Number of dead letters lost because their topic ended before storing them.
    lost_dead_letters: Arc<AtomicU64>,
    pub(crate) deleted: bool,
    /// Stores the progress of the subscription; `None` for a topic in memory.
    journal: Option<Arc<dyn Journal>>,
    /// Positions after the cursor that were finished before the node was restarted.
    finished_before_restart: FxHashSet<u64>,
    /// Number of earlier attempts, for positions after the cursor.
    attempts_before_restart: FxHashMap<u64, u32>,
    /// Topics at which waiters must be woken once the lock is released.
    pub(crate) to_wake: Vec<Arc<TopicShared>>,
}

impl SubscriptionState {
    pub(crate) fn new(
        config: SubscriptionConfig,
        names: (Arc<str>, Arc<str>),
        dead_letters: Option<Weak<TopicShared>>,
        cursor: Cursor,
    ) -> Self {
        Self {
            rng_state: config.seed,
            start: cursor.position(),
            config,
            names,
            dead_letters,
            cursor,
            in_flight: InFlight::default(),
            ready: VecDeque::new(),
            keys: OrderingKeys::default(),
            wheel: TimerWheel::default(),
            armed_ns: None,
            timer: None,
            consumers: Vec::new(),
            waiting: VecDeque::new(),
            batch: 0,
            totals: Totals::default(),
            lost_dead_letters: Arc::default(),
            deleted: false,
            journal: None,
            finished_before_restart: FxHashSet::default(),
            attempts_before_restart: FxHashMap::default(),
            to_wake: Vec::new(),
        }
    }

    /// Stores the progress of the subscription from now on.
    pub(crate) fn attach_journal(&mut self, journal: Arc<dyn Journal>) {
        journal.begin(&self.names.1, self.cursor.position());
        self.journal = Some(journal);
    }

    /// Restores the progress from before the node ended; the cursor must be at the oldest message.
    pub(crate) fn resume(&mut self, journal: Arc<dyn Journal>, saved_progress: SavedProgress, log: &Log) {
        self.cursor.ready(log, &mut 0);
        self.cursor.skip_to(log, saved_progress.floor);
        self.start = saved_progress.start;
        self.totals.acked = saved_progress.acked();
        self.totals.dead_lettered = saved_progress.dead_lettered;
        self.finished_before_restart = saved_progress.done.into_iter().collect();
        self.attempts_before_restart = saved_progress.attempts.into_iter().collect();
        drop(saved_progress.hold);
        self.journal = Some(journal);
    }

    fn note(&self, position: u64, outcome: DeliveryOutcome) {
        if let Some(journal) = &self.journal {
            journal.note(&self.names.1, position, outcome);
        }
    }

    /// Leases messages to a consumer, as many as `most` and its credit allow.
    pub(crate) fn take(&mut self, log: &Log, consumer: u32, most: usize, now_ns: u64, out: &mut Vec<Lease>) {
        self.batch += 1;
        while out.len() < most {
            let Some(slot) = self.take_slot(log, consumer, now_ns) else { break };
            out.push(self.lease(slot, consumer, now_ns));
        }
    }

    /// Leases one message to a consumer.
    #[inline]
    pub(crate) fn take_one(&mut self, log: &Log, consumer: u32, now_ns: u64) -> Option<Lease> {
        self.batch += 1;
        let slot = self.take_slot(log, consumer, now_ns)?;
        Some(self.lease(slot, consumer, now_ns))
    }

    #[inline]
    fn take_slot(&mut self, log: &Log, consumer: u32, now_ns: u64) -> Option<u32> {
        loop {
            let slot = self.next_slot(log, consumer)?;
            // Its attempts may have been exhausted before the node was restarted.
            if self.journal.is_none() || !self.dead_letter_if_exhausted(slot, AckStatus::Revoked, now_ns) {
                return Some(slot);
            }
        }
    }

    #[inline]
    fn next_slot(&mut self, log: &Log, consumer: u32) -> Option<u32> {
        if self.deleted || !self.has_credit(consumer) {
            return None;
        }
        if !self.ready.is_empty() || self.keys.has_deliverable() {
            let again = self.keys.pop_deliverable(self.batch).or_else(|| self.ready.pop_front());
            if again.is_some() {
                return again;
            }
        }
        loop {
            if self.is_queue_full() || self.cursor.ready(log, &mut 0) == 0 {
                return None;
            }
            let (position, published_ns) = (self.cursor.position(), self.cursor.published_ns());
            let message = self.cursor.next().clone();
            if self.journal.is_some() && self.finished_before_restart.remove(&position) {
                continue;
            }
            let slot = self.in_flight.insert(message, position, published_ns);
            if !self.attempts_before_restart.is_empty() {
                self.in_flight.item_mut(slot).attempt = self.attempts_before_restart.remove(&position).unwrap_or(0);
            }
            if !self.config.ordered || self.may_deliver(slot) {
                return Some(slot);
            }
            self.in_flight.set_state(slot, DeliveryState::Queued);
        }
    }

    /// Returns true if a message just read may be delivered; false if it is queued behind others of its key.
    fn may_deliver(&mut self, slot: u32) -> bool {
        let item = self.in_flight.item(slot);
        let Some(name) = item.message.as_ref().and_then(Message::shared_key) else { return true };
        let (key, may) = self.keys.admit(name, self.batch, item.position, slot);
        self.in_flight.item_mut(slot).key = Some(key);
        may
    }

    fn has_credit(&self, consumer: u32) -> bool {
        let consumer_state = &self.consumers[consumer as usize];
        consumer_state.leased < self.config.outstanding_max && consumer_state.bytes < self.config.outstanding_max_bytes
    }

    /// Returns true if too many messages wait for a retry or behind others of their key to read more from the log.
    fn is_queue_full(&self) -> bool {
        self.in_flight.count(DeliveryState::Queued) + self.in_flight.count(DeliveryState::Delayed)
            >= self.config.queued_max
    }

    #[inline]
    fn lease(&mut self, slot: u32, consumer: u32, now_ns: u64) -> Lease {
        let deadline_ns = now_ns.saturating_add(self.config.ack_deadline.as_nanos() as u64);
        self.in_flight.set_state(slot, DeliveryState::Leased);
        let item = self.in_flight.item_mut(slot);
        item.attempt += 1;
        item.consumer = consumer;
        item.since_ns = now_ns;
        item.deadline_ns = deadline_ns;
        let (attempt, position) = (item.attempt, item.position);
        // A lease revoked because of another message of its key does not count as an attempt, so check `was_delivered`
        // too.
        let is_again = attempt > 1 || std::mem::replace(&mut item.was_delivered, true);
        let message = self.in_flight.message(slot).clone();
        self.wheel.insert(slot, deadline_ns, now_ns);
        let consumer_state = &mut self.consumers[consumer as usize];
        consumer_state.leased += 1;
        consumer_state.bytes += message.bytes();
        self.totals.delivered += 1;
        self.totals.redelivered += u64::from(is_again);
        self.note(position, DeliveryOutcome::Attempted(attempt));
        Lease { id: self.in_flight.ack_id(slot), message, attempt, position }
    }

    /// Acknowledges a message; returns it, so that the caller can free it outside of the lock.
    #[inline]
    pub(crate) fn ack(&mut self, id: AckId) -> Result<Option<Message>, AckStatus> {
        let slot = self.in_flight.find_lease(id)?;
        self.end_lease(slot, AckStatus::AlreadyAcked);
        if let Some(key) = self.in_flight.item(slot).key {
            self.keys.finish(key, slot);
        }
        self.totals.acked += 1;
        self.note(self.in_flight.item(slot).position, DeliveryOutcome::Acked);
        let message = self.in_flight.release(slot);
        self.in_flight.shrink();
        Ok(message)
    }

    /// Returns a message for another attempt.
    pub(crate) fn nack(&mut self, id: AckId, now_ns: u64) -> AckStatus {
        match self.in_flight.find_lease(id) {
            Ok(slot) => {
                self.totals.nacked += 1;
                self.return_lease(slot, AckStatus::AlreadyNacked, true, now_ns);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    /// Returns a message that was not handled, without an attempt.
    pub(crate) fn give_back(&mut self, id: AckId, now_ns: u64) -> AckStatus {
        match self.in_flight.find_lease(id) {
            Ok(slot) => {
                let item = self.in_flight.item_mut(slot);
                item.attempt -= 1;
                let (position, attempt) = (item.position, item.attempt);
                self.note(position, DeliveryOutcome::Attempted(attempt));
                self.return_lease(slot, AckStatus::AlreadyNacked, false, now_ns);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    /// Changes the deadline of a lease.
    pub(crate) fn set_deadline(&mut self, id: AckId, deadline: impl FnOnce(u64) -> u64, now_ns: u64) -> AckStatus {
        match self.in_flight.find_lease(id) {
            Ok(slot) => {
                let item = self.in_flight.item_mut(slot);
                item.deadline_ns = deadline(item.deadline_ns);
                let deadline_ns = item.deadline_ns;
                self.wheel.remove(slot);
                self.wheel.insert(slot, deadline_ns, now_ns);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    #[inline]
    fn end_lease(&mut self, slot: u32, ended: AckStatus) {
        self.wheel.remove(slot);
        self.in_flight.end_lease(slot, ended);
        let bytes = self.in_flight.message(slot).bytes();
        let consumer_state = &mut self.consumers[self.in_flight.item(slot).consumer as usize];
        consumer_state.leased -= 1;
        consumer_state.bytes -= bytes;
    }

    /// Returns the time for which the timer must be set, if it must be set anew.
    #[inline]
    pub(crate) fn timer_deadline(&mut self) -> Option<u64> {
        let next_ns = self.wheel.next_ns()?;
        let sooner = self.armed_ns.is_none_or(|armed_ns| next_ns < armed_ns);
        sooner.then(|| *self.armed_ns.insert(next_ns))
    }

    /// Adds a consumer.
    pub(crate) fn add_consumer(&mut self, pid: Option<Pid>) -> u32 {
        let free = self.consumers.iter().position(|consumer_state| !consumer_state.is_used);
        let consumer_state = ConsumerState { is_used: true, pid, ..ConsumerState::default() };
        if let Some(index) = free {
            self.consumers[index] = consumer_state;
            index as u32
        } else {
            self.consumers.push(consumer_state);
            self.consumers.len() as u32 - 1
        }
    }

    /// Removes a consumer, and returns its leased messages at once.
    pub(crate) fn remove_consumer(&mut self, consumer: u32, now_ns: u64) {
        let owned = |item: &crate::topic::subscription::in_flight::Item| {
            item.state == DeliveryState::Leased && item.consumer == consumer
        };
        let mut leased: Vec<(u64, u32)> =
            self.in_flight.slots().filter(|(_, item)| owned(item)).map(|(slot, item)| (item.position, slot)).collect();
        leased.sort_unstable();
        for (_, slot) in leased {
            if self.in_flight.item(slot).state == DeliveryState::Leased {
                self.return_lease(slot, AckStatus::Revoked, false, now_ns);
            }
        }
        self.consumers[consumer as usize] = ConsumerState::default();
        self.waiting.retain(|waiting| *waiting != consumer);
    }

    /// Registers a waiting consumer.
    pub(crate) fn wait(&mut self, consumer: u32, waker: &Waker, pid: Option<Pid>) {
        let consumer_state = &mut self.consumers[consumer as usize];
        consumer_state.pid = pid;
        consumer_state.woken = false;
        if !consumer_state.waker.as_ref().is_some_and(|noted| noted.will_wake(waker)) {
            consumer_state.waker = Some(waker.clone());
        }
        if !self.waiting.contains(&consumer) {
            self.waiting.push_back(consumer);
        }
    }

    /// Returns true if a consumer waits and was not woken.
    pub(crate) fn has_waiting_consumer(&self) -> bool {
        !self.deleted && !self.waiting.is_empty()
    }

    /// Removes a consumer from those that wait.
    #[inline]
    pub(crate) fn stop_waiting(&mut self, consumer: u32) {
        self.consumers[consumer as usize].woken = false;
        if !self.waiting.is_empty() {
            self.waiting.retain(|waiting| *waiting != consumer);
        }
    }

    /// Returns the waker of a waiting consumer, if there is anything to deliver.
    #[inline]
    pub(crate) fn next_to_wake(&mut self, log: &Log) -> Option<Waker> {
        if self.waiting.is_empty() || !(self.has_work(log) || self.is_finished(log)) {
            return None;
        }
        let at = self.waiting.iter().position(|waiting| self.has_credit(*waiting))?;
        let consumer = self.waiting.remove(at)?;
        let consumer_state = &mut self.consumers[consumer as usize];
        consumer_state.woken = true;
        consumer_state.waker.clone()
    }

    fn has_work(&self, log: &Log) -> bool {
        !self.ready.is_empty() || self.keys.has_deliverable() || (self.unread(log) > 0 && !self.is_queue_full())
    }

    /// Returns true if no message will ever be delivered again.
    pub(crate) fn is_finished(&self, log: &Log) -> bool {
        let is_drained = || self.in_flight.len() == 0 && self.unread(log) == 0;
        // Check again after seeing `closed`: messages published before the close are visible now.
        self.deleted || (is_drained() && log.is_closed() && is_drained())
    }

    /// Number of messages in the log that the cursor has not passed.
    pub(crate) fn unread(&self, log: &Log) -> u64 {
        log.head().saturating_sub(self.cursor.position())
    }

    /// Drops and counts all unfinished messages.
    pub(crate) fn clear(&mut self, log: &Log) {
        self.deleted = true;
        if let Some(journal) = self.journal.take() {
            journal.end(&self.names.1);
        }
        self.totals.dropped +=
            self.in_flight.len() as u64 + self.unread(log) - self.finished_before_restart.len() as u64;
        let slots: Vec<u32> = self.in_flight.slots().map(|(slot, _)| slot).collect();
        for slot in slots {
            if self.in_flight.item(slot).state == DeliveryState::Leased {
                self.in_flight.end_lease(slot, AckStatus::Revoked);
            }
            self.wheel.remove(slot);
            drop(self.in_flight.release(slot));
        }
        self.ready.clear();
        self.keys = OrderingKeys::default();
        for consumer_state in &mut self.consumers {
            (consumer_state.leased, consumer_state.bytes) = (0, 0);
        }
    }

    /// Returns what happened to the messages published since the subscription began.
    pub(crate) fn account(&self, log: &Log) -> SubscriptionAccount {
        let Totals { acked, dead_lettered, dropped, .. } = self.totals;
        let lost = self.lost_dead_letters.load(Ordering::Relaxed);
        let (dead_lettered, dropped) = (dead_lettered - lost, dropped + lost);
        let outstanding = self.in_flight.count(DeliveryState::Leased) as u64;
        let in_flight = self.in_flight.len() as u64 - outstanding;
        if self.deleted {
            return SubscriptionAccount {
                published: acked + dead_lettered + dropped,
                acked,
                dead_lettered,
                dropped,
                ..SubscriptionAccount::default()
            };
        }
        let head = log.head().max(self.cursor.position());
        let backlog = in_flight + (head - self.cursor.position()) - self.finished_before_restart.len() as u64;
        SubscriptionAccount { published: head - self.start, acked, outstanding, backlog, dead_lettered, dropped }
    }
}
