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

mod returns;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cursor::Cursor;
use super::hand::{AckId, AckStatus, Hand, Stage};
use super::journal::{Fate, Journal, Resumed};
use super::keys::Keys;
use super::log::Log;
use super::message::Message;
use super::shared::Shared;
use super::subscription::{Account, Lease, SubscriptionConfig};
use super::wheel::Wheel;
use crate::pid::Pid;
use crate::timers::CallRef;

/// Outstanding messages of a consumer, and its waker while it waits.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) taken: bool,
    pub(super) leased: usize,
    pub(super) bytes: usize,
    pub(super) pid: Option<Pid>,
    pub(super) waker: Option<Waker>,
    /// It was woken and has not polled since.
    pub(super) woken: bool,
}

/// Counters that never decrease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) acked: u64,
    pub(super) nacked: u64,
    pub(super) expired: u64,
    pub(super) delivered: u64,
    pub(super) redelivered: u64,
    pub(super) dead_lettered: u64,
    pub(super) dropped: u64,
}

/// State of a subscription: its cursor, its messages in flight, and its consumers.
pub(super) struct Desk {
    pub(super) config: SubscriptionConfig,
    /// Names of the topic and the subscription, for the attributes of dead letters.
    names: (Arc<str>, Arc<str>),
    dead_letters: Option<Weak<Shared>>,
    pub(super) cursor: Cursor,
    start: u64,
    pub(super) hand: Hand,
    ready: VecDeque<u32>,
    pub(super) keys: Keys,
    wheel: Wheel,
    /// Time for which the timer is set.
    armed_ns: Option<u64>,
    pub(super) call: Option<CallRef>,
    pub(super) seats: Vec<Seat>,
    /// Waiting consumers, in order of arrival.
    waiting: VecDeque<u32>,
    batch: u64,
    chance: u64,
    pub(super) totals: Totals,
    /// Number of dead letters lost because their topic ended before storing them.
    lost_letters: Arc<AtomicU64>,
    pub(super) deleted: bool,
    /// Stores the progress of the subscription; `None` for a topic in memory.
    journal: Option<Arc<dyn Journal>>,
    /// Positions after the cursor that were finished before the node was restarted.
    done_before: FxHashSet<u64>,
    /// Number of earlier attempts, for positions after the cursor.
    tried_before: FxHashMap<u64, u32>,
    /// Topics at which sleepers must be woken once the lock is released.
    pub(super) to_wake: Vec<Arc<Shared>>,
}

impl Desk {
    pub(super) fn new(
        config: SubscriptionConfig,
        names: (Arc<str>, Arc<str>),
        dead_letters: Option<Weak<Shared>>,
        cursor: Cursor,
    ) -> Self {
        Self {
            chance: config.seed,
            start: cursor.position(),
            config,
            names,
            dead_letters,
            cursor,
            hand: Hand::default(),
            ready: VecDeque::new(),
            keys: Keys::default(),
            wheel: Wheel::default(),
            armed_ns: None,
            call: None,
            seats: Vec::new(),
            waiting: VecDeque::new(),
            batch: 0,
            totals: Totals::default(),
            lost_letters: Arc::default(),
            deleted: false,
            journal: None,
            done_before: FxHashSet::default(),
            tried_before: FxHashMap::default(),
            to_wake: Vec::new(),
        }
    }

    /// Stores the progress of the subscription from now on.
    pub(super) fn keep(&mut self, journal: Arc<dyn Journal>) {
        journal.begin(&self.names.1, self.cursor.position());
        self.journal = Some(journal);
    }

    /// Restores the progress from before the node ended; the cursor must be at the oldest message.
    pub(super) fn resume(&mut self, journal: Arc<dyn Journal>, resumed: Resumed, log: &Log) {
        self.cursor.ready(log, &mut 0);
        self.cursor.skip_to(log, resumed.floor);
        self.start = resumed.start;
        self.totals.acked = resumed.acked();
        self.totals.dead_lettered = resumed.dead_lettered;
        self.done_before = resumed.done.into_iter().collect();
        self.tried_before = resumed.tried.into_iter().collect();
        drop(resumed.hold);
        self.journal = Some(journal);
    }

