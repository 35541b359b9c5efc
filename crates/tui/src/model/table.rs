//! The process table as this observer sees it: a page of rows, a cursor, and a selection that is a pid and never a place.
//!
//! The node owns the order. When a process moves, its selection moves with it; when it leaves the page, the cursor stays
//! where it was and nothing is selected by accident: what looks selected is always what was selected.

use std::time::Duration;

use rusm_protocol::{Cell, Column, Rows, SortKey, VIEW_ROWS_MAX, View, ViewWindow};

use crate::model::columns::ColumnSet;
use crate::model::line_edit::LineEdit;
use crate::model::{around, columns};

/// The most rows that are asked for, unless more are visible: a page of so many stays below 20 KB.
const PAGE_ROWS_MAX: u32 = 150;
/// Filters remembered.
const HISTORY_MAX: usize = 32;

/// What is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Nothing yet.
    #[default]
    None,
    /// Whatever stands under the cursor once the node has sent that page.
    Awaited,
    /// A process on this page.
    Here(String),
    /// A process that is no longer on this page.
    Away(String),
}

/// The filter while it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterField {
    pub(crate) edit: LineEdit,
    history_at: usize,
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_at: Duration,
    pub(crate) sort: SortKey,
    pub(crate) columns: ColumnSet,
    pub(crate) filter: String,
    pub(crate) field: Option<FilterField>,
    /// The filter before its field was opened, to which a cancelled or refused one gives way.
    filter_before: String,
    /// Why the node would not take the filter that is typed; meanwhile the one before it is asked for.
    pub(crate) refused: Option<String>,
    history: Vec<String>,
    /// Rows above the first visible one.
    pub(crate) top: u64,
    /// The row that the keys move.
    pub(crate) cursor: u64,
    pub(crate) selection: Selection,
    pub(crate) follow: bool,
    reorder: bool,
    /// The order and the filter that the rows answer.
    shown: Option<(SortKey, String)>,
}

/// The value of a row in a column.
pub(crate) fn cell<'a>(rows: &'a Rows, row: &'a [Cell], column: Column) -> Option<&'a Cell> {
    rows.columns.iter().position(|&c| c == column).and_then(|at| row.get(at))
}

