//! Retention buffer of a topic's log, behind its lock: ordered segments, their pins, and the wait lists.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxHashSet;

use super::log::{Listener, Refused, Rules, Sleeper, Unread};
use super::message::Message;
use super::segment::Segment;
use crate::panics;

/// Maximum number of slots per segment. The first segments of a log are smaller.
const PLACES_MAX: usize = 256;
const PLACES_MIN: usize = 8;
/// Number of segments over which the bounds of a log are spread.
const PARTS: usize = 8;

/// A cursor that has read everything.
pub(super) struct Parked {
    pub(super) sleeper: Arc<dyn Sleeper>,
    pub(super) strong: bool,
}

pub(super) struct Held {
    pub(super) segment: Arc<Segment>,
    strong: usize,
    weak: usize,
    pub(super) bytes: usize,
}

/// Retention buffer: the segments of a log with their pins, and everything that waits at it.
pub(super) struct Shelf {
    rules: Rules,
    pub(super) segments: VecDeque<Held>,
    pub(super) head: u64,
    pub(super) bytes: usize,
    pub(super) parked: Vec<Parked>,
    /// Sleepers that were parked and must be woken.
    pub(super) woken: Vec<Arc<dyn Sleeper>>,
    pub(super) listeners: Vec<Arc<dyn Listener>>,
    /// Publishers waiting for room, in ticket order. Tickets only increase.
    line: Vec<(u64, Waker)>,
    tickets: u64,
    /// Publishers that batch messages until the batch is full or a reader becomes idle.
    pub(super) gathering: Vec<Waker>,
    /// Ordering keys that accept no messages until they are resumed.
    pub(super) paused: FxHashSet<Arc<str>>,
    pub(super) closed: bool,
    /// True once there has been a subscriber or subscription.
    pub(super) known: bool,
    pub(super) evicted: u64,
}

/// Work to do after the lock is released: segments to free, publishers to wake.
#[derive(Default)]
pub(super) struct After {
    pub(super) freed: Vec<Arc<Segment>>,
    pub(super) publishers: Vec<Waker>,
}

impl After {
    pub(super) fn run(self) {
        drop(self.freed);
        for publisher in self.publishers {
            panics::wake(publisher);
        }
    }
}

/// Position from which a cursor continues.
pub(super) struct Step {
    pub(super) segment: Arc<Segment>,
    pub(super) index: usize,
    pub(super) missed: u64,
}

impl Held {
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

impl Shelf {
    /// Stops accepting messages of this key.
    pub(super) fn pause(&mut self, key: &Arc<str>) {
        if self.paused.len() < PAUSED_MAX {
            self.paused.insert(Arc::clone(key));
        }
    }

    pub(super) fn new(rules: Rules, base: u64) -> Self {
        let mut shelf = Self {
            rules,
            segments: VecDeque::new(),
            head: base,
            bytes: 0,
            parked: Vec::new(),
            woken: Vec::new(),
            listeners: Vec::new(),
            line: Vec::new(),
            tickets: 0,
            gathering: Vec::new(),
            paused: FxHashSet::default(),
            closed: false,
            known: false,
            evicted: 0,
        };
        shelf.open(0);
        shelf
    }

    pub(super) fn messages(&self) -> u64 {
        self.segments.front().map_or(0, |front| self.head - front.segment.base)
    }

    fn tail(&mut self) -> &mut Held {
        self.segments.back_mut().expect("a log has a tail")
    }

    /// Opens a new tail. Segments grow from one to the next, up to a fraction of the bounds.
    fn open(&mut self, last_places: usize) {
        let most = (self.rules.messages / PARTS).clamp(1, PLACES_MAX);
        let places = (last_places * 2).clamp(PLACES_MIN.min(most), most);
        let segment = Arc::new(Segment::new(self.head, places));
        self.segments.push_back(Held { segment, strong: 0, weak: 0, bytes: 0 });
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.messages() < self.rules.messages as u64 && self.bytes.saturating_add(bytes) <= self.rules.bytes
    }

