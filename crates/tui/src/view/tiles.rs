//! Draws several nodes on one screen, each with its name above it. The node with the focus gets the keys.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::Model;
use crate::model::input::keys::{self, Action, Context};
use crate::model::layout::tiles::Tile;
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// A node on the screen.
pub(crate) struct ShownNode<'a> {
    pub(crate) tile: Tile,
    pub(crate) model: &'a Model,
    pub(crate) has_focus: bool,
}

/// Draws the nodes of a page, of `count` nodes in all.
pub(crate) fn draw(frame: &mut Frame, nodes: &[ShownNode<'_>], count: usize) {
    let screen = frame.area();
    for node in nodes {
        let area = Rect::from(node.tile.screen);
        let mut buffer = Buffer::empty(Rect::new(0, 0, area.width, area.height));
        let cursor = super::draw_on(&mut buffer, node.model);
        for position in area.intersection(screen).positions() {
            frame.buffer_mut()[position] = buffer[(position.x - area.x, position.y - area.y)].clone();
        }
        if let Some((x, y)) = cursor.filter(|_| node.has_focus) {
            frame.set_cursor_position((area.x + x, area.y + y));
        }
        let mut painter = Painter {
            buffer: frame.buffer_mut(),
            theme: Theme::of(node.model.capabilities).with(node.model.palette),
            keys: &node.model.keys,
            is_past: false,
            cursor: None,
        };
        title(&mut painter, node, count);
        separator(&mut painter, node.tile);
    }
}

/// Draws the row above a node: its name and its number.
fn title(painter: &mut Painter<'_>, node: &ShownNode<'_>, count: usize) {
    let area = Rect::from(node.tile.title).intersection(painter.area());
    if area.is_empty() {
        return;
    }
    let theme = painter.theme;
    let model = node.model;
    let name = model.hello.as_ref().map_or(model.target.as_str(), |hello| hello.node.name.as_str());
    let role = if node.has_focus { Role::Selected } else { Role::Strong };
    let border = theme.borders().horizontal_top.repeat(area.width.into());
    painter.line(area, 0, &Line::from(Span::styled(border, theme.style(Role::Border))));
    let name = painter::cut(name, area.width.saturating_sub(16), theme);
    let left = Line::from(vec![
        Span::styled(format!(" {name} "), theme.style(role)),
        Span::styled(format!(" {} of {count} ", node.tile.node + 1), theme.style(Role::Dim)),
    ]);
    let width = (left.width() as u16).min(area.width.saturating_sub(2));
    painter.put(area.x + 2, area.y, &left, width);
    if node.has_focus {
        let keys = Line::from(Span::styled(keys(model), theme.style(Role::Dim)));
        let keys_width = keys.width() as u16;
        if width + keys_width + 4 < area.width {
            painter.put(area.right() - 2 - keys_width, area.y, &keys, keys_width);
        }
    }
}

/// Returns the keys that change the focus, with what they do.
fn keys(model: &Model) -> String {
    let word = |action| match action {
        Action::NextNode => Some("next node"),
        Action::OneNode => Some("this one"),
        _ => None,
    };
    let bindings = keys::bindings(Context::Global);
    let keyed = bindings.filter_map(|binding| {
        Some(format!(" {} {} ", model.keys.keys(binding).first()?.text(), word(binding.action)?))
    });
    keyed.collect()
}

/// Draws the column at the right of a node that has another one beside it.
fn separator(painter: &mut Painter<'_>, tile: Tile) {
    let x = tile.screen.x + tile.screen.width;
    let style = painter.theme.style(Role::Border);
    let line = painter.theme.borders().vertical_left;
    for y in tile.title.y..tile.screen.y + tile.screen.height {
        if let Some(cell) = painter.buffer.cell_mut((x, y)) {
            cell.set_symbol(line).set_style(style);
        }
    }
}