    fn note(&self, position: u64, fate: Fate) {
        if let Some(journal) = &self.journal {
            journal.note(&self.names.1, position, fate);
        }
    }

    /// Leases messages to a consumer, as many as `most` and its credit allow.
    pub(super) fn take(&mut self, log: &Log, consumer: u32, most: usize, now_ns: u64, out: &mut Vec<Lease>) {
        self.batch += 1;
        while out.len() < most {
            let Some(slot) = self.take_slot(log, consumer, now_ns) else { break };
            out.push(self.lease(slot, consumer, now_ns));
        }
    }

    /// Leases one message to a consumer.
    #[inline]
    pub(super) fn take_one(&mut self, log: &Log, consumer: u32, now_ns: u64) -> Option<Lease> {
        self.batch += 1;
        let slot = self.take_slot(log, consumer, now_ns)?;
        Some(self.lease(slot, consumer, now_ns))
    }

    #[inline]
    fn take_slot(&mut self, log: &Log, consumer: u32, now_ns: u64) -> Option<u32> {
        loop {
            let slot = self.next_slot(log, consumer)?;
            // Its attempts may have been exhausted before the node was restarted.
            if self.journal.is_none() || !self.give_up(slot, AckStatus::Revoked, now_ns) {
                return Some(slot);
            }
        }
    }

    #[inline]
    fn next_slot(&mut self, log: &Log, consumer: u32) -> Option<u32> {
        if self.deleted || !self.has_credit(consumer) {
            return None;
        }
        if !self.ready.is_empty() || self.keys.has_open() {
            let again = self.keys.pop_open(self.batch).or_else(|| self.ready.pop_front());
            if again.is_some() {
                return again;
            }
        }
        loop {
            if self.is_crowded() || self.cursor.ready(log, &mut 0) == 0 {
                return None;
            }
            let (position, published_ns) = (self.cursor.position(), self.cursor.published_ns());
            let message = self.cursor.next().clone();
            if self.journal.is_some() && self.done_before.remove(&position) {
                continue;
            }
            let slot = self.hand.take_in(message, position, published_ns);
            if !self.tried_before.is_empty() {
                self.hand.item_mut(slot).attempt = self.tried_before.remove(&position).unwrap_or(0);
            }
            if !self.config.ordered || self.is_its_turn(slot) {
                return Some(slot);
            }
            self.hand.set_stage(slot, Stage::Queued);
        }
    }

    /// Returns true if a message just read may be delivered; false if it is queued behind others of its key.
    fn is_its_turn(&mut self, slot: u32) -> bool {
        let item = self.hand.item(slot);
        let Some(name) = item.message.as_ref().and_then(Message::shared_key) else { return true };
        let (key, may) = self.keys.admit(name, self.batch, item.position, slot);
        self.hand.item_mut(slot).key = Some(key);
        may
    }

    fn has_credit(&self, consumer: u32) -> bool {
        let seat = &self.seats[consumer as usize];
        seat.leased < self.config.outstanding_max && seat.bytes < self.config.outstanding_max_bytes
    }

    /// Returns true if too many messages wait for a retry or behind others of their key to read more from the log.
    fn is_crowded(&self) -> bool {
        self.hand.count(Stage::Queued) + self.hand.count(Stage::Resting) >= self.config.queued_max
    }

