//! The process table as shown by this observer: a page of rows, a cursor, and a selection that is a pid and not an
//! index.
//!
//! The node determines the order. When a process moves, the selection moves with it. When it leaves the page, the
//! cursor stays in place and no other process becomes selected: a row that looks selected is always the process that
//! the user selected.

mod field;
mod filter;
pub(crate) mod trends;

use std::time::Duration;

use rusm_protocol::{Cell, Column, QueryError, Rows, SortKey, VIEW_ROWS_MAX, View, ViewWindow};

use crate::model::panes::columns;
use crate::model::panes::columns::chosen::Columns;
use crate::model::panes::table::field::FilterField;
use crate::model::panes::table::trends::Trends;
use crate::model::selection::wrapped;

/// Maximum number of requested rows, unless more are visible. A page of this size stays below 20 KB.
const PAGE_ROWS_MAX: u32 = 150;
/// State of a process that has ended since the order was computed.
pub(crate) const ENDED: &str = "exited";
/// Number of ended processes from which they are shown as one line.
const FOLDED_MIN: usize = 3;

/// Selection in the process table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Nothing is selected yet.
    #[default]
    None,
    /// The process under the cursor, once the node has sent that page.
    Awaited,
    /// A process on this page.
    Here(String),
    /// A process that is no longer on this page.
    Away(String),
}

/// State of the process table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_at: Duration,
    pub(crate) trends: Trends,
    pub(crate) sort: SortKey,
    pub(crate) columns: Columns,
    pub(crate) filter: String,
    pub(crate) field: Option<FilterField>,
    /// Filter before the field was opened. It is restored if the new one is cancelled or refused.
    filter_before: String,
    /// Why the node refused the filter being typed. Until it is corrected, the previous filter is requested.
    pub(crate) refused: Option<String>,
    /// The word of that filter that is wrong, if this observer has found it.
    pub(crate) error: Option<QueryError>,
    history: Vec<String>,
    /// Number of rows above the first visible one.
    pub(crate) top: u64,
    /// Index of the row under the cursor.
    pub(crate) cursor: u64,
    pub(crate) selection: Selection,
    pub(crate) follow: bool,
    reorder: bool,
    /// Order and filter of the current rows.
    shown: Option<(SortKey, String)>,
}

/// The rows of a table with their order and filter, without what the user selected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableData {
    rows: Option<Rows>,
    rows_at: Duration,
    shown: Option<(SortKey, String)>,
}

/// Returns the value of a row in a column.
pub(crate) fn cell<'a>(rows: &'a Rows, row: &'a [Cell], column: Column) -> Option<&'a Cell> {
    rows.columns.iter().position(|&c| c == column).and_then(|at| row.get(at))
}

fn column_at(rows: &Rows, column: Column) -> Option<usize> {
    rows.columns.iter().position(|&known| known == column)
}