    /// Accepts the message unless it is refused; evicts messages to make room where that is allowed.
    #[inline]
    pub(super) fn admit(&mut self, message: &Message, after: &mut After) -> Result<(), Refused> {
        self.refuses(message).map_or_else(|| self.admit_kept(message, after), Err)
    }

    /// Returns the reason to refuse the message regardless of room.
    #[inline]
    pub(super) fn refuses(&self, message: &Message) -> Option<Refused> {
        if self.closed {
            return Some(Refused::Closed);
        }
        let is_paused = !self.paused.is_empty() && message.shared_key().is_some_and(|key| self.paused.contains(key));
        is_paused.then_some(Refused::Paused)
    }

    /// Checks for room only; evicts messages to make room where that is allowed.
    #[inline]
    pub(super) fn admit_kept(&mut self, message: &Message, after: &mut After) -> Result<(), Refused> {
        let bytes = message.bytes();
        if self.has_room(bytes) { Ok(()) } else { self.make_room(bytes, after) }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize, after: &mut After) -> Result<(), Refused> {
        self.seal_tail();
        self.reclaim(after);
        while !self.has_room(bytes) {
            if !self.is_evictable() {
                return Err(Refused::Full);
            }
            self.evict(after);
        }
        Ok(())
    }

    /// Frees the oldest segment. Its cursors, which may lose messages, continue with the next one and take over a pin
    /// there.
    fn evict(&mut self, after: &mut After) {
        let front = &self.segments[0];
        let weak = front.weak;
        self.evicted += front.segment.filled() as u64;
        self.pop_front(after);
        self.segments[0].weak += weak;
    }

    const fn keeps_all(&self) -> bool {
        matches!(self.rules.unread, Unread::KeepAll) && !self.known
    }

    fn seal_tail(&mut self) {
        let tail = self.tail();
        if tail.segment.filled() > 0 {
            tail.segment.seal();
            let places = tail.segment.places();
            self.open(places);
        }
    }

    #[inline]
    pub(super) fn push(&mut self, message: Message, now_ns: &mut impl FnMut() -> u64, after: &mut After) {
        for listener in &self.listeners {
            if listener.hear(&message) {
                self.woken.push(Arc::<dyn Listener>::clone(listener));
            }
        }
        let bytes = message.bytes();
        self.bytes += bytes;
        self.head += 1;
        let parked = !self.parked.is_empty();
        let (strong, weak) = if parked { self.unpark() } else { (0, 0) };
        let part_bytes = self.rules.bytes / PARTS;
        let tail = self.tail();
        tail.strong += strong;
        tail.weak += weak;
        tail.bytes += bytes;
        tail.segment.push(message, now_ns);
        if tail.segment.filled() == tail.segment.places() || tail.bytes >= part_bytes {
            self.seal_tail();
            self.reclaim(after);
        }
    }

    /// Parks a cursor that has read everything, and wakes batching publishers: an idle reader needs their messages
    /// now.
    pub(super) fn take_seat(&mut self, sleeper: &Arc<dyn Sleeper>, strong: bool, after: &mut After) {
        self.parked.push(Parked { sleeper: Arc::clone(sleeper), strong });
        after.publishers.append(&mut self.gathering);
    }

    /// Moves all parked cursors to `woken`; returns the number of strong and weak pins that they take.
    fn unpark(&mut self) -> (usize, usize) {
        let strong = self.parked.iter().filter(|parked| parked.strong).count();
        let weak = self.parked.len() - strong;
        self.woken.extend(self.parked.drain(..).map(|parked| parked.sleeper));
        (strong, weak)
    }

    /// Returns the segment that holds a position, or the first one if that segment is gone.
    pub(super) fn at(&self, position: u64) -> &Arc<Segment> {
        let after = self.segments.partition_point(|held| held.segment.base <= position);
        &self.segments[after.saturating_sub(1)].segment
    }

    pub(super) fn step(&self, position: u64) -> Step {
        let segment = Arc::clone(self.at(position));
        let missed = segment.base.saturating_sub(position);
        let index = (position + missed - segment.base) as usize;
        Step { segment, index, missed }
    }

