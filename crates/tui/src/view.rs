//! Draws the model, for the screen, for `--once` and for replays. Pure: equal models give equal cells.

mod footer;
mod glossary;
mod header;
mod notice;
mod overlays;
mod painter;
mod panels;
mod tabs;
mod theme;
pub(crate) mod tiles;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::model::tab::Tab;
use crate::model::{Link, Model, layout};
use crate::view::painter::Painter;
use crate::view::theme::Theme;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame, model: &Model) {
    if let Some(cursor) = draw_on(frame.buffer_mut(), model) {
        frame.set_cursor_position(cursor);
    }
}

/// Draws the whole screen on a buffer. Returns the position of the terminal's cursor, if it is shown.
fn draw_on(buffer: &mut Buffer, model: &Model) -> Option<(u16, u16)> {
    let theme = Theme::of(model.capabilities).with(model.palette);
    let mut painter =
        Painter { buffer, theme, keys: &model.keys, is_past: model.past.shown_ms.is_some(), cursor: None };
    let area = painter.area();
    if layout::too_small(model.size) || layout::too_small(size(area)) {
        too_small(&mut painter, area, model.demo);
        return None;
    }
    screen(&mut painter, area, model);
    painter.cursor
}

fn screen(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    header::render(painter, Rect { height: 2, ..area }, model);
    let body = layout::body(model.size).into();
    match model.tab {
        Tab::Node => tabs::node::render(painter, body, model),
        Tab::Bench => tabs::bench::render(painter, body, model),
        Tab::Processes => tabs::processes::render(painter, body, model),
        Tab::Tree => tabs::tree::render(painter, model),
        Tab::Events => tabs::events::render(painter, body, model),
        Tab::Wasm => tabs::wasm::render(painter, model),
        Tab::Time => tabs::time::render(painter, model),
        Tab::Store => tabs::store::render(painter, model),
        Tab::Serve => tabs::serve::render(painter, model),
        Tab::Cluster => tabs::cluster::render(painter, model),
        Tab::Topics => tabs::topics::render(painter, model),
        Tab::Cpu => tabs::cpu::render(painter, model),
        Tab::Sched => tabs::sched::render(painter, model),
    }
    if matches!(model.link, Link::Lost { .. }) {
        painter.buffer.set_style(body, Style::new().add_modifier(Modifier::DIM));
    }
    notice::render(painter, body, model);
    footer::render(painter, painter::row(area, area.height - 1), model);
    overlays::render(painter, area, model);
    cursor(painter, model);
}

fn size(area: Rect) -> crate::model::input::key::Size {
    crate::model::input::key::Size::new(area.width, area.height)
}

fn too_small(painter: &mut Painter<'_>, area: Rect, is_demo: bool) {
    let need = layout::SIZE_MIN;
    let demo = if is_demo { "DEMO, " } else { "" };
    let text =
        format!("{demo}terminal too small: need {}x{}, have {}x{}", need.width, need.height, area.width, area.height);
    // Wrap the sentence: its end matters most, and it may not fit on one row.
    for (at, part) in painter::wrap(&text, area.width).into_iter().enumerate() {
        painter.line(area, at as u16, &Line::from(part));
    }
}

/// Places the terminal's cursor in the filter field while it is edited.
fn cursor(painter: &mut Painter<'_>, model: &Model) {
    let field = model.table.field.as_ref().filter(|_| model.tab == Tab::Processes && model.overlay.is_none());
    let Some(field) = field else { return };
    let table = layout::processes(model.size, model.detail.is_some()).table;
    let before: String = field.edit.text().chars().take(field.edit.cursor()).collect();
    let x = table.x + 2 + 12 + painter::width(&before);
    painter.cursor = Some((x.min(table.x + table.width.saturating_sub(2)), table.y));
}

#[cfg(test)]
mod tests;
