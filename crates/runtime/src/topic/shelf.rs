//! What a topic's log holds, under its lock: segments in order, who pins them, who sleeps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxHashSet;

use super::log::{Listener, Refused, Rules, Sleeper, Unread};
use super::message::Message;
use super::segment::Segment;
use crate::panics;

/// Most places in a segment; the first ones of a log have fewer.
const PLACES_MAX: usize = 256;
const PLACES_MIN: usize = 8;
/// Segments that the bounds of a log are divided into.
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

/// See the module.
pub(super) struct Shelf {
    rules: Rules,
    pub(super) segments: VecDeque<Held>,
    pub(super) head: u64,
    pub(super) bytes: usize,
    pub(super) parked: Vec<Parked>,
    /// Those who were parked, and are to be woken.
    pub(super) woken: Vec<Arc<dyn Sleeper>>,
    pub(super) listeners: Vec<Arc<dyn Listener>>,
    /// Publishers that wait for room, by their tickets, which only go up.
    line: Vec<(u64, Waker)>,
    tickets: u64,
    /// Publishers that hold messages back until they have a batch of them, or somebody has nothing to read.
    pub(super) gathering: Vec<Waker>,
    /// Ordering keys that take no messages until they are resumed.
    pub(super) paused: FxHashSet<Arc<str>>,
    pub(super) closed: bool,
    /// Whether anybody has ever subscribed.
    pub(super) known: bool,
    pub(super) evicted: u64,
}

/// What is to be done once the lock is released: memory to free, publishers to wake.
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

/// Where a cursor goes on.
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

/// Keys that are paused at once: of more, the next message of a key may overtake one that was refused.
const PAUSED_MAX: usize = 65_536;

impl Shelf {
    /// Takes no more messages of this key.
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

    /// Opens a tail with so many places that the bounds divide well.
    fn open(&mut self, last_places: usize) {
        let most = (self.rules.messages / PARTS).clamp(1, PLACES_MAX);
        let places = (last_places * 2).clamp(PLACES_MIN.min(most), most);
        let segment = Arc::new(Segment::new(self.head, places));
        self.segments.push_back(Held { segment, strong: 0, weak: 0, bytes: 0 });
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.messages() < self.rules.messages as u64 && self.bytes.saturating_add(bytes) <= self.rules.bytes
    }

    /// Whether the message may come in; makes room for it by whatever may go.
    #[inline]
    pub(super) fn admit(&mut self, message: &Message, after: &mut After) -> Result<(), Refused> {
        self.refuses(message).map_or_else(|| self.admit_kept(message, after), Err)
    }

    /// Why the message may not come in whatever the room.
    #[inline]
    pub(super) fn refuses(&self, message: &Message) -> Option<Refused> {
        if self.closed {
            return Some(Refused::Closed);
        }
        let is_paused = !self.paused.is_empty() && message.shared_key().is_some_and(|key| self.paused.contains(key));
        is_paused.then_some(Refused::Paused)
    }

    /// Whether there is room for the message; makes some by whatever may go.
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

    /// Frees the oldest segment; the cursors in it, which may lose messages, go on with the next one, whose pin is theirs.
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

    /// Notes a cursor that has read everything; those who gather need not do so for its sake.
    pub(super) fn take_seat(&mut self, sleeper: &Arc<dyn Sleeper>, strong: bool, after: &mut After) {
        self.parked.push(Parked { sleeper: Arc::clone(sleeper), strong });
        after.publishers.append(&mut self.gathering);
    }

    /// All who are parked are to be woken; gives how many pins they take, strong and weak ones.
    fn unpark(&mut self) -> (usize, usize) {
        let strong = self.parked.iter().filter(|parked| parked.strong).count();
        let weak = self.parked.len() - strong;
        self.woken.extend(self.parked.drain(..).map(|parked| parked.sleeper));
        (strong, weak)
    }

    /// The segment that holds a position, or the first one if it is gone.
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
        // The pin of a cursor whose segment was evicted is on the oldest one that is left.
        let at = self.segments.binary_search_by_key(&segment.base, |held| held.segment.base).unwrap_or(0);
        let held = &mut self.segments[at];
        let pins = if strong { &mut held.strong } else { &mut held.weak };
        debug_assert!(*pins > 0, "a pin is taken back once");
        *pins -= 1;
    }

    /// Frees what nobody is to have any more.
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

    /// Publishers that wait are woken when half of the log is free, so that they come in all together; before that the first in
    /// the line whenever something was freed and an eighth is free, because others who publish may see to it that half of the log
    /// never is. With less room than that who comes in soon waits again, and both sides wake each other all the time.
    ///
    /// Whoever looks for room and frees nothing wakes nobody, so those who wait do not wake each other.
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

    /// Publishers that wait for room.
    pub(super) const fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Notes a publisher that waits for room, once for each ticket; gives a waker that it had before.
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

    /// Forgets a publisher that waits no more. If it was woken, and there is room that it has not taken, the next one is.
    pub(super) fn leave_line(&mut self, ticket: u64, after: &mut After) -> Option<Waker> {
        if let Ok(at) = self.place_of(ticket) {
            return Some(self.line.remove(at).1);
        }
        if !self.line.is_empty() && self.has_room(0) {
            after.publishers.push(self.line.remove(0).1);
        }
        None
    }

    /// All who wait for room.
    pub(super) fn take_line(&mut self) -> Vec<Waker> {
        self.line.drain(..).map(|(_, waker)| waker).collect()
    }

    fn place_of(&self, ticket: u64) -> Result<usize, usize> {
        self.line.binary_search_by_key(&ticket, |(own, _)| *own)
    }

    /// Whether the oldest messages may go, because all who are to have them may lose them.
    fn is_evictable(&self) -> bool {
        self.segments.len() > 1 && self.segments[0].strong == 0 && !self.keeps_all()
    }
}
