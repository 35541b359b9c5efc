//! Messages that a publisher has accepted, and their way into the topic.
//!
//! ```text
//!   gathered ── pump ──▶ in flight ──▶ in the topic
//!      ▲                     ├──▶ full: back to the front, until there is room
//!      └─────────────────────┘──▶ refused, until the publisher takes them back
//! ```
//!
//! One pump runs at a time, and releases the lock while it publishes. Wakers never pump directly, because they may be
//! called while other locks are held: they schedule a timer call.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};

use super::{PublisherAccount, PublisherConfig};
use crate::timers::CallRef;
use crate::topic::Topic;
use crate::topic::journal::NotKept;
use crate::topic::log::Refused;
use crate::topic::message::Message;
use crate::topic::publish::PublishError;

/// Number and size of outstanding messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

#[derive(Default)]
struct State {
    gathered: VecDeque<Message>,
    gathered_bytes: usize,
    /// Messages that were accepted and are neither in the topic nor refused.
    outstanding: Room,
    accepted: u64,
    published: u64,
    refused_total: u64,
    batches: u64,
    refused: VecDeque<PublishError>,
    /// Callers that wait for room, or for a flush.
    waiting: Vec<Waker>,
    /// Timer call for the time when the oldest gathered message has waited long enough.
    call: Option<CallRef>,
    pumps: bool,
    /// Another pump was requested meanwhile.
    again: bool,
    /// The topic was full, and will wake the engine when it has room.
    blocked: bool,
    /// Ticket in the topic's line of publishers that wait for room.
    ticket: u64,
}

/// Queue of a publisher: gathers messages and publishes them in batches.
pub(super) struct Engine {
    pub(super) topic: Topic,
    pub(super) config: PublisherConfig,
    state: Mutex<State>,
    bell: Waker,
    this: Weak<Self>,
}

/// Waker that the topic calls when a reader is idle; it must not keep the engine alive.
struct Bell(Weak<Engine>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(engine) = self.0.upgrade() {
            engine.wake();
        }
    }
}

/// Waker that the topic calls when it has room; it keeps the engine, and so the waiting messages, alive.
impl Wake for Engine {
    fn wake(self: Arc<Self>) {
        let shared = Arc::clone(&self.topic.shared);
        let now_ns = shared.now_ns();
        shared.call_at(now_ns, move || self.unblock());
    }
}

