//! Messages that a publisher has accepted, and their way into the topic.
//!
//! ```text
//!   buffered ── pump ──▶ in flight ──▶ in the topic
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

use super::config::{PublisherAccount, PublisherConfig};
use crate::time::timers::timer::CallRef;
use crate::topic::handle::Topic;
use crate::topic::journal::JournalError;
use crate::topic::message::Message;
use crate::topic::publish::PublishError;
use crate::topic::retention::AppendError;

/// Number and size of outstanding messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outstanding {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

#[derive(Default)]
struct BatcherState {
    buffered: VecDeque<Message>,
    buffered_bytes: usize,
    /// Messages that were accepted and are neither in the topic nor refused.
    outstanding: Outstanding,
    accepted: u64,
    published: u64,
    refused_total: u64,
    batches: u64,
    refused: VecDeque<PublishError>,
    /// Callers that wait for room, or for a flush.
    waiting: Vec<Waker>,
    /// Timer call for the time when the oldest buffered message has waited long enough.
    call: Option<CallRef>,
    is_pumping: bool,
    /// Another pump was requested meanwhile.
    pump_again: bool,
    /// The topic was full, and will wake the batcher when it has room.
    blocked: bool,
    /// Ticket in the topic's line of publishers that wait for room.
    ticket: u64,
}

/// Queue of a publisher: gathers messages and publishes them in batches.
pub(super) struct Batcher {
    pub(super) topic: Topic,
    pub(super) config: PublisherConfig,
    state: Mutex<BatcherState>,
    idle_reader_waker: Waker,
    this: Weak<Self>,
}

/// Waker that the topic calls when a reader is idle; it must not keep the batcher alive.
struct IdleReaderWaker(Weak<Batcher>);

impl Wake for IdleReaderWaker {
    fn wake(self: Arc<Self>) {
        if let Some(batcher) = self.0.upgrade() {
            batcher.wake();
        }
    }
}

/// Waker that the topic calls when it has room; it keeps the batcher, and so the waiting messages, alive.
impl Wake for Batcher {
    fn wake(self: Arc<Self>) {
        let shared = Arc::clone(&self.topic.shared);
        let now_ns = shared.now_ns();
        shared.call_at(now_ns, move || self.unblock());
    }
}

impl Batcher {
    pub(super) fn new(topic: Topic, config: PublisherConfig) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let idle_reader_waker = Waker::from(Arc::new(IdleReaderWaker(Weak::clone(this))));
            Self { topic, config, state: Mutex::default(), idle_reader_waker, this: Weak::clone(this) }
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
        state.buffered_bytes += bytes;
        state.buffered.push_back(taken);
        let is_first = state.buffered.len() == 1;
        let due = self.is_due(&state);
        drop(state);
        if due || (is_first && !self.schedule_publish()) {
            self.pump();
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the locked state if it has room for a message of `bytes` bytes, or if the message will be refused
    /// anyway.
    fn state_with_room(&self, bytes: usize, waker: Option<&Waker>) -> Option<MutexGuard<'_, BatcherState>> {
        let mut pumped = false;
        loop {
            let mut state = self.state.lock();
            if !state.refused.is_empty() || state.outstanding.admits(bytes, &self.config) {
                return Some(state);
            }
            if pumped || state.blocked || state.buffered.is_empty() {
                if let Some(waker) = waker {
                    wait(&mut state, waker);
                }
                return None;
            }
            drop(state);
            // The buffered messages take up the room: publish them now.
            self.pump();
            pumped = true;
        }
    }

    fn is_due(&self, state: &BatcherState) -> bool {
        !state.blocked
            && (state.buffered.len() >= self.config.batch_messages
                || state.buffered_bytes >= self.config.batch_bytes
                || self.config.batch_delay.is_zero())
    }

    /// Schedules the publication of the buffered messages; false if they must be published now.
    fn schedule_publish(&self) -> bool {
        let shared = &self.topic.shared;
        if !shared.log.register_batching(&self.idle_reader_waker) {
            return false;
        }
        let Some(batcher) = self.this.upgrade() else { return false };
        let at_ns = shared.now_ns().saturating_add(self.config.batch_delay.as_nanos() as u64);
        let mut state = self.state.lock();
        if state.call.is_none() {
            state.call = shared.call_at(at_ns, move || {
                batcher.state.lock().call = None;
                batcher.pump();
            });
        }
        state.call.is_some()
    }

    /// Publishes the buffered messages; returns the count to pass to `poll_settled`.
    pub(super) fn flush(&self) -> u64 {
        let upto = self.state.lock().accepted;
        self.pump();
        upto
    }

    fn unblock(&self) {
        self.state.lock().blocked = false;
        self.pump();
    }

