//! What lies on disk of a topic, what is to be written next, and what may be deleted.
//!
//! ```text
//!   oldest row     floor: the first that somebody is to have                 next
//!       ├── deleted ──┤── kept: bounded by messages and bytes ─────────────────┤ ◀── a batch
//! ```
//!
//! Invariants: what was noted is in the rows of a commit to come, and a row is deleted only when no subscription on disk is to
//! have it; a commit that failed changes nothing but that it is to be tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::post::Changes;
use super::progress::Progress;
use super::record::{self, Head};
use crate::topic::log::{Rules, Unread};
use crate::topic::message::Message;

/// Rows that one commit deletes.
const DELETES_MAX: u64 = 4096;
/// Subscriptions whose progress one commit writes; those that have ended besides.
const SUBSCRIPTIONS_MAX: usize = 500;

/// A row to write, or to delete without a value.
pub(super) type Write = (Vec<u8>, Option<Bytes>);

/// What a commit has written.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) writes: Vec<Write>,
    pub(super) oldest: u64,
    pub(super) head: Head,
    subscriptions: Vec<Arc<str>>,
}

/// A subscription whose row is not as it is to be.
#[derive(Clone, Copy)]
struct Dirty {
    /// Changes that were noted before its first one.
    noted: u64,
    /// Where it is on disk, if it is there.
    floor: Option<u64>,
}

/// See the module.
pub(super) struct Book {
    pub(super) rules: Rules,
    pub(super) head: Head,
    pub(super) floor: u64,
    /// Bytes of each message from the floor on.
    sizes: VecDeque<u32>,
    bytes: usize,
    pub(super) progress: BTreeMap<Arc<str>, Progress>,
    dirty: BTreeMap<Arc<str>, Dirty>,
    /// Changes that were taken in.
    noted: u64,
}

impl Book {
    pub(super) fn new(rules: Rules, head: Head, progress: BTreeMap<Arc<str>, Progress>) -> Self {
        let (sizes, dirty) = (VecDeque::new(), BTreeMap::new());
        let floor = head.oldest;
        let mut book = Self { rules, head, floor, sizes, bytes: 0, progress, dirty, noted: 0 };
        book.floor = book.first_wanted();
        book
    }

    /// Counts a message that was found, the next one from the floor on.
    pub(super) fn count(&mut self, bytes: usize) {
        self.sizes.push_back(bytes as u32);
        self.bytes += bytes;
    }

