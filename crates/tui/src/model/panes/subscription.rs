//! Subscription to process rows: sends only the newest request, one at a time, and never faster than the node allows.
//!
//! ```text
//!   query = None       ──▶ set_observer_detail{false}      rows not visible: the node computes none
//!   query = Some(view) ──▶ set_observer_detail{true}, view
//! ```

mod arrived;

use std::time::Duration;

use rusm_protocol::{ClientMessage, Rows, View};

use crate::model::message::REQUEST_PACE;

/// Time after which an unanswered request counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Row stream of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subscription {
    /// The last request sent; `None` while the stream is off.
    sent: Option<View>,
    sent_at: Option<Duration>,
    unanswered: bool,
    ids: u32,
}

impl Subscription {
    /// Resets the state: a new connection starts without a subscription.
    pub(crate) fn reset(&mut self) {
        *self = Self { ids: self.ids, ..Self::default() };
    }

    /// Returns the last request sent.
    pub(crate) fn sent(&self) -> Option<&View> {
        self.sent.as_ref()
    }

    /// Returns the messages that make the node stream `query`.
    pub(crate) fn requests(&mut self, query: Option<View>, now: Duration) -> Vec<ClientMessage> {
        match (query, &self.sent) {
            (None, None) => Vec::new(),
            (None, Some(_)) => {
                self.sent = None;
                self.unanswered = false;
                vec![ClientMessage::SetObserverDetail { enabled: false }]
            }
            (Some(query), sent) => {
                if self.must_wait(now) || sent.as_ref().is_some_and(|sent| same(sent, &query)) {
                    return Vec::new();
                }
                let mut out = Vec::new();
                if sent.is_none() {
                    out.push(ClientMessage::SetObserverDetail { enabled: true });
                }
                self.ids = self.ids.wrapping_add(1);
                let view = View { id: self.ids, ..query };
                out.push(ClientMessage::View(view.clone()));
                self.sent = Some(view);
                self.sent_at = Some(now);
                self.unanswered = true;
                out
            }
        }
    }

    /// Returns true if a page answers the newest request. Pages for older requests must be dropped.
    pub(crate) fn answers(&mut self, rows: &Rows) -> bool {
        let newest = self.sent.as_ref().is_some_and(|view| view.id == rows.id);
        if newest {
            self.unanswered = false;
        }
        newest
    }

    /// Handles a refusal. Stops waiting for the request in flight, if there is one, and returns it.
    pub(crate) fn refused(&mut self) -> Option<&View> {
        let was_unanswered = std::mem::take(&mut self.unanswered);
        self.sent.as_ref().filter(|_| was_unanswered)
    }

    fn must_wait(&self, now: Duration) -> bool {
        let Some(sent_at) = self.sent_at.filter(|_| self.sent.is_some()) else {
            return false;
        };
        let waited = now.saturating_sub(sent_at);
        waited < REQUEST_PACE || (self.unanswered && waited < PATIENCE)
    }
}

/// Returns true if two requests are equivalent. A request to reorder is never equivalent to a previous one.
fn same(sent: &View, query: &View) -> bool {
    !query.reorder
        && sent.columns == query.columns
        && sent.sort == query.sort
        && sent.filter == query.filter
        && sent.window == query.window
        && sent.around == query.around
        && (sent.hz - query.hz).abs() < f64::EPSILON
}

#[cfg(test)]
mod tests {
    use rusm_protocol::ViewWindow;

    use super::*;

    fn view(offset: u64) -> View {
        View { window: ViewWindow { offset, len: 60 }, ..View::default() }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_first_wish_turns_the_stream_on_and_none_turns_it_off() {
        let mut subscription = Subscription::default();

        let on = subscription.requests(Some(view(0)), ms(0));
        let off = subscription.requests(None, ms(1));

        assert!(matches!(on[..], [ClientMessage::SetObserverDetail { enabled: true }, ClientMessage::View(_)]));
        assert_eq!(off, [ClientMessage::SetObserverDetail { enabled: false }]);
        assert!(subscription.requests(None, ms(2)).is_empty());
    }

    #[test]
    fn a_wheel_that_turns_faster_than_the_node_answers_sends_the_newest_wish_only() {
        let mut subscription = Subscription::default();
        subscription.requests(Some(view(0)), ms(0));

        let early: usize = (1..100).map(|n| subscription.requests(Some(view(n)), ms(n)).len()).sum();
        assert!(subscription.answers(&Rows { id: 1, ..Rows::default() }));
        let next = subscription.requests(Some(view(100)), ms(101));

        assert_eq!(early, 0);
        assert!(matches!(&next[..], [ClientMessage::View(view)] if view.window.offset == 100 && view.id == 2));
        assert!(!subscription.answers(&Rows { id: 1, ..Rows::default() }));
    }

    #[test]
    fn an_answer_that_never_comes_does_not_stop_us() {
        let mut subscription = Subscription::default();
        subscription.requests(Some(view(0)), ms(0));

        assert!(subscription.requests(Some(view(1)), ms(1_900)).is_empty());
        assert_eq!(subscription.requests(Some(view(1)), ms(2_000)).len(), 1);
    }
}
