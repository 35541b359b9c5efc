//! The command palette: the line, and the lines that match it with what they do.

use ratatui::text::{Line, Span};

use super::text::keys_line;
use crate::model::input::commands::COMMANDS;
use crate::model::input::keys::Context;
use crate::model::overlay::Palette;
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width and largest height of the palette, in cells.
const WIDTH: u16 = 76;
const HEIGHT: u16 = 18;

pub(super) fn render(painter: &mut Painter<'_>, line: &Palette) {
    let theme = painter.theme;
    let height = HEIGHT.min(painter.area().height.saturating_sub(2));
    let inner = painter.popup(WIDTH.min(painter.area().width), height, &Line::from(" command "));
    let text = line.edit.text();
    let spans = vec![
        Span::styled(":", theme.style(Role::Key)),
        Span::styled(text.clone(), theme.style(if line.error.is_some() { Role::Bad } else { Role::Strong })),
    ];
    painter.line(inner, 0, &Line::from(spans));
    let before: String = text.chars().take(line.edit.cursor()).collect();
    painter.cursor = Some(((inner.x + 1 + painter::width(&before)).min(inner.right().saturating_sub(1)), inner.y));
    if let Some(error) = &line.error {
        let error = painter::cut(error, inner.width, theme);
        painter.line(inner, 1, &Line::from(Span::styled(error, theme.style(Role::Bad))));
    }
    let room = usize::from(inner.height.saturating_sub(4));
    let first = (line.at + 1).saturating_sub(room);
    for (row, (at, found)) in (2..).zip(line.found.iter().enumerate().skip(first).take(room)) {
        let help = painter::cut(&found.help, inner.width.saturating_sub(34), theme);
        let name = painter::cut(&found.line, 32, theme);
        painter.line(inner, row, &Line::from(Span::styled(format!(" {name}"), theme.style(Role::Text))));
        painter.line_right(inner, row, &Line::from(Span::styled(format!("{help} "), theme.style(Role::Dim))));
        if at == line.at {
            painter.select(painter::row(inner, row));
        }
    }
    if line.found.is_empty() && line.error.is_none() {
        painter.line(inner, 2, &Line::from(Span::styled(" no command matches", theme.style(Role::Dim))));
    }
    let keys = keys_line(Context::Palette, painter);
    painter.line(inner, inner.height.saturating_sub(1), &keys);
}

/// Returns the commands for the help.
pub(super) fn commands(theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(Span::styled("commands, after :", theme.style(Role::Title)))];
    lines.extend(COMMANDS.iter().map(|command| {
        let line = format!("{} {}", command.name, command.argument.word());
        Line::from(vec![
            Span::styled(format!("  {line:<18} "), theme.style(Role::Key)),
            Span::styled(command.help, theme.style(Role::Text)),
        ])
    }));
    lines
}
