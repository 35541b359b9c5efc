//! The last ends of a child: a bounded record of what a crash storm did to it.

use std::collections::VecDeque;
use std::time::Instant;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// Number of ends that are kept for each child.
pub const ENDS_KEPT: usize = 8;

/// One end of a child, or one failure to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: Instant,
    /// The process that ended; `None` if the child did not even start.
    pub(super) pid: Option<Pid>,
    pub(super) reason: ExitReason,
}

/// The newest ends of a child. Takes one word until the first end.
#[derive(Debug, Default)]
pub(super) struct History(Option<Box<EndRing>>);

#[derive(Debug, Default)]
struct EndRing(VecDeque<End>);

impl History {
    /// Records an end; returns the reason of the end that was removed for it.
    pub(super) fn record(&mut self, end: End) -> Option<ExitReason> {
        let EndRing(ends) = &mut **self.0.get_or_insert_default();
        let oldest = if ends.len() == ENDS_KEPT { ends.pop_front() } else { None };
        ends.push_back(end);
        oldest.map(|oldest| oldest.reason)
    }

    /// Returns the recorded ends, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &End> {
        self.0.iter().flat_map(|ring| ring.0.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ends_are_kept_and_the_newest_comes_first() {
        let (mut history, at) = (History::default(), Instant::now());
        assert_eq!(history.newest_first().count(), 0);

        for slot in 1..=20 {
            history.record(End { at, pid: Some(Pid::local(slot, 1)), reason: ExitReason::Killed });
        }

        let slots: Vec<u32> = history.newest_first().filter_map(|end| end.pid).map(Pid::slot).collect();
        assert_eq!(slots, [20, 19, 18, 17, 16, 15, 14, 13]);
    }
}
