//! Returned messages: they wait for a retry, are delivered again, or are dead-lettered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::Desk;
use crate::topic::hand::{AckStatus, Stage};
use crate::topic::journal::{Fate, Journal, NotKept};
use crate::topic::keys::KeyId;
use crate::topic::log::Refused;
use crate::topic::message::Message;
use crate::topic::retry::next_chance;
use crate::topic::shared::Shared;

/// Retry delay of a dead letter while the dead-letter topic is full.
const CROWDED_NS: u64 = 100_000_000;

impl Desk {
    /// Ends a lease without an acknowledgement.
    pub(super) fn give_back(&mut self, slot: u32, ended: AckStatus, rests: bool, now_ns: u64) {
        self.end_lease(slot, ended);
        let item = self.hand.item(slot);
        let attempt = item.attempt;
        let rest_ns = if rests && !self.config.retry.limit.is_zero() {
            self.config.retry.delay(attempt, next_chance(&mut self.chance)).as_nanos() as u64
        } else {
            0
        };
        if let Some(key) = self.hand.item(slot).key {
            return self.give_back_in_order(key, slot, rest_ns, now_ns, ended);
        }
        if !self.give_up(slot, ended, now_ns) {
            self.rest(slot, rest_ns, now_ns);
        }
    }

    fn give_back_in_order(&mut self, key: KeyId, slot: u32, rest_ns: u64, now_ns: u64, ended: AckStatus) {
        if let Some(resting) = self.keys.resting(key) {
            self.wheel.remove(resting);
            self.hand.set_stage(resting, Stage::Queued);
        }
        for after in self.keys.rewind(key, slot, rest_ns > 0) {
            self.end_lease(after, AckStatus::Revoked);
            // Does not count as an attempt: the message itself did not fail.
            let item = self.hand.item_mut(after);
            item.attempt -= 1;
            let (position, attempt) = (item.position, item.attempt);
            self.note(position, Fate::Tried(attempt));
            self.hand.set_stage(after, Stage::Queued);
        }
        if !self.give_up(slot, ended, now_ns) {
            self.rest_in_order(slot, rest_ns, now_ns);
        }
    }

    fn rest_in_order(&mut self, slot: u32, rest_ns: u64, now_ns: u64) {
        if rest_ns > 0 {
            self.hand.set_stage(slot, Stage::Resting);
            self.wheel.insert(slot, now_ns + rest_ns, now_ns);
        } else {
            self.hand.set_stage(slot, Stage::Queued);
        }
    }

    fn rest(&mut self, slot: u32, rest_ns: u64, now_ns: u64) {
        if rest_ns > 0 {
            self.hand.set_stage(slot, Stage::Resting);
            self.wheel.insert(slot, now_ns + rest_ns, now_ns);
        } else {
            self.hand.set_stage(slot, Stage::Ready);
            self.ready.push_back(slot);
        }
    }

    /// Moves a message to the dead-letter topic; false if it has attempts left or cannot be moved.
    ///
    /// While the dead-letter topic is full, the message waits. If that topic is closed or too small, the message is
    /// retried as usual.
    pub(super) fn give_up(&mut self, slot: u32, cause: AckStatus, now_ns: u64) -> bool {
        let Some(dead_letter) = &self.config.dead_letter else { return false };
        if self.hand.item(slot).attempt < dead_letter.attempts_max {
            return false;
        }
        let key = self.hand.item(slot).key;
        let burial = self.bury(slot, cause);
        if burial == Burial::Never {
            return false;
        }
        if burial == Burial::Later {
            if let Some(key) = key {
                self.keys.rewind(key, slot, true);
            }
            self.hand.set_stage(slot, Stage::Resting);
            self.wheel.insert(slot, now_ns + CROWDED_NS, now_ns);
            return true;
        }
        if let Some(key) = key {
            self.keys.done(key, slot);
        }
        self.totals.dead_lettered += 1;
        drop(self.hand.release(slot));
        true
    }

