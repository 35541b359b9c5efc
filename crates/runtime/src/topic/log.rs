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
use super::retention::{
    AppendError, DeferredWork, LogLimits, PushSubscriber, RetentionBuffer, SegmentPosition, Waiter,
};
use super::segment::Segment;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{FenceSite, Mutex, MutexGuard, rechecks_before_sleep};

/// Log of a topic, shared by its publishers and cursors.
pub(super) struct Log {
    state: Mutex<RetentionBuffer>,
    /// Position of the next message, readable without the lock.
    head: AtomicU64,
    limits: LogLimits,
}

/// Snapshot of the log for observers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogStats {
    pub(super) head: u64,
    pub(super) messages: u64,
    pub(super) bytes: usize,
    pub(super) evicted: u64,
    pub(super) waiting: usize,
    pub(super) closed: bool,
}

impl Log {
    /// Creates a log that gives its first message the position `base`.
    pub(super) fn new(limits: LogLimits, base: u64) -> Self {
        Self { state: Mutex::new(RetentionBuffer::new(limits, base)), head: AtomicU64::new(base), limits }
    }

    pub(super) const fn limits(&self) -> LogLimits {
        self.limits
    }

    /// Position of the next message.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RetentionBuffer> {
        self.state.lock()
    }

    /// Appends the messages taken from `messages` until one is refused, which stays there.
    ///
    /// Returns the reason, and true if waiters must be [woken](Self::take_woken).
    #[inline]
    pub(super) fn append(
        &self,
        messages: &mut impl Source,
        now_ns: impl FnMut() -> u64,
    ) -> (Result<(), AppendError>, bool) {
        self.append_if(messages, now_ns, RetentionBuffer::admit)
    }

    /// Like [`append`](Self::append), for messages that are stored already: they are refused only for lack of room.
    pub(super) fn append_stored(
        &self,
        messages: &mut VecDeque<Message>,
        now_ns: impl FnMut() -> u64,
    ) -> (Result<(), AppendError>, bool) {
        self.append_if(messages, now_ns, RetentionBuffer::admit_stored)
    }

    #[inline]
    fn append_if(
        &self,
        messages: &mut impl Source,
        mut now_ns: impl FnMut() -> u64,
        mut admit: impl FnMut(&mut RetentionBuffer, &Message, &mut DeferredWork) -> Result<(), AppendError>,
    ) -> (Result<(), AppendError>, bool) {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        let woken_before = state.woken.len();
        let mut outcome = Ok(());
        while let Some(message) = messages.front() {
            if let Err(refused) = admit(&mut state, message, &mut deferred) {
                outcome = Err(refused);
                break;
            }
            let Some(message) = messages.take() else { break };
            state.push(message, &mut now_ns, &mut deferred);
        }
        self.head.store(state.head, Ordering::Release);
        let wakes = state.woken.len() > woken_before;
        drop(state);
        deferred.run();
        (outcome, wakes)
    }

    /// Enqueues a publisher that waits for room; false if there is room now, or the message is refused for another
    /// reason.
    ///
    /// The ticket, 0 at first, is its place in the line until the publisher is woken or
    /// [leaves](Self::dequeue_publisher).
    pub(super) fn wait(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
        self.wait_if(message, waker, ticket, RetentionBuffer::admit)
    }

    /// Like [`wait`](Self::wait), for a message that is stored already.
    pub(super) fn wait_stored(&self, message: &Message, waker: &Waker, ticket: &mut u64) -> bool {
        self.wait_if(message, waker, ticket, RetentionBuffer::admit_stored)
    }

    fn wait_if(
        &self,
        message: &Message,
        waker: &Waker,
        ticket: &mut u64,
        admit: impl FnOnce(&mut RetentionBuffer, &Message, &mut DeferredWork) -> Result<(), AppendError>,
    ) -> bool {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        let waits = !rechecks_before_sleep(FenceSite::Park)
            || admit(&mut state, message, &mut deferred) == Err(AppendError::Full);
        let before = if waits { state.enqueue_publisher(waker, ticket) } else { None };
        drop(state);
        drop(before);
        deferred.run();
        waits
    }

    /// Returns the wakers of at most `limit` of the publishers that wait for room.
    pub(super) fn waiting_publishers(&self, limit: usize) -> Vec<Waker> {
        self.state.lock().waiting_wakers(limit)
    }

    /// Removes a publisher that waited for room.
    pub(super) fn dequeue_publisher(&self, ticket: u64) {
        let mut deferred = DeferredWork::default();
        let left = self.state.lock().dequeue_publisher(ticket, &mut deferred);
        drop(left);
        deferred.run();
    }

    /// Registers a batching publisher, to be woken as soon as a reader is idle; false if one is idle now.
    pub(super) fn register_batching(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let must_wait = state.parked.is_empty() && !state.closed;
        if must_wait && !state.batching_publishers.iter().any(|known| known.will_wake(waker)) {
            state.batching_publishers.push(waker.clone());
        }
        must_wait
    }

    /// Removes a publisher that has ended.
    pub(super) fn unregister_batching(&self, waker: &Waker) {
        self.state.lock().batching_publishers.retain(|other| !other.will_wake(waker));
    }

    /// Takes the waiters that must be woken because there are messages.
    pub(super) fn take_woken(&self) -> Vec<Arc<dyn Waiter>> {
        std::mem::take(&mut self.state.lock().woken)
    }

    /// Adds a cursor at the next message or at the oldest one; returns its position.
    ///
    /// The cursor is parked there; [`resume_cursor`](Self::resume_cursor) is its first step.
    pub(super) fn join(&self, oldest: bool, strong: bool, waiter: &Arc<dyn Waiter>) -> u64 {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        state.had_subscriber = true;
        let first = state.segments.front().map_or(state.head, |entry| entry.segment.base);
        if oldest && first < state.head {
            if let Some(front) = state.segments.front_mut() {
                front.pin(strong);
            }
            // Publishers may have waited for a first subscriber, and a weak cursor allows the oldest messages to be
            // evicted.
            state.reclaim(&mut deferred);
            drop(state);
            deferred.run();
            return first;
        }
        state.park_cursor(waiter, strong, &mut deferred);
        let head = state.head;
        state.reclaim(&mut deferred);
        drop(state);
        deferred.run();
        head
    }

    /// Parks a cursor that has read all of `segment`; false if there is another message or the log is closed.
    pub(super) fn park(&self, segment: &Segment, index: usize, strong: bool, waiter: &Arc<dyn Waiter>) -> bool {
        let position = segment.base + index as u64;
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        if rechecks_before_sleep(FenceSite::Sleep) && (state.head != position || state.closed) {
            return false;
        }
        state.unpin(segment, strong);
        state.park_cursor(waiter, strong, &mut deferred);
        state.reclaim(&mut deferred);
        drop(state);
        deferred.run();
        true
    }

    /// Returns the next step of a parked cursor; `None` if no message has arrived since.
    pub(super) fn resume_cursor(&self, position: u64) -> Option<SegmentPosition> {
        if self.head() <= position {
            return None;
        }
        // The append of that message has pinned its segment for this cursor.
        let state = self.state.lock();
        (state.head > position).then(|| state.locate(position))
    }

    /// Moves a cursor from the end of a segment to the next one, or to `position` if that is further.
    pub(super) fn advance_cursor(&self, segment: &Segment, position: u64, strong: bool) -> SegmentPosition {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        let mut step = state.locate(position);
        state.pin_at(&step.segment, strong);
        state.unpin(segment, strong);
        state.reclaim(&mut deferred);
        drop(state);
        deferred.run();
        if strong {
            debug_assert_eq!(step.missed, 0, "a strong cursor misses nothing");
            step.missed = 0;
        }
        step
    }

    /// Removes a cursor that reads in `segment`.
    pub(super) fn leave(&self, segment: &Segment, strong: bool) {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        state.unpin(segment, strong);
        state.reclaim(&mut deferred);
        drop(state);
        deferred.run();
    }

    /// Removes a cursor that is parked at `position`, or was until a message arrived.
    pub(super) fn leave_parked(&self, position: u64, strong: bool, waiter: &Arc<dyn Waiter>) {
        let mut deferred = DeferredWork::default();
        let mut state = self.state.lock();
        state.woken.retain(|other| !Arc::ptr_eq(other, waiter));
        if let Some(at) = state.parked.iter().position(|parked| Arc::ptr_eq(&parked.waiter, waiter)) {
            state.parked.swap_remove(at);
        } else {
            let step = state.locate(position);
            state.unpin(&step.segment, strong);
            state.reclaim(&mut deferred);
        }
        drop(state);
        deferred.run();
    }

    /// Closes the log for new messages; returns all waiters, which must be woken.
    pub(super) fn close(&self) -> Vec<Arc<dyn Waiter>> {
        let mut state = self.state.lock();
        state.closed = true;
        let mut waiters = std::mem::take(&mut state.woken);
        waiters.extend(state.parked.iter().map(|parked| Arc::clone(&parked.waiter)));
        waiters.extend(
            state
                .push_subscribers
                .iter()
                .map(|subscriber| Arc::<dyn PushSubscriber>::clone(subscriber) as Arc<dyn Waiter>),
        );
        let mut publishers = state.take_waiting_publishers();
        publishers.append(&mut state.batching_publishers);
        drop(state);
        DeferredWork { freed: Vec::new(), publishers }.run();
        waiters
    }

    /// Returns the reason to refuse a message regardless of room, before it is stored elsewhere.
    pub(super) fn reject_reason(&self, message: &Message) -> Option<AppendError> {
        self.state.lock().reject_reason(message)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the size of the messages held, with their slots.
    pub(super) fn memory_bytes(&self) -> u64 {
        let state = self.state.lock();
        let slots: usize = state.segments.iter().map(|pinned| pinned.segment.memory_bytes()).sum();
        (state.bytes + slots) as u64
    }

    pub(super) fn stats(&self) -> LogStats {
        let state = self.state.lock();
        LogStats {
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
