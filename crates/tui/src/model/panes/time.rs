//! Tickers and streams, requested only while they are shown.

use rusm_protocol::{ClientMessage, Time, TimeView};

/// State of the Time view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimePane {
    /// Id of the last request.
    sent: Option<u32>,
    ids: u32,
    pub(crate) newest: Option<Time>,
    /// Number of rows above the first visible one, in both lists.
    pub(crate) top: usize,
}

impl TimePane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Returns the message that starts or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, shown: bool) -> Option<ClientMessage> {
        if !shown {
            return self.sent.take().map(|_| ClientMessage::Time { view: None });
        }
        if self.sent.is_some() {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        self.sent = Some(self.ids);
        Some(ClientMessage::Time { view: Some(TimeView { id: self.ids, ..TimeView::default() }) })
    }

    /// Stores an answer unless it belongs to an earlier request.
    pub(crate) fn take(&mut self, time: Time) -> bool {
        if self.sent != Some(time.id) {
            return false;
        }
        self.show(time);
        true
    }

    /// Shows tickers and streams, those of an answer or recorded ones.
    pub(crate) fn show(&mut self, time: Time) {
        self.newest = Some(time);
        self.scroll(0);
    }

    /// Scrolls both lists.
    pub(crate) fn scroll(&mut self, lines: i64) {
        let rows = self.newest.as_ref().map_or(0, |time| time.tickers.len().max(time.streams.len()));
        let top = (self.top as u64).saturating_add_signed(lines);
        self.top = usize::try_from(top).unwrap_or(usize::MAX).min(rows.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::TickerInfo;

    use super::*;

    #[test]
    fn it_asks_once_while_it_is_shown_and_takes_only_what_it_asked_for() {
        let mut pane = TimePane::default();
        let requested = pane.requests(true);
        let Some(ClientMessage::Time { view: Some(view) }) = requested else { panic!("{requested:?}") };

        assert_eq!(pane.requests(true), None);
        assert!(!pane.take(Time { id: view.id + 1, ..Time::default() }));
        assert!(pane.take(Time { id: view.id, ..Time::default() }));
        assert_eq!(pane.requests(false), Some(ClientMessage::Time { view: None }));
        assert_eq!(pane.requests(false), None);
        assert!(!pane.take(Time { id: view.id, ..Time::default() }));
        assert!(matches!(pane.requests(true), Some(ClientMessage::Time { view: Some(again) }) if again.id != view.id));
    }

    #[test]
    fn it_scrolls_within_the_longer_list() {
        let mut pane = TimePane::default();
        pane.requests(true);
        let tickers = vec![TickerInfo::default(); 5];
        pane.take(Time { id: 1, tickers, ..Time::default() });

        pane.scroll(99);
        assert_eq!(pane.top, 4);
        pane.take(Time { id: 1, tickers: vec![TickerInfo::default()], ..Time::default() });
        assert_eq!(pane.top, 0);
        pane.scroll(-1);
        assert_eq!(pane.top, 0);
    }
}
