//! The result of a scenario and the node's history of results, requested only while Bench is shown.
//!
//! The selection in the history is a result and not an index: it stays when newer results arrive.

pub(crate) mod curve;
pub(crate) mod sheet;

use std::time::Duration;

use rusm_protocol::{ClientMessage, ReportPart, Results, ResultsView, RunEntry, RunResult, ViewWindow};

use crate::model::message::REQUEST_PACE;
use crate::model::selection::ListCursor;

/// Maximum size of a report that is put together, in bytes.
const REPORT_MAX_BYTES: u64 = 32 << 20;

/// The content of the right side of Bench.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BenchPane {
    /// The run in progress.
    #[default]
    Live,
    /// One result in full.
    Result,
    /// The list of results.
    History,
}

/// A report that is being put together from its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Download {
    /// Id of the last request.
    pub(crate) id: u64,
    pub(crate) number: u64,
    pub(crate) scenario: String,
    pub(crate) text: String,
}

/// State of the results on Bench.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultsPane {
    sent: Option<ResultsView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Results>,
    pub(crate) pane: BenchPane,
    /// Result to show; `None` for the current one.
    pub(crate) run: Option<u64>,
    /// Result to compare it with.
    pub(crate) against: Option<u64>,
    /// Marked result, for comparisons.
    pub(crate) marked: Option<u64>,
    /// Number of lines of the sheet above the first visible one.
    pub(crate) scroll: usize,
    /// Number of columns of wide tables that are scrolled away.
    pub(crate) shift: usize,
    /// Position in the list of results.
    pub(crate) list: ListCursor<(u64, String)>,
    pub(crate) download: Option<Download>,
}

impl ResultsPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
        self.download = None;
    }

    /// Forgets everything, because another node answers now.
    pub(crate) fn forget(&mut self) {
        *self = Self { ids: self.ids, ..Self::default() };
    }

    /// Returns the message that requests what is visible, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            return self.sent.take().map(|_| ClientMessage::Results { view: None });
        };
        let wanted = ResultsView {
            id: self.ids,
            run: self.run,
            against: self.run.and(self.against),
            rows: ViewWindow { offset: self.rows_offset(), len: 200 },
            history: self.list.window(visible),
            ..ResultsView::default()
        };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&wanted) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = ResultsView { id: self.ids, ..wanted };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Results { view: Some(view) })
    }

    /// Returns the first row to request of a result with very many rows, in steps, so that scrolling requests rarely.
    fn rows_offset(&self) -> u64 {
        let total = self.result().map_or(0, |result| result.rows_total);
        if total <= 200 { 0 } else { (self.scroll as u64).saturating_sub(100).min(total - 200) / 50 * 50 }
    }

    /// Stores an answer unless it belongs to an earlier request. The cursor follows the selected result.
    pub(crate) fn take(&mut self, results: Results, visible: u16) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != results.id) {
            return false;
        }
        if let Some(selected) = &self.list.selected
            && let Some(at) = results.history.iter().position(|entry| key(entry) == *selected)
        {
            self.list.at = results.history_offset + at as u64;
        }
        self.newest = Some(results);
        self.clamp(visible);
        true
    }

    /// Shows recorded results, which are not an answer.
    pub(crate) fn show_recorded(&mut self, results: Results, visible: u16) {
        self.newest = Some(results);
        self.clamp(visible);
    }

    /// Keeps the cursor inside the list and the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        let total = self.newest.as_ref().map_or(0, |newest| newest.history_total);
        self.list.clamp(total, visible);
    }

    /// Moves the cursor of the history.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        self.go_to(self.list.at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor of the history to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.list.at = position;
        self.clamp(visible);
        self.list.selected = self.entry().map(key);
    }

    /// Scrolls the sheet, which has `total` lines of which `visible` are shown.
    pub(crate) fn scroll_by(&mut self, lines: i64, total: usize, visible: u16) {
        let last = total.saturating_sub(visible.into()) as u64;
        let scrolled = (self.scroll as u64).saturating_add_signed(lines).min(last);
        self.scroll = usize::try_from(scrolled).unwrap_or(usize::MAX);
    }

    /// Shows a result in full; `None` is the current one.
    pub(crate) fn show(&mut self, run: Option<u64>, against: Option<u64>) {
        (self.run, self.against) = (run, against);
        (self.scroll, self.shift) = (0, 0);
        self.pane = BenchPane::Result;
    }

    /// Returns the entry at an index, if the node has sent it.
    pub(crate) fn entry_at(&self, position: u64) -> Option<&RunEntry> {
        let newest = self.newest.as_ref()?;
        newest.history.get(usize::try_from(position.checked_sub(newest.history_offset)?).ok()?)
    }

    /// Returns the entry under the cursor.
    pub(crate) fn entry(&self) -> Option<&RunEntry> {
        self.entry_at(self.list.at)
    }

    /// Returns the result that the node has sent.
    pub(crate) fn result(&self) -> Option<&RunResult> {
        self.newest.as_ref().and_then(|newest| newest.result.as_deref())
    }

    /// Adds a part of a report. Returns the request for the next part, or the whole report.
    pub(crate) fn add(&mut self, part: &ReportPart, next_id: u64) -> Added {
        let Some(download) = &mut self.download else { return Added::Ignored };
        let fits = download.id == part.id && part.offset == download.text.len() as u64;
        if !fits || part.total > REPORT_MAX_BYTES || part.text.is_empty() {
            if download.id == part.id {
                self.download = None;
            }
            return Added::Ignored;
        }
        download.text.push_str(&part.text);
        if (download.text.len() as u64) < part.total {
            download.id = next_id;
            let (run, offset) = (download.number, download.text.len() as u64);
            return Added::Next(ClientMessage::Report { run, offset, id: next_id });
        }
        self.download.take().map_or(Added::Ignored, Added::Whole)
    }
}

