//! Notices: recent results and refusals by the node, shown in full for some seconds over the last rows of the view.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use crate::model::Model;
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Width of the sign and of the right margin, in cells.
const MARGIN: u16 = 4;

pub(crate) fn render(painter: &mut Painter<'_>, body: Rect, model: &Model) {
    let Some((text, is_error)) = notice(model) else { return };
    let theme = painter.theme;
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
    let (sign, role) =
        if is_error { (theme.sign(" ✗ ", " ! "), Role::Bad) } else { (theme.sign(" ✓ ", " * "), Role::Good) };
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
