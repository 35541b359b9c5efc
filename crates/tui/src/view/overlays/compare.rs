//! The list of what changed in the minute before the instant on the screen.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::text::scrolled;
use crate::model::history::compare::{ARROW, Section, sections};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of the first column, of values and of differences, in cells.
const COLUMNS: (u16, u16, u16) = (27, 28, 13);

pub(super) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model, scroll: u16) {
    let theme = painter.theme;
    let comparison = model.past.comparison.as_ref();
    let both = comparison.and_then(|comparison| comparison.before.as_ref().zip(comparison.after.as_ref()));
    let Some((before, after)) = both else {
        let text = Line::from(Span::styled("loading", theme.style(Role::Dim)));
        return scrolled(painter, area, " what changed ", &[text], 0);
    };
    let span = format::age(after.at_ms.saturating_sub(before.at_ms));
    let found = sections(before, after);
    let lines = if found.is_empty() {
        vec![Line::from(Span::styled("nothing that is recorded", theme.style(Role::Dim)))]
    } else {
        lines(&found, theme)
    };
    scrolled(painter, area, &format!(" what changed in {span} "), &lines, scroll);
}

fn lines(sections: &[Section], theme: Theme) -> Vec<Line<'static>> {
    let (what, values, difference) = COLUMNS;
    let mut lines: Vec<Line> = Vec::new();
    for section in sections {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(Span::styled(section.title, theme.style(Role::Title))));
        for change in &section.changes {
            let text = change.values.replace(ARROW, theme.sign("→", "->"));
            let role = if change.is_bad { Role::Bad } else { Role::Text };
            let cell = |text: &str, width: u16| {
                let text = painter::cut(text, width - 1, theme);
                let room = usize::from(width.saturating_sub(painter::width(&text)));
                format!("{text}{:room$}", "")
            };
            lines.push(Line::from(vec![
                Span::styled(format!("  {}", cell(&change.what, what)), theme.style(Role::Text)),
                Span::styled(cell(&text, values), theme.style(Role::Dim)),
                Span::styled(painter::cut(&change.difference, difference, theme), theme.style(role)),
            ]));
        }
    }
    lines
}
