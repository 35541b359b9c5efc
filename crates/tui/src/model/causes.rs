//! Causes of failures, requested only while they are shown.
//!
//! The selection is a cause and not an index: it stays with its cause when others come before it.

use std::time::Duration;

use rusm_protocol::{CauseDetail, CauseInfo, Causes, CausesView, ClientMessage, ViewWindow};

use crate::model::message::REQUEST_PACE;

/// Number of causes requested: more than any screen shows.
const SHOWN: u32 = 50;

/// Rows of the list for its heading and its borders.
pub(crate) const AROUND: u16 = 3;
/// Largest number of causes in the list.
const ROWS_MAX: u16 = 8;
/// Rows below which the list leaves the screen to the events.
const ROOM_MIN: u16 = 12;

/// State of the list of causes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CausesPane {
    sent: Option<CausesView>,
    sent_at: Duration,
    ids: u32,
    /// True if the node does not know such requests.
    is_unsupported: bool,
    pub(crate) newest: Option<Causes>,
    /// Number of the selected cause.
    selected: Option<u32>,
    /// True while the selected cause is wanted in full.
    pub(crate) is_open: bool,
}

impl CausesPane {
    /// Resets the request state: a new connection starts without a request, and its node may be another one.
    pub(crate) fn reset(&mut self) {
        (self.sent, self.is_unsupported) = (None, false);
    }

    /// Forgets all causes, because they are those of another node.
    pub(crate) fn forget(&mut self) {
        (self.newest, self.selected, self.is_open) = (None, None, false);
    }

    /// Returns the message that requests causes, or ends the request, if a change is needed.
    pub(crate) fn requests(&mut self, shown: bool, now: Duration) -> Option<ClientMessage> {
        if !shown || self.is_unsupported {
            return self.sent.take().map(|_| ClientMessage::Causes { view: None });
        }
        let selected = self.selected.filter(|_| self.is_open);
        let window = ViewWindow { offset: 0, len: SHOWN };
        let query = CausesView { id: self.ids, window, selected, ..CausesView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = CausesView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Causes { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request.
    pub(crate) fn take(&mut self, causes: Causes) -> bool {
        let is_newest = self.sent.as_ref().is_some_and(|sent| sent.id == causes.id);
        if is_newest {
            self.newest = Some(causes);
        }
        is_newest
    }

    /// Handles an error of the node. Returns true if it is about a request that the node does not know.
    pub(crate) fn refused(&mut self, message: &str) -> bool {
        let is_about_this = message.starts_with("unknown message \"causes\"");
        self.is_unsupported |= is_about_this;
        is_about_this
    }

    /// Returns the causes, the newest failure first.
    pub(crate) fn causes(&self) -> &[CauseInfo] {
        self.newest.as_ref().map_or(&[], |newest| &newest.causes)
    }

    /// Returns the index of the selected cause; the first one if none is selected.
    pub(crate) fn cursor(&self) -> usize {
        self.causes().iter().position(|cause| Some(cause.cause) == self.selected).unwrap_or(0)
    }

    /// Returns the height of the list of causes on a screen with `left` free rows; 0 without causes or without room.
    pub(crate) fn panel_height(&self, left: u16) -> u16 {
        let causes = self.causes().len().min(usize::from(ROWS_MAX)) as u16;
        if causes == 0 || left < ROOM_MIN {
            return 0;
        }
        (left / 2).saturating_sub(AROUND).clamp(1, ROWS_MAX).min(causes) + AROUND
    }

    /// Selects the cause `steps` further, wrapping around. Returns false without causes.
    pub(crate) fn step(&mut self, steps: isize) -> bool {
        let len = self.causes().len();
        if len == 0 {
            return false;
        }
        let at = if self.selected.is_none() { 0 } else { crate::model::selection::wrapped(self.cursor(), steps, len) };
        self.selected = self.causes().get(at).map(|cause| cause.cause);
        true
    }

    /// Requests the selected cause in full, the first one if none is selected. Returns false without causes.
    pub(crate) fn open(&mut self) -> bool {
        if self.selected.is_none() && !self.step(0) {
            return false;
        }
        self.is_open = true;
        true
    }

    /// Returns the selected cause in full, if the node has sent it.
    pub(crate) fn detail(&self) -> Option<&CauseDetail> {
        let detail = self.newest.as_ref()?.selected.as_deref()?;
        (Some(detail.cause.cause) == self.selected).then_some(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(id: u32, numbers: &[u32]) -> Causes {
        let cause = |cause: &u32| CauseInfo { cause: *cause, ..CauseInfo::default() };
        Causes { id, causes: numbers.iter().map(cause).collect(), ..Causes::default() }
    }

    #[test]
    fn the_selected_cause_stays_selected_when_a_newer_one_comes_before_it() {
        let mut pane = CausesPane::default();
        assert!(!pane.step(1), "there is none");
        pane.requests(true, Duration::ZERO);
        assert!(pane.take(causes(1, &[4, 2, 9])));

        pane.step(0);
        pane.step(1);
        pane.take(causes(1, &[7, 4, 2, 9]));

        assert_eq!(pane.cursor(), 2);
        pane.step(-3);
        assert_eq!(pane.cursor(), 3);
        assert!(!pane.take(causes(8, &[])), "an answer without a request");
    }

    #[test]
    fn a_cause_is_requested_in_full_while_it_is_open() {
        let mut pane = CausesPane::default();
        pane.requests(true, Duration::ZERO);
        pane.take(causes(1, &[4]));

        assert!(pane.open());
        let request = pane.requests(true, Duration::from_secs(1));

        assert!(
            matches!(&request, Some(ClientMessage::Causes { view: Some(view) }) if view.selected == Some(4)),
            "{request:?}"
        );
        assert_eq!(pane.requests(false, Duration::from_secs(2)), Some(ClientMessage::Causes { view: None }));
    }
}
