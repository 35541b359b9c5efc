//! The messages of a topic, in order, until every cursor that needs them has read them.
//!
//! ```text
//!   publishers ──▶ append, under a lock ──▶ │ segment │ segment │ tail … │ ──▶ cursors read without the lock, and
//!        ▲                                                                   take it only to enter the next segment
//!        └── woken when segments at the front are freed ◀── the last cursor has left one
//! ```
//!
//! A cursor pins the segment that it reads. A cursor that has read everything is *parked* and pins nothing; the next
//! message pins its segment for the cursor and wakes it. So the cost of publishing does not depend on the number of
//! cursors, except for waking parked ones. Segments at the front without pins are freed. When the log is full,
//! segments may be evicted under cursors that may lose messages (weak ones), which notice when they continue.
//!
//! Invariants: a strong cursor reads every message from its start on, once and in order; a weak one does too, or
//! learns how many it missed; the log never exceeds its bounds; no cursor stays parked while there is a message for
//! it. `tests/models_topic.rs` checks this file with its segments and cursors under loom, and shows that each second
//! check is needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::message::Message;
use super::segment::Segment;
use super::shelf::{After, Shelf, Step};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Dekker, Lock, LockGuard, looks_again};

/// Bounds of a log, and its policy for unread messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) unread: Unread,
}

/// Policy for messages that no subscriber is waiting to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unread {
    /// The messages are dropped.
    #[default]
    Forget,
    /// The messages are kept up to the bounds; then the oldest are dropped. A later subscriber may begin with the
    /// oldest.
    KeepNewest,
    /// Until the first subscriber joins, messages are kept up to the bounds; then publishers wait.
    KeepAll,
}

/// A reader that can be woken when there are messages.
pub(super) trait Sleeper: Send + Sync {
    fn wake(&self);
}

/// A subscriber to which messages are pushed, because the log need not retain them for it.
pub(super) trait Listener: Sleeper {
    /// Clones the message if there is room for it; returns true if the subscriber must be woken.
    fn hear(&self, message: &Message) -> bool;
}

/// Log of a topic, shared by its publishers and cursors.
pub(super) struct Log {
    state: Lock<Shelf>,
    /// Position of the next message, readable without the lock.
    head: AtomicU64,
    rules: Rules,
}

/// Reason why a message was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
    Paused,
}

/// Snapshot of the log for observers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) head: u64,
    pub(super) messages: u64,
    pub(super) bytes: usize,
    pub(super) evicted: u64,
    pub(super) waiting: usize,
    pub(super) closed: bool,
}

impl Log {
    /// Creates a log that gives its first message the position `base`.
    pub(super) fn new(rules: Rules, base: u64) -> Self {
        Self { state: Lock::new(Shelf::new(rules, base)), head: AtomicU64::new(base), rules }
    }

    pub(super) const fn rules(&self) -> Rules {
        self.rules
    }

