//! Retention buffer of a topic's log, behind its lock: ordered segments, their pins, and the wait lists.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxHashSet;

use super::message::Message;
use super::segment::Segment;
use crate::runtime::panics;

/// Maximum number of slots per segment. The first segments of a log are smaller.
const SEGMENT_SLOTS_MAX: usize = 256;
const SEGMENT_SLOTS_MIN: usize = 8;
/// Number of segments over which the bounds of a log are spread.
const SEGMENTS_PER_LOG: usize = 8;

/// Bounds of a log, and its policy for unread messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogLimits {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) retention: Retention,
}

/// Policy for messages that no subscriber is waiting to read.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::topic::{Message, Overflow, Retention, TopicConfig};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let config = TopicConfig { retention: Retention::KeepNewest, ..TopicConfig::default() };
/// let log = runtime.topics().create_with("log", config)?;
/// log.blocking_publish(Message::new("before anybody listened"))?;
/// let mut late = log.subscribe_oldest(Overflow::Block);
/// assert_eq!(late.blocking_next()?.payload(), "before anybody listened");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
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
pub(super) trait Waiter: Send + Sync {
    fn wake(&self);
}

/// A subscriber to which messages are pushed, because the log need not retain them for it.
pub(super) trait PushSubscriber: Waiter {
    /// Clones the message if there is room for it; returns true if the subscriber must be woken.
    fn push(&self, message: &Message) -> bool;
}

/// Reason why a message was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendError {
    Full,
    Closed,
    Paused,
}

/// A cursor that has read everything.
pub(super) struct Parked {
    pub(super) waiter: Arc<dyn Waiter>,
    pub(super) strong: bool,
}

pub(super) struct PinnedSegment {
    pub(super) segment: Arc<Segment>,
    strong: usize,
    weak: usize,
    pub(super) bytes: usize,
}

/// Retention buffer: the segments of a log with their pins, and everything that waits at it.
pub(super) struct RetentionBuffer {
    limits: LogLimits,
    pub(super) segments: VecDeque<PinnedSegment>,
    pub(super) head: u64,
    pub(super) bytes: usize,
    pub(super) parked: Vec<Parked>,
    /// Sleepers that were parked and must be woken.
    pub(super) woken: Vec<Arc<dyn Waiter>>,
    pub(super) push_subscribers: Vec<Arc<dyn PushSubscriber>>,
    /// Publishers waiting for room, in ticket order. Tickets only increase.
    waiting_publishers: Vec<(u64, Waker)>,
    tickets: u64,
    /// Publishers that batch messages until the batch is full or a reader becomes idle.
    pub(super) batching_publishers: Vec<Waker>,
    /// Ordering keys that accept no messages until they are resumed.
    pub(super) paused: FxHashSet<Arc<str>>,
    pub(super) closed: bool,
    /// True once there has been a subscriber or subscription.
    pub(super) had_subscriber: bool,
    pub(super) evicted: u64,
}

/// Work to do after the lock is released: segments to free, publishers to wake.
#[derive(Default)]
pub(super) struct DeferredWork {
    pub(super) freed: Vec<Arc<Segment>>,
    pub(super) publishers: Vec<Waker>,
}

impl DeferredWork {
    pub(super) fn run(self) {
        drop(self.freed);
        for publisher in self.publishers {
            panics::wake(publisher);
        }
    }
}

/// Position from which a cursor continues.
pub(super) struct SegmentPosition {
    pub(super) segment: Arc<Segment>,
    pub(super) index: usize,
    pub(super) missed: u64,
}

impl PinnedSegment {
    pub(super) const fn pin(&mut self, strong: bool) {
        if strong {
            self.strong += 1;
        } else {
            self.weak += 1;
        }
    }
}

/// Maximum number of paused keys. Beyond it, the next message of a key may overtake a refused one.
const PAUSED_MAX: usize = 65_536;

impl RetentionBuffer {
    /// Stops accepting messages of this key.
    pub(super) fn pause(&mut self, key: &Arc<str>) {
        if self.paused.len() < PAUSED_MAX {
            self.paused.insert(Arc::clone(key));
        }
    }

    pub(super) fn new(limits: LogLimits, base: u64) -> Self {
        let mut buffer = Self {
            limits,
            segments: VecDeque::new(),
            head: base,
            bytes: 0,
            parked: Vec::new(),
            woken: Vec::new(),
            push_subscribers: Vec::new(),
            waiting_publishers: Vec::new(),
            tickets: 0,
            batching_publishers: Vec::new(),
            paused: FxHashSet::default(),
            closed: false,
            had_subscriber: false,
            evicted: 0,
        };
        buffer.open_segment(0);
        buffer
    }

    pub(super) fn messages(&self) -> u64 {
        self.segments.front().map_or(0, |front| self.head - front.segment.base)
    }

    fn tail(&mut self) -> &mut PinnedSegment {
        self.segments.back_mut().expect("a log has a tail")
    }

