//! A question before an action that cannot be undone.

use ratatui::text::{Line, Span};

use super::text::keys_line;
use crate::model::input::keys::Context;
use crate::model::overlay::Question;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Width of the question, in cells.
const WIDTH: u16 = 60;

pub(super) fn render(painter: &mut Painter<'_>, model: &Model, question: &Question) {
    let theme = painter.theme;
    let (title, text) = match question {
        Question::EndNode => {
            let name = model.hello().map_or("this node", |hello| hello.node.name.as_str());
            let processes = model.frame().map_or(0, |frame| frame.observer.process_count);
            let text = format!("The node runs in this program. Its {} processes end.", format::grouped(processes));
            (format!(" end {name}? "), text)
        }
        Question::RestartChild { name, path } => {
            let text = format!(
                "Its supervisor stops it as its specification says, and starts it again ({path}). \
                 This uses none of the allowed restarts."
            );
            (format!(" restart {name}? "), text)
        }
    };
    let lines = painter::wrap(&text, WIDTH - 4);
    let inner = painter.popup(WIDTH, lines.len() as u16 + 5, &Line::from(title));
    for (at, line) in (1..).zip(&lines) {
        painter.line(inner, at, &Line::from(Span::styled(line.clone(), theme.style(Role::Text))));
    }
    let keys = keys_line(Context::Ask, painter);
    painter.line(inner, lines.len() as u16 + 2, &keys);
}
