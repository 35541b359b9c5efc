//! Topics and their receivers, requested only while they are shown. Rates are computed from the two newest answers.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rusm_protocol::{ClientMessage, ReceiverInfo, TopicInfo, TopicSort, Topics, TopicsView};

use crate::model::selection::paged_list::PagedList;

/// State of the Topics view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopicsPane {
    pages: PagedList<TopicsView, Topics>,
    /// The second newest answer, for rates.
    before: Option<Topics>,
    pub(crate) sort: TopicSort,
}

impl Default for TopicsPane {
    fn default() -> Self {
        // The fullest topic comes first.
        Self { pages: PagedList::default(), before: None, sort: TopicSort::Full }
    }
}

impl Deref for TopicsPane {
    type Target = PagedList<TopicsView, Topics>;

    fn deref(&self) -> &Self::Target {
        &self.pages
    }
}

impl DerefMut for TopicsPane {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.pages
    }
}

impl TopicsPane {
    /// Returns the message that requests the visible topics, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            self.before = None;
            return self.end().then_some(ClientMessage::Topics { view: None });
        };
        let (sort, window) = (self.sort, self.list.window(visible));
        let view = self.request(now, |id| TopicsView { id, sort, window, ..TopicsView::default() });
        view.map(|view| ClientMessage::Topics { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursor follows the selected topic.
    pub(crate) fn take(&mut self, topics: Topics, visible: u16) -> bool {
        if self.is_answer(&topics) && self.newest.as_ref().is_none_or(|newest| newest.at_ms < topics.at_ms) {
            self.before = self.newest.take();
        }
        self.pages.take(topics, visible)
    }

    /// Shows recorded topics, which are not an answer. The node records them by name.
    pub(crate) fn show(&mut self, mut topics: Topics, visible: u16) {
        self.before = None;
        self.sort.sort(&mut topics.topics);
        self.pages.show(topics, visible);
    }

    /// Forgets the topics, and keeps what the user selected.
    pub(crate) fn forget_topics(&mut self) {
        (self.before, self.newest) = (None, None);
    }

    /// Sorts by the next figure.
    pub(crate) fn sort_next(&mut self) {
        let at = TopicSort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = TopicSort::ALL[(at + 1) % TopicSort::ALL.len()];
        (self.list.top, self.before) = (0, None);
    }

    /// Returns the messages per second published to a topic; `None` before the second answer.
    pub(crate) fn published_per_sec(&self, topic: &TopicInfo) -> Option<f64> {
        self.per_sec(topic, topic.published_total, |before| Some(before.published_total))
    }

    /// Returns the messages per second that a receiver acknowledges, or is sent if it does not acknowledge.
    pub(crate) fn received_per_sec(&self, topic: &TopicInfo, receiver: &ReceiverInfo) -> Option<f64> {
        // The group of subscribers is unnamed. It is identified by its slowest process.
        let is_same = |other: &&ReceiverInfo| match &receiver.name {
            Some(_) => other.name == receiver.name,
            None => other.name.is_none() && other.slowest.is_some() && other.slowest == receiver.slowest,
        };
        let of = |topic: &TopicInfo| topic.receivers.iter().find(is_same).map(|before| before.delivered_total);
        self.per_sec(topic, receiver.delivered_total, of)
    }

    fn per_sec(&self, topic: &TopicInfo, now: u64, of: impl Fn(&TopicInfo) -> Option<u64>) -> Option<f64> {
        let (newest, before) = (self.newest.as_ref()?, self.before.as_ref()?);
        let then = of(before.topics.iter().find(|other| other.name == topic.name)?)?;
        let seconds = newest.at_ms.saturating_sub(before.at_ms) as f64 / 1e3;
        // A counter that decreased belongs to a new topic of the same name.
        (seconds > 0.0 && now >= then).then(|| (now - then) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(id: u32, at_ms: u64, names: &[&str]) -> Topics {
        let topic =
            |name: &&str| TopicInfo { name: (*name).to_owned(), published_total: at_ms * 3, ..TopicInfo::default() };
        Topics { id, at_ms, total: names.len() as u64, topics: names.iter().map(topic).collect(), ..Topics::default() }
    }

    fn requested(pane: &mut TopicsPane) -> u32 {
        match pane.requests(Some(4), Duration::ZERO) {
            Some(ClientMessage::Topics { view: Some(view) }) => view.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_node_is_asked_while_it_is_shown_and_told_when_it_is_not() {
        let mut pane = TopicsPane::default();

        assert_eq!(pane.requests(None, Duration::ZERO), None);
        assert_eq!(requested(&mut pane), 1);
        assert_eq!(pane.requests(Some(4), Duration::from_secs(1)), None);
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Topics { view: None }));
        assert_eq!(pane.requests(None, Duration::from_secs(2)), None);
    }

    #[test]
    fn what_is_selected_stays_so_when_others_come() {
        let mut pane = TopicsPane::default();
        let id = requested(&mut pane);
        assert!(!pane.take(topics(id + 1, 0, &["z"]), 4), "an answer without a request");
        assert!(pane.take(topics(id, 1000, &["a", "c"]), 4));

        pane.move_by(1, 4);
        pane.take(topics(id, 2000, &["a", "b", "c"]), 4);

        assert_eq!((pane.list.at, pane.shown().map(|topic| topic.name.as_str())), (2, Some("c")));
        pane.go_to(u64::MAX, 2);
        assert_eq!((pane.list.at, pane.list.top), (2, 1));
    }

    #[test]
    fn a_rate_is_of_the_two_newest_answers() {
        let mut pane = TopicsPane::default();
        let id = requested(&mut pane);
        pane.take(topics(id, 1000, &["a"]), 4);
        assert_eq!(pane.published_per_sec(&topics(id, 1000, &["a"]).topics[0]), None);

        pane.take(topics(id, 1500, &["a"]), 4);
        let rate = pane.shown().and_then(|topic| pane.published_per_sec(topic));

        assert_eq!(rate, Some(3000.0));
    }
}
