//! Schedulers, requested only while they are shown, and the kind of memory under the cursor.

pub(crate) mod memory_kind;

use std::time::Duration;

use rusm_protocol::{ClientMessage, MemorySnapshot, Schedulers, SchedulersView, ViewWindow};

use self::memory_kind::MemoryKind;

use crate::model::message::REQUEST_PACE;

/// Maximum number of rows that a view may request.
const ROWS_MAX: u16 = 200;

/// State of the Schedulers view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchedPane {
    /// The last request.
    sent: Option<SchedulersView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Schedulers>,
    /// Kind of memory that is drawn over time; `None` for the resident set.
    pub(crate) kind: Option<MemoryKind>,
}

impl SchedPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Returns the message that requests the visible schedulers, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            return self.sent.take().map(|_| ClientMessage::Schedulers { view: None });
        };
        let window = ViewWindow { offset: 0, len: visible.clamp(1, ROWS_MAX).into() };
        let query = SchedulersView { id: self.ids, window, ..SchedulersView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = SchedulersView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Schedulers { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request.
    pub(crate) fn take(&mut self, schedulers: Schedulers) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != schedulers.id) {
            return false;
        }
        self.newest = Some(schedulers);
        true
    }

    /// Moves the cursor over the kinds of memory; the first row is the resident set.
    pub(crate) fn move_by(&mut self, lines: i64, memory: &MemorySnapshot) {
        let shown = memory_kind::shown(memory);
        let at = self.kind.and_then(|kind| shown.iter().position(|(known, _)| *known == kind)).map_or(0, |at| at + 1);
        let to = (at as u64).saturating_add_signed(lines).min(shown.len() as u64);
        self.kind = usize::try_from(to).ok().and_then(|to| Some(shown.get(to.checked_sub(1)?)?.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_once_while_it_is_shown_and_takes_only_what_it_asked_for() {
        let mut pane = SchedPane::default();
        let requested = pane.requests(Some(4), Duration::ZERO);
        let Some(ClientMessage::Schedulers { view: Some(view) }) = requested else { panic!("{requested:?}") };

        assert_eq!(pane.requests(Some(4), Duration::from_secs(1)), None);
        assert!(!pane.take(Schedulers { id: view.id + 1, ..Schedulers::default() }));
        assert!(pane.take(Schedulers { id: view.id, ..Schedulers::default() }));
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Schedulers { view: None }));
        assert_eq!(pane.requests(None, Duration::from_secs(3)), None);
        assert!(!pane.take(Schedulers { id: view.id, ..Schedulers::default() }));
    }

    #[test]
    fn a_machine_of_many_schedulers_is_asked_for_a_page() {
        let mut pane = SchedPane::default();

        let requested = pane.requests(Some(300), Duration::ZERO);

        assert!(matches!(requested, Some(ClientMessage::Schedulers { view: Some(view) }) if view.window.len == 200));
    }

    #[test]
    fn the_cursor_moves_over_the_kinds_that_are_shown() {
        let memory = MemorySnapshot { rss_bytes: 100, control_block_bytes: 80, future_bytes: 9, ..Default::default() };
        let mut pane = SchedPane::default();

        pane.move_by(1, &memory);
        assert_eq!(pane.kind, Some(MemoryKind::ControlBlocks));
        pane.move_by(1, &memory);
        assert_eq!(pane.kind, Some(MemoryKind::Rest), "11 bytes are more than 9");
        pane.move_by(9, &memory);
        assert_eq!(pane.kind, Some(MemoryKind::Futures));
        pane.move_by(-9, &memory);
        assert_eq!(pane.kind, None);
    }
}
