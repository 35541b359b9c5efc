//! Columns that the user has chosen, for processes and for guests. An empty choice shows the columns that fit.

use rusm_protocol::{Column, SortKey};

use super::{ColumnSet, ColumnSlot, fit, fit_chosen};
use crate::model::panes::table::trends::POINTS;

/// Minimum width of a table with trends, in cells.
const TRENDS_FROM: u16 = 110;

/// Columns of the process table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Set that is shown.
    pub(crate) set: ColumnSet,
    usual: Vec<Column>,
    guests: Vec<Column>,
}

impl Columns {
    /// Creates the columns from those of the config file. Repeated ones count once.
    pub(crate) fn new(usual: Vec<Column>, guests: Vec<Column>) -> Self {
        Self { set: ColumnSet::default(), usual: distinct(usual), guests: distinct(guests) }
    }

    /// Returns the columns that fit into `width` cells.
    pub(crate) fn fit(&self, width: u16, sort: SortKey) -> Vec<ColumnSlot> {
        match self.chosen() {
            [] => fit(width - self.trend_width(width), sort, self.set),
            chosen => fit_chosen(width, sort, chosen),
        }
    }

    /// Returns the width of the trends at the right end of a table of `width` cells, with the gaps around them; 0 if the
    /// table is too narrow for them, or its columns are chosen by the user.
    pub(crate) fn trend_width(&self, width: u16) -> u16 {
        if width >= TRENDS_FROM && self.chosen().is_empty() { POINTS as u16 + 2 } else { 0 }
    }

    /// Returns the chosen columns of the set that is shown; empty for those that fit.
    pub(crate) fn chosen(&self) -> &[Column] {
        match self.set {
            ColumnSet::Usual => &self.usual,
            ColumnSet::Guests => &self.guests,
        }
    }

    /// Chooses the columns of the set that is shown.
    pub(crate) fn choose(&mut self, columns: Vec<Column>) {
        match self.set {
            ColumnSet::Usual => self.usual = distinct(columns),
            ColumnSet::Guests => self.guests = distinct(columns),
        }
    }

    /// Shows the other set.
    pub(crate) fn toggle_set(&mut self) {
        self.set = match self.set {
            ColumnSet::Usual => ColumnSet::Guests,
            ColumnSet::Guests => ColumnSet::Usual,
        };
    }
}

fn distinct(columns: Vec<Column>) -> Vec<Column> {
    let mut distinct: Vec<Column> = Vec::with_capacity(columns.len());
    for column in columns {
        if !distinct.contains(&column) {
            distinct.push(column);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_has_a_choice_of_its_own() {
        let mut columns = Columns::new(vec![Column::Pid, Column::MemoryBytes, Column::Pid], Vec::new());
        assert_eq!(columns.chosen(), [Column::Pid, Column::MemoryBytes]);

        columns.toggle_set();
        assert_eq!(columns.chosen(), [] as [Column; 0]);
        columns.choose(vec![Column::Module]);
        columns.toggle_set();

        assert_eq!(columns.chosen(), [Column::Pid, Column::MemoryBytes]);
    }

    #[test]
    fn chosen_columns_keep_their_order_and_the_sort_column_is_added() {
        let columns = Columns::new(vec![Column::AgeMs, Column::Name, Column::Pid], Vec::new());
        let sort = SortKey { key: Column::MemoryBytes, desc: true };

        let shown = |width| columns.fit(width, sort).iter().map(|slot| slot.column).collect::<Vec<_>>();

        assert_eq!(shown(77), [Column::AgeMs, Column::Name, Column::Pid, Column::MemoryBytes]);
        assert_eq!(shown(30), [Column::AgeMs, Column::Name, Column::MemoryBytes]);
    }
}