    #[inline]
    fn lease(&mut self, slot: u32, consumer: u32, now_ns: u64) -> Lease {
        let deadline_ns = now_ns.saturating_add(self.config.ack_deadline.as_nanos() as u64);
        self.hand.set_stage(slot, Stage::Leased);
        let item = self.hand.item_mut(slot);
        item.attempt += 1;
        item.consumer = consumer;
        item.since_ns = now_ns;
        item.deadline_ns = deadline_ns;
        let (attempt, position) = (item.attempt, item.position);
        // A lease revoked because of another message of its key does not count as an attempt, so check `was_out` too.
        let is_again = attempt > 1 || std::mem::replace(&mut item.was_out, true);
        let message = self.hand.message(slot).clone();
        self.wheel.insert(slot, deadline_ns, now_ns);
        let seat = &mut self.seats[consumer as usize];
        seat.leased += 1;
        seat.bytes += message.bytes();
        self.totals.delivered += 1;
        self.totals.redelivered += u64::from(is_again);
        self.note(position, Fate::Tried(attempt));
        Lease { id: self.hand.ack_id(slot), message, attempt, position }
    }

    /// Acknowledges a message; returns it, so that the caller can free it outside of the lock.
    #[inline]
    pub(super) fn ack(&mut self, id: AckId) -> Result<Option<Message>, AckStatus> {
        let slot = self.hand.leased(id)?;
        self.end_lease(slot, AckStatus::AlreadyAcked);
        if let Some(key) = self.hand.item(slot).key {
            self.keys.done(key, slot);
        }
        self.totals.acked += 1;
        self.note(self.hand.item(slot).position, Fate::Acked);
        let message = self.hand.release(slot);
        self.hand.shrink();
        Ok(message)
    }

