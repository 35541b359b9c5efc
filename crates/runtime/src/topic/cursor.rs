//! Read position of one subscriber in the log of a topic.
//!
//! Reads within a segment take no lock. Moving to the next segment, parking and waking take the log's lock.

use std::sync::Arc;

use super::log::{Log, Sleeper};
use super::message::Message;
use super::segment::Segment;
use super::shelf::Step;
use crate::sync::Place as Written;

/// Read position in a log; pins the segment that it reads.
pub(super) struct Cursor {
    place: Place,
    /// True if the log must not evict messages that this cursor has not read.
    strong: bool,
}

enum Place {
    /// Reads in a segment, which it pins; messages up to `limit` are known to be filled.
    At { segment: Arc<Segment>, index: usize, limit: usize },
    /// Has read everything before this position.
    Parked(u64),
}

impl Cursor {
    pub(super) fn join(log: &Log, oldest: bool, strong: bool, sleeper: &Arc<dyn Sleeper>) -> Self {
        Self { place: Place::Parked(log.join(oldest, strong, sleeper)), strong }
    }

    /// Position of the next message.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        match &self.place {
            Place::At { segment, index, .. } => segment.base + *index as u64,
            Place::Parked(position) => *position,
        }
    }

    /// Approximate publication time of the next message, in nanoseconds since the start of the runtime.
    #[inline]
    pub(super) fn published_ns(&self) -> u64 {
        match &self.place {
            Place::At { segment, .. } => segment.published_ns(self.position()),
            Place::Parked(_) => 0,
        }
    }

    /// Number of messages that can be read as one slice from here. Adds the messages that this cursor lost to
    /// `missed`.
    #[inline]
    pub(super) fn ready(&mut self, log: &Log, missed: &mut u64) -> usize {
        if let Place::At { index, limit, .. } = &self.place
            && index < limit
        {
            return limit - index;
        }
        self.look(log, missed)
    }

    fn look(&mut self, log: &Log, missed: &mut u64) -> usize {
        loop {
            let step = match &mut self.place {
                Place::Parked(position) => match log.go_on(*position) {
                    Some(step) => step,
                    None => return 0,
                },
                Place::At { segment, index, limit } => {
                    // Load `sealed` before `filled`: only then is the count of a sealed segment known to be final.
                    let sealed = segment.is_sealed();
                    *limit = segment.filled();
                    if *index < *limit || !sealed {
                        return *limit - *index;
                    }
                    log.move_on(segment, segment.base + *index as u64, self.strong)
                }
            };
            *missed += step.missed;
            self.take(step);
        }
    }

    fn take(&mut self, Step { segment, index, .. }: Step) {
        self.place = Place::At { segment, index, limit: index };
    }

    /// Returns the next message. Call only after [`ready`](Self::ready) returned at least 1.
    #[inline]
    pub(super) fn next(&mut self) -> &Message {
        match &mut self.place {
            Place::At { segment, index, .. } => {
                *index += 1;
                segment.message(*index - 1)
            }
            Place::Parked(_) => unreachable!("a parked cursor has nothing to read"),
        }
    }

    /// Returns the next `count` messages; `count` must not exceed the result of [`ready`](Self::ready).
    #[inline]
    pub(super) fn take_many(&mut self, count: usize) -> &[Written<Message>] {
        let Place::At { segment, index, .. } = &mut self.place else {
            unreachable!("a parked cursor has nothing to read");
        };
        let from = *index;
        *index += count;
        segment.messages(from, from + count)
    }

    /// Advances to `position` without reading; returns the number of messages skipped.
    pub(super) fn skip_to(&mut self, log: &Log, position: u64) -> u64 {
        let passed = position.saturating_sub(self.position());
        if passed == 0 {
            return 0;
        }
        match &mut self.place {
            Place::At { segment, index, limit } if position < segment.base + *limit as u64 => {
                *index += passed as usize;
                passed
            }
            Place::At { segment, .. } => {
                let step = log.move_on(segment, position, self.strong);
                let missed = step.missed;
                self.take(step);
                passed + missed
            }
            // A parked cursor does not skip: its next step enters the log at its own position.
            Place::Parked(_) => 0,
        }
    }

    /// Parks the cursor, so that the next message wakes `sleeper`; false if there is a message already or the log is
    /// closed.
    pub(super) fn park(&mut self, log: &Log, sleeper: &Arc<dyn Sleeper>) -> bool {
        match &self.place {
            Place::Parked(position) => log.head() <= *position,
            Place::At { segment, index, .. } => {
                let parked = log.park(segment, *index, self.strong, sleeper);
                if parked {
                    self.place = Place::Parked(segment.base + *index as u64);
                }
                parked
            }
        }
    }

    /// Removes the cursor from the log.
    pub(super) fn leave(&mut self, log: &Log, sleeper: &Arc<dyn Sleeper>) {
        match &self.place {
            Place::At { segment, .. } => log.leave(segment, self.strong),
            Place::Parked(position) => log.leave_parked(*position, self.strong, sleeper),
        }
    }
}
