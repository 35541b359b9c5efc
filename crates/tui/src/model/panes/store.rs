//! Durable stores: their state, their buckets, and the keys of one bucket, requested only while they are shown.
//!
//! The keyboard focus is on one of two lists. The selection is a bucket and not an index. Rates are computed over the
//! last seconds from monotonic counters.

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::{
    BucketInfo, ClientMessage, KeysInfo, KeysView, StoreInfo, Stores, StoresView, TableInfo, ViewWindow,
};

use crate::model::message::REQUEST_PACE;

/// Number of answers from which rates are computed: two seconds of them, or less while the list is scrolled.
const KEPT: usize = 5;

/// List that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoreFocus {
    /// The buckets.
    #[default]
    Buckets,
    /// The keys of the open bucket.
    Keys,
}

/// The open bucket and its current page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OpenBucket {
    store: u32,
    bucket: String,
    /// Start keys of the pages up to the current one.
    pages: Vec<String>,
}

/// State of the Store view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StorePane {
    sent: Option<StoresView>,
    sent_at: Duration,
    ids: u32,
    /// The last answers, oldest first.
    seen: VecDeque<Stores>,
    /// True if the view was hidden after the newest answer: a rate computed across that gap would be its mean.
    was_hidden: bool,
    /// Index of the shown store, taken modulo the number of stores.
    pub(crate) store: usize,
    pub(crate) focus: StoreFocus,
    /// Number of buckets above the first visible one, followed by the index of the bucket under the cursor.
    pub(crate) top: u64,
    pub(crate) bucket: u64,
    selected: Option<(u32, String)>,
    open: Option<OpenBucket>,
    pub(crate) key: usize,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) operations: Option<f64>,
    pub(crate) commits: Option<f64>,
    pub(crate) syncs: Option<f64>,
    pub(crate) reads: Option<f64>,
    /// Operations per commit, operations per sync, and time per sync. Without recent activity, over the whole
    /// lifetime.
    pub(crate) per_commit: Option<f64>,
    pub(crate) per_sync: Option<f64>,
    pub(crate) sync_ns: Option<f64>,
}

