//! What a publisher has taken, and how it gets into the topic.
//!
//! ```text
//!   gathered ── pump ──▶ on their way ──▶ in the topic
//!      ▲                     ├──▶ full: back to the front, until there is room
//!      └─────────────────────┘──▶ refused, until whoever publishes takes them back
//! ```
//!
//! One pump runs at a time, without the lock while it is at the topic. Wake-ups never pump by themselves, because they come
//! while others hold their locks: they leave it to the timers.

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

/// What is on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

#[derive(Default)]
struct State {
    gathered: VecDeque<Message>,
    gathered_bytes: usize,
    /// Everything that was taken and is neither in the topic nor refused.
    outstanding: Room,
    accepted: u64,
    published: u64,
    refused_total: u64,
    batches: u64,
    refused: VecDeque<PublishError>,
    /// Whoever waits for room, or for the end of what was taken.
    waiting: Vec<Waker>,
    /// When the oldest that is gathered has waited long enough.
    call: Option<CallRef>,
    pumps: bool,
    /// Somebody asked for another pump meanwhile.
    again: bool,
    /// The topic was full, and wakes when it is not.
    blocked: bool,
    /// The place among those that it wakes.
    ticket: u64,
}

/// See the module.
pub(super) struct Engine {
    pub(super) topic: Topic,
    pub(super) config: PublisherConfig,
    state: Mutex<State>,
    bell: Waker,
    this: Weak<Self>,
}

/// What the topic wakes when somebody has nothing to read; it must not keep the engine.
struct Bell(Weak<Engine>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(engine) = self.0.upgrade() {
            engine.wake();
        }
    }
}

/// What the topic wakes when it has room; it keeps what waits for that.
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

    /// Takes the message if there is room for it; else `waker` is told when there is.
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

    /// The state, if there is room for a message of so many bytes in it, or it is going to be refused.
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
            // What is gathered makes no room by waiting for more.
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

    /// Sees to it that what is gathered goes in time; false if it is to go now.
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

    /// Publishes what is gathered; gives what to wait for.
    pub(super) fn flush(&self) -> u64 {
        let upto = self.state.lock().accepted;
        self.pump();
        upto
    }

    fn unblock(&self) {
        self.state.lock().blocked = false;
        self.pump();
    }

    /// Publishes what is gathered, as far as the topic takes it.
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

    /// Takes what is gathered; none if nobody asks for it or there is nothing, and the pump stops.
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

    /// Accounts for what came of a batch.
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
        // What is left goes again at once, unless there is no room; what came meanwhile waits for its time.
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

    /// A batch comes back from where it is kept.
    fn come_back(&self, size: Room, mut left: VecDeque<Message>, outcome: Result<(), NotKept>) {
        let refused = match outcome {
            Ok(()) => Vec::new(),
            // The others are of other keys, or it is their turn to be told.
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

    /// Publishes in order until the topic is full, or refuses one.
    fn publish(&self, mut flight: Flight) -> Flight {
        let (appended, wakes) = self.topic.shared.append(&mut flight.batch);
        if wakes {
            self.topic.wake_soon();
        }
        match (appended, flight.batch.front()) {
            (Ok(()), _) | (_, None) => {}
            (Err(Refused::Full), Some(first)) => {
                let this = self.this.upgrade().map(Waker::from);
                // One pump runs at a time, so nobody else changes the ticket meanwhile.
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

    /// Whether what was taken before is in the topic.
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

/// A batch on its way, and what of it is left.
struct Flight {
    batch: VecDeque<Message>,
    /// What it was at first.
    size: Room,
    refused: Vec<PublishError>,
    /// The topic is full, and wakes when it is not.
    blocked: bool,
}

fn wait(state: &mut State, waker: &Waker) {
    if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
        state.waiting.push(waker.clone());
    }
}
