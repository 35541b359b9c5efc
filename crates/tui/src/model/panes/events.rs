//! Recent events of the node and lines of its log, requested only while they are shown.
//!
//! ```text
//!   newest 64, four times a second ──▶ history of 1,024 ──▶ level, filter ──▶ items, newest first ──▶ page
//! ```
//!
//! The history and the scroll position belong to this observer. While a page is held, the items of that page and all
//! older ones stay, and the history drops newer ones instead. A page is always full if there are enough items.

pub(crate) mod item;
pub(crate) mod query;

use std::collections::VecDeque;

use rusm_protocol::{BACKLOG_MAX, ClientMessage, EventDetail, EventInfo, Events, EventsRequest, LogLine};
use rusm_text::QueryError;

pub(crate) use self::item::{Item, ItemKey, Level};
use self::query::EventQuery;
use crate::model::input::complete::{Completion, Vocabulary, complete};
use crate::model::input::line_edit::LineEdit;

/// Number of events, and of log lines, that are kept.
const KEPT: usize = 1024;
/// Number of remembered filters.
const FILTERS_KEPT: usize = 32;

/// The filter of the events, and its field while it is edited.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventFilter {
    pub(crate) text: String,
    /// The text's meaning; that of the last valid text while it is edited.
    query: EventQuery,
    pub(crate) field: Option<LineEdit>,
    /// The problem of the text in the field.
    pub(crate) error: Option<QueryError>,
    pub(crate) completion: Option<Completion>,
    /// Text when the field was opened, which comes back if the changes are discarded.
    before: String,
    history: Vec<String>,
    history_at: usize,
}

/// The visible items.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) items: Vec<Item<'a>>,
    /// Index of the first visible item.
    pub(crate) top: usize,
    /// Index of the selected item.
    pub(crate) cursor: Option<usize>,
}

/// The history of events and lines, and what is shown of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventsPane {
    /// The last request.
    sent: Option<EventsRequest>,
    /// The newest answer, without its lists.
    pub(crate) newest: Option<Events>,
    events: History<EventInfo>,
    lines: History<LogLine>,
    /// True if log lines are shown between the events.
    pub(crate) with_log: bool,
    /// Lowest level that is shown.
    pub(crate) level: Level,
    pub(crate) filter: EventFilter,
    /// First visible item while the page is held.
    top: Option<ItemKey>,
    cursor: Option<ItemKey>,
    /// The item that is shown in full.
    opened: Option<ItemKey>,
    detail: Option<Box<EventDetail>>,
}

impl Default for EventsPane {
    fn default() -> Self {
        Self {
            sent: None,
            newest: None,
            events: History::default(),
            lines: History::default(),
            with_log: false,
            level: Level::Trace,
            filter: EventFilter::default(),
            top: None,
            cursor: None,
            opened: None,
            detail: None,
        }
    }
}

