//! How far one subscriber is in the log of a topic.
//!
//! Reading is without a lock within a segment; only the way to the next one, and to sleep and back, takes the log's.

use std::sync::Arc;

use super::log::{Log, Sleeper};
use super::message::Message;
use super::segment::Segment;
use super::shelf::Step;
use crate::sync::Place as Written;

/// See the module.
pub(super) struct Cursor {
    place: Place,
    /// Whether the log waits for it.
    strong: bool,
}

enum Place {
    /// Reads in a segment, which it pins, and knows of messages up to `limit`.
    At { segment: Arc<Segment>, index: usize, limit: usize },
    /// Has read everything before this position.
    Parked(u64),
}

impl Cursor {
    pub(super) fn join(log: &Log, oldest: bool, strong: bool, sleeper: &Arc<dyn Sleeper>) -> Self {
        Self { place: Place::Parked(log.join(oldest, strong, sleeper)), strong }
    }

    /// The next message's.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        match &self.place {
            Place::At { segment, index, .. } => segment.base + *index as u64,
            Place::Parked(position) => *position,
        }
    }

    /// About when the next message was published, in nanoseconds of the runtime.
    #[inline]
    pub(super) fn published_ns(&self) -> u64 {
        match &self.place {
            Place::At { segment, .. } => segment.published_ns(self.position()),
            Place::Parked(_) => 0,
        }
    }

    /// Messages that can be read one after the other from here; adds to `missed` what this cursor will never see.
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
                    // In this order: what a sealed segment holds is final.
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

    /// The next message; only after [`ready`](Self::ready) has said that there is one.
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

    /// The next `count` messages, of as many as [`ready`](Self::ready) has said.
    #[inline]
    pub(super) fn take_many(&mut self, count: usize) -> &[Written<Message>] {
        let Place::At { segment, index, .. } = &mut self.place else {
            unreachable!("a parked cursor has nothing to read");
        };
        let from = *index;
        *index += count;
        segment.messages(from, from + count)
    }

    /// Goes forward to `position` without reading; gives how many messages it passed over.
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
            // Its next step goes there.
            Place::Parked(_) => 0,
        }
    }

    /// Lets the log wake `sleeper` with the next message; false if there is one already, or never will be.
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

    /// Ends the cursor.
    pub(super) fn leave(&mut self, log: &Log, sleeper: &Arc<dyn Sleeper>) {
        match &self.place {
            Place::At { segment, .. } => log.leave(segment, self.strong),
            Place::Parked(position) => log.leave_parked(*position, self.strong, sleeper),
        }
    }
}
