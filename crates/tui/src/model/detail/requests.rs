//! Requests one process in depth: the one in the detail pane, or the one that is about to be ended.

use std::time::Duration;

use rusm_protocol::{BondView, ClientMessage, InspectView, Inspection};

use crate::model::message::REQUEST_PACE;

/// Time after which an unanswered request counts as unanswerable.
const PATIENCE: Duration = Duration::from_secs(3);

/// Wanted process and the parts that cost extra.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) pid: String,
    pub(crate) page: Option<BondView>,
    pub(crate) values: bool,
    /// True if the effect of its end is wanted.
    pub(crate) reach: bool,
}

/// State of the requests of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    sent: Option<InspectView>,
    sent_at: Duration,
    ids: u32,
    is_answered: bool,
    /// True if the node does not know such requests.
    is_unsupported: bool,
}

impl Requests {
    /// Resets the request state: a new connection starts without a request, and its node may be another one.
    pub(crate) fn reset(&mut self) {
        *self = Self { ids: self.ids, ..Self::default() };
    }

    /// Returns the message that requests what is wanted, or ends the request, if a change is needed.
    pub(crate) fn requests(&mut self, wanted: Option<Wanted>, now: Duration) -> Option<ClientMessage> {
        let Some(wanted) = wanted.filter(|_| !self.is_unsupported) else {
            return self.sent.take().map(|_| ClientMessage::Inspect { view: None });
        };
        let Wanted { pid, page, values, reach } = wanted;
        let query = InspectView { id: self.ids, pid, page, values, reach, ..InspectView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = InspectView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        self.is_answered = false;
        Some(ClientMessage::Inspect { view: Some(view) })
    }

    /// Returns true if an answer belongs to the newest request.
    pub(crate) fn answers(&mut self, inspection: &Inspection) -> bool {
        let is_newest = self.sent.as_ref().is_some_and(|sent| sent.id == inspection.id);
        self.is_answered |= is_newest;
        is_newest
    }

    /// Handles an error of the node. Returns true if it is about a request that the node does not know.
    pub(crate) fn refused(&mut self, message: &str) -> bool {
        let is_about_this = message.starts_with("unknown message \"inspect\"");
        self.is_unsupported |= is_about_this;
        is_about_this
    }

    /// Returns true if an answer is still to be expected.
    pub(crate) fn is_pending(&self, now: Duration) -> bool {
        self.sent.is_some() && !self.is_answered && now.saturating_sub(self.sent_at) < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(pid: &str) -> Wanted {
        Wanted { pid: pid.to_owned(), ..Wanted::default() }
    }

    #[test]
    fn the_node_is_asked_once_for_each_process_and_told_when_it_is_enough() {
        let mut requests = Requests::default();
        let at = Duration::from_secs;

        assert_eq!(requests.requests(None, at(0)), None);
        assert!(requests.requests(Some(wanted("<0.1.1>")), at(1)).is_some());
        assert!(requests.is_pending(at(1)) && !requests.is_pending(at(9)));
        assert_eq!(requests.requests(Some(wanted("<0.1.1>")), at(2)), None);
        assert!(!requests.answers(&Inspection { id: 7, ..Inspection::default() }));
        assert!(requests.answers(&Inspection { id: 1, ..Inspection::default() }));
        assert!(!requests.is_pending(at(2)));
        assert!(requests.requests(Some(wanted("<0.2.1>")), at(3)).is_some());
        assert_eq!(requests.requests(None, at(4)), Some(ClientMessage::Inspect { view: None }));
        assert_eq!(requests.requests(None, at(5)), None);
    }

    #[test]
    fn an_older_node_is_not_asked_again() {
        let mut requests = Requests::default();
        requests.requests(Some(wanted("<0.1.1>")), Duration::ZERO);

        assert!(!requests.refused("unknown scenario \"x\""));
        assert!(requests.refused("unknown message \"inspect\": expected one of run"));

        assert_eq!(
            requests.requests(Some(wanted("<0.1.1>")), Duration::from_secs(1)),
            Some(ClientMessage::Inspect { view: None })
        );
        assert_eq!(requests.requests(Some(wanted("<0.2.1>")), Duration::from_secs(2)), None);
    }
}
