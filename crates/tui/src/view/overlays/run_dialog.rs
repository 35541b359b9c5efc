//! The dialog before a run: settings and parameters of a scenario.

use ratatui::text::{Line, Span};

use super::text::{READING_WIDTH, keys_line};
use crate::model::input::keys::Context;
use crate::model::panes::bench::run_dialog::RunDialog;
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

pub(super) fn render(painter: &mut Painter<'_>, dialog: &RunDialog) {
    let theme = painter.theme;
    let refused = dialog.refused.as_deref().map(|why| painter::wrap(why, READING_WIDTH - 4)).unwrap_or_default();
    let notes = (refused.len() as u16).clamp(1, 3);
    let fields = dialog.fields();
    // A line separates the settings from the parameters.
    let settings = fields.iter().filter(|field| field.is_setting).count();
    let has_parameters = settings < fields.len();
    let height = fields.len() as u16 + u16::from(has_parameters) + 5 + notes;
    let title = Line::from(format!(" run {} ", dialog.scenario));
    let inner = painter.popup(READING_WIDTH, height, &title);
    let room = inner.height.saturating_sub(3 + notes).max(1);
    let row_of = |at: usize| at as u16 + u16::from(has_parameters && at >= settings);
    let first = (row_of(dialog.at) + 1).saturating_sub(room);
    let is_visible = |row: u16| (first..first + room).contains(&row);
    if has_parameters && is_visible(settings as u16) {
        let line = theme.sign("─", "-").repeat(inner.width.into());
        painter.line(inner, settings as u16 - first, &Line::from(Span::styled(line, theme.style(Role::Border))));
    }
    let name_width = fields.iter().map(|field| painter::width(&field.meta.name)).max().unwrap_or(0).clamp(12, 20);
    for (at, field) in fields.iter().enumerate() {
        if !is_visible(row_of(at)) {
            continue;
        }
        let row = painter::row(inner, row_of(at) - first);
        let here = at == dialog.at;
        let value = field.edit.text();
        let changed = value.trim() != field.meta.default;
        let sign = if here { theme.sign("▸ ", "> ") } else { "  " };
        let name = painter::cut(&field.meta.name, name_width, theme);
        let width = usize::from(name_width) + 1;
        let style = theme.style(if changed { Role::Accent } else { Role::Text });
        let is_choice = here && !field.choices.is_empty();
        let (open, close) = if is_choice { (theme.sign("◂ ", "< "), theme.sign(" ▸", " >")) } else { ("", "") };
        let spans = vec![
            Span::styled(sign, theme.style(Role::Accent)),
            Span::styled(format!("{name:<width$}"), theme.style(if here { Role::Strong } else { Role::Dim })),
            Span::styled(open, theme.style(Role::Key)),
            Span::styled(value.clone(), style),
            Span::styled(close, theme.style(Role::Key)),
        ];
        let used = 2 + width as u16 + painter::width(&value) + 6;
        painter.line(row, 0, &Line::from(spans));
        let range = painter::cut(&field.meta.range, inner.width.saturating_sub(used), theme);
        if painter::width(&range) > 1 {
            painter.line_right(row, 0, &Line::from(Span::styled(range, theme.style(Role::Dim))));
        }
        if here && !is_choice {
            let before: String = value.chars().take(field.edit.cursor()).collect();
            painter.cursor = Some((row.x + 2 + width as u16 + painter::width(&before), row.y));
        }
    }
    let note_at = inner.height.saturating_sub(2 + notes);
    for (at, line) in (0..notes).zip(&refused) {
        painter.line(inner, note_at + at, &Line::from(Span::styled(line.clone(), theme.style(Role::Bad))));
    }
    if let Some(field) = dialog.field().filter(|_| refused.is_empty()) {
        let text = painter::cut(&field.meta.description, inner.width, theme);
        painter.line(inner, note_at, &Line::from(Span::styled(text, theme.style(Role::Dim))));
    }
    let keys = keys_line(Context::RunDialog, painter);
    painter.line(inner, inner.height.saturating_sub(1), &keys);
}
