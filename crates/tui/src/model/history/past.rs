//! The instant of the past that the screen shows, and what arrives from the node meanwhile.
//!
//! ```text
//!   [ ] ──▶ cursor ──▶ past {at_ms} ──▶ instant ──▶ every view          one request in flight, the newest wins
//!   live messages ──▶ held, the newest of each kind ──▶ shown after the return
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::{ClientMessage, Events, Frame, Past, PastView, Rows, ServerMessage};

use crate::model::history::live::LiveData;
use crate::model::message::REQUEST_PACE;
use crate::model::tab::Tab;

/// Time after which an unanswered request counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time before the cursor with which `D` compares, in milliseconds.
pub(crate) const COMPARED_MS: u64 = 60_000;
/// Maximum number of events, and of log lines, that are held.
const EVENTS_HELD: usize = 1024;
/// Maximum number of remembered crashes.
const MARKS_MAX: usize = 900;
/// Time after which a crash is in the recorded views, which the node keeps once a second.
const VIEWS_EVERY_MS: u64 = 1_000;

/// Why an instant was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is shown.
    Show,
    /// It is the later one of a comparison.
    After,
    /// It is the earlier one of a comparison.
    Before,
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    id: u32,
    at_ms: u64,
    purpose: Purpose,
}

/// Two instants, for the list of what changed between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// Requested uptime of the later instant, in milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) before: Option<Past>,
    pub(crate) after: Option<Past>,
}

/// State of the past.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PastPane {
    /// Uptime that the user selected, in milliseconds; `None` while the present is shown.
    pub(crate) cursor_ms: Option<u64>,
    /// Uptime of the instant on the screen.
    pub(crate) shown_ms: Option<u64>,
    /// Oldest and newest recorded uptime.
    pub(crate) span: Option<(u64, u64)>,
    /// Uptime of the newest live frame, in milliseconds.
    pub(crate) live_ms: u64,
    /// Recorded processes of the instant, in all columns and in no order.
    pub(crate) rows: Option<Rows>,
    /// True if the open process is not among them.
    pub(crate) lacks_detail: bool,
    /// View that was shown when the screen was frozen.
    pub(crate) frozen_on: Tab,
    pub(crate) comparison: Option<Comparison>,
    /// Uptimes at which processes crashed, oldest first, in milliseconds.
    marks: VecDeque<u64>,
    crashed_total: Option<u64>,
    /// The request in flight.
    sent: Option<Request>,
    last_sent_at: Option<Duration>,
    ids: u32,
    /// The cursor for which an answer was received.
    answered_ms: Option<u64>,
    pub(crate) live: Option<Box<LiveData>>,
    held: Vec<(Tab, ServerMessage)>,
}

impl PastPane {
    /// Returns true while an instant of the past is shown or requested.
    pub(crate) const fn is_on(&self) -> bool {
        self.cursor_ms.is_some()
    }

    /// Forgets everything, because another node has another past.
    pub(crate) fn forget(&mut self) {
        *self = Self { ids: self.ids, ..Self::default() };
    }