    /// Publishes the buffered messages as far as the topic accepts them.
    fn pump(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_pumping, true) {
            state.pump_again = true;
            return;
        }
        // `take_batch` takes this request.
        state.pump_again = true;
        drop(state);
        while let Some(in_flight) = self.take_batch() {
            match &self.topic.shared.journal {
                Some(journal) => {
                    let (this, size) = (self.this.upgrade(), in_flight.size);
                    let reply = move |left, outcome| {
                        if let Some(this) = this {
                            this.on_stored(size, left, outcome);
                        }
                    };
                    // `is_pumping` stays set until the journal replies; `on_stored` clears it and pumps again. Without
                    // a reply, the publisher would never publish again.
                    return journal.submit(in_flight.batch, Box::new(reply));
                }
                None => self.complete(self.publish(in_flight)),
            }
        }
    }

    /// Takes the buffered messages. Returns `None`, and the pump stops, if nothing is buffered or no pump was
    /// requested.
    fn take_batch(&self) -> Option<InFlightBatch> {
        let mut state = self.state.lock();
        let pump_again = std::mem::take(&mut state.pump_again);
        if state.buffered.is_empty() || !pump_again {
            state.is_pumping = false;
            return None;
        }
        let batch = std::mem::take(&mut state.buffered);
        let size = Outstanding { messages: batch.len(), bytes: std::mem::take(&mut state.buffered_bytes) };
        let call = state.call.take();
        drop(state);
        if let Some(call) = call {
            self.topic.shared.cancel_call(call);
        }
        Some(InFlightBatch { batch, size, refused: Vec::new(), blocked: false })
    }

    /// Accounts for the outcome of a batch.
    fn complete(&self, in_flight: InFlightBatch) {
        let InFlightBatch { mut batch, size, refused, blocked } = in_flight;
        let left = Outstanding { messages: batch.len(), bytes: batch.iter().map(Message::bytes).sum() };
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
        state.pump_again |= !blocked && left.messages > 0;
        state.pump_again |= self.is_due(&state);
        state.buffered_bytes += left.bytes;
        batch.append(&mut state.buffered);
        state.buffered = batch;
        state.blocked = blocked;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Handles the reply of the journal for a batch.
    fn on_stored(&self, size: Outstanding, mut left: VecDeque<Message>, outcome: Result<(), JournalError>) {
        let refused = match outcome {
            Ok(()) => Vec::new(),
            // Refuse only the first message, whose key is paused, and submit the others again: those with a paused key
            // are refused one at a time.
            Err(JournalError::Paused) => left
                .pop_front()
                .map(|message| self.topic.journal_error(JournalError::Paused, message))
                .into_iter()
                .collect(),
            Err(refused) => left.drain(..).map(|message| self.topic.journal_error(refused.clone(), message)).collect(),
        };
        self.complete(InFlightBatch { batch: left, size, refused, blocked: false });
        let mut state = self.state.lock();
        state.is_pumping = false;
        let pump_again = state.pump_again;
        drop(state);
        if pump_again {
            self.pump();
        }
    }

    /// Publishes in order until the topic is full or refuses a message.
    fn publish(&self, mut in_flight: InFlightBatch) -> InFlightBatch {
        let (appended, wakes) = self.topic.shared.append(&mut in_flight.batch);
        if wakes {
            self.topic.wake_at_turn_end();
        }
        match (appended, in_flight.batch.front()) {
            (Ok(()), _) | (_, None) => {}
            (Err(AppendError::Full), Some(first)) => {
                let this = self.this.upgrade().map(Waker::from);
                // One pump runs at a time, so nothing else changes the ticket meanwhile.
                let mut ticket = self.state.lock().ticket;
                in_flight.blocked = this.is_some_and(|this| self.topic.shared.log.wait(first, &this, &mut ticket));
                self.state.lock().ticket = ticket;
            }
            (Err(refused), Some(_)) => {
                let first = in_flight.batch.pop_front();
                in_flight.refused.extend(first.map(|message| self.topic.to_publish_error(refused, message)));
            }
        }
        in_flight
    }

    /// Returns ready with the error of a refused message that was not yet taken back, if there is one; otherwise once
    /// each of the first `upto` accepted messages is in the topic or was refused.
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

    /// Returns the error for a message for which the limits leave no room.
    #[cold]
    pub(super) fn limit_error(&self, message: Message) -> PublishError {
        let Outstanding { messages, bytes } = self.state.lock().outstanding;
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

impl Drop for Batcher {
    fn drop(&mut self) {
        self.topic.shared.log.unregister_batching(&self.idle_reader_waker);
    }
}

/// A batch in flight, and what is left of it.
struct InFlightBatch {
    batch: VecDeque<Message>,
    /// Its initial size.
    size: Outstanding,
    refused: Vec<PublishError>,
    /// The topic is full, and will wake the batcher when it has room.
    blocked: bool,
}

fn wait(state: &mut BatcherState, waker: &Waker) {
    if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
        state.waiting.push(waker.clone());
    }
}