    /// Opens a new tail. Segments grow from one to the next, up to a fraction of the bounds.
    fn open_segment(&mut self, last_slots: usize) {
        let most = (self.limits.messages / SEGMENTS_PER_LOG).clamp(1, SEGMENT_SLOTS_MAX);
        let slots = (last_slots * 2).clamp(SEGMENT_SLOTS_MIN.min(most), most);
        let segment = Arc::new(Segment::new(self.head, slots));
        self.segments.push_back(PinnedSegment { segment, strong: 0, weak: 0, bytes: 0 });
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.messages() < self.limits.messages as u64 && self.bytes.saturating_add(bytes) <= self.limits.bytes
    }

    /// Accepts the message unless it is refused; evicts messages to make room where that is allowed.
    #[inline]
    pub(super) fn admit(&mut self, message: &Message, deferred: &mut DeferredWork) -> Result<(), AppendError> {
        self.reject_reason(message).map_or_else(|| self.admit_stored(message, deferred), Err)
    }

    /// Returns the reason to refuse the message regardless of room.
    #[inline]
    pub(super) fn reject_reason(&self, message: &Message) -> Option<AppendError> {
        if self.closed {
            return Some(AppendError::Closed);
        }
        let is_paused = !self.paused.is_empty() && message.shared_key().is_some_and(|key| self.paused.contains(key));
        is_paused.then_some(AppendError::Paused)
    }

    /// Checks for room only; evicts messages to make room where that is allowed.
    #[inline]
    pub(super) fn admit_stored(&mut self, message: &Message, deferred: &mut DeferredWork) -> Result<(), AppendError> {
        let bytes = message.bytes();
        if self.has_room(bytes) { Ok(()) } else { self.make_room(bytes, deferred) }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize, deferred: &mut DeferredWork) -> Result<(), AppendError> {
        self.seal_tail();
        self.reclaim(deferred);
        while !self.has_room(bytes) {
            if !self.is_evictable() {
                return Err(AppendError::Full);
            }
            self.evict(deferred);
        }
        Ok(())
    }

    /// Frees the oldest segment. Its cursors, which may lose messages, continue with the next one and take over a pin
    /// there.
    fn evict(&mut self, deferred: &mut DeferredWork) {
        let front = &self.segments[0];
        let weak = front.weak;
        self.evicted += front.segment.filled() as u64;
        self.pop_front(deferred);
        self.segments[0].weak += weak;
    }

    const fn retains_all(&self) -> bool {
        matches!(self.limits.retention, Retention::KeepAll) && !self.had_subscriber
    }

    fn seal_tail(&mut self) {
        let tail = self.tail();
        if tail.segment.filled() > 0 {
            tail.segment.seal();
            let slots = tail.segment.slots();
            self.open_segment(slots);
        }
    }

    #[inline]
    pub(super) fn push(&mut self, message: Message, now_ns: &mut impl FnMut() -> u64, deferred: &mut DeferredWork) {
        for subscriber in &self.push_subscribers {
            if subscriber.push(&message) {
                self.woken.push(Arc::<dyn PushSubscriber>::clone(subscriber));
            }
        }
        let bytes = message.bytes();
        self.bytes += bytes;
        self.head += 1;
        let parked = !self.parked.is_empty();
        let (strong, weak) = if parked { self.unpark() } else { (0, 0) };
        let part_bytes = self.limits.bytes / SEGMENTS_PER_LOG;
        let tail = self.tail();
        tail.strong += strong;
        tail.weak += weak;
        tail.bytes += bytes;
        tail.segment.push(message, now_ns);
        if tail.segment.filled() == tail.segment.slots() || tail.bytes >= part_bytes {
            self.seal_tail();
            self.reclaim(deferred);
        }
    }

    /// Parks a cursor that has read everything, and wakes batching publishers: an idle reader needs their messages
    /// now.
    pub(super) fn park_cursor(&mut self, waiter: &Arc<dyn Waiter>, strong: bool, deferred: &mut DeferredWork) {
        self.parked.push(Parked { waiter: Arc::clone(waiter), strong });
        deferred.publishers.append(&mut self.batching_publishers);
    }

    /// Moves all parked cursors to `woken`; returns the number of strong and weak pins that they take.
    fn unpark(&mut self) -> (usize, usize) {
        let strong = self.parked.iter().filter(|parked| parked.strong).count();
        let weak = self.parked.len() - strong;
        self.woken.extend(self.parked.drain(..).map(|parked| parked.waiter));
        (strong, weak)
    }

    /// Returns the segment that holds a position, or the first one if that segment is gone.
    pub(super) fn at(&self, position: u64) -> &Arc<Segment> {
        let after = self.segments.partition_point(|entry| entry.segment.base <= position);
        &self.segments[after.saturating_sub(1)].segment
    }

    pub(super) fn locate(&self, position: u64) -> SegmentPosition {
        let segment = Arc::clone(self.at(position));
        let missed = segment.base.saturating_sub(position);
        let index = (position + missed - segment.base) as usize;
        SegmentPosition { segment, index, missed }
    }