    /// Forgets the request in flight: a new connection does not answer it.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
        self.answered_ms = None;
    }

    /// Returns to the present. Returns what arrived meanwhile, with the view that was shown at that time.
    pub(crate) fn close(&mut self) -> Vec<(Tab, ServerMessage)> {
        self.cursor_ms = None;
        self.shown_ms = None;
        self.reset();
        self.rows = None;
        self.lacks_detail = false;
        std::mem::take(&mut self.held)
    }

    /// Holds a live message until the return; a newer one of its kind replaces it.
    pub(crate) fn hold(&mut self, tab: Tab, mut message: ServerMessage) {
        let kind = std::mem::discriminant(&message);
        if let ServerMessage::Events(newer) = &mut message {
            let older = self.held.iter().find_map(|(_, other)| match other {
                ServerMessage::Events(events) => Some(events),
                _ => None,
            });
            if let Some(older) = older {
                join(older, newer);
            }
        }
        self.held.retain(|(_, other)| std::mem::discriminant(other) != kind);
        self.held.push((tab, message));
    }

    /// Returns the newest frame that is held.
    pub(crate) fn held_frame(&self) -> Option<&Frame> {
        self.held.iter().find_map(|(_, message)| match message {
            ServerMessage::Tick { frame } => Some(&**frame),
            _ => None,
        })
    }

    /// Records the number of crashes at an instant, without ends by other processes.
    pub(crate) fn mark(&mut self, at_ms: u64, crashed_total: u64) {
        let rose = self.crashed_total.is_some_and(|before| crashed_total > before);
        self.crashed_total = Some(crashed_total);
        if !rose || self.marks.back().is_some_and(|last| at_ms < last + 1000) {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(at_ms);
    }

    /// Puts earlier crashes, oldest first, before the known ones.
    pub(crate) fn mark_earlier(&mut self, earlier: impl DoubleEndedIterator<Item = u64>) {
        let first = self.marks.front().copied().unwrap_or(u64::MAX);
        for at_ms in earlier.rev().filter(|at_ms| *at_ms < first) {
            if self.marks.len() < MARKS_MAX {
                self.marks.push_front(at_ms);
            }
        }
    }

    /// Returns the time of the first recorded views with the next crash after `from_ms`, or with the one before it.
    pub(crate) fn crash(&self, from_ms: u64, is_forward: bool) -> Option<u64> {
        let mut shown = self.marks.iter().map(|at_ms| at_ms + VIEWS_EVERY_MS);
        if is_forward { shown.find(|at_ms| *at_ms > from_ms) } else { shown.rev().find(|at_ms| *at_ms < from_ms) }
    }

    /// Returns the request for the instant that is needed now, if one may be sent.
    pub(crate) fn request(&mut self, now: Duration) -> Option<ClientMessage> {
        let (at_ms, purpose) = self.needed()?;
        let pause = if self.sent.is_some() { PATIENCE } else { REQUEST_PACE };
        if self.last_sent_at.is_some_and(|sent_at| now.saturating_sub(sent_at) < pause) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        self.sent = Some(Request { id: self.ids, at_ms, purpose });
        self.last_sent_at = Some(now);
        Some(ClientMessage::Past(PastView { id: self.ids, at_ms }))
    }

    fn needed(&self) -> Option<(u64, Purpose)> {
        if let Some(cursor_ms) = self.cursor_ms.filter(|cursor_ms| self.answered_ms != Some(*cursor_ms)) {
            return Some((cursor_ms, Purpose::Show));
        }
        let comparison = self.comparison.as_ref()?;
        match (&comparison.after, &comparison.before) {
            (None, _) => Some((comparison.at_ms, Purpose::After)),
            (Some(after), None) => Some((after.at_ms.saturating_sub(COMPARED_MS), Purpose::Before)),
            (Some(_), Some(_)) => None,
        }
    }

    /// Returns the purpose of the request that this answers; `None` for an answer to an older one.
    pub(crate) fn answered(&mut self, past: &Past) -> Option<Purpose> {
        let sent = self.sent.filter(|sent| sent.id == past.id)?;
        if past.refusal.is_none() {
            self.span = Some((past.oldest_ms, past.newest_ms));
        }
        if sent.purpose == Purpose::Show {
            self.answered_ms = Some(sent.at_ms);
        }
        self.sent = None;
        Some(sent.purpose)
    }

    /// Returns true if a request is in flight.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }
}

