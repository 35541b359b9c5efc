//! The messages of a topic, in order, until everybody who is to have them has them.
//!
//! ```text
//!   publishers ──▶ append, under a lock ──▶ │ segment │ segment │ tail … │ ──▶ cursors read without the lock,
//!        ▲                                                                   and take it to go to the next segment
//!        └── woken when segments at the front are free ◀── the last cursor has left one
//! ```
//!
//! A cursor pins the segment that it reads, and none when it has read everything: then it is *parked*, and the next message
//! to come pins it again and wakes it. So publishing costs the same whoever listens, except for waking those who wait.
//! Segments at the front that nobody pins are freed. When the log is full, cursors that may lose messages lose their pin,
//! and find out when they go on.
//!
//! Invariants: a strong cursor sees every message from its start on, in order and once; a weak one too, or how many it has
//! missed; the log never holds more than its bounds; nobody sleeps while there is something for it. `tests/models_topic.rs` runs
//! this file under loom, with its segments and cursors, and shows that it fails with any second look left out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::message::Message;
use super::segment::Segment;
use super::shelf::{After, Shelf, Step};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Dekker, Lock, LockGuard, looks_again};

/// How much a log holds, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) unread: Unread,
}

/// What becomes of messages that nobody is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unread {
    /// They are forgotten.
    #[default]
    Forget,
    /// They are kept, up to the bounds; then the oldest go. Who comes later may begin with the oldest.
    KeepNewest,
    /// Until there is the first subscriber they are kept, up to the bounds; then publishers wait.
    KeepAll,
}

/// Somebody who has read everything and wants to hear of more.
pub(super) trait Sleeper: Send + Sync {
    fn wake(&self);
}

/// A subscriber that gets copies pushed, because the log need not hold them for it.
pub(super) trait Listener: Sleeper {
    /// Takes a copy if it has room; true if it waits to be woken.
    fn hear(&self, message: &Message) -> bool;
}

/// See the module.
pub(super) struct Log {
    state: Lock<Shelf>,
    /// The position of the next message, for those who only look.
    head: AtomicU64,
    rules: Rules,
}

/// Why nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
    Paused,
}

/// The log as observers see it.
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
    /// A log whose first message has the position `base`.
    pub(super) fn new(rules: Rules, base: u64) -> Self {
        Self { state: Lock::new(Shelf::new(rules, base)), head: AtomicU64::new(base), rules }
    }

    pub(super) const fn rules(&self) -> Rules {
        self.rules
    }

    /// The position of the next message.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> LockGuard<'_, Shelf> {
        self.state.lock()
    }

    /// Appends the messages that come out of `messages`, until one is refused, which stays.
    ///
    /// Gives the reason, and whether anybody is to be [woken](Self::take_woken).
    #[inline]
    pub(super) fn append(
        &self,
        messages: &mut impl Source,
        now_ns: impl FnMut() -> u64,
    ) -> (Result<(), Refused>, bool) {
        self.append_if(messages, now_ns, Shelf::admit)
    }

    /// The same for messages that are kept elsewhere already, which are refused for nothing but want of room.
    #[cfg(feature = "store")]
    pub(super) fn append_kept(
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

    /// Notes a publisher that waits for room; false if there is some by now, or never will be.
    ///
    /// Its ticket, 0 at first, is its place in the line until it is woken, or [leaves](Self::leave_line).
    pub(super) fn wait(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
        self.wait_if(message, waker, ticket, Shelf::admit)
    }

    /// The same for a message that is kept elsewhere already.
    #[cfg(feature = "store")]
    pub(super) fn wait_kept(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
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

    /// Forgets a publisher that waited for room.
    pub(super) fn leave_line(&self, ticket: u64) {
        let mut after = After::default();
        let left = self.state.lock().leave_line(ticket, &mut after);
        drop(left);
        after.run();
    }

    /// Notes a publisher that gathers messages, to be woken as soon as somebody has nothing to read; false if that is so now.
    pub(super) fn gather(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let gathers = state.parked.is_empty() && !state.closed;
        if gathers && !state.gathering.iter().any(|gathering| gathering.will_wake(waker)) {
            state.gathering.push(waker.clone());
        }
        gathers
    }

    /// Forgets a publisher that has ended.
    pub(super) fn forget(&self, waker: &Waker) {
        self.state.lock().gathering.retain(|other| !other.will_wake(waker));
    }

    /// Those who are to be woken because there are messages.
    pub(super) fn take_woken(&self) -> Vec<Arc<dyn Sleeper>> {
        std::mem::take(&mut self.state.lock().woken)
    }

    /// Begins to read, with the next message or the oldest; gives the position.
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
            // Publishers may have waited for the first one, and this one may lose what is in their way.
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

    /// Parks a cursor that has read all of `segment`, unless there is more or there never will be.
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

    /// The next step of a parked cursor; `None` if nothing has come since.
    pub(super) fn go_on(&self, position: u64) -> Option<Step> {
        if self.head() <= position {
            return None;
        }
        // It was pinned when the next message came.
        let state = self.state.lock();
        (state.head > position).then(|| state.step(position))
    }

    /// From the end of a segment to the next one, or as far as `position` if that is further.
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

    /// Ends a cursor that reads in `segment`.
    pub(super) fn leave(&self, segment: &Segment, strong: bool) {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.unpin(segment, strong);
        state.reclaim(&mut after);
        drop(state);
        after.run();
    }

    /// Ends a cursor that is parked at `position`, or was until messages came.
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

    /// Takes no more messages; gives all who wait for something.
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

    /// Why a message that is kept elsewhere first would not be taken, whatever the room.
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

    /// About when the message at a position was published; `None` if it is not there.
    pub(super) fn published_ns(&self, position: u64) -> Option<u64> {
        let state = self.state.lock();
        (position < state.head).then(|| state.at(position).published_ns(position))
    }
}

/// Where messages to append come from.
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