    fn held(&mut self, segment: &Segment) -> Option<&mut Held> {
        let at = self.segments.binary_search_by_key(&segment.base, |held| held.segment.base).ok()?;
        self.segments.get_mut(at)
    }

    pub(super) fn pin_at(&mut self, segment: &Segment, strong: bool) {
        if let Some(held) = self.held(segment) {
            held.pin(strong);
        }
    }

    pub(super) fn unpin(&mut self, segment: &Segment, strong: bool) {
        // After an eviction, the pin of a cursor in the evicted segment is on the oldest remaining one.
        let at = self.segments.binary_search_by_key(&segment.base, |held| held.segment.base).unwrap_or(0);
        let held = &mut self.segments[at];
        let pins = if strong { &mut held.strong } else { &mut held.weak };
        debug_assert!(*pins > 0, "a pin is removed once");
        *pins -= 1;
    }

    /// Frees the segments that no cursor will read any more.
    pub(super) fn reclaim(&mut self, after: &mut After) {
        let before = self.segments.len();
        if self.rules.unread != Unread::KeepNewest && !self.keeps_all() {
            while self.segments.len() > 1 && self.segments[0].strong == 0 && self.segments[0].weak == 0 {
                self.pop_front(after);
            }
        }
        self.relieve(self.segments.len() < before, after);
    }

    fn pop_front(&mut self, after: &mut After) {
        let Some(front) = self.segments.pop_front() else { return };
        self.bytes -= front.bytes;
        after.freed.push(front.segment);
    }

    /// Wakes waiting publishers when half of the log is free, so that they can publish together. Until then it wakes
    /// only the first in line, whenever something was freed and an eighth is free: other publishers could prevent half
    /// of the log from ever becoming free. Waking with less room makes publishers block again immediately (thrashing).
    ///
    /// A caller that looks for room and frees nothing wakes no publisher, so waiting publishers do not wake each
    /// other.
    fn relieve(&mut self, freed: bool, after: &mut After) {
        if self.line.is_empty() {
            return;
        }
        let is_free = |part: usize| {
            let is_within = |taken: usize, most: usize| taken * PARTS <= most * (PARTS - part);
            is_within(self.messages() as usize, self.rules.messages) && is_within(self.bytes, self.rules.bytes)
        };
        if is_free(PARTS / 2) || self.is_evictable() {
            after.publishers.append(&mut self.take_line());
        } else if freed && is_free(1) {
            after.publishers.push(self.line.remove(0).1);
        }
    }

    /// Number of publishers waiting for room.
    pub(super) const fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Enqueues a waiting publisher, once per ticket; returns the waker that it replaces.
    pub(super) fn line_up(&mut self, waker: &Waker, ticket: &mut u64) -> Option<Waker> {
        if let Ok(at) = self.place_of(*ticket) {
            let noted = &mut self.line[at].1;
            return (!noted.will_wake(waker)).then(|| std::mem::replace(noted, waker.clone()));
        }
        self.tickets += 1;
        *ticket = self.tickets;
        self.line.push((*ticket, waker.clone()));
        None
    }

    /// Removes a publisher that no longer waits. If it had been woken and left room unused, wakes the next one.
    pub(super) fn leave_line(&mut self, ticket: u64, after: &mut After) -> Option<Waker> {
        if let Ok(at) = self.place_of(ticket) {
            return Some(self.line.remove(at).1);
        }
        if !self.line.is_empty() && self.has_room(0) {
            after.publishers.push(self.line.remove(0).1);
        }
        None
    }

    /// Removes and returns all publishers that wait for room.
    pub(super) fn take_line(&mut self) -> Vec<Waker> {
        self.line.drain(..).map(|(_, waker)| waker).collect()
    }

    fn place_of(&self, ticket: u64) -> Result<usize, usize> {
        self.line.binary_search_by_key(&ticket, |(own, _)| *own)
    }

    /// Returns true if the oldest messages may be evicted: every cursor at them may lose messages.
    fn is_evictable(&self) -> bool {
        self.segments.len() > 1 && self.segments[0].strong == 0 && !self.keeps_all()
    }
}
