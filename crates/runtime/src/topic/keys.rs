//! Messages of the same ordering key, one batch after the other.
//!
//! ```text
//!   key ─▶ leased: those of the one batch that is out ┊ queue: those behind, by position
//!             └── one comes back ──▶ it and all after it go to the front of the queue
//! ```
//!
//! A key is *open* when none of its messages is out and none rests, and *idle* when it has none at all: some of those are
//! kept, for most keys come again. Slots are those of the [hand](super::hand); each has the id of its key, which is of no
//! other while it has messages in hand.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Idle keys are kept while there are no more keys than this,
const KEPT: usize = 256;
/// and while they have room for no more messages than this.
const KEPT_ROOM: usize = 64;

/// A key that has messages in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyId(u32);

#[derive(Debug, Default)]
struct Key {
    name: Option<Arc<str>>,
    /// The batch that is out.
    batch: u64,
    leased: Vec<(u64, u32)>,
    /// By position.
    queue: VecDeque<(u64, u32)>,
    /// The slot whose rest all wait for.
    resting: Option<u32>,
    /// It is in the list of open keys.
    listed: bool,
    /// It is not idle.
    is_used: bool,
}

impl Key {
    fn is_worth_keeping(&self) -> bool {
        self.leased.capacity() <= KEPT_ROOM && self.queue.capacity() <= KEPT_ROOM
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Keys {
    by_name: FxHashMap<Arc<str>, KeyId>,
    entries: Vec<Key>,
    free: Vec<KeyId>,
    /// Keys that have something to hand out.
    open: VecDeque<KeyId>,
    /// Keys that are not idle.
    used: usize,
}

impl Keys {
    /// Takes in a message that just came; gives its key, and whether it may go out with this batch. Else it is queued.
    #[inline]
    pub(super) fn admit(&mut self, name: &Arc<str>, batch: u64, position: u64, slot: u32) -> (KeyId, bool) {
        let key = self.by_name.get(&**name).copied().unwrap_or_else(|| self.add(name));
        let entry = &mut self.entries[key.0 as usize];
        if !entry.is_used {
            (entry.batch, entry.is_used) = (batch, true);
            self.used += 1;
        } else if entry.batch != batch || !entry.queue.is_empty() || entry.resting.is_some() || entry.leased.is_empty()
        {
            entry.queue.push_back((position, slot));
            return (key, false);
        }
        entry.leased.push((position, slot));
        (key, true)
    }

    fn add(&mut self, name: &Arc<str>) -> KeyId {
        let key = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Key::default());
            KeyId(self.entries.len() as u32 - 1)
        });
        self.entries[key.0 as usize].name = Some(Arc::clone(name));
        self.by_name.insert(Arc::clone(name), key);
        key
    }

    /// Whether anything can be handed out.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next message of an open key, for this batch.
    pub(super) fn pop_open(&mut self, batch: u64) -> Option<u32> {
        loop {
            let key = *self.open.front()?;
            let entry = &mut self.entries[key.0 as usize];
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
            let is_done = entry.leased.is_empty() && entry.queue.is_empty() && entry.resting.is_none();
            self.open.pop_front();
            if is_done {
                self.change(key, |_| ());
            }
        }
    }

    /// A message of the key is done.
    pub(super) fn done(&mut self, key: KeyId, slot: u32) {
        self.change(key, |entry| {
            match entry.leased[..] {
                [(_, only)] if only == slot => entry.leased.clear(),
                _ => entry.leased.retain(|(_, leased)| *leased != slot),
            }
            // One that is given up has been put there by `rewind`.
            if entry.queue.front().is_some_and(|(_, queued)| *queued == slot) {
                entry.queue.pop_front();
            }
            if entry.resting == Some(slot) {
                entry.resting = None;
            }
        });
    }

    /// A lease of the key ended without success; gives the slots of those after it, whose leases end with it.
    ///
    /// With `rests` the key waits until [`rested`](Self::rested).
    pub(super) fn rewind(&mut self, key: KeyId, slot: u32, rests: bool) -> Vec<u32> {
        let mut back: Vec<(u64, u32)> = Vec::new();
        self.change(key, |entry| {
            let leased = entry.leased.iter().find(|(_, leased)| *leased == slot);
            let position = leased.map_or(u64::MAX, |(position, _)| *position);
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
        });
        back.into_iter().map(|(_, slot)| slot).filter(|revoked| *revoked != slot).collect()
    }

    /// The rest of a slot is over.
    pub(super) fn rested(&mut self, key: KeyId, slot: u32) {
        self.change(key, |entry| {
            if entry.resting == Some(slot) {
                entry.resting = None;
            }
        });
    }

    /// Who rests for a key now.
    pub(super) fn resting(&self, key: KeyId) -> Option<u32> {
        self.entries[key.0 as usize].resting
    }

    /// Changes a key that is not idle; lists it if that has opened it, and keeps or forgets it if it is idle now.
    #[inline]
    fn change(&mut self, key: KeyId, change: impl FnOnce(&mut Key)) {
        let entry = &mut self.entries[key.0 as usize];
        if !entry.is_used {
            return;
        }
        change(entry);
        if !entry.leased.is_empty() || entry.resting.is_some() || entry.listed {
            return;
        }
        if entry.queue.is_empty() {
            entry.is_used = false;
            self.used -= 1;
            if self.by_name.len() > KEPT || !entry.is_worth_keeping() {
                self.forget(key);
            }
        } else {
            entry.listed = true;
            self.open.push_back(key);
        }
    }

    fn forget(&mut self, key: KeyId) {
        if let Some(name) = std::mem::take(&mut self.entries[key.0 as usize]).name {
            self.by_name.remove(&name);
        }
        self.free.push(key);
    }

    /// Keys that have messages in hand.
    pub(super) fn len(&self) -> usize {
        self.used
    }
}
