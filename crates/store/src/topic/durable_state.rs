//! State of a durable topic: what is on disk, what must be written next, and what may be deleted.
//!
//! ```text
//!   oldest row     floor: first message that is still needed                next
//!       ├── deleted ──┤── kept: bounded by messages and bytes ─────────────────┤ ◀── a batch
//! ```
//!
//! Invariants: every recorded change is in the rows of a later commit. A row is deleted only when no subscription on
//! disk needs it. A failed commit changes nothing; its content is tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::journal_queue::Changes;
use super::progress::Progress;
use super::record::{self, TopicHeader};
use rusm_runtime::topic::Message;
use rusm_runtime::topic::{Retention, TopicConfig};

/// Maximum number of rows deleted by one commit.
const DELETES_MAX: u64 = 4096;
/// Maximum number of rows of a commit without its header, so that a transaction has room for them.
const ROWS_MAX: usize = 9_000;
/// Maximum number of subscriptions written by one commit, not counting ended ones.
const SUBSCRIPTIONS_MAX: usize = 500;

/// A row to write; without a value, a row to delete.
pub(super) type Write = (Vec<u8>, Option<Bytes>);

/// Rows of one commit.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) writes: Vec<Write>,
    pub(super) oldest: u64,
    pub(super) head: TopicHeader,
    subscriptions: Vec<Arc<str>>,
}

/// A subscription with an outdated row on disk.
#[derive(Clone, Copy)]
struct Dirty {
    /// Number of changes recorded before its first unwritten one.
    recorded: u64,
    /// Floor in its row on disk, if there may be one.
    floor: Option<u64>,
}

/// Durable state of a topic: bounds, header, sizes of the stored messages, and progress of the subscriptions.
pub(super) struct DurableState {
    pub(super) rules: TopicConfig,
    pub(super) head: TopicHeader,
    pub(super) floor: u64,
    /// Size in bytes of each message from the floor on.
    sizes: VecDeque<u32>,
    bytes: usize,
    pub(super) progress: BTreeMap<Arc<str>, Progress>,
    dirty: BTreeMap<Arc<str>, Dirty>,
    /// Number of changes applied.
    recorded: u64,
}

impl DurableState {
    pub(super) fn new(rules: TopicConfig, head: TopicHeader, progress: BTreeMap<Arc<str>, Progress>) -> Self {
        let (sizes, dirty) = (VecDeque::new(), BTreeMap::new());
        let floor = head.oldest;
        let mut durable_state = Self { rules, head, floor, sizes, bytes: 0, progress, dirty, recorded: 0 };
        durable_state.floor = durable_state.first_needed();
        durable_state
    }

    /// Counts a stored message, the next one from the floor on.
    pub(super) fn count(&mut self, bytes: usize) {
        self.sizes.push_back(bytes as u32);
        self.bytes += bytes;
    }