impl EventsPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets the events, because another node numbers its events from the start.
    pub(crate) fn forget(&mut self) {
        (self.newest, self.events, self.lines) = (None, History::default(), History::default());
        (self.top, self.cursor, self.opened, self.detail) = (None, None, None, None);
    }

    /// Returns the message that starts, changes or stops the events of the node, if a change is needed.
    pub(crate) fn requests(&mut self, shown: bool) -> Option<ClientMessage> {
        let open = self.opened.filter(|(_, is_line, _)| !is_line).map(|(.., seq)| seq);
        let wanted = shown.then_some(EventsRequest { enabled: true, backlog: None, open, log: self.with_log });
        if self.sent == wanted {
            return None;
        }
        let before = std::mem::replace(&mut self.sent, wanted.clone());
        let Some(wanted) = wanted else {
            return Some(ClientMessage::Events(EventsRequest::default()));
        };
        // Ask for the past once: the answers to later requests continue the history.
        let is_new = before.is_none_or(|before| before.log != wanted.log);
        Some(ClientMessage::Events(EventsRequest { backlog: is_new.then_some(BACKLOG_MAX), ..wanted }))
    }

    /// Adds the newest events and lines to the history.
    pub(crate) fn take(&mut self, mut events: Events) {
        let is_held = self.is_held();
        self.events.add(std::mem::take(&mut events.events), is_held, |event| event.seq);
        self.lines.add(std::mem::take(&mut events.log), is_held, |line| line.seq);
        if let Some(detail) = events.opened.take()
            && self.opened.is_some_and(|opened| Item::Event(&detail.event).key() == opened)
        {
            self.detail = Some(detail);
        }
        self.newest = Some(events);
    }

    /// Returns the newest answer with the events and lines of the history, oldest first.
    pub(crate) fn collected(&self) -> Option<Events> {
        let newest = self.newest.clone()?;
        let (events, log) = (self.events.kept.iter().cloned().collect(), self.lines.kept.iter().cloned().collect());
        Some(Events { events, log, ..newest })
    }

    /// Returns true if the page does not follow the newest items.
    pub(crate) const fn is_held(&self) -> bool {
        self.top.is_some() || self.cursor.is_some()
    }

    /// Returns true if an item is selected.
    pub(crate) const fn has_cursor(&self) -> bool {
        self.cursor.is_some()
    }

    /// Returns the items that pass the level and the filter, newest first.
    fn items(&self) -> Vec<Item<'_>> {
        let lines = self.lines.kept.iter().filter(|_| self.with_log).map(Item::Line);
        let passes = |item: &Item<'_>| item.level() >= self.level && self.filter.query.matches(*item);
        let mut items: Vec<Item<'_>> = self.events.kept.iter().map(Item::Event).chain(lines).filter(passes).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.key()));
        items
    }

    /// Returns the items of a page of this many rows.
    pub(crate) fn page(&self, rows: usize) -> Page<'_> {
        let items = self.items();
        let index = |key: ItemKey| items.partition_point(|item| item.key() > key);
        let top = self.top.map_or(0, index).min(items.len().saturating_sub(rows));
        let cursor = self.cursor.map(index).filter(|_| !items.is_empty()).map(|at| at.min(items.len() - 1));
        Page { items, top, cursor }
    }

    /// Moves the cursor, and scrolls so that it is visible. Without a cursor, a single step selects the first row.
    pub(crate) fn move_by(&mut self, lines: i64, rows: usize) {
        let page = self.page(rows);
        let at = match page.cursor {
            Some(cursor) => (cursor as u64).saturating_add_signed(lines),
            None if lines.abs() == 1 => page.top as u64,
            None => (page.top as u64).saturating_add_signed(lines),
        };
        self.select(usize::try_from(at).unwrap_or(usize::MAX), rows);
    }

    /// Selects the item at an index; 0 follows the newest again, without a selection.
    pub(crate) fn go_to(&mut self, position: u64, rows: usize) {
        if position == 0 {
            self.release();
            return;
        }
        self.select(usize::try_from(position).unwrap_or(usize::MAX), rows);
    }

    /// Selects the item in a visible row.
    pub(crate) fn point_at(&mut self, row: usize, rows: usize) -> bool {
        let page = self.page(rows);
        let (at, was_selected) = (page.top + row, page.cursor == Some(page.top + row));
        if at < page.items.len() {
            self.select(at, rows);
        }
        was_selected
    }

    fn select(&mut self, at: usize, rows: usize) {
        let Page { items, top, .. } = self.page(rows);
        let Some(last) = items.len().checked_sub(1) else { return };
        let (at, rows) = (at.min(last), rows.max(1));
        let top = top.clamp((at + 1).saturating_sub(rows), at);
        let keys = (items[top].key(), items[at].key());
        (self.top, self.cursor) = (Some(keys.0), Some(keys.1));
    }

    /// Scrolls without moving the cursor.
    pub(crate) fn scroll(&mut self, lines: i64, rows: usize) {
        let page = self.page(rows);
        let last = page.items.len().saturating_sub(rows) as u64;
        let top = (page.top as u64).saturating_add_signed(lines).min(last) as usize;
        let key = page.items.get(top).map(|item| item.key());
        self.top = key.filter(|_| top > 0 || self.cursor.is_some());
    }

    /// Scrolls to a share of the items, from 0 to 1, without moving the cursor.
    pub(crate) fn scroll_to(&mut self, share: f64, rows: usize) {
        let page = self.page(rows);
        let last = page.items.len().saturating_sub(rows);
        let to = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        let (to, top) = (to as u64, page.top as u64);
        self.scroll(to.checked_signed_diff(top).unwrap_or_default(), rows);
    }

    /// Follows the newest items again. Returns false if nothing was held.
    pub(crate) fn release(&mut self) -> bool {
        let was_held = self.is_held();
        (self.top, self.cursor) = (None, None);
        was_held
    }

    /// Returns the selected item.
    pub(crate) fn selected(&self) -> Option<Item<'_>> {
        let page = self.page(0);
        page.items.get(page.cursor?).copied()
    }

    /// Shows the selected item in full. Returns false if nothing is selected.
    pub(crate) fn open(&mut self) -> bool {
        self.opened = self.selected().map(Item::key);
        self.detail = None;
        self.opened.is_some()
    }

    /// Ends the request for an item in full.
    pub(crate) fn close(&mut self) {
        (self.opened, self.detail) = (None, None);
    }

    /// Returns the item that is shown in full, and its details if the node has sent them.
    pub(crate) fn opened(&self) -> Option<(Item<'_>, Option<&EventDetail>)> {
        let (_, is_line, seq) = self.opened?;
        if is_line {
            let line = self.lines.kept.iter().find(|line| line.seq == seq)?;
            return Some((Item::Line(line), None));
        }
        if let Some(detail) = self.detail.as_deref() {
            return Some((Item::Event(&detail.event), Some(detail)));
        }
        self.events.kept.iter().find(|event| event.seq == seq).map(|event| (Item::Event(event), None))
    }

    /// Shows the next higher level and those above it; after the highest, all.
    pub(crate) fn next_level(&mut self) {
        self.level = self.level.next();
    }

    /// Opens the filter field.
    pub(crate) fn edit_filter(&mut self) {
        self.filter.field = Some(LineEdit::new(&self.filter.text));
        self.filter.before.clone_from(&self.filter.text);
        self.filter.history_at = self.filter.history.len();
    }
}

