//! Messages of the same ordering key, one batch after the other.
//!
//! ```text
//!   key ─▶ leased: those of the one batch that is out ┊ queue: those behind, by position
//!             └── one comes back ──▶ it and all after it go to the front of the queue
//! ```
//!
//! A key is *open* when none of its messages is out and none rests. Slots are those of the [hand](super::hand).

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
struct Key {
    /// The batch that is out.
    batch: u64,
    leased: Vec<(u64, u32)>,
    /// By position.
    queue: VecDeque<(u64, u32)>,
    /// The slot whose rest all wait for.
    resting: Option<u32>,
    /// It is in the list of open keys.
    listed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: FxHashMap<Arc<str>, Key>,
    /// Keys that have something to hand out.
    open: VecDeque<Arc<str>>,
}

impl Keys {
    /// Whether a message that just came may go out with this batch; else it is queued.
    pub(super) fn admit(&mut self, key: &Arc<str>, batch: u64, position: u64, slot: u32) -> bool {
        let Some(entry) = self.keys.get_mut(key) else {
            let entry = Key { batch, leased: vec![(position, slot)], ..Key::default() };
            self.keys.insert(Arc::clone(key), entry);
            return true;
        };
        if entry.batch == batch && entry.queue.is_empty() && entry.resting.is_none() && !entry.leased.is_empty() {
            entry.leased.push((position, slot));
            return true;
        }
        entry.queue.push_back((position, slot));
        false
    }

    /// Whether anything can be handed out.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next message of an open key, for this batch.
    pub(super) fn pop_open(&mut self, batch: u64) -> Option<u32> {
        loop {
            let key = self.open.front()?;
            let Some(entry) = self.keys.get_mut(key) else {
                self.open.pop_front();
                continue;
            };
            let may = entry.resting.is_none() && (entry.leased.is_empty() || entry.batch == batch);
            if let Some(next) = may.then(|| entry.queue.pop_front()).flatten() {
                entry.batch = batch;
                entry.leased.push(next);
                if entry.queue.is_empty() {
                    entry.listed = false;
                    self.open.pop_front();
                }
                return Some(next.1);
            }
            // Its batch is out, and it is listed again when that is done; or nothing is left of it.
            entry.listed = false;
            let key = self.open.pop_front()?;
            self.settle_done(&key);
        }
    }

    /// A message of the key is done.
    pub(super) fn done(&mut self, key: &Arc<str>, slot: u32) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.leased.retain(|(_, leased)| *leased != slot);
        // One that is given up has been put there by `rewind`.
        if entry.queue.front().is_some_and(|(_, queued)| *queued == slot) {
            entry.queue.pop_front();
        }
        if entry.resting == Some(slot) {
            entry.resting = None;
        }
        self.settle(key);
    }

    /// A lease of the key ended without success; gives the slots of those after it, whose leases end with it.
    ///
    /// With `rests` the key waits until [`rested`](Self::rested).
    pub(super) fn rewind(&mut self, key: &Arc<str>, slot: u32, rests: bool) -> Vec<u32> {
        let Some(entry) = self.keys.get_mut(key) else { return Vec::new() };
        let position =
            entry.leased.iter().find(|(_, leased)| *leased == slot).map_or(u64::MAX, |(position, _)| *position);
        let mut back: Vec<(u64, u32)> = Vec::new();
        entry.leased.retain(|own| {
            let stays = own.0 < position;
            if !stays {
                back.push(*own);
            }
            stays
        });
        back.sort_unstable();
        for own in back.iter().rev() {
            entry.queue.push_front(*own);
        }
        // Whoever rested before it goes on with it.
        entry.resting = rests.then_some(slot);
        self.settle(key);
        back.into_iter().map(|(_, slot)| slot).filter(|revoked| *revoked != slot).collect()
    }

    /// The rest of a slot is over.
    pub(super) fn rested(&mut self, key: &Arc<str>, slot: u32) {
        if let Some(entry) = self.keys.get_mut(key)
            && entry.resting == Some(slot)
        {
            entry.resting = None;
        }
        self.settle(key);
    }

    /// Who rests for a key now.
    pub(super) fn resting(&self, key: &Arc<str>) -> Option<u32> {
        self.keys.get(key)?.resting
    }

    fn settle_done(&mut self, key: &Arc<str>) {
        let is_done = |entry: &Key| entry.leased.is_empty() && entry.queue.is_empty() && entry.resting.is_none();
        if self.keys.get(key).is_some_and(is_done) {
            self.keys.remove(key);
        }
    }

    /// Lists a key that has become open, and forgets one that is done.
    fn settle(&mut self, key: &Arc<str>) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        if !entry.leased.is_empty() || entry.resting.is_some() {
            return;
        }
        if entry.queue.is_empty() {
            if !entry.listed {
                self.keys.remove(key);
            }
        } else if !entry.listed {
            entry.listed = true;
            self.open.push_back(Arc::clone(key));
        }
    }

    /// Keys that have messages in hand.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}
