//! The supervision tree as shown by this observer: a window of rows that the node lays out, a set of open supervisors,
//! and a selection that is a path and not an index.
//!
//! Requested only while it is shown, with only the newest request in flight. A small supervisor opens automatically
//! when it is first seen. A supervisor closed by the user stays closed.

use std::collections::BTreeSet;
use std::time::Duration;

use rusm_protocol::{ClientMessage, TREE_OPEN_MAX, TreeDetail, TreeRow, TreeRows, TreeView, VIEW_ROWS_MAX, ViewWindow};

use crate::model::message::REQUEST_PACE;

/// Time after which an unanswered request counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// A supervisor opens automatically if it has at most this many children, and fewer than `OPEN_BY_THEMSELVES`
/// supervisors are open.
const OPENS_ITSELF: u64 = 40;
const OPEN_BY_THEMSELVES: usize = 64;
/// Number of supervisors that are remembered as seen.
const SEEN_MAX: usize = 4096;

/// State of the Tree view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreePane {
    pub(crate) rows: Option<TreeRows>,
    pub(crate) rows_at: Duration,
    /// Number of rows above the first visible one.
    pub(crate) top: u64,
    /// Index of the row under the cursor.
    pub(crate) cursor: u64,
    /// Path of the selected row. While it is `None`, the row under the cursor is selected as soon as the node sends it.
    pub(crate) selected: Option<String>,
    /// True if the selected row is shown in full.
    pub(crate) in_full: bool,
    open: BTreeSet<String>,
    seen: BTreeSet<String>,
    /// The last request; `None` while nothing is requested.
    sent: Option<TreeView>,
    sent_at: Duration,
    unanswered: bool,
    ids: u32,
}

impl Default for TreePane {
    fn default() -> Self {
        Self {
            rows: None,
            rows_at: Duration::ZERO,
            top: 0,
            cursor: 0,
            selected: None,
            in_full: true,
            open: BTreeSet::new(),
            seen: BTreeSet::new(),
            sent: None,
            sent_at: Duration::ZERO,
            unanswered: false,
            ids: 0,
        }
    }
}

