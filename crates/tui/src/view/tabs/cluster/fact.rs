//! Facts in a row: a label and a value each, as many as fit.

use ratatui::text::Span;

use crate::view::painter;
use crate::view::theme::{Role, Theme};

/// A label, a value, and its role. Without a label, the value stands alone.
pub(super) type Fact = (&'static str, String, Role);

/// Returns as many facts as fit. A value without a label is cut if there is not enough room for it.
pub(super) fn facts_within(theme: Theme, width: u16, facts: impl IntoIterator<Item = Fact>) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (label, value, role) in facts {
        let gap = if used == 0 { "" } else { "   " };
        let (is_bare, label) = (label.is_empty(), format!("{gap}{label}{}", if label.is_empty() { "" } else { " " }));
        let room = width.saturating_sub(used + painter::width(&label));
        let value = if is_bare { painter::cut(&value, room, theme) } else { value };
        used += painter::width(&label) + painter::width(&value);
        if used > width || value.is_empty() {
            break;
        }
        spans.push(Span::styled(label, theme.style(Role::Dim)));
        spans.push(Span::styled(value, theme.style(role)));
    }
    spans
}

/// Returns the text of a value, or a dash.
pub(super) fn optional<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}
