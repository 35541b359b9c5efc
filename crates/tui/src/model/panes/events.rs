//! Recent events of the node, requested only while they are shown.

use rusm_protocol::{ClientMessage, Events};

/// The newest events and their scroll position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventsPane {
    /// True if the node has been asked for events.
    requested: bool,
    pub(crate) newest: Option<Events>,
    /// Number of events above the first visible one, counted from the newest.
    pub(crate) top: usize,
}

impl EventsPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.requested = false;
    }

    /// Forgets the events, because another node numbers its events from the start.
    pub(crate) fn forget(&mut self) {
        (self.newest, self.top) = (None, 0);
    }

    /// Returns the message that starts or stops the events of the node, if a change is needed.
    pub(crate) fn requests(&mut self, shown: bool) -> Option<ClientMessage> {
        (self.requested != shown).then(|| {
            self.requested = shown;
            ClientMessage::Events { enabled: shown }
        })
    }

    /// Stores the newest events. A scrolled list keeps its position relative to the events shown.
    pub(crate) fn take(&mut self, events: Events) {
        let last_seq = |events: &Events| events.events.last().map_or(0, |event| event.seq);
        let newer = last_seq(&events).saturating_sub(self.newest.as_ref().map_or(0, last_seq));
        if self.top > 0 {
            self.top = self.top.saturating_add(usize::try_from(newer).unwrap_or(usize::MAX));
        }
        self.top = self.top.min(events.events.len().saturating_sub(1));
        self.newest = Some(events);
    }

    pub(crate) fn scroll(&mut self, lines: i64) {
        let last = self.newest.as_ref().map_or(0, |events| events.events.len().saturating_sub(1));
        let lines = lines.clamp(-100_000, 100_000) as isize;
        self.top = self.top.saturating_add_signed(lines).min(last);
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::EventInfo;

    use super::*;

    fn events(seqs: std::ops::RangeInclusive<u64>) -> Events {
        let event = |seq| EventInfo { seq, ..EventInfo::default() };
        Events { noted: *seqs.end(), events: seqs.map(event).collect(), dropped: 0 }
    }

    #[test]
    fn the_node_is_told_once_what_is_wanted() {
        let mut pane = EventsPane::default();

        assert_eq!(pane.requests(false), None);
        assert_eq!(pane.requests(true), Some(ClientMessage::Events { enabled: true }));
        assert_eq!(pane.requests(true), None);
        pane.reset();
        assert_eq!(pane.requests(true), Some(ClientMessage::Events { enabled: true }));
        assert_eq!(pane.requests(false), Some(ClientMessage::Events { enabled: false }));
    }

    #[test]
    fn a_scrolled_list_stays_where_it_is_when_new_events_come() {
        let mut pane = EventsPane::default();
        pane.take(events(1..=10));
        pane.take(events(3..=12));
        assert_eq!(pane.top, 0);

        pane.scroll(4);
        pane.take(events(5..=14));
        assert_eq!(pane.top, 6);
        pane.scroll(-100);
        assert_eq!(pane.top, 0);
        pane.scroll(100);
        assert_eq!(pane.top, 9);
    }
}