    /// Position of the next message.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> LockGuard<'_, Shelf> {
        self.state.lock()
    }

    /// Appends the messages taken from `messages` until one is refused, which stays there.
    ///
    /// Returns the reason, and true if sleepers must be [woken](Self::take_woken).
    #[inline]
    pub(super) fn append(
        &self,
        messages: &mut impl Source,
        now_ns: impl FnMut() -> u64,
    ) -> (Result<(), Refused>, bool) {
        self.append_if(messages, now_ns, Shelf::admit)
    }

    /// Like [`append`](Self::append), for messages that are stored already: they are refused only for lack of room.
    pub(super) fn append_stored(
        &self,
        messages: &mut VecDeque<Message>,
        now_ns: impl FnMut() -> u64,
    ) -> (Result<(), Refused>, bool) {
        self.append_if(messages, now_ns, Shelf::admit_kept)
    }

    #[inline]
    fn append_if(
        &self,
        messages: &mut impl Source,
        mut now_ns: impl FnMut() -> u64,
        mut admit: impl FnMut(&mut Shelf, &Message, &mut After) -> Result<(), Refused>,
    ) -> (Result<(), Refused>, bool) {
        let mut after = After::default();
        let mut state = self.state.lock();
        let woken_before = state.woken.len();
        let mut outcome = Ok(());
        while let Some(message) = messages.front() {
            if let Err(refused) = admit(&mut state, message, &mut after) {
                outcome = Err(refused);
                break;
            }
            let Some(message) = messages.take() else { break };
            state.push(message, &mut now_ns, &mut after);
        }
        self.head.store(state.head, Ordering::Release);
        let wakes = state.woken.len() > woken_before;
        drop(state);
        after.run();
        (outcome, wakes)
    }

    /// Enqueues a publisher that waits for room; false if there is room now, or the message is refused for another
    /// reason.
    ///
    /// The ticket, 0 at first, is its place in the line until the publisher is woken or [leaves](Self::leave_line).
    pub(super) fn wait(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
        self.wait_if(message, waker, ticket, Shelf::admit)
    }

    /// Like [`wait`](Self::wait), for a message that is stored already.
    pub(super) fn wait_stored(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
        self.wait_if(message, waker, ticket, Shelf::admit_kept)
    }

    fn wait_if(
        &self,
        message: &Message,
        waker: &Waker,
        ticket: &mut u64,
        admit: impl FnOnce(&mut Shelf, &Message, &mut After) -> Result<(), Refused>,
    ) -> bool {
        let mut after = After::default();
        let mut state = self.state.lock();
        let waits = !looks_again(Dekker::Park) || admit(&mut state, message, &mut after) == Err(Refused::Full);
        let before = if waits { state.line_up(waker, ticket) } else { None };
        drop(state);
        drop(before);
        after.run();
        waits
    }

    /// Removes a publisher that waited for room.
    pub(super) fn leave_line(&self, ticket: u64) {
        let mut after = After::default();
        let left = self.state.lock().leave_line(ticket, &mut after);
        drop(left);
        after.run();
    }

    /// Registers a batching publisher, to be woken as soon as a reader is idle; false if one is idle now.
    pub(super) fn gather(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let gathers = state.parked.is_empty() && !state.closed;
        if gathers && !state.gathering.iter().any(|gathering| gathering.will_wake(waker)) {
            state.gathering.push(waker.clone());
        }
        gathers
    }

    /// Removes a publisher that has ended.
    pub(super) fn forget(&self, waker: &Waker) {
        self.state.lock().gathering.retain(|other| !other.will_wake(waker));
    }

    /// Takes the sleepers that must be woken because there are messages.
    pub(super) fn take_woken(&self) -> Vec<Arc<dyn Sleeper>> {
        std::mem::take(&mut self.state.lock().woken)
    }

    /// Adds a cursor at the next message or at the oldest one; returns its position.
    ///
    /// The cursor is parked there; [`go_on`](Self::go_on) is its first step.
    pub(super) fn join(&self, oldest: bool, strong: bool, sleeper: &Arc<dyn Sleeper>) -> u64 {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.known = true;
        let first = state.segments.front().map_or(state.head, |held| held.segment.base);
        if oldest && first < state.head {
            if let Some(front) = state.segments.front_mut() {
                front.pin(strong);
            }
            // Publishers may have waited for a first subscriber, and a weak cursor allows the oldest messages to be
            // evicted.
            state.reclaim(&mut after);
            drop(state);
            after.run();
            return first;
        }
        state.take_seat(sleeper, strong, &mut after);
        let head = state.head;
        state.reclaim(&mut after);
        drop(state);
        after.run();
        head
    }

    /// Parks a cursor that has read all of `segment`; false if there is another message or the log is closed.
    pub(super) fn park(&self, segment: &Segment, index: usize, strong: bool, sleeper: &Arc<dyn Sleeper>) -> bool {
        let position = segment.base + index as u64;
        let mut after = After::default();
        let mut state = self.state.lock();
        if looks_again(Dekker::Sleep) && (state.head != position || state.closed) {
            return false;
        }
        state.unpin(segment, strong);
        state.take_seat(sleeper, strong, &mut after);
        state.reclaim(&mut after);
        drop(state);
        after.run();
        true
    }

    /// Returns the next step of a parked cursor; `None` if no message has arrived since.
    pub(super) fn go_on(&self, position: u64) -> Option<Step> {
        if self.head() <= position {
            return None;
        }
        // The append of that message has pinned its segment for this cursor.
        let state = self.state.lock();
        (state.head > position).then(|| state.step(position))
    }

    /// Moves a cursor from the end of a segment to the next one, or to `position` if that is further.
    pub(super) fn move_on(&self, segment: &Segment, position: u64, strong: bool) -> Step {
        let mut after = After::default();
        let mut state = self.state.lock();
        let mut step = state.step(position);
        state.pin_at(&step.segment, strong);
        state.unpin(segment, strong);
        state.reclaim(&mut after);
        drop(state);
        after.run();
        if strong {
            debug_assert_eq!(step.missed, 0, "a strong cursor misses nothing");
            step.missed = 0;
        }
        step
    }

    /// Removes a cursor that reads in `segment`.
    pub(super) fn leave(&self, segment: &Segment, strong: bool) {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.unpin(segment, strong);
        state.reclaim(&mut after);
        drop(state);
        after.run();
    }

    /// Removes a cursor that is parked at `position`, or was until a message arrived.
    pub(super) fn leave_parked(&self, position: u64, strong: bool, sleeper: &Arc<dyn Sleeper>) {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.woken.retain(|other| !Arc::ptr_eq(other, sleeper));
        if let Some(at) = state.parked.iter().position(|parked| Arc::ptr_eq(&parked.sleeper, sleeper)) {
            state.parked.swap_remove(at);
        } else {
            let step = state.step(position);
            state.unpin(&step.segment, strong);
            state.reclaim(&mut after);
        }
        drop(state);
        after.run();
    }

    /// Closes the log for new messages; returns all sleepers, which must be woken.
    pub(super) fn close(&self) -> Vec<Arc<dyn Sleeper>> {
        let mut state = self.state.lock();
        state.closed = true;
        let mut sleepers = std::mem::take(&mut state.woken);
        sleepers.extend(state.parked.iter().map(|parked| Arc::clone(&parked.sleeper)));
        sleepers
            .extend(state.listeners.iter().map(|listener| Arc::<dyn Listener>::clone(listener) as Arc<dyn Sleeper>));
        let mut publishers = state.take_line();
        publishers.append(&mut state.gathering);
        drop(state);
        After { freed: Vec::new(), publishers }.run();
        sleepers
    }

    /// Returns the reason to refuse a message regardless of room, before it is stored elsewhere.
    pub(super) fn refuses(&self, message: &Message) -> Option<Refused> {
        self.state.lock().refuses(message)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn fill(&self) -> Fill {
        let state = self.state.lock();
        Fill {
            head: state.head,
            messages: state.messages(),
            bytes: state.bytes,
            evicted: state.evicted,
            waiting: state.waiting(),
            closed: state.closed,
        }
    }

    /// Approximate publication time of the message at a position; `None` if it is not published yet.
    pub(super) fn published_ns(&self, position: u64) -> Option<u64> {
        let state = self.state.lock();
        (position < state.head).then(|| state.at(position).published_ns(position))
    }
}

/// A source of messages to append.
pub(super) trait Source {
    fn front(&self) -> Option<&Message>;
    fn take(&mut self) -> Option<Message>;
}

impl Source for Option<Message> {
    #[inline]
    fn front(&self) -> Option<&Message> {
        self.as_ref()
    }

    #[inline]
    fn take(&mut self) -> Option<Message> {
        Self::take(self)
    }
}

impl Source for VecDeque<Message> {
    fn front(&self) -> Option<&Message> {
        Self::front(self)
    }

    fn take(&mut self) -> Option<Message> {
        self.pop_front()
    }
}
