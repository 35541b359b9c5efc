//! Returned messages: they wait for a retry, are delivered again, or are dead-lettered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::SubscriptionState;
use crate::rng::splitmix64;
use crate::topic::journal::{DeliveryOutcome, Journal, JournalError};
use crate::topic::message::Message;
use crate::topic::retention::AppendError;
use crate::topic::shared::TopicShared;
use crate::topic::subscription::in_flight::{AckStatus, DeliveryState};
use crate::topic::subscription::ordering_keys::KeyId;

/// Retry delay of a dead letter while the dead-letter topic is full.
const DEAD_LETTER_RETRY_NS: u64 = 100_000_000;

impl SubscriptionState {
    /// Ends a lease without an acknowledgement.
    pub(super) fn return_lease(&mut self, slot: u32, ended: AckStatus, is_delayed: bool, now_ns: u64) {
        self.end_lease(slot, ended);
        let item = self.in_flight.item(slot);
        let attempt = item.attempt;
        let delay_ns = if is_delayed && !self.config.retry.longest.is_zero() {
            self.config.retry.delay(attempt, splitmix64(&mut self.rng_state)).as_nanos() as u64
        } else {
            0
        };
        if let Some(key) = self.in_flight.item(slot).key {
            return self.return_lease_in_order(key, slot, delay_ns, now_ns, ended);
        }
        if !self.dead_letter_if_exhausted(slot, ended, now_ns) {
            self.delay_retry(slot, delay_ns, now_ns);
        }
    }

    fn return_lease_in_order(&mut self, key: KeyId, slot: u32, delay_ns: u64, now_ns: u64, ended: AckStatus) {
        if let Some(delayed) = self.keys.delayed(key) {
            self.wheel.remove(delayed);
            self.in_flight.set_state(delayed, DeliveryState::Queued);
        }
        for after in self.keys.rewind(key, slot, delay_ns > 0) {
            self.end_lease(after, AckStatus::Revoked);
            // Does not count as an attempt: the message itself did not fail.
            let item = self.in_flight.item_mut(after);
            item.attempt -= 1;
            let (position, attempt) = (item.position, item.attempt);
            self.note(position, DeliveryOutcome::Attempted(attempt));
            self.in_flight.set_state(after, DeliveryState::Queued);
        }
        if !self.dead_letter_if_exhausted(slot, ended, now_ns) {
            self.delay_retry_in_order(slot, delay_ns, now_ns);
        }
    }

    fn delay_retry_in_order(&mut self, slot: u32, delay_ns: u64, now_ns: u64) {
        if delay_ns > 0 {
            self.in_flight.set_state(slot, DeliveryState::Delayed);
            self.wheel.insert(slot, now_ns + delay_ns, now_ns);
        } else {
            self.in_flight.set_state(slot, DeliveryState::Queued);
        }
    }

    fn delay_retry(&mut self, slot: u32, delay_ns: u64, now_ns: u64) {
        if delay_ns > 0 {
            self.in_flight.set_state(slot, DeliveryState::Delayed);
            self.wheel.insert(slot, now_ns + delay_ns, now_ns);
        } else {
            self.in_flight.set_state(slot, DeliveryState::Ready);
            self.ready.push_back(slot);
        }
    }

    /// Moves a message to the dead-letter topic; false if it has attempts left or cannot be moved.
    ///
    /// While the dead-letter topic is full, the message waits. If that topic is closed or too small, the message is
    /// retried as usual.
    pub(super) fn dead_letter_if_exhausted(&mut self, slot: u32, cause: AckStatus, now_ns: u64) -> bool {
        let Some(dead_letter) = &self.config.dead_letter else { return false };
        if self.in_flight.item(slot).attempt < dead_letter.attempts_max {
            return false;
        }
        let key = self.in_flight.item(slot).key;
        let outcome = self.publish_dead_letter(slot, cause);
        if outcome == DeadLetterOutcome::Impossible {
            return false;
        }
        if outcome == DeadLetterOutcome::Full {
            if let Some(key) = key {
                self.keys.rewind(key, slot, true);
            }
            self.in_flight.set_state(slot, DeliveryState::Delayed);
            self.wheel.insert(slot, now_ns + DEAD_LETTER_RETRY_NS, now_ns);
            return true;
        }
        if let Some(key) = key {
            self.keys.finish(key, slot);
        }
        self.totals.dead_lettered += 1;
        drop(self.in_flight.release(slot));
        true
    }

