//! The last ends of a child: what a storm leaves behind of each of its victims, and no more than that.

use std::collections::VecDeque;
use std::time::Instant;

use crate::exit::ExitReason;
use crate::pid::Pid;

/// Ends of a child that are kept.
pub const ENDS_KEPT: usize = 8;

/// How a child ended once, or failed to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: Instant,
    /// Who ended; `None` if it did not even start.
    pub(super) pid: Option<Pid>,
    pub(super) reason: ExitReason,
}

/// The newest ends of a child; a word long, until there is one.
#[derive(Debug, Default)]
pub(super) struct History(Option<Box<Ring>>);

#[derive(Debug, Default)]
struct Ring(VecDeque<End>);

impl History {
    /// Keeps an end, and gives back the reason of the one that had to go for it.
    pub(super) fn note(&mut self, end: End) -> Option<ExitReason> {
        let Ring(ends) = &mut **self.0.get_or_insert_default();
        let oldest = if ends.len() == ENDS_KEPT { ends.pop_front() } else { None };
        ends.push_back(end);
        oldest.map(|oldest| oldest.reason)
    }

    /// The ends that are kept, the newest first.
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
            history.note(End { at, pid: Some(Pid::local(slot, 1)), reason: ExitReason::Killed });
        }

        let slots: Vec<u32> = history.newest_first().filter_map(|end| end.pid).map(Pid::slot).collect();
        assert_eq!(slots, [20, 19, 18, 17, 16, 15, 14, 13]);
    }
}
