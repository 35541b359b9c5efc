//! The common parts of overlays: a text that scrolls, and a line of keys.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::input::keys::{self, Context};
use crate::view::painter::Painter;
use crate::view::theme::Role;

/// Width of a line of text, in cells.
pub(super) const READING_WIDTH: u16 = 68;

/// Draws a text, with scrolling if it does not fit.
pub(super) fn scrolled(painter: &mut Painter<'_>, area: Rect, title: &str, lines: &[Line], scroll: u16) {
    scrolled_to(painter, area, title, lines, scroll, READING_WIDTH);
}

/// Draws a text of this width, with scrolling if it does not fit.
pub(super) fn scrolled_to(painter: &mut Painter<'_>, area: Rect, title: &str, lines: &[Line], scroll: u16, width: u16) {
    let theme = painter.theme;
    let height = (lines.len() as u16 + 2).min(area.height.saturating_sub(2));
    let inner = painter.popup(width + 4, height, &Line::from(title));
    let hidden = (lines.len() as u16).saturating_sub(inner.height);
    for (at, line) in lines.iter().skip(scroll.min(hidden).into()).take(inner.height.into()).enumerate() {
        painter.line(inner, at as u16, line);
    }
    if scroll < hidden {
        let more = Line::from(Span::styled(theme.sign("▼ j", "v j"), theme.style(Role::Key)));
        painter.line_right(inner, inner.height.saturating_sub(1), &more);
    }
}

/// Returns the keys of a context with their hints.
pub(super) fn keys_line(context: Context, painter: &Painter<'_>) -> Line<'static> {
    let theme = painter.theme;
    let shown = keys::bindings(context).filter(|binding| !binding.hint.is_empty());
    let keyed = shown.filter_map(|binding| Some((painter.keys.keys(binding).first()?, binding.hint)));
    let spans = keyed.flat_map(|(key, hint)| {
        [Span::styled(key.text(), theme.style(Role::Key)), Span::styled(format!(" {hint}   "), theme.style(Role::Dim))]
    });
    Line::from(spans.collect::<Vec<_>>())
}