    fn publish_dead_letter(&mut self, slot: u32, cause: AckStatus) -> DeadLetterOutcome {
        let Some(topic) = self.dead_letters.as_ref().and_then(Weak::upgrade) else {
            return DeadLetterOutcome::Impossible;
        };
        let cause = match cause {
            AckStatus::Expired => "expired",
            AckStatus::Revoked => "consumer ended",
            _ => "nacked",
        };
        let message = self
            .in_flight
            .message(slot)
            .clone()
            .with_attribute("dead-letter-cause", cause)
            .with_attribute("dead-letter-attempts", self.in_flight.item(slot).attempt.to_string())
            .with_attribute("dead-letter-topic", &*self.names.0)
            .with_attribute("dead-letter-subscription", &*self.names.1);
        if message.bytes() > topic.log.limits().bytes {
            return DeadLetterOutcome::Impossible;
        }
        let position = self.in_flight.item(slot).position;
        if let Some(journal) = &topic.journal {
            let refused = topic.log.reject_reason(&message);
            if refused.is_some() || journal.is_queue_full() {
                return DeadLetterOutcome::of(refused.map_or(Err(AppendError::Full), Err));
            }
            let pending = PendingDeadLetter {
                topic: Arc::downgrade(&topic),
                source_journal: self.journal.clone(),
                name: Arc::clone(&self.names.1),
                position,
                lost: Arc::clone(&self.lost_dead_letters),
            };
            pending.send(VecDeque::from([message]));
            return DeadLetterOutcome::Published;
        }
        let (appended, wakes) = topic.append(&mut Some(message));
        if appended.is_ok() {
            self.note(position, DeliveryOutcome::DeadLettered);
        }
        if wakes {
            self.to_wake.push(topic);
        }
        DeadLetterOutcome::of(appended)
    }

    /// Handles the leases and retry delays that are due.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let mut due = Vec::new();
        self.wheel.advance(now_ns, |slot| due.push(slot));
        due.sort_by_key(|slot| self.in_flight.item(*slot).position);
        for slot in due {
            match self.in_flight.item(slot).state {
                // The return of an earlier message of the key in this loop may have ended the lease.
                DeliveryState::Leased => {
                    self.totals.expired += 1;
                    self.return_lease(slot, AckStatus::Expired, true, now_ns);
                }
                DeliveryState::Delayed => self.delay_elapsed(slot, now_ns),
                DeliveryState::Ready | DeliveryState::Queued | DeliveryState::Free => {}
            }
        }
        self.armed_ns = None;
    }

    fn delay_elapsed(&mut self, slot: u32, now_ns: u64) {
        let cause = self.in_flight.lease_end(slot);
        if self.dead_letter_if_exhausted(slot, cause, now_ns) {
            return;
        }
        if let Some(key) = self.in_flight.item(slot).key {
            self.in_flight.set_state(slot, DeliveryState::Queued);
            self.keys.delay_elapsed(key, slot);
        } else {
            self.in_flight.set_state(slot, DeliveryState::Ready);
            self.ready.push_back(slot);
        }
    }
}

/// Result of dead-lettering a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeadLetterOutcome {
    Published,
    /// The dead-letter topic is full now.
    Full,
    /// The dead-letter topic is closed or too small.
    Impossible,
}

impl DeadLetterOutcome {
    const fn of(outcome: Result<(), AppendError>) -> Self {
        match outcome {
            Ok(()) => Self::Published,
            Err(AppendError::Full | AppendError::Paused) => Self::Full,
            Err(AppendError::Closed) => Self::Impossible,
        }
    }
}

/// A dead letter on its way to a durable topic. It is marked as dead-lettered in its own topic once it is stored
/// there.
///
/// If the node or that topic ends first, the message is delivered again after a restart of the node.
struct PendingDeadLetter {
    topic: Weak<TopicShared>,
    source_journal: Option<Arc<dyn Journal>>,
    /// Subscription from which the message came.
    name: Arc<str>,
    position: u64,
    /// Counter of dead letters lost because that topic was gone.
    lost: Arc<AtomicU64>,
}

impl PendingDeadLetter {
    fn send(self, messages: VecDeque<Message>) {
        let topic = self.topic.upgrade();
        let Some(journal) = topic.as_ref().and_then(|topic| topic.journal.as_ref()) else { return self.count_lost() };
        let reply = move |left: VecDeque<Message>, outcome: Result<(), JournalError>| match outcome {
            Ok(()) => {
                if let Some(source_journal) = &self.source_journal {
                    source_journal.note(&self.name, self.position, DeliveryOutcome::DeadLettered);
                }
            }
            // The writer process of that topic pauses after a failure, so this does not spin.
            Err(JournalError::Failed(_)) => self.send(left),
            Err(JournalError::Closed | JournalError::Paused) => self.count_lost(),
        };
        journal.submit(messages, Box::new(reply));
    }

    /// Counts the message as lost: the dead-letter topic was closed meanwhile.
    fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}