    /// Messages and bytes that are kept.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.sizes.len(), self.bytes)
    }

    /// Whether somebody is to have what comes.
    pub(super) fn keeps(&self) -> bool {
        !self.progress.is_empty() || (self.rules.unread == Unread::KeepAll && !self.head.known)
    }

    /// Whether there is room for one more, beside so many of so many bytes.
    pub(super) fn has_room(&self, messages: usize, bytes: usize, one: usize) -> bool {
        !self.keeps()
            || (self.sizes.len() + messages < self.rules.messages
                && self.bytes.saturating_add(bytes).saturating_add(one) <= self.rules.bytes)
    }

    /// Takes in what subscriptions have noted, so many changes in all so far.
    pub(super) fn take_in(&mut self, changes: BTreeMap<Arc<str>, Changes>, noted: u64) {
        for (name, Changes { ended, begun, fates }) in changes {
            let floor = self.progress.get(&name).map(|progress| progress.floor);
            let dirty = self.dirty.entry(Arc::clone(&name)).or_insert(Dirty { noted: self.noted, floor });
            if ended {
                self.progress.remove(&name);
            }
            if let Some(start) = begun {
                let start = start.max(self.floor);
                self.head.known = true;
                self.progress.insert(Arc::clone(&name), Progress::begin(start));
                // A commit that failed may have written it.
                dirty.floor.get_or_insert(start);
            }
            if let Some(progress) = self.progress.get_mut(&name) {
                for (position, fate) in fates {
                    progress.note(position, fate);
                }
            }
        }
        self.noted = noted;
        self.advance();
    }

    fn first_wanted(&self) -> u64 {
        let first = self.progress.values().map(|progress| progress.floor).min();
        let none = if self.keeps() { self.floor } else { self.head.next };
        first.unwrap_or(none).max(self.floor)
    }

    fn advance(&mut self) {
        let floor = self.floor_after(&self.next_in_turn()).max(self.floor);
        for size in self.sizes.drain(..(floor - self.floor).min(self.sizes.len() as u64) as usize) {
            self.bytes -= size as usize;
        }
        self.floor = floor;
    }

    /// Whether there is anything to write beside messages.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.head.oldest < self.floor
    }

    /// How many of the changes that were noted are written.
    pub(super) fn kept(&self) -> u64 {
        self.dirty.values().map(|dirty| dirty.noted).min().unwrap_or(self.noted)
    }

    /// What the next commit is to write.
    pub(super) fn rows(&self, batch: &[Message]) -> Rows {
        let mut rows = Rows { subscriptions: self.next_in_turn(), ..Rows::default() };
        rows.oldest = self.floor_after(&rows.subscriptions).min(self.floor).min(self.head.oldest + DELETES_MAX);
        rows.writes.extend((self.head.oldest..rows.oldest).map(|position| (record::message_key(position), None)));
        if self.keeps() {
            let rows_of = (self.head.next..).zip(batch);
            rows.writes.extend(
                rows_of
                    .map(|(position, message)| (record::message_key(position), Some(record::encode_message(message)))),
            );
        }
        rows.writes.extend(rows.subscriptions.iter().map(|name| self.subscription_row(name)));
        let next = self.head.next + batch.len() as u64;
        if !self.keeps() && rows.oldest == self.floor {
            // There are no rows, and none are written.
            rows.oldest = next;
        }
        let head = Head { next, oldest: rows.oldest, known: self.head.known, commits: self.head.commits + 1 };
        rows.head = head;
        rows.writes.push((record::HEAD.to_vec(), Some(head.encode())));
        rows
    }

    /// The subscriptions that the next commit writes: those that have waited longest, and all that have ended, whose rows say
    /// that they are to have messages that nobody keeps for them.
    fn next_in_turn(&self) -> Vec<Arc<str>> {
        if self.dirty.len() <= SUBSCRIPTIONS_MAX {
            return self.dirty.keys().cloned().collect();
        }
        let (mut live, ended): (Vec<_>, Vec<_>) =
            self.dirty.iter().partition(|(name, _)| self.progress.contains_key(&***name));
        live.sort_by_key(|(_, dirty)| dirty.noted);
        live.truncate(SUBSCRIPTIONS_MAX);
        live.into_iter().chain(ended).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The first message that somebody is to have, also by the rows on disk once these subscriptions are written.
    fn floor_after(&self, written: &[Arc<str>]) -> u64 {
        let wanted = self.first_wanted();
        if written.len() == self.dirty.len() {
            return wanted;
        }
        let written: BTreeSet<&Arc<str>> = written.iter().collect();
        let left = self.dirty.iter().filter(|(name, _)| !written.contains(name));
        left.filter_map(|(_, dirty)| dirty.floor).fold(wanted, u64::min)
    }

    /// The rows of all subscriptions that are not as they are to be, for when no other commit will come.
    pub(super) fn last_rows(&self) -> Vec<Vec<Write>> {
        let rows: Vec<_> = self.dirty.keys().map(|name| self.subscription_row(name)).collect();
        rows.chunks(SUBSCRIPTIONS_MAX).map(<[Write]>::to_vec).collect()
    }

    fn subscription_row(&self, name: &str) -> Write {
        (record::subscription_key(name), self.progress.get(name).map(record::encode_progress))
    }

    /// The commit with these rows has happened.
    pub(super) fn committed(&mut self, rows: &Rows, batch: &[Message]) {
        self.head.oldest = rows.oldest;
        for name in &rows.subscriptions {
            self.dirty.remove(name);
        }
        self.head.commits = rows.head.commits;
        let next = self.head.next + batch.len() as u64;
        if self.keeps() {
            for message in batch {
                self.count(message.bytes());
            }
        } else {
            self.floor = next;
        }
        self.head.next = next;
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::journal::Fate;

    const HELD: usize = 4;

    /// What lies on disk after some commits.
    #[derive(Default)]
    struct Shelf(BTreeMap<Vec<u8>, Bytes>);

    impl Shelf {
        /// Commits what there is, and a message if there is room; whether there was.
        fn publish(&mut self, book: &mut Book) -> bool {
            let message = Message::new("m");
            let has_room = book.has_room(0, 0, message.bytes());
            let batch = if has_room { &[message][..] } else { &[] };
            let rows = book.rows(batch);
            for (key, value) in &rows.writes {
                match value {
                    Some(value) => drop(self.0.insert(key.clone(), value.clone())),
                    None => drop(self.0.remove(key)),
                }
            }
            book.committed(&rows, batch);
            self.check();
            has_room
        }

        /// Whoever opens it now finds every message that a subscription is to have, and no more than a topic holds.
        fn check(&self) {
            let head = Head::decode(&self.0[record::HEAD]).unwrap();
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
        let rules = Rules { messages: HELD, bytes: 1 << 20, unread: Unread::Forget };
        let (mut book, mut shelf) = (Book::new(rules, Head::default(), BTreeMap::new()), Shelf::default());
        let acked = |position| move || Changes { fates: [(position, Fate::Acked)].into(), ..Changes::default() };
        let ended = || Changes { ended: true, ..Changes::default() };
        book.take_in(change(0..1600, || Changes { begun: Some(0), ..Changes::default() }), 1600);
        while shelf.publish(&mut book) {}
        assert_eq!((book.head.next, book.is_dirty()), (HELD as u64, false));

        book.take_in(change(0..1600, acked(0)), 3200);
        assert!(!shelf.publish(&mut book), "some that are not written would have more than there may be");
        assert_eq!(book.head.oldest, 0);
        // Some that have ended are written beside the others.
        book.take_in(change(0..1100, ended), 4300);
        while book.is_dirty() {
            shelf.publish(&mut book);
        }
        assert_eq!((book.head.oldest, book.head.next), (1, HELD as u64 + 1));
        book.take_in(change(1100..1600, ended), 4800);
        shelf.publish(&mut book);
        assert_eq!((book.head.oldest, shelf.0.len()), (book.head.next, 1));
    }
}
