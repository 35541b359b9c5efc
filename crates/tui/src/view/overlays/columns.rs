//! The chooser of the columns of the process table.

use ratatui::text::{Line, Span};

use crate::model::Model;
use crate::model::overlay::columns::ColumnChooser;
use crate::model::panes::columns::{self, ColumnSet};
use crate::model::selection::first_visible;
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Width of the chooser, in cells.
const WIDTH: u16 = 40;

pub(super) fn render(painter: &mut Painter<'_>, model: &Model, chooser: &ColumnChooser) {
    let theme = painter.theme;
    let title = match model.table.columns.set {
        ColumnSet::Usual => " columns ",
        ColumnSet::Guests => " columns of guests ",
    };
    let inner = painter.popup(WIDTH, chooser.entries.len() as u16 + 2, &Line::from(title));
    let first = first_visible(chooser.at, inner.height);
    for (index, (column, is_shown)) in chooser.entries.iter().enumerate().skip(first).take(inner.height.into()) {
        let row = painter::row(inner, (index - first) as u16);
        let sign = if *is_shown { theme.sign("●", "*") } else { " " };
        let role = if *is_shown { Role::Text } else { Role::Dim };
        let line = Line::from(vec![
            Span::styled(format!(" {sign} "), theme.style(Role::Accent)),
            Span::styled(format!("{:<12}", columns::heading(*column)), theme.style(role)),
            Span::styled(columns::label(*column), theme.style(Role::Dim)),
        ]);
        painter.line(row, 0, &line);
        if index == chooser.at {
            painter.select(row);
        }
    }
}
