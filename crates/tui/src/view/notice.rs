//! Notices: recent results and refusals by the node, shown in full for some seconds: at the end of the footer, where they
//! cover nothing, or over the last rows of the view if they are too long for that.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use crate::model::Model;
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of the sign and of the right margin, in cells.
const MARGIN: u16 = 4;

/// Cells of the footer that always belong to the keys.
const KEYS_MIN: u16 = 24;

/// Returns the notice as the end of a footer of `width` cells, if there is one and it fits there.
pub(crate) fn in_footer(model: &Model, theme: Theme, width: u16) -> Option<Line<'static>> {
    let (text, is_error) = notice(model)?;
    let (sign, role) = sign(theme, is_error);
    let spans = vec![Span::styled(sign, theme.style(role)), Span::styled(format!("{text} "), theme.style(Role::Text))];
    let line = Line::from(spans);
    (line.width() + usize::from(KEYS_MIN) <= usize::from(width)).then_some(line)
}

fn sign(theme: Theme, is_error: bool) -> (&'static str, Role) {
    if is_error { (theme.sign(" ✗ ", " ! "), Role::Bad) } else { (theme.sign(" ✓ ", " * "), Role::Good) }
}

pub(crate) fn render(painter: &mut Painter<'_>, body: Rect, model: &Model) {
    let Some((text, is_error)) = notice(model) else { return };
    let theme = painter.theme;
    if in_footer(model, theme, body.width).is_some() {
        return;
    }
    let width = body.width.saturating_sub(MARGIN);
    let mut lines = painter::wrap(text, width);
    let room = usize::from(body.height / 2).max(1);
    if lines.len() > room {
        let rest = lines.split_off(room - 1).join(" ");
        lines.push(painter::cut(&rest, width, theme));
    }
    let height = (lines.len() as u16).min(body.height);
    let area = Rect { y: body.bottom() - height, height, ..body };
    Clear.render(area, painter.buffer);
    let (sign, role) = sign(theme, is_error);
    for (at, line) in lines.into_iter().enumerate() {
        let sign = if at == 0 { sign } else { "   " };
        let spans = vec![Span::styled(sign, theme.style(role)), Span::styled(line, theme.style(Role::Text))];
        painter.line(area, at as u16, &Line::from(spans));
    }
}

/// Returns the last notice. A filter that is being typed has its error below the field.
fn notice(model: &Model) -> Option<(&str, bool)> {
    model.status.as_ref().map(|status| (status.text.as_str(), status.is_error))
}
