//! Ordering keys of a subscription: the messages of a key are delivered one batch after the other.
//!
//! ```text
//!   key ─▶ leased: messages of the batch in flight ┊ queue: later messages, by position
//!             └── one is returned ──▶ it and all after it go to the front of the queue
//! ```
//!
//! A batch is what one call of `take` leases to a consumer. A key is *open* when none of its messages is leased or
//! waits for a retry, and *idle* when it has none at all. Some idle keys are kept, because most keys come again. Slots
//! are those of the
//! [`InFlight`](crate::topic::subscription::in_flight); each stores the id of its key. An id is not reused while its
//! key has messages in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Number of keys above which a key is removed when it becomes idle.
const IDLE_KEYS_MAX: usize = 256;
/// Capacity of a key's lists, in messages, above which the key is removed when it becomes idle.
const IDLE_CAPACITY_MAX: usize = 64;

/// Id of a key that has messages in flight, or is idle and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(u32);

#[derive(Debug, Default)]
struct KeyState {
    name: Option<Arc<str>>,
    /// Batch to which the leased messages belong.
    batch: u64,
    leased: Vec<(u64, u32)>,
    /// Sorted by position.
    queue: VecDeque<(u64, u32)>,
    /// Slot that blocks the key by its retry delay.
    delayed: Option<u32>,
    /// The key is in `OrderingKeys::deliverable`.
    is_listed: bool,
    /// The key is not idle.
    is_used: bool,
}

impl KeyState {
    fn is_small(&self) -> bool {
        self.leased.capacity() <= IDLE_CAPACITY_MAX && self.queue.capacity() <= IDLE_CAPACITY_MAX
    }
}

/// Ordering keys of a subscription.
#[derive(Debug, Default)]
pub(crate) struct OrderingKeys {
    by_name: FxHashMap<Arc<str>, KeyId>,
    entries: Vec<KeyState>,
    free: Vec<KeyId>,
    /// Keys that were open when they were added; a key in it may have been blocked or emptied since.
    deliverable: VecDeque<KeyId>,
    /// Number of keys that are not idle.
    used: usize,
}

impl OrderingKeys {
    /// Adds a message just read from the log. Returns its key, and true if it may be delivered in this batch;
    /// otherwise it is queued.
    #[inline]
    pub(crate) fn admit(&mut self, name: &Arc<str>, batch: u64, position: u64, slot: u32) -> (KeyId, bool) {
        let key = self.by_name.get(&**name).copied().unwrap_or_else(|| self.add(name));
        let entry = &mut self.entries[key.0 as usize];
        if !entry.is_used {
            (entry.batch, entry.is_used) = (batch, true);
            self.used += 1;
        } else if entry.batch != batch || !entry.queue.is_empty() || entry.delayed.is_some() || entry.leased.is_empty()
        {
            entry.queue.push_back((position, slot));
            return (key, false);
        }
        entry.leased.push((position, slot));
        (key, true)
    }

    fn add(&mut self, name: &Arc<str>) -> KeyId {
        let key = self.free.pop().unwrap_or_else(|| {
            self.entries.push(KeyState::default());
            KeyId(self.entries.len() as u32 - 1)
        });
        self.entries[key.0 as usize].name = Some(Arc::clone(name));
        self.by_name.insert(Arc::clone(name), key);
        key
    }

    /// Returns true if an open key may have a message to deliver.
    pub(crate) fn has_deliverable(&self) -> bool {
        !self.deliverable.is_empty()
    }

    /// Leases the next message of an open key to this batch, and returns its slot.
    pub(crate) fn pop_deliverable(&mut self, batch: u64) -> Option<u32> {
        loop {
            let key = *self.deliverable.front()?;
            let entry = &mut self.entries[key.0 as usize];
            let may = entry.delayed.is_none() && (entry.leased.is_empty() || entry.batch == batch);
            if let Some(next) = may.then(|| entry.queue.pop_front()).flatten() {
                entry.batch = batch;
                entry.leased.push(next);
                if entry.queue.is_empty() {
                    entry.is_listed = false;
                    self.deliverable.pop_front();
                }
                return Some(next.1);
            }
            // Either another batch of the key is leased or a retry is awaited, and the end of that lists the key again;
            // or the key has no messages left.
            entry.is_listed = false;
            let is_done = entry.leased.is_empty() && entry.queue.is_empty() && entry.delayed.is_none();
            self.deliverable.pop_front();
            if is_done {
                self.change(key, |_| ());
            }
        }
    }

    /// Removes a finished message of the key.
    pub(crate) fn finish(&mut self, key: KeyId, slot: u32) {
        self.change(key, |entry| {
            match entry.leased[..] {
                [(_, only)] if only == slot => entry.leased.clear(),
                _ => entry.leased.retain(|(_, leased)| *leased != slot),
            }
            // A message that became a dead letter is at the front of the queue, where `rewind` has put it.
            if entry.queue.front().is_some_and(|(_, queued)| *queued == slot) {
                entry.queue.pop_front();
            }
            if entry.delayed == Some(slot) {
                entry.delayed = None;
            }
        });
    }

    /// Moves a leased message that was not acknowledged, and all leased messages after it, back to the front of the
    /// queue. Returns the slots of the messages after it: the caller must end their leases.
    ///
    /// With `is_delayed`, the key is blocked until [`delay_elapsed`](Self::delay_elapsed) is called.
    pub(crate) fn rewind(&mut self, key: KeyId, slot: u32, is_delayed: bool) -> Vec<u32> {
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
            // If another message of the key waited for its retry, it now comes after this one: stop waiting for it.
            entry.delayed = is_delayed.then_some(slot);
        });
        back.into_iter().map(|(_, slot)| slot).filter(|revoked| *revoked != slot).collect()
    }

    /// The retry delay of a slot is over.
    pub(crate) fn delay_elapsed(&mut self, key: KeyId, slot: u32) {
        self.change(key, |entry| {
            if entry.delayed == Some(slot) {
                entry.delayed = None;
            }
        });
    }

    /// Returns the slot that blocks the key by its retry delay.
    pub(crate) fn delayed(&self, key: KeyId) -> Option<u32> {
        self.entries[key.0 as usize].delayed
    }

    /// Changes a key that is not idle. Lists it if it became open; keeps or forgets it if it became idle.
    #[inline]
    fn change(&mut self, key: KeyId, change: impl FnOnce(&mut KeyState)) {
        let entry = &mut self.entries[key.0 as usize];
        if !entry.is_used {
            return;
        }
        change(entry);
        if !entry.leased.is_empty() || entry.delayed.is_some() || entry.is_listed {
            return;
        }
        if entry.queue.is_empty() {
            entry.is_used = false;
            self.used -= 1;
            if self.by_name.len() > IDLE_KEYS_MAX || !entry.is_small() {
                self.remove(key);
            }
        } else {
            entry.is_listed = true;
            self.deliverable.push_back(key);
        }
    }

    fn remove(&mut self, key: KeyId) {
        if let Some(name) = std::mem::take(&mut self.entries[key.0 as usize]).name {
            self.by_name.remove(&name);
        }
        self.free.push(key);
    }

    /// Number of keys that have messages in flight.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}
