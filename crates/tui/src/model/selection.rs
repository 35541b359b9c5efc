//! Selections in lists: arithmetic, and the cursor of a list of which a window is known.

pub(crate) mod paged_list;

use rusm_protocol::ViewWindow;

/// Returns the index `steps` after `at` among `count`, wrapping around.
pub(crate) fn wrapped(at: usize, steps: isize, count: usize) -> usize {
    at.cast_signed().saturating_add(steps).rem_euclid(count.max(1).cast_signed()).cast_unsigned()
}

/// Returns the index of the first visible row in a menu of `height` rows, so that the selected row is visible.
pub(crate) fn first_visible(selected: usize, height: u16) -> usize {
    (selected + 1).saturating_sub(height.into())
}

/// Cursor of a list that the node pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListCursor<Key = String> {
    /// Number of rows above the first visible one, followed by the index of the row under the cursor.
    pub(crate) top: u64,
    pub(crate) at: u64,
    /// The selected item: it keeps the cursor when the order changes.
    pub(crate) selected: Option<Key>,
}

impl<Key> ListCursor<Key> {
    /// Keeps the cursor inside a list of `total` rows, and inside the visible ones.
    pub(crate) fn clamp(&mut self, total: u64, visible: u16) {
        self.at = self.at.min(total.saturating_sub(1));
        let visible = u64::from(visible.max(1));
        self.top = self.top.min(total.saturating_sub(visible));
        self.top = self.top.clamp((self.at + 1).saturating_sub(visible), self.at);
    }

    /// Returns the window to request: extra rows on either side, so that scrolling does not have to wait.
    pub(crate) fn window(&self, visible: u16) -> ViewWindow {
        let rows = visible.max(1);
        ViewWindow { offset: self.top.saturating_sub(rows.into()), len: (rows * 3).min(200).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_stays_inside_its_list_and_its_page() {
        let mut cursor = ListCursor::<String> { top: 90, at: 200, selected: None };

        cursor.clamp(100, 10);
        assert_eq!((cursor.top, cursor.at), (90, 99));
        cursor.at = 3;
        cursor.clamp(100, 10);
        assert_eq!((cursor.top, cursor.at, cursor.window(10).len), (3, 3, 30));
        cursor.clamp(0, 10);
        assert_eq!((cursor.top, cursor.at), (0, 0));
    }
}
