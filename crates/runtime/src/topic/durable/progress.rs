//! How far one subscription is: everything before its floor is done, and some of what is after it.

use std::collections::{BTreeMap, BTreeSet};

use crate::topic::journal::{Fate, Resumed};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The first message that it is to have.
    pub(super) start: u64,
    /// The first one that is not done.
    pub(super) floor: u64,
    /// Positions behind the floor that are done.
    pub(super) done: BTreeSet<u64>,
    /// Positions that are not, and how often they were handed out.
    pub(super) tried: BTreeMap<u64, u32>,
    pub(super) dead_lettered: u64,
}

impl Progress {
    pub(super) fn begin(start: u64) -> Self {
        Self { start, floor: start, ..Self::default() }
    }

    /// Takes in what became of a message.
    pub(super) fn note(&mut self, position: u64, fate: Fate) {
        if position < self.floor || self.done.contains(&position) {
            return;
        }
        match fate {
            Fate::Tried(0) => drop(self.tried.remove(&position)),
            Fate::Tried(attempts) => drop(self.tried.insert(position, attempts)),
            Fate::Acked | Fate::Buried => {
                self.tried.remove(&position);
                self.dead_lettered += u64::from(fate == Fate::Buried);
                self.done.insert(position);
                while self.done.remove(&self.floor) {
                    self.floor += 1;
                }
            }
        }
    }

    /// What the subscription goes on with.
    pub(super) fn resumed(&self) -> Resumed {
        Resumed {
            start: self.start,
            floor: self.floor,
            done: self.done.iter().copied().collect(),
            tried: self.tried.iter().map(|(position, attempts)| (*position, *attempts)).collect(),
            dead_lettered: self.dead_lettered,
            hold: None,
        }
    }
}
