//! A list of which the node sends the visible page, requested only while it is shown.
//!
//! The selection is an item and not an index: it stays on its item when others appear, disappear or change places.

use std::time::Duration;

use rusm_protocol::{Cpu, CpuRow, TopicInfo, Topics, WaitRow, Waits};

use crate::model::message::REQUEST_PACE;
use crate::model::selection::ListCursor;

/// A page of a list, as the node answers it.
pub(crate) trait Page {
    /// An item of the list.
    type Row;
    /// Identity of an item.
    type Key: Clone + PartialEq;

    /// Returns the id of the request.
    fn id(&self) -> u32;
    /// Returns the number of items before the first one here.
    fn offset(&self) -> u64;
    /// Returns the number of all items.
    fn total(&self) -> u64;
    /// Returns the items.
    fn rows(&self) -> &[Self::Row];
    /// Returns the identity of an item, if it has one.
    fn key(row: &Self::Row) -> Option<Self::Key>;
}

/// The state of a list: its request of type `V`, and the newest page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PagedList<V, P: Page> {
    /// The last request.
    sent: Option<V>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<P>,
    /// Position in the list.
    pub(crate) list: ListCursor<P::Key>,
}

impl<V, P: Page> Default for PagedList<V, P> {
    fn default() -> Self {
        let list = ListCursor { top: 0, at: 0, selected: None };
        Self { sent: None, sent_at: Duration::ZERO, ids: 0, newest: None, list }
    }
}

impl<V: Clone + PartialEq, P: Page> PagedList<V, P> {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets the answer, because it is from another node or of another list.
    pub(crate) fn forget(&mut self) {
        self.newest = None;
        self.list.selected = None;
    }

    /// Returns the next request that `of` creates with its id, if it differs from the last one and is not too early.
    pub(crate) fn request(&mut self, now: Duration, of: impl Fn(u32) -> V) -> Option<V> {
        let is_early = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if is_early || self.sent == Some(of(self.ids)) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        self.sent = Some(of(self.ids));
        self.sent_at = now;
        self.sent.clone()
    }

    /// Ends the request. Returns false without one.
    pub(crate) fn end(&mut self) -> bool {
        self.sent.take().is_some()
    }

    /// Returns true if a page answers the newest request.
    pub(crate) fn is_answer(&self, page: &P) -> bool {
        self.sent.is_some() && self.ids == page.id()
    }

    /// Stores a page unless it answers an earlier request.
    pub(crate) fn take(&mut self, page: P, visible: u16) -> bool {
        if !self.is_answer(&page) {
            return false;
        }
        self.show(page, visible);
        true
    }

    /// Shows a page, for example a recorded one, which is not an answer. The cursor follows the selected item.
    pub(crate) fn show(&mut self, page: P, visible: u16) {
        let selected = |row: &P::Row| self.list.selected.is_some() && P::key(row) == self.list.selected;
        if let Some(at) = page.rows().iter().position(selected) {
            self.list.at = page.offset() + at as u64;
        }
        self.newest = Some(page);
        self.clamp(visible);
    }

    /// Keeps the cursor inside the list and the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        if let Some(newest) = &self.newest {
            self.list.clamp(newest.total(), visible);
        }
    }

    /// Moves the cursor.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        self.go_to(self.list.at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.list.at = position;
        self.clamp(visible);
        self.list.selected = self.shown().and_then(P::key);
    }

    /// Returns the item at an index, if the node has sent it.
    pub(crate) fn row(&self, position: u64) -> Option<&P::Row> {
        let newest = self.newest.as_ref()?;
        newest.rows().get(usize::try_from(position.checked_sub(newest.offset())?).ok()?)
    }

    /// Returns the item under the cursor.
    pub(crate) fn shown(&self) -> Option<&P::Row> {
        self.row(self.list.at)
    }
}

/// Implements [`Page`] for a message: its rows, their type, and the identity of a row.
macro_rules! page {
    ($message:ty, $rows:ident: $row:ty, $key:ty, $of:expr) => {
        impl Page for $message {
            type Row = $row;
            type Key = $key;

            fn id(&self) -> u32 {
                self.id
            }

            fn offset(&self) -> u64 {
                self.offset
            }

            fn total(&self) -> u64 {
                self.total
            }

            fn rows(&self) -> &[$row] {
                &self.$rows
            }

            fn key(row: &$row) -> Option<$key> {
                let of: fn(&$row) -> Option<$key> = $of;
                of(row)
            }
        }
    };
}

page!(Waits, rows: WaitRow, String, |row| row.pid.clone());
page!(Topics, topics: TopicInfo, String, |topic| Some(topic.name.clone()));
page!(Cpu, rows: CpuRow, (String, Option<String>), |row| Some((row.name.clone(), row.pid.clone())));

#[cfg(test)]
mod tests {
    use rusm_protocol::WaitsView;

    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    type List = PagedList<WaitsView, Waits>;

    fn waits(id: u32, slots: &[u32]) -> Waits {
        let row = |slot: &u32| WaitRow { pid: Some(format!("<0.{slot}.1>")), ..WaitRow::default() };
        Waits { id, total: slots.len() as u64, rows: slots.iter().map(row).collect(), ..Waits::default() }
    }

    fn view(id: u32) -> WaitsView {
        WaitsView { id, ..WaitsView::default() }
    }

    #[test]
    fn a_list_is_requested_once_and_ended_once() {
        let mut list = List::default();

        assert_eq!(list.request(TICK, view), Some(view(1)));
        assert_eq!(list.request(3 * TICK, view), None);
        assert!(list.end() && !list.end());
        assert_eq!(list.request(4 * TICK, view), Some(view(2)));
    }

    #[test]
    fn the_cursor_follows_its_item_and_old_answers_are_dropped() {
        let mut list = List::default();
        list.request(TICK, view);
        assert!(!list.take(waits(99, &[1]), 3));
        assert!(list.take(waits(1, &[5, 6, 7, 8, 9]), 3));
        list.go_to(1, 3);

        assert!(list.take(waits(1, &[1, 2, 3, 4, 5, 6]), 3));

        assert_eq!((list.list.at, list.list.top), (5, 3));
        assert_eq!(list.shown().and_then(|row| row.pid.as_deref()), Some("<0.6.1>"));
        assert!(list.take(waits(1, &[]), 3));
        assert_eq!((list.list.at, list.list.top, list.shown()), (0, 0, None));
    }
}