    fn bury(&mut self, slot: u32, cause: AckStatus) -> Burial {
        let Some(topic) = self.dead_letters.as_ref().and_then(Weak::upgrade) else { return Burial::Never };
        let cause = match cause {
            AckStatus::Expired => "expired",
            AckStatus::Revoked => "consumer ended",
            _ => "nacked",
        };
        let message = self
            .hand
            .message(slot)
            .clone()
            .with_attribute("dead-letter-cause", cause)
            .with_attribute("dead-letter-attempts", self.hand.item(slot).attempt.to_string())
            .with_attribute("dead-letter-topic", &*self.names.0)
            .with_attribute("dead-letter-subscription", &*self.names.1);
        if message.bytes() > topic.log.rules().bytes {
            return Burial::Never;
        }
        let position = self.hand.item(slot).position;
        if let Some(journal) = &topic.journal {
            let refused = topic.log.refuses(&message);
            if refused.is_some() || journal.is_crowded() {
                return Burial::of(refused.map_or(Err(Refused::Full), Err));
            }
            let letter = Letter {
                topic: Arc::downgrade(&topic),
                own: self.journal.clone(),
                name: Arc::clone(&self.names.1),
                position,
                lost: Arc::clone(&self.lost_letters),
            };
            letter.send(VecDeque::from([message]));
            return Burial::Done;
        }
        let (appended, wakes) = topic.append(&mut Some(message));
        if appended.is_ok() {
            self.note(position, Fate::Buried);
        }
        if wakes {
            self.to_wake.push(topic);
        }
        Burial::of(appended)
    }

    /// Handles the leases and retry delays that are due.
    pub(in super::super) fn advance(&mut self, now_ns: u64) {
        let mut due = Vec::new();
        self.wheel.advance(now_ns, |slot| due.push(slot));
        due.sort_by_key(|slot| self.hand.item(*slot).position);
        for slot in due {
            match self.hand.item(slot).stage {
                // The return of an earlier message of the key in this loop may have ended the lease.
                Stage::Leased => {
                    self.totals.expired += 1;
                    self.give_back(slot, AckStatus::Expired, true, now_ns);
                }
                Stage::Resting => self.rested(slot, now_ns),
                Stage::Ready | Stage::Queued | Stage::Free => {}
            }
        }
        self.armed_ns = None;
    }

    fn rested(&mut self, slot: u32, now_ns: u64) {
        let cause = self.hand.cause(slot);
        if self.give_up(slot, cause, now_ns) {
            return;
        }
        if let Some(key) = self.hand.item(slot).key {
            self.hand.set_stage(slot, Stage::Queued);
            self.keys.rested(key, slot);
        } else {
            self.hand.set_stage(slot, Stage::Ready);
            self.ready.push_back(slot);
        }
    }
}

/// Result of dead-lettering a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Burial {
    Done,
    /// The dead-letter topic is full now.
    Later,
    /// The dead-letter topic is closed or too small.
    Never,
}

impl Burial {
    const fn of(outcome: Result<(), Refused>) -> Self {
        match outcome {
            Ok(()) => Self::Done,
            Err(Refused::Full | Refused::Paused) => Self::Later,
            Err(Refused::Closed) => Self::Never,
        }
    }
}

/// A dead letter on its way to a durable topic. It is marked as dead-lettered in its own topic once it is stored
/// there.
///
/// If the node or that topic ends first, the message is delivered again after a restart of the node.
struct Letter {
    topic: Weak<Shared>,
    own: Option<Arc<dyn Journal>>,
    /// Subscription from which the message came.
    name: Arc<str>,
    position: u64,
    /// Counter of dead letters lost because that topic was gone.
    lost: Arc<AtomicU64>,
}

impl Letter {
    fn send(self, messages: VecDeque<Message>) {
        let topic = self.topic.upgrade();
        let Some(journal) = topic.as_ref().and_then(|topic| topic.journal.as_ref()) else { return self.lose() };
        let reply = move |left: VecDeque<Message>, outcome: Result<(), NotKept>| match outcome {
            Ok(()) => {
                if let Some(own) = &self.own {
                    own.note(&self.name, self.position, Fate::Buried);
                }
            }
            // The writer process of that topic pauses after a failure, so this does not spin.
            Err(NotKept::Failed(_)) => self.send(left),
            Err(NotKept::Closed | NotKept::Paused) => self.lose(),
        };
        journal.submit(messages, Box::new(reply));
    }

    /// Counts the message as lost: the dead-letter topic was closed meanwhile.
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}
