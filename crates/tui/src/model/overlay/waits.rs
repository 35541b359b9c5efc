//! The list of waits, requested only while its overlay is open.
//!
//! The selection is a process and not an index: it stays on its process when other rows appear or disappear.

use std::time::Duration;

use rusm_protocol::{ClientMessage, WaitRow, Waits, WaitsView};

use crate::model::selection::ListCursor;

/// Minimum time between two requests: a node accepts 20 commands per second.
const PACE: Duration = Duration::from_millis(80);

/// State of the list of waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WaitsPane {
    /// The last request.
    sent: Option<WaitsView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Waits>,
    /// Position in the list.
    pub(crate) list: ListCursor,
}

impl WaitsPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets the answer, because it is from another node.
    pub(crate) fn forget(&mut self) {
        self.newest = None;
        self.list.selected = None;
    }

    /// Returns the message that requests the visible rows, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            return self.sent.take().map(|_| ClientMessage::Waits { view: None });
        };
        let window = self.list.window(visible);
        let query = WaitsView { id: self.ids, window, ..WaitsView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = WaitsView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Waits { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursor follows the selected process.
    pub(crate) fn take(&mut self, waits: Waits, visible: u16) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != waits.id) {
            return false;
        }
        let is_selected = |row: &WaitRow| self.list.selected.is_some() && row.pid == self.list.selected;
        if let Some(at) = waits.rows.iter().position(is_selected) {
            self.list.at = waits.offset + at as u64;
        }
        self.newest = Some(waits);
        self.clamp(visible);
        true
    }

    /// Shows recorded waits, which are not an answer.
    pub(crate) fn show(&mut self, waits: Waits, visible: u16) {
        self.newest = Some(waits);
        self.clamp(visible);
    }

    /// Keeps the cursor inside the list and the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        let Some(newest) = &self.newest else { return };
        self.list.clamp(newest.total, visible);
    }

    /// Moves the cursor.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        self.go_to(self.list.at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.list.at = position;
        self.clamp(visible);
        self.list.selected = self.shown().and_then(|row| row.pid.clone());
    }

    /// Returns the row at an index, if the node has sent it.
    pub(crate) fn row_at(&self, position: u64) -> Option<&WaitRow> {
        let newest = self.newest.as_ref()?;
        newest.rows.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Returns the row under the cursor.
    pub(crate) fn shown(&self) -> Option<&WaitRow> {
        self.row_at(self.list.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    fn waits(id: u32, slots: &[u32]) -> Waits {
        let row = |slot: &u32| WaitRow { pid: Some(format!("<0.{slot}.1>")), ..WaitRow::default() };
        Waits { id, total: slots.len() as u64, rows: slots.iter().map(row).collect(), ..Waits::default() }
    }

    #[test]
    fn the_list_is_requested_once_while_it_is_shown_and_ended_afterwards() {
        let mut pane = WaitsPane::default();

        assert!(matches!(pane.requests(Some(10), TICK), Some(ClientMessage::Waits { view: Some(_) })));
        assert_eq!(pane.requests(Some(10), 3 * TICK), None);
        assert_eq!(pane.requests(None, 4 * TICK), Some(ClientMessage::Waits { view: None }));
        assert_eq!(pane.requests(None, 5 * TICK), None);
    }

    #[test]
    fn the_cursor_follows_its_process_and_old_answers_are_dropped() {
        let mut pane = WaitsPane::default();
        pane.requests(Some(3), TICK);
        assert!(!pane.take(waits(99, &[1]), 3));
        assert!(pane.take(waits(1, &[5, 6, 7, 8, 9]), 3));
        pane.go_to(1, 3);

        assert!(pane.take(waits(1, &[1, 2, 3, 4, 5, 6]), 3));

        assert_eq!((pane.list.at, pane.list.top), (5, 3));
        assert_eq!(pane.shown().and_then(|row| row.pid.as_deref()), Some("<0.6.1>"));
        assert!(pane.take(waits(1, &[]), 3));
        assert_eq!((pane.list.at, pane.list.top, pane.shown()), (0, 0, None));
    }
}
