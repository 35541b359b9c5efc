//! A trace on the screen: its events, a filter, and where it ends.
//!
//! The node sends events once, so this keeps them, up to a bound. The list shows the newest ones until it is scrolled.

use std::collections::VecDeque;
use std::fmt::Write as _;

use rusm_protocol::{ClientMessage, TRACE_PER_SEC_MAX, TRACE_SECONDS_MAX, Trace, TraceEvent, TraceRequest, TraceScope};

use crate::model::input::line_edit::LineEdit;

/// Maximum number of events that are kept: those of a whole trace.
const EVENTS_MAX: usize = TRACE_PER_SEC_MAX as usize * TRACE_SECONDS_MAX as usize;

/// State of the trace overlay.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TracePane {
    /// Process and scope of the trace; `None` before the first one.
    pub(crate) target: Option<(String, TraceScope)>,
    /// Newest state, without events.
    pub(crate) state: Option<Trace>,
    events: VecDeque<TraceEvent>,
    /// Number of matching events below the last visible one; 0 while the list follows the newest events.
    pub(crate) back: usize,
    pub(crate) filter: String,
    /// Filter while it is edited.
    pub(crate) field: Option<LineEdit>,
    is_requested: bool,
}

impl TracePane {
    /// Forgets the trace, because it is from another node.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Begins a trace; returns the message that starts it on the node.
    pub(crate) fn start(&mut self, pid: String, scope: TraceScope, id: u64) -> ClientMessage {
        let filter = std::mem::take(&mut self.filter);
        *self = Self { target: Some((pid.clone(), scope)), filter, is_requested: true, ..Self::default() };
        let request = TraceRequest { pid, scope, per_sec: TRACE_PER_SEC_MAX, seconds: TRACE_SECONDS_MAX };
        ClientMessage::Trace { trace: Some(request), id: Some(id) }
    }

    /// Ends the trace; returns the message for the node, if one is needed.
    pub(crate) fn stop(&mut self) -> Option<ClientMessage> {
        let runs = std::mem::take(&mut self.is_requested) && self.end().is_none();
        runs.then_some(ClientMessage::Trace { trace: None, id: None })
    }

    /// Notes that the connection was lost, with which the trace ended.
    pub(crate) fn connection_lost(&mut self) {
        self.is_requested = false;
        if let Some(state) = &mut self.state {
            state.end.get_or_insert_with(|| "connection lost".to_owned());
        }
    }

    /// Returns the reason why the trace has ended.
    pub(crate) fn end(&self) -> Option<&str> {
        self.state.as_ref()?.end.as_deref()
    }

    /// Stores an answer, unless it belongs to another trace.
    pub(crate) fn take(&mut self, mut trace: Trace) -> bool {
        let is_mine = self.target.as_ref().is_some_and(|(pid, scope)| (pid, *scope) == (&trace.pid, trace.scope));
        if !is_mine {
            return false;
        }
        if self.state.as_ref().is_some_and(|before| trace.recorded < before.recorded) {
            // The events are those of an earlier trace, which this one has replaced.
            self.events.clear();
        }
        let known = self.events.back().map_or(0, |event| event.seq);
        let new: Vec<TraceEvent> = trace.events.drain(..).filter(|event| event.seq > known).collect();
        if self.back > 0 {
            self.back += new.iter().filter(|event| self.matches(event)).count();
        }
        self.events.extend(new);
        while self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
        self.state = Some(trace);
        true
    }

    fn matches(&self, event: &TraceEvent) -> bool {
        let wanted = self.filter.to_lowercase();
        let contains = |text: &str| text.to_lowercase().contains(&wanted);
        wanted.is_empty()
            || contains(&event.kind)
            || contains(&event.pid)
            || [&event.peer, &event.message, &event.state].into_iter().flatten().any(|text| contains(text))
    }

    /// Returns the events that match the filter, oldest first.
    pub(crate) fn matching(&self) -> Vec<&TraceEvent> {
        self.events.iter().filter(|event| self.matches(event)).collect()
    }

    /// Returns the number of events that are kept.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the visible events, oldest first.
    pub(crate) fn visible(&self, rows: u16) -> Vec<&TraceEvent> {
        let matching = self.matching();
        let end = matching.len().saturating_sub(self.back).max(usize::from(rows).min(matching.len()));
        matching[end.saturating_sub(rows.into())..end].to_vec()
    }

    /// Scrolls by lines; at the end, the list follows the newest events again.
    pub(crate) fn scroll(&mut self, lines: i64, rows: u16) {
        let back = i64::try_from(self.back).unwrap_or(i64::MAX).saturating_sub(lines).max(0);
        let most = self.matching().len().saturating_sub(rows.into());
        self.back = usize::try_from(back).unwrap_or(usize::MAX).min(most);
    }

