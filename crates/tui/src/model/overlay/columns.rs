//! The chooser of the columns of the process table: which are shown, and in which order.

use rusm_protocol::Column;

use crate::model::panes::columns::ORDER;
use crate::model::selection::wrapped;

/// Column chooser. Each change is applied to the table at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnChooser {
    /// All columns, and whether each is shown.
    pub(crate) entries: Vec<(Column, bool)>,
    /// Index of the column under the cursor.
    pub(crate) at: usize,
    /// Choice before the chooser was opened.
    pub(crate) before: Vec<Column>,
}

impl ColumnChooser {
    /// Creates a chooser with the columns on the screen first.
    pub(crate) fn new(shown: &[Column], before: Vec<Column>) -> Self {
        let hidden = ORDER.iter().filter(|column| !shown.contains(column)).map(|&column| (column, false));
        let entries = shown.iter().map(|&column| (column, true)).chain(hidden).collect();
        Self { entries, at: 0, before }
    }

    /// Returns the shown columns in their order.
    pub(crate) fn chosen(&self) -> Vec<Column> {
        self.entries.iter().filter(|(_, is_shown)| *is_shown).map(|(column, _)| *column).collect()
    }

    /// Moves the cursor.
    pub(crate) fn move_by(&mut self, steps: isize) {
        self.at = wrapped(self.at, steps, self.entries.len());
    }

    /// Shows or hides the column under the cursor. The last column stays.
    pub(crate) fn toggle(&mut self) {
        let shown = self.entries.iter().filter(|(_, is_shown)| *is_shown).count();
        if let Some((_, is_shown)) = self.entries.get_mut(self.at).filter(|(_, is_shown)| shown > 1 || !is_shown) {
            *is_shown = !*is_shown;
        }
    }

    /// Moves the column under the cursor to an earlier or later place.
    pub(crate) fn shift(&mut self, steps: isize) {
        let to = self.at.saturating_add_signed(steps).min(self.entries.len().saturating_sub(1));
        if self.at < self.entries.len() {
            let entry = self.entries.remove(self.at);
            self.entries.insert(to, entry);
            self.at = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_toggled_and_moved_and_the_last_one_stays() {
        let mut chooser = ColumnChooser::new(&[Column::Pid, Column::Name], Vec::new());
        assert_eq!(chooser.entries.len(), ORDER.len());

        chooser.shift(1);
        assert_eq!((chooser.chosen(), chooser.at), (vec![Column::Name, Column::Pid], 1));
        chooser.toggle();
        chooser.move_by(-1);
        chooser.toggle();
        assert_eq!(chooser.chosen(), [Column::Name]);
        chooser.shift(-1);
        chooser.move_by(-1);
        chooser.toggle();

        assert_eq!(chooser.chosen().len(), 2);
    }
}
