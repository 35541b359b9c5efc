//! Progress of one subscription: everything before its floor is finished, and some positions after it.

use std::collections::{BTreeMap, BTreeSet};

use rusm_runtime::embed::topic::{DeliveryOutcome, SavedProgress};

/// Stored progress of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Position of the first message that the subscription receives.
    pub(super) start: u64,
    /// Position of the first unfinished message.
    pub(super) floor: u64,
    /// Finished positions after the floor.
    pub(super) done: BTreeSet<u64>,
    /// Unfinished positions, with their number of deliveries.
    pub(super) attempts: BTreeMap<u64, u32>,
    pub(super) dead_lettered: u64,
}

impl Progress {
    pub(super) fn begin(start: u64) -> Self {
        Self { start, floor: start, ..Self::default() }
    }

    /// Applies the outcome of a message.
    pub(super) fn note(&mut self, position: u64, outcome: DeliveryOutcome) {
        if position < self.floor || self.done.contains(&position) {
            return;
        }
        match outcome {
            DeliveryOutcome::Attempted(0) => drop(self.attempts.remove(&position)),
            DeliveryOutcome::Attempted(attempts) => drop(self.attempts.insert(position, attempts)),
            DeliveryOutcome::Acked | DeliveryOutcome::DeadLettered => {
                self.attempts.remove(&position);
                self.dead_lettered += u64::from(outcome == DeliveryOutcome::DeadLettered);
                self.done.insert(position);
                while self.done.remove(&self.floor) {
                    self.floor += 1;
                }
            }
        }
    }

    /// Raises the floor: messages before `oldest` are gone. All subscriptions finished them, or none existed yet.
    pub(super) fn raise(&mut self, oldest: u64) {
        if self.floor >= oldest {
            return;
        }
        if self.start == self.floor {
            self.start = oldest;
        }
        self.floor = oldest;
        self.done = self.done.split_off(&oldest);
        self.attempts = self.attempts.split_off(&oldest);
        while self.done.remove(&self.floor) {
            self.floor += 1;
        }
    }

    /// Returns the state with which the subscription resumes.
    pub(super) fn saved_progress(&self) -> SavedProgress {
        SavedProgress {
            start: self.start,
            floor: self.floor,
            done: self.done.iter().copied().collect(),
            attempts: self.attempts.iter().map(|(position, attempts)| (*position, *attempts)).collect(),
            dead_lettered: self.dead_lettered,
            hold: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_was_done_or_never_was_to_be_had() {
        let mut behind = Progress::begin(3);
        for position in [4, 7, 8] {
            behind.note(position, DeliveryOutcome::Acked);
        }
        behind.note(3, DeliveryOutcome::Attempted(2));
        let mut new = behind.clone();
        new.floor = 5;

        behind.raise(7);
        new.raise(2);
        assert_eq!((behind.start, behind.floor, behind.done.len(), behind.attempts.len()), (7, 9, 0, 0));
        assert_eq!(new.floor, 5);
        new.raise(6);
        assert_eq!((new.start, new.floor), (3, 6));
    }
}
