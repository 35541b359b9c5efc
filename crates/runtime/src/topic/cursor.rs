//! Read position of one subscriber in the log of a topic.
//!
//! Reads within a segment take no lock. Moving to the next segment, parking and waking take the log's lock.

use std::sync::Arc;

use super::log::Log;
use super::message::Message;
use super::retention::{SegmentPosition, Waiter};
use super::segment::Segment;
use crate::sync::OnceSlot as Slot;

/// Read position in a log; pins the segment that it reads.
pub(super) struct Cursor {
    state: CursorState,
    /// True if the log must not evict messages that this cursor has not read.
    strong: bool,
}

enum CursorState {
    /// Reads in a segment, which it pins; messages up to `limit` are known to be filled.
    Reading { segment: Arc<Segment>, index: usize, limit: usize },
    /// Has read everything before this position.
    Parked(u64),
}

impl Cursor {
    pub(super) fn join(log: &Log, oldest: bool, strong: bool, waiter: &Arc<dyn Waiter>) -> Self {
        Self { state: CursorState::Parked(log.join(oldest, strong, waiter)), strong }
    }

    /// Position of the next message.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        match &self.state {
            CursorState::Reading { segment, index, .. } => segment.base + *index as u64,
            CursorState::Parked(position) => *position,
        }
    }

    /// Approximate publication time of the next message, in nanoseconds since the start of the runtime.
    #[inline]
    pub(super) fn published_ns(&self) -> u64 {
        match &self.state {
            CursorState::Reading { segment, .. } => segment.published_ns(self.position()),
            CursorState::Parked(_) => 0,
        }
    }

    /// Number of messages that can be read as one slice from here. Adds the messages that this cursor lost to
    /// `missed`.
    #[inline]
    pub(super) fn ready(&mut self, log: &Log, missed: &mut u64) -> usize {
        if let CursorState::Reading { index, limit, .. } = &self.state
            && index < limit
        {
            return limit - index;
        }
        self.ready_slow(log, missed)
    }

    fn ready_slow(&mut self, log: &Log, missed: &mut u64) -> usize {
        loop {
            let step = match &mut self.state {
                CursorState::Parked(position) => match log.resume_cursor(*position) {
                    Some(step) => step,
                    None => return 0,
                },
                CursorState::Reading { segment, index, limit } => {
                    // Load `sealed` before `filled`: only then is the count of a sealed segment known to be final.
                    let sealed = segment.is_sealed();
                    *limit = segment.filled();
                    if *index < *limit || !sealed {
                        return *limit - *index;
                    }
                    log.advance_cursor(segment, segment.base + *index as u64, self.strong)
                }
            };
            *missed += step.missed;
            self.move_to(step);
        }
    }

    fn move_to(&mut self, SegmentPosition { segment, index, .. }: SegmentPosition) {
        self.state = CursorState::Reading { segment, index, limit: index };
    }

    /// Returns the next message. Call only after [`ready`](Self::ready) returned at least 1.
    #[inline]
    pub(super) fn next(&mut self) -> &Message {
        match &mut self.state {
            CursorState::Reading { segment, index, .. } => {
                *index += 1;
                segment.message(*index - 1)
            }
            CursorState::Parked(_) => unreachable!("a parked cursor has nothing to read"),
        }
    }

    /// Returns the next `count` messages; `count` must not exceed the result of [`ready`](Self::ready).
    #[inline]
    pub(super) fn take_many(&mut self, count: usize) -> &[Slot<Message>] {
        let CursorState::Reading { segment, index, .. } = &mut self.state else {
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
        match &mut self.state {
            CursorState::Reading { segment, index, limit } if position < segment.base + *limit as u64 => {
                *index += passed as usize;
                passed
            }
            CursorState::Reading { segment, .. } => {
                let step = log.advance_cursor(segment, position, self.strong);
                let missed = step.missed;
                self.move_to(step);
                passed + missed
            }
            // A parked cursor does not skip: its next step enters the log at its own position.
            CursorState::Parked(_) => 0,
        }
    }

    /// Parks the cursor, so that the next message wakes `waiter`; false if there is a message already or the log is
    /// closed.
    pub(super) fn park(&mut self, log: &Log, waiter: &Arc<dyn Waiter>) -> bool {
        match &self.state {
            CursorState::Parked(position) => log.head() <= *position,
            CursorState::Reading { segment, index, .. } => {
                let parked = log.park(segment, *index, self.strong, waiter);
                if parked {
                    self.state = CursorState::Parked(segment.base + *index as u64);
                }
                parked
            }
        }
    }

    /// Removes the cursor from the log.
    pub(super) fn leave(&mut self, log: &Log, waiter: &Arc<dyn Waiter>) {
        match &self.state {
            CursorState::Reading { segment, .. } => log.leave(segment, self.strong),
            CursorState::Parked(position) => log.leave_parked(*position, self.strong, waiter),
        }
    }
}