    /// Number of messages and bytes that are stored.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.sizes.len(), self.bytes)
    }

    /// Returns true if new messages must be stored: for subscriptions, also for ended ones that the next commit does not
    /// write.
    pub(super) fn retains(&self) -> bool {
        !self.progress.is_empty()
            || self.dirty.len() > ROWS_MAX
            || (self.rules.retention == Retention::KeepAll && !self.head.had_subscriber)
    }

    /// Returns true if a message of `one` bytes fits beside a batch of `messages` messages with `bytes` bytes.
    pub(super) fn has_room(&self, messages: usize, bytes: usize, one: usize) -> bool {
        !self.retains()
            || (self.sizes.len() + messages < self.rules.messages
                && self.bytes.saturating_add(bytes).saturating_add(one) <= self.rules.bytes)
    }

    /// Applies the changes of subscriptions; `recorded` is the total number of changes recorded by then.
    pub(super) fn apply(&mut self, changes: BTreeMap<Arc<str>, Changes>, recorded: u64) {
        for (name, Changes { ended, begun, outcomes }) in changes {
            let floor = self.progress.get(&name).map(|progress| progress.floor);
            if ended && begun.is_none() && floor.is_none() && !self.dirty.contains_key(&name) {
                // It began and ended since the last changes, so it was never written.
                continue;
            }
            let dirty = self.dirty.entry(Arc::clone(&name)).or_insert(Dirty { recorded: self.recorded, floor });
            if ended {
                self.progress.remove(&name);
            }
            if let Some(start) = begun {
                let start = start.max(self.floor);
                self.head.had_subscriber = true;
                self.progress.insert(Arc::clone(&name), Progress::begin(start));
                // A failed commit may have written the row.
                dirty.floor.get_or_insert(start);
            }
            if let Some(progress) = self.progress.get_mut(&name) {
                for (position, outcome) in outcomes {
                    progress.note(position, outcome);
                }
            }
        }
        self.recorded = recorded;
        self.advance();
    }

    fn first_needed(&self) -> u64 {
        let first = self.progress.values().map(|progress| progress.floor).min();
        let none = if self.retains() { self.floor } else { self.head.next };
        first.unwrap_or(none).max(self.floor)
    }

    fn advance(&mut self) {
        let floor = self.floor_after(&self.next_subscriptions()).max(self.floor);
        for size in self.sizes.drain(..(floor - self.floor).min(self.sizes.len() as u64) as usize) {
            self.bytes -= size as usize;
        }
        self.floor = floor;
    }

    /// Returns true if there is anything to write besides messages.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.head.oldest < self.floor
    }

    /// Number of recorded changes that are written.
    pub(super) fn kept(&self) -> u64 {
        self.dirty.values().map(|dirty| dirty.recorded).min().unwrap_or(self.recorded)
    }

    /// Returns the rows that the next commit writes.
    pub(super) fn rows(&self, batch: &[Message]) -> Rows {
        let mut rows = Rows { subscriptions: self.next_subscriptions(), ..Rows::default() };
        let deletes = DELETES_MAX.min(ROWS_MAX.saturating_sub(rows.subscriptions.len() + batch.len()) as u64);
        rows.oldest = self.floor_after(&rows.subscriptions).min(self.floor).min(self.head.oldest + deletes);
        rows.writes.extend((self.head.oldest..rows.oldest).map(|position| (record::message_key(position), None)));
        if self.retains() {
            let rows_of = (self.head.next..).zip(batch);
            rows.writes.extend(
                rows_of
                    .map(|(position, message)| (record::message_key(position), Some(record::encode_message(message)))),
            );
        }
        rows.writes.extend(rows.subscriptions.iter().map(|name| self.subscription_row(name)));
        let next = self.head.next + batch.len() as u64;
        if !self.retains() && rows.oldest == self.floor {
            // No rows exist, and this commit writes none.
            rows.oldest = next;
        }
        let head = TopicHeader {
            next,
            oldest: rows.oldest,
            had_subscriber: self.head.had_subscriber,
            commits: self.head.commits + 1,
        };
        rows.head = head;
        rows.writes.push((record::HEADER_KEY.to_vec(), Some(head.encode())));
        rows
    }

    /// Returns the number of messages that the next commit has room for.
    pub(super) fn batch_room(&self) -> usize {
        ROWS_MAX - self.next_subscriptions().len()
    }

    /// Returns the subscriptions that the next commit writes: those that have waited longest, and all ended ones,
    /// because their rows on disk claim messages that are no longer retained for them. If these are more than a commit
    /// writes, it has no room for messages.
    fn next_subscriptions(&self) -> Vec<Arc<str>> {
        if self.dirty.len() <= SUBSCRIPTIONS_MAX {
            return self.dirty.keys().cloned().collect();
        }
        let (mut live, ended): (Vec<_>, Vec<_>) =
            self.dirty.iter().partition(|(name, _)| self.progress.contains_key(&***name));
        live.sort_by_key(|(_, dirty)| dirty.recorded);
        live.truncate(SUBSCRIPTIONS_MAX);
        live.into_iter().chain(ended).take(ROWS_MAX).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns the first position that is still needed once `written` are on disk, also by rows on disk that are out
    /// of date.
    fn floor_after(&self, written: &[Arc<str>]) -> u64 {
        let wanted = self.first_needed();
        if written.len() == self.dirty.len() {
            return wanted;
        }
        let written: BTreeSet<&Arc<str>> = written.iter().collect();
        let left = self.dirty.iter().filter(|(name, _)| !written.contains(name));
        left.filter_map(|(_, dirty)| dirty.floor).fold(wanted, u64::min)
    }

    /// Returns the rows of all subscriptions that are out of date, for use when no other commit will follow.
    pub(super) fn last_rows(&self) -> Vec<Vec<Write>> {
        let rows: Vec<_> = self.dirty.keys().map(|name| self.subscription_row(name)).collect();
        rows.chunks(SUBSCRIPTIONS_MAX).map(<[Write]>::to_vec).collect()
    }

    fn subscription_row(&self, name: &str) -> Write {
        (record::subscription_key(name), self.progress.get(name).map(record::encode_progress))
    }

    /// Records that the commit with these rows succeeded.
    pub(super) fn committed(&mut self, rows: &Rows, batch: &[Message]) {
        self.head.oldest = rows.oldest;
        for name in &rows.subscriptions {
            self.dirty.remove(name);
        }
        self.head.commits = rows.head.commits;
        let next = self.head.next + batch.len() as u64;
        if self.retains() {
            for message in batch {
                self.count(message.bytes());
            }
        } else {
            // Nothing is stored any more, also not what rows of ended subscriptions have kept.
            self.floor = next;
            self.sizes.clear();
            self.bytes = 0;
        }
        self.head.next = next;
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusm_runtime::embed::topic::DeliveryOutcome;

    const HELD: usize = 4;

    /// Rows on disk after some commits.
    #[derive(Default)]
    struct RowsOnDisk(BTreeMap<Vec<u8>, Bytes>);

    impl RowsOnDisk {
        /// Commits the pending changes, and a message if there is room for it; returns true if there was.
        fn publish(&mut self, durable_state: &mut DurableState) -> bool {
            let message = Message::new("m");
            let has_room = durable_state.has_room(0, 0, message.bytes()) && durable_state.batch_room() > 0;
            let batch = if has_room { &[message][..] } else { &[] };
            let rows = durable_state.rows(batch);
            assert!(rows.writes.len() <= ROWS_MAX + 1);
            for (key, value) in &rows.writes {
                match value {
                    Some(value) => drop(self.0.insert(key.clone(), value.clone())),
                    None => drop(self.0.remove(key)),
                }
            }
            durable_state.committed(&rows, batch);
            self.check();
            has_room
        }

        /// Checks that the rows hold every message that a subscription needs, and no more than the topic may hold.
        fn check(&self) {
            let head = TopicHeader::decode(&self.0[record::HEADER_KEY]).unwrap();
            let floors = self.0.iter().filter(|(key, _)| key.starts_with(record::SUBSCRIPTIONS));
            let floors: Vec<u64> = floors.map(|(_, row)| record::decode_progress(row).unwrap().floor).collect();
            for floor in floors {
                assert!(head.oldest <= floor, "{floor} of {head:?}");
                let missing = (floor..head.next).find(|position| !self.0.contains_key(&record::message_key(*position)));
                assert_eq!(missing, None, "of {head:?}");
                assert!(head.next - floor <= HELD as u64, "{floor} of {head:?}");
            }
        }
    }

    fn change(of: std::ops::Range<u32>, change: impl Fn() -> Changes) -> BTreeMap<Arc<str>, Changes> {
        of.map(|number| (format!("s{number:04}").into(), change())).collect()
    }

    #[test]
    fn what_more_subscriptions_than_a_commit_writes_are_to_have_stays_until_their_rows_say_otherwise() {
        let rules = TopicConfig { messages: HELD, bytes: 1 << 20, retention: Retention::Forget };
        let (mut durable_state, mut disk) =
            (DurableState::new(rules, TopicHeader::default(), BTreeMap::new()), RowsOnDisk::default());
        let acked =
            |position| move || Changes { outcomes: [(position, DeliveryOutcome::Acked)].into(), ..Changes::default() };
        let ended = || Changes { ended: true, ..Changes::default() };
        durable_state.apply(change(0..1600, || Changes { begun: Some(0), ..Changes::default() }), 1600);
        while disk.publish(&mut durable_state) {}
        assert_eq!((durable_state.head.next, durable_state.is_dirty()), (HELD as u64, false));

        durable_state.apply(change(0..1600, acked(0)), 3200);
        assert!(!disk.publish(&mut durable_state), "unwritten subscriptions would exceed the bound");
        assert_eq!(durable_state.head.oldest, 0);
        // Ended subscriptions are written in addition to the others.
        durable_state.apply(change(0..1100, ended), 4300);
        while durable_state.is_dirty() {
            disk.publish(&mut durable_state);
        }
        assert_eq!((durable_state.head.oldest, durable_state.head.next), (1, HELD as u64 + 1));
        durable_state.apply(change(1100..1600, ended), 4800);
        disk.publish(&mut durable_state);
        assert_eq!((durable_state.head.oldest, disk.0.len()), (durable_state.head.next, 1));
    }

    #[test]
    fn more_subscriptions_that_end_at_once_than_a_commit_writes_end_in_several() {
        let rules = TopicConfig { messages: HELD, bytes: 1 << 20, retention: Retention::Forget };
        let (mut durable_state, mut disk) =
            (DurableState::new(rules, TopicHeader::default(), BTreeMap::new()), RowsOnDisk::default());
        let many = ROWS_MAX as u32 + 1_000;
        let begun = || Changes { begun: Some(0), ..Changes::default() };
        durable_state.apply(change(0..many, begun), 1);
        while durable_state.is_dirty() {
            disk.publish(&mut durable_state);
        }
        assert_eq!(durable_state.usage().0, HELD);

        durable_state.apply(change(0..many, || Changes { ended: true, ..Changes::default() }), 2);
        assert!(!disk.publish(&mut durable_state), "no room for a message");
        assert!(durable_state.is_dirty());
        assert!(disk.publish(&mut durable_state));
        assert!(!durable_state.is_dirty() && disk.0.len() <= 2, "{}", disk.0.len());
        durable_state.apply(change(0..1, begun), 3);
        assert!(disk.publish(&mut durable_state), "{:?} are held", durable_state.usage());
    }
}