    /// Returns the events that match the filter as text, one line each, for a file.
    pub(crate) fn text(&self) -> String {
        let mut text = "at_us\tpid\tevent\tpeer\tmessage\tbytes\ttook_us\tstate\n".to_owned();
        for event in self.matching() {
            let TraceEvent { at_us, pid, kind, peer, message, bytes, took_us, state, .. } = event;
            let or_empty = |value: &Option<String>| value.clone().unwrap_or_default();
            _ = writeln!(
                text,
                "{at_us}\t{pid}\t{kind}\t{}\t{}\t{}\t{}\t{}",
                or_empty(peer),
                or_empty(message),
                bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                took_us.map(|us| us.to_string()).unwrap_or_default(),
                or_empty(state),
            );
        }
        text
    }
}

/// Returns the next scope.
pub(crate) const fn next_scope(scope: TraceScope) -> TraceScope {
    match scope {
        TraceScope::Process => TraceScope::Kind,
        TraceScope::Kind => TraceScope::Children,
        TraceScope::Children => TraceScope::Process,
    }
}

/// Returns the words for a scope.
pub(crate) const fn scope_words(scope: TraceScope) -> &'static str {
    match scope {
        TraceScope::Process => "this process",
        TraceScope::Kind => "all of its kind",
        TraceScope::Children => "it and its children",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seqs: std::ops::RangeInclusive<u64>) -> Trace {
        let kind = |seq: u64| if seq.is_multiple_of(2) { "send" } else { "poll" };
        let event = |seq| TraceEvent { seq, kind: kind(seq).to_owned(), ..TraceEvent::default() };
        Trace { pid: "<0.7.1>".to_owned(), events: seqs.map(event).collect(), ..Trace::default() }
    }

    fn pane() -> TracePane {
        let mut pane = TracePane::default();
        pane.start("<0.7.1>".to_owned(), TraceScope::Process, 1);
        pane
    }

    fn seqs(pane: &TracePane, rows: u16) -> Vec<u64> {
        pane.visible(rows).iter().map(|event| event.seq).collect()
    }

    #[test]
    fn the_newest_events_are_shown_until_the_list_is_scrolled() {
        let mut pane = pane();
        assert!(pane.take(trace(1..=5)));
        assert_eq!(seqs(&pane, 3), [3, 4, 5]);

        pane.scroll(-1, 3);
        assert!(pane.take(trace(4..=8)));
        assert_eq!((seqs(&pane, 3), pane.len()), (vec![2, 3, 4], 8), "duplicates are dropped");

        pane.scroll(99, 3);
        assert_eq!(seqs(&pane, 3), [6, 7, 8]);
        pane.scroll(-99, 3);
        assert_eq!(seqs(&pane, 3), [1, 2, 3]);
    }

    #[test]
    fn a_trace_that_is_started_again_is_shown_from_its_first_event() {
        let mut pane = pane();
        pane.take(Trace { recorded: 8, ..trace(1..=8) });

        pane.take(Trace { recorded: 2, ..trace(1..=2) });

        assert_eq!(seqs(&pane, 3), [1, 2]);
    }

    #[test]
    fn a_filter_selects_events_and_what_is_saved() {
        let mut pane = pane();
        pane.take(trace(1..=6));
        pane.filter = "SEND".to_owned();

        assert_eq!(seqs(&pane, 9), [2, 4, 6]);
        assert_eq!(pane.text().lines().count(), 4);
    }

    #[test]
    fn answers_of_another_trace_are_dropped_and_only_a_running_trace_is_stopped() {
        let mut pane = pane();
        assert!(!pane.take(Trace { pid: "<0.8.1>".to_owned(), ..trace(1..=1) }));
        assert!(!pane.take(Trace { scope: TraceScope::Kind, ..trace(1..=1) }));
        pane.take(trace(1..=1));
        assert_eq!(pane.stop(), Some(ClientMessage::Trace { trace: None, id: None }));
        assert_eq!(pane.stop(), None);

        let mut pane = self::pane();
        pane.take(Trace { end: Some("time".to_owned()), ..trace(1..=1) });
        assert_eq!(pane.stop(), None);
    }

    #[test]
    fn the_events_that_are_kept_are_bounded() {
        let mut pane = pane();
        pane.take(trace(1..=25_000));

        assert_eq!((pane.len(), pane.visible(1)[0].seq), (EVENTS_MAX, 25_000));
    }
}