impl TreePane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
        self.unanswered = false;
    }

    /// Forgets the tree, because it is from another node.
    pub(crate) fn forget(&mut self) {
        *self = Self { in_full: self.in_full, ids: self.ids, ..Self::default() };
    }

    /// Returns the message that requests the visible rows, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            return self.sent.take().map(|_| ClientMessage::Tree { view: None });
        };
        let waited = now.saturating_sub(self.sent_at);
        let must_wait = waited < REQUEST_PACE || (self.unanswered && waited < PATIENCE);
        let query = self.query(visible);
        if self.sent.as_ref().is_some_and(|sent| must_wait || *sent == TreeView { id: sent.id, ..query.clone() }) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = TreeView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        self.unanswered = true;
        Some(ClientMessage::Tree { view: Some(view) })
    }

    fn query(&self, visible: u16) -> TreeView {
        let len = (u32::from(visible) * 3).clamp(3, VIEW_ROWS_MAX);
        let mut window = ViewWindow { offset: self.top.saturating_sub(visible.into()), len };
        if let Some(sent) = self.sent.as_ref().filter(|sent| self.is_covered(sent.window, len, visible)) {
            window = sent.window;
        }
        let open = self.open.iter().take(TREE_OPEN_MAX).cloned().collect();
        let selected = self.selected.clone().filter(|_| self.in_full);
        TreeView { open, window, selected, sums: true, ..TreeView::default() }
    }

    /// Returns true if the node's window still contains the visible rows and half a page on either side.
    fn is_covered(&self, window: ViewWindow, len: u32, visible: u16) -> bool {
        let (visible, end) = (u64::from(visible), window.offset + u64::from(window.len));
        let margin = visible / 2;
        let above = window.offset == 0 || self.top >= window.offset + margin;
        let below = end >= self.total().max(1) || self.top + visible + margin <= end;
        window.len == len && above && below && self.top >= window.offset
    }

    /// Stores an answer to the newest request; the cursor follows the selected path. Returns false for an answer to an
    /// older one.
    pub(crate) fn take(&mut self, mut rows: TreeRows, visible: u16, now: Duration) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != rows.id) {
            return false;
        }
        self.unanswered = false;
        rows.rows.truncate(VIEW_ROWS_MAX as usize);
        self.open_new(&rows);
        self.rows = Some(rows);
        self.rows_at = now;
        let position = self.selected.as_ref().and_then(|path| self.position_of(path));
        match position {
            Some(position) => {
                let moved = position.abs_diff(self.cursor) > 0 && self.is_visible(self.cursor, visible);
                self.cursor = position;
                if moved {
                    self.reveal(visible);
                }
            }
            None if self.selected.is_none() => self.selected = self.path_at(self.cursor),
            // The row disappeared or is outside the window. Keep the selection: no other row may become selected.
            None => {}
        }
        self.clamp(visible);
        true
    }

    /// Shows recorded rows, which are not an answer; the cursor follows the selected path.
    pub(crate) fn show(&mut self, mut rows: TreeRows, visible: u16, now: Duration) {
        rows.rows.truncate(VIEW_ROWS_MAX as usize);
        self.rows = Some(rows);
        self.rows_at = now;
        if let Some(position) = self.selected.as_ref().and_then(|path| self.position_of(path)) {
            self.cursor = position;
        }
        self.clamp(visible);
    }

    /// Forgets the rows, and keeps what the user selected.
    pub(crate) fn forget_rows(&mut self) {
        self.rows = None;
    }

    /// Opens small supervisors seen for the first time, and forgets those that do not exist any more.
    fn open_new(&mut self, rows: &TreeRows) {
        let is_whole = rows.offset == 0 && rows.rows.len() as u64 == rows.total;
        if is_whole {
            let there: BTreeSet<&str> = rows.rows.iter().map(|row| row.path.as_str()).collect();
            self.open.retain(|path| there.contains(path.as_str()));
            self.seen.retain(|path| there.contains(path.as_str()));
        }
        for row in &rows.rows {
            let Some(branch) = &row.branch else { continue };
            if self.seen.len() < SEEN_MAX && self.seen.insert(row.path.clone()) {
                let children = branch.running + branch.waiting + branch.ended;
                if children <= OPENS_ITSELF && self.open.len() < OPEN_BY_THEMSELVES {
                    self.open.insert(row.path.clone());
                }
            }
        }
    }

    /// Returns true if the rows answer the current request.
    pub(crate) fn is_settled(&self) -> bool {
        let requested = self.sent.as_ref().is_some_and(|sent| sent.open.iter().eq(&self.open));
        self.rows.is_some() && requested && !self.unanswered
    }

    /// Returns the number of rows of the whole tree.
    pub(crate) fn total(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.total)
    }

    /// Returns the row at an index, if the node has sent it.
    pub(crate) fn row(&self, position: u64) -> Option<&TreeRow> {
        let rows = self.rows.as_ref()?;
        rows.rows.get(usize::try_from(position.checked_sub(rows.offset)?).ok()?)
    }

    /// Returns the selected row, if it is under the cursor.
    pub(crate) fn selected_row(&self) -> Option<&TreeRow> {
        self.row(self.cursor).filter(|row| self.selected.as_ref() == Some(&row.path))
    }

    /// Returns the details of the selected row, if the node has sent them.
    pub(crate) fn detail(&self) -> Option<&TreeDetail> {
        let detail = self.rows.as_ref()?.selected.as_deref()?;
        (self.selected.as_ref() == Some(&detail.row.path)).then_some(detail)
    }

    fn path_at(&self, position: u64) -> Option<String> {
        self.row(position).map(|row| row.path.clone())
    }

    fn position_of(&self, path: &str) -> Option<u64> {
        let rows = self.rows.as_ref()?;
        rows.rows.iter().position(|row| row.path == path).map(|at| rows.offset + at as u64)
    }

    fn is_visible(&self, position: u64, visible: u16) -> bool {
        (self.top..self.top + u64::from(visible)).contains(&position)
    }

    /// Keeps the cursor and the window inside the tree.
    pub(crate) fn clamp(&mut self, visible: u16) {
        if self.rows.is_some() {
            self.cursor = self.cursor.min(self.total().saturating_sub(1));
            self.top = self.top.min(self.total().saturating_sub(visible.into()));
        }
    }

    fn reveal(&mut self, visible: u16) {
        let last = u64::from(visible).saturating_sub(1);
        self.top = self.top.clamp(self.cursor.saturating_sub(last), self.cursor);
    }

    /// Moves the cursor and selects the row there.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        self.go_to(self.cursor.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor to an index and selects the row there.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.cursor = position.min(self.total().saturating_sub(1));
        self.selected = self.path_at(self.cursor);
        self.reveal(visible);
        self.clamp(visible);
    }

    /// Scrolls without moving the cursor.
    pub(crate) fn scroll(&mut self, lines: i64, visible: u16) {
        self.top = self.top.saturating_add_signed(lines);
        self.clamp(visible);
    }

    /// Opens the selected supervisor, or moves to its first child.
    pub(crate) fn unfold(&mut self, visible: u16) {
        match self.selected_branch() {
            Some((path, _)) if !self.open.contains(&path) => self.open(path),
            Some((_, children)) if children > 0 => self.move_by(1, visible),
            _ => {}
        }
    }

    /// Closes the selected supervisor, or moves to its parent.
    pub(crate) fn fold(&mut self, visible: u16) {
        if let Some((path, _)) = self.selected_branch()
            && self.open.remove(&path)
        {
            return;
        }
        if let Some(above) = self.selected_row().and_then(|row| row.above) {
            self.go_to(above, visible);
        }
    }

    /// Opens or closes the selected supervisor. Returns false if the row is not a supervisor.
    pub(crate) fn toggle(&mut self) -> bool {
        let Some((path, _)) = self.selected_branch() else { return false };
        if !self.open.remove(&path) {
            self.open(path);
        }
        true
    }

    fn open(&mut self, path: String) {
        if self.open.len() >= TREE_OPEN_MAX {
            self.open.pop_first();
        }
        self.open.insert(path);
    }

    /// Closes all supervisors.
    pub(crate) fn fold_all(&mut self, visible: u16) {
        self.open.clear();
        self.selected = None;
        self.go_to(0, visible);
    }

    /// Returns the path of the selected supervisor and its number of children.
    fn selected_branch(&self) -> Option<(String, u64)> {
        let row = self.selected_row()?;
        row.branch.as_ref().map(|branch| (row.path.clone(), branch.running + branch.waiting + branch.ended))
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::TreeBranch;

    use super::*;

    const VISIBLE: u16 = 10;

    fn row(path: &str, branch: Option<u64>, above: Option<u64>) -> TreeRow {
        let branch = branch.map(|running| TreeBranch { running, ..TreeBranch::default() });
        TreeRow { path: path.to_owned(), above, branch, ..TreeRow::default() }
    }

    /// Makes the pane send a request and receive the answer.
    fn receive(pane: &mut TreePane, rows: Vec<TreeRow>, at_ms: u64) {
        pane.requests(Some(VISIBLE), Duration::from_millis(at_ms));
        let total = rows.len() as u64;
        let id = pane.ids;
        assert!(pane.take(TreeRows { id, total, rows, ..TreeRows::default() }, VISIBLE, Duration::from_millis(at_ms)));
    }

    fn opened(pane: &mut TreePane, at_ms: u64) -> Option<Vec<String>> {
        match pane.requests(Some(VISIBLE), Duration::from_millis(at_ms)) {
            Some(ClientMessage::Tree { view: Some(view) }) => Some(view.open),
            _ => None,
        }
    }

    #[test]
    fn the_node_is_asked_while_the_tree_is_shown_and_told_when_it_is_not() {
        let mut pane = TreePane::default();

        assert_eq!(pane.requests(None, Duration::ZERO), None);
        assert!(matches!(pane.requests(Some(VISIBLE), Duration::ZERO), Some(ClientMessage::Tree { view: Some(_) })));
        assert_eq!(pane.requests(Some(VISIBLE), Duration::from_secs(9)), None, "nothing else is requested");
        assert_eq!(pane.requests(None, Duration::from_secs(9)), Some(ClientMessage::Tree { view: None }));
        assert!(!pane.take(TreeRows { id: 1, ..TreeRows::default() }, VISIBLE, Duration::ZERO), "not subscribed");
    }

    #[test]
    fn small_supervisors_open_once_by_themselves_and_large_ones_do_not() {
        let mut pane = TreePane::default();
        let rows = || vec![row("<0.1.1>", Some(3), None), row("<0.2.1>", Some(100_000), None)];

        receive(&mut pane, rows(), 0);
        assert_eq!(opened(&mut pane, 100), Some(vec!["<0.1.1>".to_owned()]));
        receive(&mut pane, rows(), 200);
        pane.go_to(0, VISIBLE);
        pane.fold(VISIBLE);
        receive(&mut pane, rows(), 300);
        assert_eq!(opened(&mut pane, 3_000), None, "a closed supervisor stays closed");
        assert_eq!(pane.sent.as_ref().map(|view| view.open.len()), Some(0));
    }

    #[test]
    fn the_selection_follows_its_path() {
        let mut pane = TreePane::default();
        let (a, b) = (|| row("<0.1.1>", Some(90), None), || row("<0.2.1>", Some(90), None));
        receive(&mut pane, vec![a(), b()], 0);
        pane.go_to(1, VISIBLE);

        receive(&mut pane, vec![a(), row("<0.1.1>/0", None, Some(0)), b()], 100);
        assert_eq!((pane.cursor, pane.selected.as_deref()), (2, Some("<0.2.1>")));
        receive(&mut pane, vec![a()], 200);

        assert_eq!(
            (pane.cursor, pane.selected_row()),
            (0, None),
            "the selected child has ended, and no other row is selected"
        );
    }

    #[test]
    fn left_leads_to_the_supervisor_above_and_right_into_it() {
        let mut pane = TreePane::default();
        receive(&mut pane, vec![row("<0.1.1>", Some(1), None), row("<0.1.1>/4", None, Some(0))], 0);
        pane.go_to(1, VISIBLE);

        pane.fold(VISIBLE);
        assert_eq!(pane.cursor, 0);
        pane.unfold(VISIBLE);
        assert_eq!(pane.selected.as_deref(), Some("<0.1.1>/4"));
        pane.unfold(VISIBLE);
        assert!(!pane.toggle(), "the row is not a supervisor");
        assert_eq!(pane.cursor, 1);
    }
}