impl StorePane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
        self.was_hidden = true;
    }

    /// Forgets everything, because the answers are from another node.
    pub(crate) fn forget(&mut self) {
        *self = Self { ids: self.ids, ..Self::default() };
    }

    /// Returns the message that requests the visible numbers of buckets and keys, or ends the subscription, if a change
    /// is needed.
    pub(crate) fn requests(&mut self, visible: Option<(u16, u16)>, now: Duration) -> Option<ClientMessage> {
        let Some((buckets, keys)) = visible else {
            self.was_hidden = true;
            return self.sent.take().map(|_| ClientMessage::Stores { view: None });
        };
        let around = u64::from(buckets.max(1));
        let window = ViewWindow { offset: self.top.saturating_sub(around), len: (buckets.max(1) * 3).min(200).into() };
        let keys = self.open.as_ref().map(|open| KeysView {
            store: open.store,
            bucket: open.bucket.clone(),
            after: open.pages.last().cloned().unwrap_or_default(),
            len: keys.clamp(1, 100).into(),
        });
        let query = StoresView { id: self.ids, window, keys, ..StoresView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = StoresView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Stores { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursor follows the selected bucket.
    pub(crate) fn take(&mut self, stores: Stores, visible: u16) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != stores.id) {
            return false;
        }
        let is_same = |known: &BucketInfo| self.selected.as_ref().is_some_and(|of| *of == id(known));
        if let Some(at) = stores.buckets.iter().position(is_same) {
            self.bucket = stores.offset + at as u64;
        }
        // If the node's time went back, the earlier answers are from another store.
        let went_back = self.newest().is_some_and(|before| before.at_ms > stores.at_ms);
        if std::mem::take(&mut self.was_hidden) || went_back {
            self.seen.clear();
        }
        // A replay answers a request with the state that it has sent before.
        self.seen.retain(|before| before.at_ms != stores.at_ms);
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back(stores);
        self.clamp(visible);
        true
    }

    /// Shows recorded stores, which are not an answer.
    pub(crate) fn show(&mut self, stores: Stores, visible: u16) {
        self.seen.clear();
        self.seen.push_back(stores);
        self.clamp(visible);
    }

    /// Forgets the stores, and keeps what the user selected.
    pub(crate) fn forget_stores(&mut self) {
        self.seen.clear();
    }

    pub(crate) fn newest(&self) -> Option<&Stores> {
        self.seen.back()
    }

    /// Keeps both cursors inside their lists, and the bucket cursor inside the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        let keys = self.page().map_or(0, |page| page.keys.len());
        self.key = self.key.min(keys.saturating_sub(1));
        let Some(total) = self.newest().map(|newest| newest.total) else { return };
        self.bucket = self.bucket.min(total.saturating_sub(1));
        let visible = u64::from(visible.max(1));
        self.top = self.top.min(total.saturating_sub(visible));
        self.top = self.top.clamp((self.bucket + 1).saturating_sub(visible), self.bucket);
    }

    /// Moves the cursor of the focused list.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        let at = match self.focus {
            StoreFocus::Buckets => self.bucket,
            StoreFocus::Keys => self.key as u64,
        };
        self.go_to(at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor of the focused list to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        match self.focus {
            StoreFocus::Buckets => self.bucket = position,
            StoreFocus::Keys => self.key = usize::try_from(position).unwrap_or(usize::MAX),
        }
        self.clamp(visible);
        self.selected = self.bucket_at(self.bucket).map(id);
    }

    /// Returns the bucket at an index, if the node has sent it.
    pub(crate) fn bucket_at(&self, position: u64) -> Option<&BucketInfo> {
        let newest = self.newest()?;
        newest.buckets.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Opens the bucket under the cursor. Returns false if that bucket does not exist.
    pub(crate) fn open_bucket(&mut self) -> bool {
        let Some((store, bucket)) = self.bucket_at(self.bucket).map(id) else { return false };
        self.open = Some(OpenBucket { store, bucket, pages: Vec::new() });
        (self.focus, self.key) = (StoreFocus::Keys, 0);
        true
    }

    /// Closes the open bucket. Returns false if none was open.
    pub(crate) fn close_bucket(&mut self) -> bool {
        self.focus = StoreFocus::Buckets;
        self.open.take().is_some()
    }

    /// Turns to the next page of keys, or to the previous one.
    pub(crate) fn turn_page(&mut self, forward: bool) {
        let is_answered = self.is_answered();
        let next = self.page().and_then(|page| page.next.clone());
        let Some(open) = &mut self.open else { return };
        match (forward, next) {
            (true, Some(next)) if is_answered => open.pages.push(next),
            // The page received last is not the current one yet.
            (true, _) => return,
            (false, _) => _ = open.pages.pop(),
        }
        self.key = 0;
    }

    /// Returns true if the newest answer contains the current page of the open bucket.
    fn is_answered(&self) -> bool {
        let Some((sent, open)) = self.sent.as_ref().zip(self.open.as_ref()) else { return false };
        let after = open.pages.last().map_or("", String::as_str);
        let is_asked = sent
            .keys
            .as_ref()
            .is_some_and(|keys| (keys.store, &keys.bucket, keys.after.as_str()) == (open.store, &open.bucket, after));
        is_asked && self.newest().is_some_and(|newest| newest.id == sent.id)
    }

    /// Returns the name of the open bucket and the number of the current page.
    pub(crate) fn opened(&self) -> Option<(&str, usize)> {
        self.open.as_ref().map(|open| (open.bucket.as_str(), open.pages.len() + 1))
    }

    /// Returns the page of keys, once the node has sent it.
    pub(crate) fn page(&self) -> Option<&KeysInfo> {
        let (page, open) = (self.newest()?.keys.as_deref()?, self.open.as_ref()?);
        (page.store == open.store && page.bucket == open.bucket).then_some(page)
    }

    /// Returns the shown store and its index.
    pub(crate) fn shown(&self) -> Option<(usize, &StoreInfo)> {
        let stores = &self.newest()?.stores;
        let at = self.store % stores.len().max(1);
        stores.get(at).map(|store| (at, store))
    }

    /// Returns true if there are two answers, from which rates are computed, or nothing that has a rate.
    pub(crate) fn has_rates(&self) -> bool {
        self.seen.len() > 1 || self.newest().is_some_and(|newest| newest.stores.is_empty() && newest.tables.is_empty())
    }

    /// Returns the rates of the store at an index.
    pub(crate) fn rates(&self, position: usize) -> Option<Rates> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let (before, now) = (first.stores.get(position)?, last.stores.get(position)?);
        let per_sec = |count: fn(&StoreInfo) -> u64| rate(count(now).saturating_sub(count(before)), first, last);
        let share = |part: fn(&StoreInfo) -> u64, of: fn(&StoreInfo) -> u64| {
            let recent = (part(now).saturating_sub(part(before)), of(now).saturating_sub(of(before)));
            let (part, of) = if recent.1 > 0 { recent } else { (part(now), of(now)) };
            (of > 0).then(|| part as f64 / of as f64)
        };
        Some(Rates {
            operations: per_sec(|store| store.operations_total),
            commits: per_sec(|store| store.commits_total),
            syncs: per_sec(|store| store.syncs_total),
            reads: per_sec(|store| store.reads_total),
            per_commit: share(|store| store.operations_total, |store| store.commits_total),
            per_sync: share(|store| store.operations_total, |store| store.syncs_total),
            sync_ns: share(|store| store.sync_us_total, |store| store.syncs_total).map(|us| us * 1e3),
        })
    }

    /// Returns the number of tables and registries that were sent.
    pub(crate) fn table_count(&self) -> usize {
        self.newest().map_or(0, |newest| newest.tables.len())
    }

    /// Returns the reads and writes per second of the table or registry at an index of the newest answer. Names need not be
    /// unique: of several alike, the first is compared with the first.
    pub(crate) fn table_rates(&self, at: usize) -> Option<(f64, f64)> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let table = last.tables.get(at)?;
        let is_same =
            |known: &&TableInfo| (&known.name, &known.kind, &known.owner) == (&table.name, &table.kind, &table.owner);
        let number = last.tables[..at].iter().filter(is_same).count();
        let before = first.tables.iter().filter(is_same).nth(number)?;
        let reads = table.reads_total.checked_sub(before.reads_total)?;
        let writes = table.writes_total.checked_sub(before.writes_total)?;
        Some((rate(reads, first, last)?, rate(writes, first, last)?))
    }

    /// Returns the reads and writes per second of a bucket.
    pub(crate) fn bucket_rates(&self, bucket: &BucketInfo) -> Option<(f64, f64)> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let before = first.buckets.iter().find(|known| id(known) == id(bucket))?;
        let reads = bucket.reads_total.saturating_sub(before.reads_total);
        let writes = bucket.writes_total.saturating_sub(before.writes_total);
        Some((rate(reads, first, last)?, rate(writes, first, last)?))
    }
}

