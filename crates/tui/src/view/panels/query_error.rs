//! The error of a query that is being typed: a mark below the wrong word, and the message below the mark.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use rusm_text::QueryError;

use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Draws the error of a query into the first rows of a panel. The query begins `before` cells after the panel's title.
pub(crate) fn render(painter: &mut Painter<'_>, panel: Rect, before: u16, query: &str, error: &QueryError) {
    let theme = painter.theme;
    let inner = Rect { x: panel.x + 1, width: panel.width.saturating_sub(2), ..panel };
    let (start, len) = error.characters(query);
    let upto: String = query.chars().take(start).collect();
    let word: String = query.chars().skip(start).take(len).collect();
    let x = (panel.x + 2 + before + painter::width(&upto)).min(inner.right().saturating_sub(1));
    let marks = painter::width(&word).clamp(1, inner.right().saturating_sub(x).max(1));
    let text = painter::wrap(&error.message, inner.width.saturating_sub(2));
    let room = panel.height.saturating_sub(3).clamp(1, 4);
    let shown = text.iter().take(room.saturating_sub(1).into());
    for (row, line) in (1..).zip([None].into_iter().chain(shown.map(Some))) {
        let area = Rect { y: panel.y + row, height: 1, ..inner };
        Clear.render(area.intersection(painter.area()), painter.buffer);
        match line {
            None => {
                let mark = theme.sign("▲", "^").repeat(marks.into());
                painter.put(x, area.y, &Line::from(Span::styled(mark, theme.style(Role::Bad))), marks);
            }
            Some(text) => {
                let text = painter::cut(text, area.width.saturating_sub(2), theme);
                painter.put(
                    area.x + 1,
                    area.y,
                    &Line::from(Span::styled(text, theme.style(Role::Text))),
                    area.width - 1,
                );
            }
        }
    }
}
