//! Tables of a scenario: its comparisons, in addition to the figures that every scenario reports.
//!
//! ```text
//!   scenario ── Tables::show(table), repeatedly ──▶ Tables: the newest of each title ──▶ Report: JSON and text
//! ```
//!
//! A cell is a number or a text. The column has the unit, so that programs read plain numbers and people read `4.1 µs`.

use std::fmt::{self, Display};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::report::numbers::{Amount, Nanos, grouped};

/// A table of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Title; unique within a run.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Notes needed to interpret the table, one line each.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Unit of its numbers.
    pub unit: ColumnUnit,
}

/// Unit of the numbers in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnUnit {
    /// No unit: the cells are text.
    #[default]
    Text,
    /// An exact count.
    Count,
    /// A quantity, shown with three digits.
    Amount,
    /// Nanoseconds.
    Ns,
    /// Percent.
    Percent,
    /// One number divided by another.
    Ratio,
    /// Bytes.
    Bytes,
}

/// Content of a table cell; `null` means not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the column's unit.
    Number(f64),
    /// A text.
    Text(String),
    /// Not measured.
    #[default]
    Missing,
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::Missing }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Table {
    /// Creates a table without rows.
    pub fn new(title: &str, columns: &[(&str, ColumnUnit)]) -> Self {
        let column = |(name, unit): &(&str, ColumnUnit)| Column { name: (*name).to_owned(), unit: *unit };
        Self { title: title.to_owned(), columns: columns.iter().map(column).collect(), ..Self::default() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the row does not have one cell per column: a bug in the scenario.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        assert_eq!(N, self.columns.len(), "a row of {} has a cell for each column", self.title);
        self.rows.push(cells.into());
    }

    /// Adds a note.
    pub fn note(&mut self, line: impl Into<String>) {
        self.notes.push(line.into());
    }
}

impl ColumnUnit {
    /// Formats a number for people.
    pub(crate) fn show_number(self, number: f64) -> String {
        self.show(&Cell::Number(number))
    }

    fn show(self, cell: &Cell) -> String {
        match (cell, self) {
            (Cell::Missing, _) => "–".to_owned(),
            (Cell::Text(text), _) => text.clone(),
            (Cell::Number(number), Self::Count | Self::Bytes) if *number >= 0.0 => grouped(number.round() as u64),
            (Cell::Number(number), Self::Ns) => Nanos(*number).to_string(),
            (Cell::Number(number), Self::Percent) => format!("{} %", digits(*number)),
            (Cell::Number(number), Self::Ratio) => digits(*number),
            (Cell::Number(number), Self::Text | Self::Count | Self::Bytes | Self::Amount) => {
                Amount(*number).to_string()
            }
        }
    }
}

/// Formats a number with about three digits.
fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        number if number < 0.0995 => 3,
        number if number < 9.95 => 2,
        number => usize::from(number < 99.5),
    };
    format!("{number:.decimals$}")
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.title)?;
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| self.columns.iter().zip(row).map(|(column, cell)| column.unit.show(cell)).collect())
            .collect();
        let width = |index: usize, column: &Column| {
            let cells = shown.iter().filter_map(|row: &Vec<String>| row.get(index)).map(|cell| cell.chars().count());
            cells.chain([column.name.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(|(index, column)| width(index, column)).collect();
        let heads: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        for row in [&heads].into_iter().chain(&shown) {
            let mut line = String::new();
            for ((cell, width), column) in row.iter().zip(&widths).zip(&self.columns) {
                let filler = " ".repeat(width - cell.chars().count());
                let (cell, filler) = (cell.as_str(), filler.as_str());
                let parts = if column.unit == ColumnUnit::Text { [cell, filler] } else { [filler, cell] };
                line.push_str("  ");
                for part in parts {
                    line.push_str(part);
                }
            }
            writeln!(f, "  {}", line.trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "    {note}"))
    }
}

/// Tables of a run, and lines for other programs.
#[derive(Clone, Debug, Default)]
pub struct Tables(Arc<Mutex<Vec<Table>>>, Arc<Mutex<Vec<String>>>);

impl Tables {
    /// Replaces the printed lines.
    pub fn print(&self, lines: Vec<String>) {
        *self.1.lock() = lines;
    }

    /// Returns the lines that were printed last.
    pub(crate) fn printed(&self) -> Vec<String> {
        self.1.lock().clone()
    }

    /// Adds a table, or replaces an earlier table with the same title.
    pub fn show(&self, table: Table) {
        let mut tables = self.0.lock();
        match tables.iter_mut().find(|known| known.title == table.title) {
            Some(known) => *known = table,
            None => tables.push(table),
        }
    }

    /// Returns all tables, in the order in which they were first shown.
    pub(crate) fn read(&self) -> Vec<Table> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            ("mode", ColumnUnit::Text),
            ("p50", ColumnUnit::Ns),
            ("overruns", ColumnUnit::Count),
            ("cpu", ColumnUnit::Percent),
            ("of the seed", ColumnUnit::Ratio),
        ];
        let mut table = Table::new("Jitter at 10 kHz", &columns);
        table.row(["no spin".into(), 4_130.0.into(), 12_345_u64.into(), 4.06.into(), 0.0576.into()]);
        table.row(["µ 50".into(), Cell::Missing, 0_u64.into(), f64::NAN.into(), 12.0.into()]);
        table.note("Lateness is not overrun.");
        table
    }

    #[test]
    fn a_table_reads_like_this() {
        insta::assert_snapshot!(table().to_string());
    }

    #[test]
    fn a_table_survives_its_json_and_numbers_stay_numbers() {
        let text = serde_json::to_string(&table()).unwrap();

        assert!(text.contains(r#"["no spin",4130.0,12345.0,4.06,0.0576]"#), "{text}");
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table());
    }

    #[test]
    fn lines_that_are_printed_again_take_the_place_of_the_earlier() {
        let tables = Tables::default();

        tables.print(vec!["one".to_owned()]);
        tables.print(vec!["two".to_owned(), "three".to_owned()]);

        assert_eq!(tables.printed(), ["two", "three"]);
    }

    #[test]
    fn a_table_that_is_shown_again_takes_the_place_of_the_earlier() {
        let tables = Tables::default();
        tables.show(table());
        tables.show(Table::new("another", &[]));

        tables.show(Table { rows: Vec::new(), ..table() });

        assert_eq!(tables.read().iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [0, 0]);
    }
}
