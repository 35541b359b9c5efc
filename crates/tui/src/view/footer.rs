//! The last row: hints for the keys that apply now, from the table of bindings.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::Model;
use crate::model::input::keys::{self, Context};
use crate::view::notice;
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let notice = notice::in_footer(model, theme, area.width).unwrap_or_default();
    painter.line_right(area, 0, &notice);
    let area = Rect { width: area.width - notice.width() as u16, ..area };
    let mut spans: Vec<Span> = Vec::new();
    for (key, hint) in fitting(hints(model), area.width) {
        spans.push(Span::raw(" "));
        spans.push(Span::styled(key, theme.style(Role::Key)));
        spans.push(Span::styled(format!(" {hint} "), theme.style(Role::Dim)));
    }
    painter.line(area, 0, &Line::from(spans));
}

type Hint = (String, &'static str);

fn width((key, hint): &Hint) -> u16 {
    painter::width(key) + painter::width(hint) + 3
}

/// Returns the hints that fit: first the view's own, then the global ones. Help and quit are always shown.
fn fitting((own, global): (Vec<Hint>, Vec<Hint>), room: u16) -> Vec<Hint> {
    let mut used: u16 = global.iter().take(2).map(width).sum();
    let mut fits = |hint: &Hint| {
        let fits = used + width(hint) <= room;
        used += if fits { width(hint) } else { 0 };
        fits
    };
    let own: Vec<Hint> = own.into_iter().filter(|hint| fits(hint)).collect();
    let more = global.iter().skip(2).filter(|hint| fits(hint)).cloned().collect::<Vec<_>>();
    own.into_iter().chain(global.into_iter().take(2)).chain(more).collect()
}

/// Returns key and word of each binding that has a hint and is not shadowed: those of the view, and the global ones.
fn hints(model: &Model) -> (Vec<Hint>, Vec<Hint>) {
    let mut seen = Vec::new();
    let (mut own, mut global) = (Vec::new(), Vec::new());
    for context in model.contexts() {
        for binding in keys::bindings(context).filter(|binding| model.offers(binding.action)) {
            let Some(&key) = model.keys.keys(binding).first() else { continue };
            if seen.contains(&key) || binding.hint.is_empty() {
                continue;
            }
            seen.push(key);
            let hints = if context == Context::Global { &mut global } else { &mut own };
            hints.push((key.text(), binding.hint));
        }
    }
    (own, global)
}
