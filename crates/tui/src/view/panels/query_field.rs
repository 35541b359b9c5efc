//! The rows below a query that is being typed: a mark below the wrong word with the message, or the candidates of a
//! completion.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use rusm_text::QueryError;

use crate::model::input::complete::{Completion, Vocabulary};
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// A query in the title of a panel.
pub(crate) struct QueryField<'a> {
    /// The panel.
    pub(crate) area: Rect,
    /// Cells of the title before the query.
    pub(crate) before: u16,
    pub(crate) text: &'a str,
    pub(crate) completion: Option<&'a Completion>,
}

/// Draws the error of a query, or the candidates of its completion, into the first rows of its panel.
pub(crate) fn render(
    painter: &mut Painter<'_>,
    query: &QueryField<'_>,
    error: Option<&QueryError>,
    vocabulary: Vocabulary<'_>,
) {
    match (query.completion.filter(|completion| completion.candidates.len() > 1), error) {
        (Some(completion), _) => candidates(painter, query.area, completion, vocabulary),
        (None, Some(error)) => mark(painter, query, error),
        (None, None) => {}
    }
}

/// Returns row `at` inside a panel, after clearing it.
fn cleared(painter: &mut Painter<'_>, panel: Rect, at: u16) -> Rect {
    let row = painter::row(
        Rect {
            x: panel.x + 1,
            y: panel.y + 1,
            width: panel.width.saturating_sub(2),
            height: panel.height.saturating_sub(2),
        },
        at,
    );
    Clear.render(row.intersection(painter.area()), painter.buffer);
    row
}

fn mark(painter: &mut Painter<'_>, query: &QueryField<'_>, error: &QueryError) {
    let theme = painter.theme;
    let (start, len) = error.characters(query.text);
    let upto: String = query.text.chars().take(start).collect();
    let word: String = query.text.chars().skip(start).take(len).collect();
    let row = cleared(painter, query.area, 0);
    let x = (query.area.x + 2 + query.before + painter::width(&upto)).min(row.right().saturating_sub(1));
    let marks = painter::width(&word).clamp(1, row.right().saturating_sub(x).max(1));
    let signs = theme.sign("▲", "^").repeat(marks.into());
    painter.put(x, row.y, &Line::from(Span::styled(signs, theme.style(Role::Bad))), marks);
    let room = query.area.height.saturating_sub(4).clamp(1, 3);
    let mut lines = painter::wrap(&error.message, row.width.saturating_sub(2));
    if lines.len() > room.into() {
        let rest = lines.split_off(usize::from(room) - 1).join(" ");
        lines.push(painter::cut(&rest, row.width.saturating_sub(2), theme));
    }
    for (at, line) in (1..).zip(lines) {
        let row = painter::inset(cleared(painter, query.area, at));
        painter.line(row, 0, &Line::from(Span::styled(line, theme.style(Role::Text))));
    }
}

fn candidates(painter: &mut Painter<'_>, panel: Rect, completion: &Completion, vocabulary: Vocabulary<'_>) {
    let theme = painter.theme;
    let row = painter::inset(cleared(painter, panel, 0));
    let about = completion.candidates.get(completion.at).map_or("", |word| vocabulary.about(word));
    let room = row.width.saturating_sub(painter::width(about) + 2);
    // Begin at the current candidate if the candidates do not fit.
    let width = |words: &[String]| words.iter().map(|word| painter::width(word) + 2).sum::<u16>();
    let first = if width(&completion.candidates) <= room { 0 } else { completion.at };
    let mut spans = Vec::new();
    let mut used = 0;
    for (at, word) in completion.candidates.iter().enumerate().skip(first) {
        used += painter::width(word) + 2;
        if used > room {
            break;
        }
        let role = if at == completion.at { Role::Accent } else { Role::Dim };
        spans.push(Span::styled(word.clone(), theme.style(role)));
        spans.push(Span::raw("  "));
    }
    painter.line(row, 0, &Line::from(spans));
    painter.line_right(row, 0, &Line::from(Span::styled(about, theme.style(Role::Dim))));
}