    fn entry(&mut self, segment: &Segment) -> Option<&mut PinnedSegment> {
        let at = self.segments.binary_search_by_key(&segment.base, |entry| entry.segment.base).ok()?;
        self.segments.get_mut(at)
    }

    pub(super) fn pin_at(&mut self, segment: &Segment, strong: bool) {
        if let Some(entry) = self.entry(segment) {
            entry.pin(strong);
        }
    }

    pub(super) fn unpin(&mut self, segment: &Segment, strong: bool) {
        // After an eviction, the pin of a cursor in the evicted segment is on the oldest remaining one.
        let at = self.segments.binary_search_by_key(&segment.base, |entry| entry.segment.base).unwrap_or(0);
        let entry = &mut self.segments[at];
        let pins = if strong { &mut entry.strong } else { &mut entry.weak };
        debug_assert!(*pins > 0, "a pin is removed once");
        *pins -= 1;
    }

    /// Frees the segments that no cursor will read any more.
    pub(super) fn reclaim(&mut self, deferred: &mut DeferredWork) {
        let before = self.segments.len();
        if self.limits.retention != Retention::KeepNewest && !self.retains_all() {
            while self.segments.len() > 1 && self.segments[0].strong == 0 && self.segments[0].weak == 0 {
                self.pop_front(deferred);
            }
        }
        self.wake_publishers(self.segments.len() < before, deferred);
    }

    fn pop_front(&mut self, deferred: &mut DeferredWork) {
        let Some(front) = self.segments.pop_front() else { return };
        self.bytes -= front.bytes;
        deferred.freed.push(front.segment);
    }

    /// Wakes waiting publishers when half of the log is free, so that they can publish together. Until then it wakes
    /// only the first in line, whenever something was freed and an eighth is free: other publishers could prevent half
    /// of the log from ever becoming free. Waking with less room makes publishers block again immediately (thrashing).
    ///
    /// A caller that looks for room and frees nothing wakes no publisher, so waiting publishers do not wake each
    /// other.
    fn wake_publishers(&mut self, freed: bool, deferred: &mut DeferredWork) {
        if self.waiting_publishers.is_empty() {
            return;
        }
        let is_free = |part: usize| {
            let is_within = |taken: usize, most: usize| taken * SEGMENTS_PER_LOG <= most * (SEGMENTS_PER_LOG - part);
            is_within(self.messages() as usize, self.limits.messages) && is_within(self.bytes, self.limits.bytes)
        };
        if is_free(SEGMENTS_PER_LOG / 2) || self.is_evictable() {
            deferred.publishers.append(&mut self.take_waiting_publishers());
        } else if freed && is_free(1) {
            deferred.publishers.push(self.waiting_publishers.remove(0).1);
        }
    }

    /// Returns the wakers of at most `limit` of the publishers that wait for room.
    pub(super) fn waiting_wakers(&self, limit: usize) -> Vec<Waker> {
        self.waiting_publishers.iter().map(|(_, waker)| waker.clone()).take(limit).collect()
    }

    /// Number of publishers waiting for room.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting_publishers.len()
    }

    /// Enqueues a waiting publisher, once per ticket; returns the waker that it replaces.
    pub(super) fn enqueue_publisher(&mut self, waker: &Waker, ticket: &mut u64) -> Option<Waker> {
        if let Ok(at) = self.ticket_index(*ticket) {
            let noted = &mut self.waiting_publishers[at].1;
            return (!noted.will_wake(waker)).then(|| std::mem::replace(noted, waker.clone()));
        }
        self.tickets += 1;
        *ticket = self.tickets;
        self.waiting_publishers.push((*ticket, waker.clone()));
        None
    }

    /// Removes a publisher that no longer waits. If it had been woken and left room unused, wakes the next one.
    pub(super) fn dequeue_publisher(&mut self, ticket: u64, deferred: &mut DeferredWork) -> Option<Waker> {
        if let Ok(at) = self.ticket_index(ticket) {
            return Some(self.waiting_publishers.remove(at).1);
        }
        if !self.waiting_publishers.is_empty() && self.has_room(0) {
            deferred.publishers.push(self.waiting_publishers.remove(0).1);
        }
        None
    }

    /// Removes and returns all publishers that wait for room.
    pub(super) fn take_waiting_publishers(&mut self) -> Vec<Waker> {
        self.waiting_publishers.drain(..).map(|(_, waker)| waker).collect()
    }

    fn ticket_index(&self, ticket: u64) -> Result<usize, usize> {
        self.waiting_publishers.binary_search_by_key(&ticket, |(own, _)| *own)
    }

    /// Returns true if the oldest messages may be evicted: every cursor at them may lose messages.
    fn is_evictable(&self) -> bool {
        self.segments.len() > 1 && self.segments[0].strong == 0 && !self.retains_all()
    }
}
