//! Draws the model. Pure: equal models give equal cells.

mod bench;
mod big;
mod chart;
mod cost;
mod detail;
mod events;
mod footer;
mod header;
mod latency;
mod lints;
mod memory;
mod node;
mod notice;
mod overlays;
mod paint;
mod processes;
mod rows;
mod runs;
mod schedulers;
mod store;
mod theme;
mod time;
mod topics;
mod tree;
mod wasm;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::model::tab::Tab;
use crate::model::{Link, Model, layout};

/// Draws the whole screen.
pub fn draw(frame: &mut Frame, model: &Model) {
    let area = frame.area();
    if layout::too_small(model.size) || layout::too_small(size(area)) {
        return too_small(frame, area, model.demo);
    }
    header::render(frame, Rect { height: 2, ..area }, model);
    let body = layout::body(model.size).into();
    match model.tab {
        Tab::Node => node::render(frame, body, model),
        Tab::Bench => bench::render(frame, body, model),
        Tab::Processes => processes::render(frame, body, model),
        Tab::Tree => tree::render(frame, model),
        Tab::Events => events::render(frame, body, model),
        Tab::Wasm => wasm::render(frame, model),
        Tab::Time => time::render(frame, model),
        Tab::Store => store::render(frame, model),
        Tab::Topics => topics::render(frame, model),
    }
    if matches!(model.link, Link::Lost { .. }) {
        frame.buffer_mut().set_style(body, Style::new().add_modifier(Modifier::DIM));
    }
    notice::render(frame, body, model);
    footer::render(frame, paint::row(area, area.height - 1), model);
    overlays::render(frame, area, model);
    cursor(frame, model);
}

fn size(area: Rect) -> crate::model::key::Size {
    crate::model::key::Size::new(area.width, area.height)
}

fn too_small(frame: &mut Frame, area: Rect, is_demo: bool) {
    let need = layout::SIZE_MIN;
    let demo = if is_demo { "DEMO, " } else { "" };
    let text =
        format!("{demo}terminal too small: need {}x{}, have {}x{}", need.width, need.height, area.width, area.height);
    // Wrap the sentence: its end matters most, and it may not fit on one row.
    for (at, part) in paint::wrap(&text, area.width).into_iter().enumerate() {
        paint::line(frame, area, at as u16, &Line::from(part));
    }
}

/// Places the terminal's cursor in the filter field while it is edited.
fn cursor(frame: &mut Frame, model: &Model) {
    let field = model.table.field.as_ref().filter(|_| model.tab == Tab::Processes && model.overlay.is_none());
    let Some(field) = field else { return };
    let table = layout::processes(model.size, model.detail.is_some()).table;
    let before: String = field.edit.text().chars().take(field.edit.cursor()).collect();
    let x = table.x + 2 + 12 + paint::width(&before);
    frame.set_cursor_position((x.min(table.x + table.width.saturating_sub(2)), table.y));
}

#[cfg(test)]
mod tests;