/// The same, where it is text.
pub(crate) fn text<'a>(rows: &'a Rows, row: &'a [Cell], column: Column) -> &'a str {
    match cell(rows, row, column) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

impl Table {
    /// An empty table that will be sorted and filtered so.
    pub(crate) fn new(sort: SortKey, filter: String) -> Self {
        Self { sort, filter, ..Self::default() }
    }

    /// Processes that the filter lets through.
    pub(crate) fn matched(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.matched)
    }

    /// The row at a place of the whole table, if it is on the page.
    pub(crate) fn row(&self, place: u64) -> Option<&[Cell]> {
        let rows = self.rows.as_ref()?;
        let at = place.checked_sub(rows.offset)?;
        rows.rows.get(usize::try_from(at).ok()?).map(Vec::as_slice)
    }

    /// The pid at a place of the whole table.
    pub(crate) fn pid_at(&self, place: u64) -> Option<String> {
        let pid = text(self.rows.as_ref()?, self.row(place)?, Column::Pid);
        (!pid.is_empty()).then(|| pid.to_owned())
    }

    /// The selected process, if it is on the page.
    pub(crate) fn selected(&self) -> Option<&str> {
        match &self.selection {
            Selection::Here(pid) => Some(pid),
            _ => None,
        }
    }

    /// What the node should stream, given what is visible.
    pub(crate) fn wish(&self, sent: Option<&View>, visible: u16, width: u16) -> View {
        let columns = columns::fit(width, self.sort, self.columns).iter().map(|slot| slot.column).collect();
        let len = (u32::from(visible) * 3).clamp(3, PAGE_ROWS_MAX).max(visible.into()).min(VIEW_ROWS_MAX);
        let mut view = View {
            columns,
            sort: self.sort,
            filter: self.filter_in_force().to_owned(),
            window: ViewWindow { offset: self.top.saturating_sub(beside(len, visible.into())), len },
            reorder: self.reorder,
            ..View::default()
        };
        let comparable = sent.filter(|sent| sent.filter == view.filter && sent.sort == view.sort);
        if let Some(sent) = comparable.filter(|sent| self.is_covered(sent.window, view.window.len, visible)) {
            view.window = sent.window;
        }
        view
    }

    /// The wish went out.
    pub(crate) fn asked(&mut self) {
        self.reorder = false;
    }

    /// Whether the window that the node has still leaves half of the rows on either side of what is visible.
    fn is_covered(&self, window: ViewWindow, len: u32, visible: u16) -> bool {
        let (visible, end) = (u64::from(visible), window.offset + u64::from(window.len));
        let margin = beside(len, visible) / 2;
        let above = window.offset == 0 || self.top >= window.offset + margin;
        let below = end >= self.matched().max(1) || self.top + visible + margin <= end;
        window.len == len && above && below && self.top >= window.offset
    }

    /// Whether the rows are still those of an earlier order or filter.
    pub(crate) fn is_stale(&self) -> bool {
        let wanted = (self.sort, self.filter_in_force());
        self.shown.as_ref().is_none_or(|(sort, filter)| (*sort, filter.as_str()) != wanted)
    }

    /// The filter that the rows answer.
    pub(crate) fn filter_taken(&self) -> &str {
        self.shown.as_ref().map_or("", |(_, filter)| filter)
    }

    /// The filter that is asked for.
    pub(crate) fn filter_in_force(&self) -> &str {
        if self.refused.is_some() { &self.filter_before } else { &self.filter }
    }

    /// The node would not take a filter. While it is typed the reason is kept; afterwards the filter before it holds
    /// again, and what is to be said about that is returned.
    pub(crate) fn refuse(&mut self, filter: &str, why: &str) -> Option<String> {
        if self.filter != filter {
            return None;
        }
        self.refused = Some(why.to_owned());
        if self.field.is_some() { None } else { self.take_back() }
    }

    /// Takes a refused filter back.
    fn take_back(&mut self) -> Option<String> {
        let why = self.refused.take()?;
        let before = std::mem::take(&mut self.filter_before);
        self.filter = if before == self.filter { String::new() } else { before };
        Some(format!("filter refused: {why}"))
    }

    /// Takes a page that answers a view; the selection follows its process.
    pub(crate) fn take(&mut self, mut rows: Rows, answers: Option<&View>, visible: u16, now: Duration) {
        rows.rows.truncate(VIEW_ROWS_MAX as usize);
        self.rows = Some(rows);
        self.rows_at = now;
        self.shown = answers.map(|view| (view.sort, view.filter.clone()));
        match std::mem::take(&mut self.selection) {
            Selection::None => {}
            Selection::Awaited => {
                self.selection = self.pid_at(self.cursor).map_or(Selection::Awaited, Selection::Here);
            }
            Selection::Here(pid) | Selection::Away(pid) => match self.place_of(&pid) {
                Some(place) => {
                    self.cursor = place;
                    self.selection = Selection::Here(pid);
                }
                None => self.selection = Selection::Away(pid),
            },
        }
        self.clamp(visible);
        if self.follow && matches!(self.selection, Selection::Here(_)) {
            self.reveal(visible);
        }
    }

    fn place_of(&self, pid: &str) -> Option<u64> {
        let rows = self.rows.as_ref()?;
        let at = rows.rows.iter().position(|row| text(rows, row, Column::Pid) == pid)?;
        Some(rows.offset + at as u64)
    }

    /// Keeps cursor and page inside the table.
    pub(crate) fn clamp(&mut self, visible: u16) {
        if self.rows.is_none() {
            return;
        }
        let matched = self.matched();
        self.cursor = self.cursor.min(matched.saturating_sub(1));
        self.top = self.top.min(matched.saturating_sub(visible.into()));
        if let Selection::Here(pid) = &self.selection
            && self.pid_at(self.cursor).as_ref() != Some(pid)
        {
            self.selection = Selection::Away(pid.clone());
        }
    }

    /// Scrolls so far that the cursor is visible.
    pub(crate) fn reveal(&mut self, visible: u16) {
        let last = u64::from(visible).saturating_sub(1);
        self.top = self.top.clamp(self.cursor.saturating_sub(last), self.cursor);
    }

    /// Moves the cursor and selects what stands there.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        let from = if self.selection == Selection::None && lines.abs() == 1 {
            self.top
        } else {
            self.cursor.saturating_add_signed(lines)
        };
        self.go_to(from, visible);
    }

    /// Puts the cursor on a place and selects what stands there.
    pub(crate) fn go_to(&mut self, place: u64, visible: u16) {
        self.cursor = place.min(self.matched().saturating_sub(1));
        let here = self.pid_at(self.cursor).filter(|_| !self.is_stale());
        self.selection = here.map_or(Selection::Awaited, Selection::Here);
        self.reveal(visible);
        self.clamp(visible);
    }

    /// Selects what is shown at a place, even in an order that is about to be replaced: it is what was pointed at.
    pub(crate) fn point_at(&mut self, place: u64, visible: u16) {
        self.go_to(place, visible);
        if let Some(pid) = self.pid_at(self.cursor) {
            self.selection = Selection::Here(pid);
        }
    }

    /// Scrolls without moving the cursor.
    pub(crate) fn scroll(&mut self, lines: i64, visible: u16) {
        self.top = self.top.saturating_add_signed(lines);
        self.clamp(visible);
    }

    /// Sorts by a column; by the same one again, the other way round.
    pub(crate) fn sort_by(&mut self, column: Column) {
        let desc = if self.sort.key == column { !self.sort.desc } else { columns::falls(column) };
        self.sort = SortKey { key: column, desc };
        self.rewind();
    }

    /// Turns the order round.
    pub(crate) fn invert(&mut self) {
        self.sort.desc = !self.sort.desc;
        self.rewind();
    }

    /// Sorts by the column that stands `steps` further on the screen.
    pub(crate) fn sort_step(&mut self, steps: isize, width: u16) {
        let slots = columns::fit(width, self.sort, self.columns);
        let at = slots.iter().position(|slot| slot.column == self.sort.key).unwrap_or(0);
        let next = around(at, steps, slots.len());
        if let Some(slot) = slots.get(next) {
            self.sort_by(slot.column);
        }
    }

    /// Asks for the order to be made anew.
    pub(crate) fn reorder(&mut self) {
        self.reorder = true;
    }

    /// A new order or filter begins at its top.
    fn rewind(&mut self) {
        self.top = 0;
        if !matches!(self.selection, Selection::Here(_) | Selection::Away(_)) {
            self.cursor = 0;
        }
    }

    /// Opens the filter's field.
    pub(crate) fn edit_filter(&mut self) {
        self.filter_before.clone_from(&self.filter);
        self.field = Some(FilterField { edit: LineEdit::new(&self.filter), history_at: self.history.len() });
    }

    /// The text in the field becomes the filter, letter by letter.
    pub(crate) fn filter_typed(&mut self) {
        if let Some(field) = &self.field {
            let text = field.edit.text();
            text.trim().clone_into(&mut self.filter);
            self.refused = None;
            self.rewind();
        }
    }

    /// Closes the field, keeping the filter or taking the earlier one back; returns what is to be said about a filter
    /// that cannot be kept.
    pub(crate) fn close_filter(&mut self, keep: bool) -> Option<String> {
        self.field.take()?;
        let mut said = None;
        if keep {
            if !self.filter.is_empty() && self.history.last() != Some(&self.filter) {
                if self.history.len() == HISTORY_MAX {
                    self.history.remove(0);
                }
                self.history.push(self.filter.clone());
            }
            said = self.take_back();
        } else {
            self.filter.clone_from(&self.filter_before);
            self.refused = None;
        }
        self.rewind();
        said
    }

    /// Puts an earlier or later filter into the field.
    pub(crate) fn recall(&mut self, steps: i64) {
        let Some(field) = &mut self.field else { return };
        let at = field.history_at.saturating_add_signed(steps as isize).min(self.history.len());
        field.history_at = at;
        field.edit = LineEdit::new(self.history.get(at).map_or("", String::as_str));
        self.filter_typed();
    }

    /// Selects nothing.
    pub(crate) fn deselect(&mut self) {
        self.selection = Selection::None;
    }

    /// Shows the processes that a filter lets through.
    pub(crate) fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.selection = Selection::None;
        self.rewind();
    }

    /// Shows every process again.
    pub(crate) fn clear_filter(&mut self) {
        self.filter.clear();
        self.rewind();
    }
}

/// Rows of a window of `len` on either side of those that are visible.
fn beside(len: u32, visible: u64) -> u64 {
    u64::from(len).saturating_sub(visible) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_all_that_is_visible_on_a_screen_of_any_height() {
        for visible in 1..=200_u16 {
            let table = Table { top: 500, ..Table::default() };

            let window = table.wish(None, visible, 140).window;

            let end = window.offset + u64::from(window.len);
            assert!(window.offset <= 500 && 500 + u64::from(visible) <= end, "{visible}: {window:?}");
            assert!(window.len <= PAGE_ROWS_MAX.max(visible.into()), "{visible}: {window:?}");
            // What it asked for it does not ask for again.
            assert!(table.is_covered(window, window.len, visible), "{visible}: {window:?}");
        }
    }
}