impl Engine {
    pub(super) fn new(topic: Topic, config: PublisherConfig) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let bell = Waker::from(Arc::new(Bell(Weak::clone(this))));
            Self { topic, config, state: Mutex::default(), bell, this: Weak::clone(this) }
        })
    }

    /// Accepts the message if there is room for it; otherwise registers `waker`.
    pub(super) fn poll_accept(
        &self,
        message: &mut Option<Message>,
        waker: Option<&Waker>,
    ) -> Poll<Result<(), PublishError>> {
        let Some(bytes) = message.as_ref().map(Message::bytes) else { return Poll::Ready(Ok(())) };
        let Some(mut state) = self.state_with_room(bytes, waker) else { return Poll::Pending };
        let Some(taken) = message.take() else { return Poll::Ready(Ok(())) };
        if !state.refused.is_empty() {
            let (topic, refused) = (self.topic.name().to_owned(), state.refused.len());
            return Poll::Ready(Err(PublishError::Unpublished { topic, refused, message: taken }));
        }
        state.accepted += 1;
        state.outstanding.messages += 1;
        state.outstanding.bytes += bytes;
        state.gathered_bytes += bytes;
        state.gathered.push_back(taken);
        let is_first = state.gathered.len() == 1;
        let due = self.is_due(&state);
        drop(state);
        if due || (is_first && !self.waits_for_more()) {
            self.pump();
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the locked state if it has room for a message of `bytes` bytes, or if the message will be refused
    /// anyway.
    fn state_with_room(&self, bytes: usize, waker: Option<&Waker>) -> Option<MutexGuard<'_, State>> {
        let mut pumped = false;
        loop {
            let mut state = self.state.lock();
            if !state.refused.is_empty() || state.outstanding.is_for(bytes, &self.config) {
                return Some(state);
            }
            if pumped || state.blocked || state.gathered.is_empty() {
                if let Some(waker) = waker {
                    wait(&mut state, waker);
                }
                return None;
            }
            drop(state);
            // The gathered messages take up the room: publish them now.
            self.pump();
            pumped = true;
        }
    }

    fn is_due(&self, state: &State) -> bool {
        !state.blocked
            && (state.gathered.len() >= self.config.batch_messages
                || state.gathered_bytes >= self.config.batch_bytes
                || self.config.batch_delay.is_zero())
    }

    /// Schedules the publication of the gathered messages; false if they must be published now.
    fn waits_for_more(&self) -> bool {
        let shared = &self.topic.shared;
        if !shared.log.gather(&self.bell) {
            return false;
        }
        let Some(engine) = self.this.upgrade() else { return false };
        let at_ns = shared.now_ns().saturating_add(self.config.batch_delay.as_nanos() as u64);
        let mut state = self.state.lock();
        if state.call.is_none() {
            state.call = shared.call_at(at_ns, move || {
                engine.state.lock().call = None;
                engine.pump();
            });
        }
        state.call.is_some()
    }

    /// Publishes the gathered messages; returns the count to pass to `poll_settled`.
    pub(super) fn flush(&self) -> u64 {
        let upto = self.state.lock().accepted;
        self.pump();
        upto
    }

    fn unblock(&self) {
        self.state.lock().blocked = false;
        self.pump();
    }

    /// Publishes the gathered messages as far as the topic accepts them.
    fn pump(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.pumps, true) {
            state.again = true;
            return;
        }
        state.again = true;
        drop(state);
        while let Some(flight) = self.take_off() {
            match &self.topic.shared.journal {
                Some(journal) => {
                    let (this, size) = (self.this.upgrade(), flight.size);
                    let reply = move |left, outcome| {
                        if let Some(this) = this {
                            this.come_back(size, left, outcome);
                        }
                    };
                    return journal.submit(flight.batch, Box::new(reply));
                }
                None => self.land(self.publish(flight)),
            }
        }
    }

    /// Takes the gathered messages. Returns `None`, and the pump stops, if nothing is gathered or no pump was
    /// requested.
    fn take_off(&self) -> Option<Flight> {
        let mut state = self.state.lock();
        let again = std::mem::take(&mut state.again);
        if state.gathered.is_empty() || !again {
            state.pumps = false;
            return None;
        }
        let batch = std::mem::take(&mut state.gathered);
        let size = Room { messages: batch.len(), bytes: std::mem::take(&mut state.gathered_bytes) };
        let call = state.call.take();
        drop(state);
        if let Some(call) = call {
            self.topic.shared.forget_call(call);
        }
        Some(Flight { batch, size, refused: Vec::new(), blocked: false })
    }

    /// Accounts for the outcome of a batch.
    fn land(&self, flight: Flight) {
        let Flight { mut batch, size, refused, blocked } = flight;
        let left = Room { messages: batch.len(), bytes: batch.iter().map(Message::bytes).sum() };
        let mut state = self.state.lock();
        let published = size.messages - left.messages - refused.len();
        state.published += published as u64;
        state.batches += u64::from(published > 0);
        state.refused_total += refused.len() as u64;
        state.refused.extend(refused);
        state.outstanding.messages -= size.messages - left.messages;
        state.outstanding.bytes -= size.bytes - left.bytes;
        // Retry remaining messages at once unless the topic is full; messages that arrived meanwhile wait for their
        // own time.
        state.again |= !blocked && left.messages > 0;
        state.again |= self.is_due(&state);
        state.gathered_bytes += left.bytes;
        batch.append(&mut state.gathered);
        state.gathered = batch;
        state.blocked = blocked;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Handles the reply of the journal for a batch.
    fn come_back(&self, size: Room, mut left: VecDeque<Message>, outcome: Result<(), NotKept>) {
        let refused = match outcome {
            Ok(()) => Vec::new(),
            // The other messages have other keys, or will be refused by the next submission.
            Err(NotKept::Paused) => {
                left.pop_front().map(|message| self.topic.not_kept(NotKept::Paused, message)).into_iter().collect()
            }
            Err(refused) => left.drain(..).map(|message| self.topic.not_kept(refused.clone(), message)).collect(),
        };
        self.land(Flight { batch: left, size, refused, blocked: false });
        let mut state = self.state.lock();
        state.pumps = false;
        let again = state.again;
        drop(state);
        if again {
            self.pump();
        }
    }

    /// Publishes in order until the topic is full or refuses a message.
    fn publish(&self, mut flight: Flight) -> Flight {
        let (appended, wakes) = self.topic.shared.append(&mut flight.batch);
        if wakes {
            self.topic.wake_soon();
        }
        match (appended, flight.batch.front()) {
            (Ok(()), _) | (_, None) => {}
            (Err(Refused::Full), Some(first)) => {
                let this = self.this.upgrade().map(Waker::from);
                // One pump runs at a time, so nothing else changes the ticket meanwhile.
                let mut ticket = self.state.lock().ticket;
                flight.blocked = this.is_some_and(|this| self.topic.shared.log.wait(first, &this, &mut ticket));
                self.state.lock().ticket = ticket;
            }
            (Err(refused), Some(_)) => {
                let first = flight.batch.pop_front();
                flight.refused.extend(first.map(|message| self.topic.refusal(refused, message)));
            }
        }
        flight
    }

    /// Returns ready once the first `upto` accepted messages are in the topic, or with the error of a refused one.
    pub(super) fn poll_settled(&self, upto: u64, waker: &Waker) -> Poll<Result<(), PublishError>> {
        let mut state = self.state.lock();
        if let Some(refused) = state.refused.pop_front() {
            return Poll::Ready(Err(refused));
        }
        if state.published + state.refused_total >= upto {
            return Poll::Ready(Ok(()));
        }
        wait(&mut state, waker);
        Poll::Pending
    }

    pub(super) fn take_refused(&self) -> Option<PublishError> {
        self.state.lock().refused.pop_front()
    }

    #[cold]
    pub(super) fn limit(&self, message: Message) -> PublishError {
        let Room { messages, bytes } = self.state.lock().outstanding;
        PublishError::Limit {
            topic: self.topic.name().to_owned(),
            messages,
            bytes,
            messages_max: self.config.outstanding_messages,
            bytes_max: self.config.outstanding_bytes,
            message,
        }
    }

    pub(super) fn account(&self) -> PublisherAccount {
        let state = self.state.lock();
        PublisherAccount {
            accepted: state.accepted,
            published: state.published,
            refused: state.refused_total,
            outstanding: state.outstanding.messages as u64,
            outstanding_bytes: state.outstanding.bytes,
            batches: state.batches,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.topic.shared.log.forget(&self.bell);
    }
}

/// A batch in flight, and what is left of it.
struct Flight {
    batch: VecDeque<Message>,
    /// Its initial size.
    size: Room,
    refused: Vec<PublishError>,
    /// The topic is full, and will wake the engine when it has room.
    blocked: bool,
}

fn wait(state: &mut State, waker: &Waker) {
    if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
        state.waiting.push(waker.clone());
    }
}