/// Returns the value of a row in a column if it is text, else an empty string.
pub(crate) fn text<'a>(rows: &'a Rows, row: &'a [Cell], column: Column) -> &'a str {
    match cell(rows, row, column) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

impl Table {
    /// Creates an empty table with this order and filter.
    pub(crate) fn new(sort: SortKey, filter: String) -> Self {
        Self { sort, filter, ..Self::default() }
    }

    /// Shows the columns of the config file.
    pub(crate) fn with_columns(self, usual: Vec<Column>, guests: Vec<Column>) -> Self {
        Self { columns: Columns::new(usual, guests), ..self }
    }

    /// Returns a copy of the rows.
    pub(crate) fn data(&self) -> TableData {
        TableData { rows: self.rows.clone(), rows_at: self.rows_at, shown: self.shown.clone() }
    }

    /// Puts rows back.
    pub(crate) fn put_back(&mut self, data: TableData) {
        TableData { rows: self.rows, rows_at: self.rows_at, shown: self.shown } = data;
    }

    /// Returns the number of processes that match the filter.
    pub(crate) fn matched(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.matched)
    }

    /// Returns the row at an index of the whole table, if it is on the page.
    pub(crate) fn row(&self, position: u64) -> Option<&[Cell]> {
        let rows = self.rows.as_ref()?;
        let at = position.checked_sub(rows.offset)?;
        rows.rows.get(usize::try_from(at).ok()?).map(Vec::as_slice)
    }

    /// Returns the pid at an index of the whole table.
    pub(crate) fn pid_at(&self, position: u64) -> Option<String> {
        let pid = text(self.rows.as_ref()?, self.row(position)?, Column::Pid);
        (!pid.is_empty()).then(|| pid.to_owned())
    }

    /// Returns the selected process, if it is on the page.
    pub(crate) fn selected(&self) -> Option<&str> {
        match &self.selection {
            Selection::Here(pid) => Some(pid),
            _ => None,
        }
    }

    /// Returns the selected process, if it has left the page.
    fn away(&self) -> Option<&str> {
        match &self.selection {
            Selection::Away(pid) => Some(pid),
            _ => None,
        }
    }

    /// Scrolls to a share of the table, from 0 to 1, without moving the cursor.
    pub(crate) fn scroll_to(&mut self, share: f64, visible: u16) {
        let last = self.matched().saturating_sub(visible.into());
        self.top = (share.clamp(0.0, 1.0) * last as f64).round() as u64;
        self.follow = false;
        self.clamp(visible);
    }

    /// Returns the request for the visible rows and some rows around them.
    pub(crate) fn query(&self, sent: Option<&View>, visible: u16, width: u16) -> View {
        let mut columns: Vec<Column> = self.columns.fit(width, self.sort).iter().map(|slot| slot.column).collect();
        // Hidden or not, the selection needs the pid, and a row that has ended is known by its state.
        for needed in [Column::Pid, Column::State] {
            if !columns.contains(&needed) {
                columns.push(needed);
            }
        }
        let len = (u32::from(visible) * 3).clamp(3, PAGE_ROWS_MAX).max(visible.into()).min(VIEW_ROWS_MAX);
        let mut view = View {
            columns,
            sort: self.sort,
            filter: self.filter_in_force().to_owned(),
            window: ViewWindow { offset: self.top.saturating_sub(rows_before(len, visible.into())), len },
            reorder: self.reorder,
            waits: true,
            ..View::default()
        };
        let comparable = sent.filter(|sent| sent.filter == view.filter && sent.sort == view.sort);
        if let Some(sent) = comparable.filter(|sent| self.is_covered(sent.window, view.window.len, visible)) {
            view.window = sent.window;
        }
        if self.follow
            && let Selection::Here(pid) | Selection::Away(pid) = &self.selection
        {
            // The node moves the window with the process, so scrolling asks for nothing.
            view.around = Some(pid.clone());
            view.window.offset = 0;
        }
        view
    }

    /// Records that the request was sent.
    pub(crate) fn requested(&mut self) {
        self.reorder = false;
    }

    /// Returns true if the node's window still contains the visible rows and half of the margin on either side.
    fn is_covered(&self, window: ViewWindow, len: u32, visible: u16) -> bool {
        let (visible, end) = (u64::from(visible), window.offset + u64::from(window.len));
        let margin = rows_before(len, visible) / 2;
        let above = window.offset == 0 || self.top >= window.offset + margin;
        let below = end >= self.matched().max(1) || self.top + visible + margin <= end;
        window.len == len && above && below && self.top >= window.offset
    }

    /// Returns true if the rows still have an earlier order or filter.
    pub(crate) fn is_stale(&self) -> bool {
        let wanted = (self.sort, self.filter_in_force());
        self.shown.as_ref().is_none_or(|(sort, filter)| (*sort, filter.as_str()) != wanted)
    }

    /// Stores a page that answers a view. The cursor follows the selected process.
    pub(crate) fn take(&mut self, mut rows: Rows, answers: Option<&View>, visible: u16, now: Duration) {
        rows.rows.truncate(VIEW_ROWS_MAX as usize);
        self.fold_ended(&mut rows);
        let pct = |row: &[Cell]| match cell(&rows, row, Column::BusyPct) {
            Some(Cell::Rate(pct)) => Some(*pct),
            _ => None,
        };
        self.trends.take(rows.rows.iter().map(|row| (text(&rows, row, Column::Pid), pct(row))), now);
        self.rows = Some(rows);
        self.rows_at = now;
        self.shown = answers.map(|view| (view.sort, view.filter.clone()));
        match std::mem::take(&mut self.selection) {
            Selection::None => {}
            Selection::Awaited => {
                self.selection = self.pid_at(self.cursor).map_or(Selection::Awaited, Selection::Here);
            }
            Selection::Here(pid) | Selection::Away(pid) => match self.position_of(&pid) {
                Some(position) => {
                    self.cursor = position;
                    self.selection = Selection::Here(pid);
                }
                None => self.selection = Selection::Away(pid),
            },
        }
        self.clamp(visible);
        if self.follow && matches!(self.selection, Selection::Here(_)) {
            self.reveal(visible);
        }
        // The node had to show it if it were there: it has ended, or the filter excludes it.
        let was_asked = |view: &View| view.around.is_some() && view.around.as_deref() == self.away();
        self.follow &= !answers.is_some_and(was_asked);
    }

    /// Moves rows of ended processes behind the others, if they are many: they keep their places until the next order,
    /// and would fill the page.
    fn fold_ended(&self, rows: &mut Rows) {
        let (Some(pid), Some(state)) = (column_at(rows, Column::Pid), column_at(rows, Column::State)) else { return };
        let selected = match &self.selection {
            Selection::Here(pid) | Selection::Away(pid) => pid.as_str(),
            Selection::None | Selection::Awaited => "",
        };
        let is_text =
            |row: &[Cell], at: usize, text: &str| matches!(row.get(at), Some(Cell::Text(known)) if known == text);
        let is_folded = |row: &[Cell]| is_text(row, state, ENDED) && !is_text(row, pid, selected);
        if rows.rows.iter().filter(|row| is_folded(row)).count() >= FOLDED_MIN {
            rows.rows.sort_by_key(|row| is_folded(row));
        }
    }

    /// Returns the number of ended processes that are shown as one line, and the index of that line; `None` if there are
    /// few.
    pub(crate) fn folded(&self) -> Option<(u64, u64)> {
        let rows = self.rows.as_ref()?;
        let ended = rows.rows.iter().rev().take_while(|row| text(rows, row, Column::State) == ENDED).count();
        (ended >= FOLDED_MIN).then(|| (ended as u64, rows.offset + (rows.rows.len() - ended) as u64))
    }

    fn position_of(&self, pid: &str) -> Option<u64> {
        let rows = self.rows.as_ref()?;
        let at = rows.rows.iter().position(|row| text(rows, row, Column::Pid) == pid)?;
        Some(rows.offset + at as u64)
    }

    /// Keeps the cursor and the page inside the table.
    pub(crate) fn clamp(&mut self, visible: u16) {
        if self.rows.is_none() {
            return;
        }
        let matched = self.matched();
        self.cursor = self.cursor.min(matched.saturating_sub(1));
        self.top = self.top.min(matched.saturating_sub(visible.max(1).into()));
        if let Selection::Here(pid) = &self.selection
            && self.pid_at(self.cursor).as_ref() != Some(pid)
        {
            self.selection = Selection::Away(pid.clone());
        }
    }

    /// Scrolls so that the cursor is visible.
    pub(crate) fn reveal(&mut self, visible: u16) {
        let last = u64::from(visible).saturating_sub(1);
        self.top = self.top.clamp(self.cursor.saturating_sub(last), self.cursor);
    }

    /// Moves the cursor and selects the row there.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        let from = if self.selection == Selection::None && lines.abs() == 1 {
            self.top
        } else {
            self.cursor.saturating_add_signed(lines)
        };
        self.go_to(from, visible);
    }

    /// Moves the cursor to an index and selects the row there.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.cursor = position.min(self.matched().saturating_sub(1));
        let here = self.pid_at(self.cursor).filter(|_| !self.is_stale());
        self.selection = here.map_or(Selection::Awaited, Selection::Here);
        self.reveal(visible);
        self.clamp(visible);
    }

    /// Selects the row shown at an index, even if the order is about to be replaced: the user pointed at that row.
    pub(crate) fn point_at(&mut self, position: u64, visible: u16) {
        self.go_to(position, visible);
        if let Some(pid) = self.pid_at(self.cursor) {
            self.selection = Selection::Here(pid);
        }
    }

    /// Scrolls without moving the cursor.
    pub(crate) fn scroll(&mut self, lines: i64, visible: u16) {
        self.top = self.top.saturating_add_signed(lines);
        self.clamp(visible);
    }

    /// Sorts by a column, or reverses the order if the table is sorted by that column already.
    pub(crate) fn sort_by(&mut self, column: Column) {
        let desc = if self.sort.key == column { !self.sort.desc } else { columns::falls(column) };
        self.sort = SortKey { key: column, desc };
        self.rewind();
    }

    /// Sets the order.
    pub(crate) fn set_sort(&mut self, sort: SortKey) {
        self.sort = sort;
        self.rewind();
    }

    /// Reverses the order.
    pub(crate) fn invert(&mut self) {
        self.sort.desc = !self.sort.desc;
        self.rewind();
    }

    /// Sorts by the column `steps` positions to the right on the screen.
    pub(crate) fn sort_step(&mut self, steps: isize, width: u16) {
        let slots = self.columns.fit(width, self.sort);
        let at = slots.iter().position(|slot| slot.column == self.sort.key).unwrap_or(0);
        let next = wrapped(at, steps, slots.len());
        if let Some(slot) = slots.get(next) {
            self.sort_by(slot.column);
        }
    }

    /// Requests that the node computes the order again.
    pub(crate) fn reorder(&mut self) {
        self.reorder = true;
    }

    /// Scrolls to the top, after a change of the order or the filter.
    fn rewind(&mut self) {
        self.top = 0;
        if !matches!(self.selection, Selection::Here(_) | Selection::Away(_)) {
            self.cursor = 0;
        }
    }

    /// Clears the selection.
    pub(crate) fn deselect(&mut self) {
        self.selection = Selection::None;
    }
}

/// Returns the number of rows on either side of the visible ones in a window of `len` rows.
fn rows_before(len: u32, visible: u64) -> u64 {
    u64::from(len).saturating_sub(visible) / 2
}

#[cfg(test)]
mod tests;