/// Returns the rate between two answers; `None` if they are the same.
fn rate(count: u64, first: &Stores, last: &Stores) -> Option<f64> {
    let seconds = last.at_ms.saturating_sub(first.at_ms) as f64 / 1e3;
    (seconds > 0.0).then(|| count as f64 / seconds)
}

fn id(bucket: &BucketInfo) -> (u32, String) {
    (bucket.store, bucket.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(id: u32, at_ms: u64, names: &[&str], operations_total: u64) -> Stores {
        let bucket = |name: &&str| BucketInfo { name: (*name).to_owned(), ..BucketInfo::default() };
        let store = StoreInfo { operations_total, syncs_total: operations_total / 64, ..StoreInfo::default() };
        let buckets = names.iter().map(bucket).collect();
        Stores { id, at_ms, stores: vec![store], total: names.len() as u64, buckets, ..Stores::default() }
    }

    fn requested(pane: &mut StorePane, now_ms: u64) -> Option<StoresView> {
        match pane.requests(Some((4, 10)), Duration::from_millis(now_ms)) {
            Some(ClientMessage::Stores { view }) => view,
            _ => None,
        }
    }

    #[test]
    fn the_node_is_asked_while_it_is_shown_and_told_when_it_is_not() {
        let mut pane = StorePane::default();

        assert_eq!(pane.requests(None, Duration::ZERO), None);
        assert_eq!(requested(&mut pane, 0).map(|view| (view.id, view.window.len, view.keys)), Some((1, 12, None)));
        assert_eq!(requested(&mut pane, 1000), None);
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Stores { view: None }));
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let mut pane = StorePane::default();
        requested(&mut pane, 0);
        pane.take(stores(1, 1_000, &["a"], 6_400), 4);
        assert_eq!(pane.rates(0).unwrap().operations, None, "a rate needs two answers");
        pane.take(stores(1, 2_000, &["a"], 12_800), 4);

        let rates = pane.rates(0).unwrap();
        assert_eq!((rates.operations, rates.syncs, rates.per_sync), (Some(6_400.0), Some(100.0), Some(64.0)));
    }

    #[test]
    fn rates_have_nothing_of_the_time_in_which_nobody_looked() {
        let mut pane = StorePane::default();
        requested(&mut pane, 0);
        pane.take(stores(1, 1_000, &["a"], 6_400), 4);

        pane.requests(None, Duration::from_secs(1));
        assert!(pane.newest().is_some(), "old data is shown until newer data arrives");
        let id = requested(&mut pane, 100_000).unwrap().id;
        pane.take(stores(id, 100_000, &["a"], 12_800), 4);
        pane.take(stores(id, 101_000, &["a"], 12_900), 4);

        assert_eq!(pane.rates(0).unwrap().operations, Some(100.0));
    }

    #[test]
    fn pages_of_keys_are_turned_forth_and_back() {
        let mut pane = StorePane::default();
        requested(&mut pane, 0);
        pane.take(stores(1, 1_000, &["a", "b"], 0), 4);
        pane.move_by(1, 4);
        assert!(pane.open_bucket());
        let first = requested(&mut pane, 1_000).unwrap();
        assert_eq!(
            first.keys.map(|keys| (keys.bucket, keys.after, keys.len)),
            Some(("b".to_owned(), String::new(), 10))
        );

        let keys = KeysInfo { bucket: "b".to_owned(), next: Some("6b".to_owned()), ..KeysInfo::default() };
        pane.take(Stores { keys: Some(Box::new(keys)), ..stores(first.id, 1_100, &["a", "b"], 0) }, 4);
        pane.turn_page(true);
        assert_eq!(requested(&mut pane, 2_000).unwrap().keys.unwrap().after, "6b");
        pane.turn_page(false);
        assert_eq!(requested(&mut pane, 3_000).unwrap().keys.unwrap().after, "");
        assert!(pane.close_bucket() && requested(&mut pane, 4_000).unwrap().keys.is_none());
    }

    #[test]
    fn a_page_is_turned_once_until_the_next_has_come() {
        let mut shown = StorePane::default();
        requested(&mut shown, 0);
        shown.take(stores(1, 1_000, &["a"], 0), 4);
        assert!(shown.open_bucket());
        let page = |id, next: &str| {
            let keys = KeysInfo { bucket: "a".to_owned(), next: Some(next.to_owned()), ..KeysInfo::default() };
            Stores { keys: Some(Box::new(keys)), ..stores(id, u64::from(id) * 1_000, &["a"], 0) }
        };
        let id = requested(&mut shown, 1_000).unwrap().id;
        shown.take(page(id, "11"), 4);

        shown.turn_page(true);
        shown.turn_page(true);
        assert_eq!(shown.opened(), Some(("a", 2)), "before the page was requested");
        let view = requested(&mut shown, 2_000).unwrap();
        shown.turn_page(true);
        assert_eq!((shown.opened(), view.keys.unwrap().after.as_str()), (Some(("a", 2)), "11"), "before it arrived");
        shown.take(page(view.id, "22"), 4);
        shown.turn_page(true);

        assert_eq!(requested(&mut shown, 3_000).unwrap().keys.unwrap().after, "22");
    }

    #[test]
    fn what_is_selected_stays_so_when_buckets_come_before_it() {
        let mut shown = StorePane::default();
        requested(&mut shown, 0);
        assert!(!shown.take(stores(0, 1, &["z"], 0), 4), "an answer without a request");
        shown.take(stores(1, 1, &["b", "c"], 0), 4);

        shown.move_by(1, 4);
        shown.take(stores(1, 2, &["a", "b", "c"], 0), 4);

        assert_eq!(shown.bucket_at(shown.bucket).map(|bucket| bucket.name.as_str()), Some("c"));
    }
}