/// Puts the events and lines of an earlier message before those of a newer one, which may contain only the last few.
fn join(older: &Events, newer: &mut Events) {
    let first = newer.events.first().map_or(u64::MAX, |event| event.seq);
    let before = older.events.iter().filter(|event| event.seq < first).cloned();
    newer.events.splice(0..0, before.collect::<Vec<_>>());
    newer.events.drain(..newer.events.len().saturating_sub(EVENTS_HELD));
    let first = newer.log.first().map_or(u64::MAX, |line| line.seq);
    let before = older.log.iter().filter(|line| line.seq < first).cloned();
    newer.log.splice(0..0, before.collect::<Vec<_>>());
    newer.log.drain(..newer.log.len().saturating_sub(EVENTS_HELD));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn asked(pane: &mut PastPane, now: Duration) -> Option<(u32, u64)> {
        match pane.request(now) {
            Some(ClientMessage::Past(view)) => Some((view.id, view.at_ms)),
            _ => None,
        }
    }

    #[test]
    fn a_key_that_repeats_sends_the_newest_cursor_when_the_last_one_is_answered() {
        let mut pane = PastPane { cursor_ms: Some(50_000), ..PastPane::default() };
        assert_eq!(asked(&mut pane, ms(0)), Some((1, 50_000)));

        for step in 1..=20 {
            pane.cursor_ms = Some(50_000 - step * 1000);
            assert_eq!(asked(&mut pane, ms(step)), None);
        }
        assert_eq!(pane.answered(&Past { id: 1, ..Past::default() }), Some(Purpose::Show));

        assert_eq!(asked(&mut pane, ms(100)), Some((2, 30_000)));
        assert_eq!(pane.answered(&Past { id: 1, ..Past::default() }), None, "an older answer");
    }

    #[test]
    fn answers_that_come_at_once_do_not_make_more_requests_than_a_node_accepts() {
        let mut pane = PastPane { cursor_ms: Some(50_000), ..PastPane::default() };
        let mut sent = 0;
        for key in 0..1000 {
            pane.cursor_ms = Some(50_000 - key);
            if let Some((id, _)) = asked(&mut pane, ms(key)) {
                sent += 1;
                pane.answered(&Past { id, ..Past::default() });
            }
        }

        assert_eq!(sent, 13, "one each 80 ms");
    }

    #[test]
    fn an_instant_is_requested_although_a_comparison_was_answered_before_it() {
        let mut pane = PastPane { comparison: Some(Comparison::default()), ..PastPane::default() };
        assert_eq!(asked(&mut pane, ms(0)), Some((1, 0)));
        pane.cursor_ms = Some(7);
        assert_eq!(pane.answered(&Past { id: 1, ..Past::default() }), Some(Purpose::After));

        assert_eq!(asked(&mut pane, ms(100)), Some((2, 7)));
    }

    #[test]
    fn an_answer_after_the_return_does_not_count_for_the_next_visit() {
        let mut pane = PastPane { cursor_ms: Some(7), ..PastPane::default() };
        asked(&mut pane, ms(0));
        pane.close();

        assert_eq!(pane.answered(&Past { id: 1, ..Past::default() }), None);
        pane.cursor_ms = Some(7);
        assert_eq!(asked(&mut pane, ms(100)), Some((2, 7)));
    }

    #[test]
    fn a_lost_answer_is_asked_for_again_and_nothing_else_repeats() {
        let mut pane = PastPane { cursor_ms: Some(9), ..PastPane::default() };
        assert_eq!(asked(&mut pane, ms(0)), Some((1, 9)));
        assert_eq!(asked(&mut pane, ms(1_999)), None);
        assert_eq!(asked(&mut pane, ms(2_000)), Some((2, 9)));
        pane.answered(&Past { id: 2, ..Past::default() });

        assert_eq!(asked(&mut pane, ms(99_000)), None);
    }

    #[test]
    fn the_newest_live_message_of_each_kind_is_held() {
        let mut pane = PastPane::default();
        let events = |noted| ServerMessage::Events(rusm_protocol::Events { noted, ..Default::default() });
        for noted in 0..1000 {
            pane.hold(Tab::Node, events(noted));
            pane.hold(Tab::Node, ServerMessage::Rows(Rows { seq: noted, ..Rows::default() }));
        }

        let held = pane.close();

        assert_eq!(held.len(), 2);
        assert_eq!(held[0].1, events(999));
    }

    #[test]
    fn crashes_are_found_in_both_directions() {
        let mut pane = PastPane::default();
        for (at_ms, total) in [(10_000, 3), (11_000, 3), (12_000, 5), (12_100, 6), (20_000, 7)] {
            pane.mark(at_ms, total);
        }
        pane.mark_earlier([2_000, 5_000, 15_000].into_iter());

        assert_eq!(pane.crash(13_000, true), Some(21_000));
        assert_eq!(pane.crash(13_000, false), Some(6_000));
        assert_eq!((pane.crash(3_000, false), pane.crash(21_000, true)), (None, None));
    }
}