/// Outcome of a part of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Added {
    /// It belongs to nothing that was requested.
    Ignored,
    /// More parts follow; this requests the next one.
    Next(ClientMessage),
    /// The report is complete.
    Whole(Download),
}

/// Returns what distinguishes an entry: its number on this node, or its time and scenario.
fn key(entry: &RunEntry) -> (u64, String) {
    let other = if entry.number == 0 { format!("{} {}", entry.recorded_at, entry.scenario) } else { String::new() };
    (entry.number, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(id: u32, numbers: &[u64]) -> Results {
        let entry = |number: &u64| RunEntry { number: *number, ..RunEntry::default() };
        Results {
            id,
            history_total: numbers.len() as u64,
            history: numbers.iter().map(entry).collect(),
            ..Results::default()
        }
    }

    fn requested(pane: &mut ResultsPane) -> u32 {
        match pane.requests(Some(4), Duration::ZERO) {
            Some(ClientMessage::Results { view: Some(view) }) => view.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_node_is_asked_while_bench_is_shown_and_told_when_it_is_not() {
        let mut pane = ResultsPane::default();

        assert_eq!(pane.requests(None, Duration::ZERO), None);
        assert_eq!(requested(&mut pane), 1);
        assert_eq!(pane.requests(Some(4), Duration::from_secs(1)), None);
        pane.run = Some(3);
        assert!(pane.requests(Some(4), Duration::from_secs(1)).is_some(), "another result");
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Results { view: None }));
    }

    #[test]
    fn the_cursor_follows_its_result_when_a_newer_one_arrives() {
        let mut pane = ResultsPane::default();
        let id = requested(&mut pane);
        assert!(!pane.take(results(id + 1, &[9]), 4), "an answer without a request");
        assert!(pane.take(results(id, &[2, 1]), 4));
        pane.move_by(1, 4);

        pane.take(results(id, &[3, 2, 1]), 4);

        assert_eq!((pane.list.at, pane.entry().map(|entry| entry.number)), (2, Some(1)));
        pane.go_to(u64::MAX, 2);
        assert_eq!((pane.list.at, pane.list.top), (2, 1));
    }

    #[test]
    fn a_report_is_put_together_from_its_parts() {
        let download = Download { id: 5, number: 2, scenario: "fan-in".to_owned(), text: String::new() };
        let mut pane = ResultsPane { download: Some(download), ..ResultsPane::default() };
        let part = |id, offset, text: &str| ReportPart { id, number: 2, offset, total: 4, text: text.to_owned() };

        assert_eq!(pane.add(&part(4, 0, "xx"), 6), Added::Ignored);
        assert_eq!(pane.add(&part(5, 0, "ab"), 6), Added::Next(ClientMessage::Report { run: 2, offset: 2, id: 6 }));
        let Added::Whole(whole) = pane.add(&part(6, 2, "cd"), 7) else { panic!("it is complete") };

        assert_eq!((whole.text.as_str(), pane.download.is_none()), ("abcd", true));
    }
}