impl EventFilter {
    /// Applies the text of the field, after each key. A text with an error keeps the last valid filter.
    pub(crate) fn typed(&mut self) {
        self.completion = None;
        self.apply();
    }

    /// Completes the word before the cursor.
    pub(crate) fn complete(&mut self, steps: isize) {
        if let Some(field) = &mut self.field {
            self.completion = complete(field, self.completion.take(), steps, Vocabulary::Events);
            self.apply();
        }
    }

    fn apply(&mut self) {
        let Some(field) = &self.field else { return };
        self.text = field.text();
        match EventQuery::parse(&self.text) {
            Ok(query) => (self.query, self.error) = (query, None),
            Err(error) => self.error = Some(error),
        }
    }

    /// Closes the field. Returns false if its text has an error: then it stays open.
    pub(crate) fn close(&mut self, keep: bool) -> bool {
        if keep && self.error.is_some() {
            return false;
        }
        self.field = None;
        if !keep {
            self.text = std::mem::take(&mut self.before);
            (self.query, self.error) = (EventQuery::parse(&self.text).unwrap_or_default(), None);
        } else if !self.text.trim().is_empty() && self.history.last() != Some(&self.text) {
            self.history.push(self.text.clone());
            let excess = self.history.len().saturating_sub(FILTERS_KEPT);
            self.history.drain(..excess);
        }
        true
    }

    /// Removes the filter. Returns false without a filter.
    pub(crate) fn clear(&mut self) -> bool {
        let had = !self.text.is_empty();
        (self.text, self.query, self.error) = (String::new(), EventQuery::default(), None);
        had
    }

    /// Puts an earlier or later filter of the history into the field.
    pub(crate) fn recall(&mut self, steps: i64) {
        self.history_at = self.history_at.saturating_add_signed(steps as isize).min(self.history.len());
        self.field = Some(LineEdit::new(self.history.get(self.history_at).map_or("", String::as_str)));
        self.typed();
    }
}

/// The newest items of one kind, oldest first.
#[derive(Clone, Debug, PartialEq)]
struct History<T> {
    kept: VecDeque<T>,
    /// Number of items that stay while a page is held.
    held: Option<usize>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { kept: VecDeque::new(), held: None }
    }
}

impl<T> History<T> {
    /// Adds items that are newer than the newest one. Drops the oldest ones, or those after the held ones.
    fn add(&mut self, newest: Vec<T>, is_held: bool, seq: impl Fn(&T) -> u64) {
        self.held = is_held.then(|| self.held.unwrap_or(self.kept.len()));
        let known = self.kept.back().map_or(0, &seq);
        self.kept.extend(newest.into_iter().filter(|item| seq(item) > known));
        let excess = self.kept.len().saturating_sub(KEPT);
        let from = self.held.unwrap_or(0).min(self.kept.len() - excess);
        self.kept.drain(from..from + excess);
    }
}

#[cfg(test)]
mod tests;