    /// Returns a message for another attempt.
    pub(super) fn nack(&mut self, id: AckId, now_ns: u64) -> AckStatus {
        match self.hand.leased(id) {
            Ok(slot) => {
                self.totals.nacked += 1;
                self.give_back(slot, AckStatus::AlreadyNacked, true, now_ns);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    /// Changes the deadline of a lease.
    pub(super) fn set_deadline(&mut self, id: AckId, deadline: impl FnOnce(u64) -> u64, now_ns: u64) -> AckStatus {
        match self.hand.leased(id) {
            Ok(slot) => {
                let item = self.hand.item_mut(slot);
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
        self.hand.end_lease(slot, ended);
        let bytes = self.hand.message(slot).bytes();
        let seat = &mut self.seats[self.hand.item(slot).consumer as usize];
        seat.leased -= 1;
        seat.bytes -= bytes;
    }

    /// Returns the time for which the timer must be set, if it must be set anew.
    #[inline]
    pub(super) fn alarm(&mut self) -> Option<u64> {
        let next_ns = self.wheel.next_ns()?;
        let sooner = self.armed_ns.is_none_or(|armed_ns| next_ns < armed_ns);
        sooner.then(|| *self.armed_ns.insert(next_ns))
    }

    /// Adds a consumer.
    pub(super) fn sit(&mut self, pid: Option<Pid>) -> u32 {
        let free = self.seats.iter().position(|seat| !seat.taken);
        let seat = Seat { taken: true, pid, ..Seat::default() };
        if let Some(index) = free {
            self.seats[index] = seat;
            index as u32
        } else {
            self.seats.push(seat);
            self.seats.len() as u32 - 1
        }
    }

    /// Removes a consumer, and returns its leased messages at once.
    pub(super) fn stand_up(&mut self, consumer: u32, now_ns: u64) {
        let owned = |item: &super::hand::Item| item.stage == Stage::Leased && item.consumer == consumer;
        let mut leased: Vec<(u64, u32)> =
            self.hand.slots().filter(|(_, item)| owned(item)).map(|(slot, item)| (item.position, slot)).collect();
        leased.sort_unstable();
        for (_, slot) in leased {
            if self.hand.item(slot).stage == Stage::Leased {
                self.give_back(slot, AckStatus::Revoked, false, now_ns);
            }
        }
        self.seats[consumer as usize] = Seat::default();
        self.waiting.retain(|waiting| *waiting != consumer);
    }

    /// Registers a waiting consumer.
    pub(super) fn wait(&mut self, consumer: u32, waker: &Waker, pid: Option<Pid>) {
        let seat = &mut self.seats[consumer as usize];
        seat.pid = pid;
        seat.woken = false;
        if !seat.waker.as_ref().is_some_and(|noted| noted.will_wake(waker)) {
            seat.waker = Some(waker.clone());
        }
        if !self.waiting.contains(&consumer) {
            self.waiting.push_back(consumer);
        }
    }

    /// Returns true if a consumer waits and was not woken.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.deleted && !self.waiting.is_empty()
    }

    /// Removes a consumer from those that wait.
    #[inline]
    pub(super) fn looks(&mut self, consumer: u32) {
        self.seats[consumer as usize].woken = false;
        if !self.waiting.is_empty() {
            self.waiting.retain(|waiting| *waiting != consumer);
        }
    }

    /// Returns the waker of a waiting consumer, if there is anything to deliver.
    #[inline]
    pub(super) fn next_to_wake(&mut self, log: &Log) -> Option<Waker> {
        if self.waiting.is_empty() || !(self.has_work(log) || self.is_over(log)) {
            return None;
        }
        let at = self.waiting.iter().position(|waiting| self.has_credit(*waiting))?;
        let consumer = self.waiting.remove(at)?;
        let seat = &mut self.seats[consumer as usize];
        seat.woken = true;
        seat.waker.clone()
    }

    fn has_work(&self, log: &Log) -> bool {
        !self.ready.is_empty() || self.keys.has_open() || (self.unread(log) > 0 && !self.is_crowded())
    }

    /// Returns true if no message will ever be delivered again.
    pub(super) fn is_over(&self, log: &Log) -> bool {
        let is_through = || self.hand.len() == 0 && self.unread(log) == 0;
        // Check again after seeing `closed`: messages published before the close are visible now.
        self.deleted || (is_through() && log.is_closed() && is_through())
    }

    /// Number of messages in the log that the cursor has not passed.
    pub(super) fn unread(&self, log: &Log) -> u64 {
        log.head().saturating_sub(self.cursor.position())
    }

    /// Drops and counts all unfinished messages.
    pub(super) fn clear(&mut self, log: &Log) {
        self.deleted = true;
        if let Some(journal) = self.journal.take() {
            journal.end(&self.names.1);
        }
        self.totals.dropped += self.hand.len() as u64 + self.unread(log) - self.done_before.len() as u64;
        let slots: Vec<u32> = self.hand.slots().map(|(slot, _)| slot).collect();
        for slot in slots {
            if self.hand.item(slot).stage == Stage::Leased {
                self.hand.end_lease(slot, AckStatus::Revoked);
            }
            self.wheel.remove(slot);
            drop(self.hand.release(slot));
        }
        self.ready.clear();
        self.keys = Keys::default();
        for seat in &mut self.seats {
            (seat.leased, seat.bytes) = (0, 0);
        }
    }

    /// Returns what happened to the messages published since the subscription began.
    pub(super) fn account(&self, log: &Log) -> Account {
        let Totals { acked, dead_lettered, dropped, .. } = self.totals;
        let lost = self.lost_letters.load(Ordering::Relaxed);
        let (dead_lettered, dropped) = (dead_lettered - lost, dropped + lost);
        let outstanding = self.hand.count(Stage::Leased) as u64;
        let in_hand = self.hand.len() as u64 - outstanding;
        if self.deleted {
            return Account {
                published: acked + dead_lettered + dropped,
                acked,
                dead_lettered,
                dropped,
                ..Account::default()
            };
        }
        let head = log.head().max(self.cursor.position());
        let backlog = in_hand + (head - self.cursor.position()) - self.done_before.len() as u64;
        Account { published: head - self.start, acked, outstanding, backlog, dead_lettered, dropped }
    }
}
