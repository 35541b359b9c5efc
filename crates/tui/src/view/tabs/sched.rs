//! The Schedulers view: the panel of the schedulers on the whole screen.

use ratatui::layout::Rect;

use crate::model::Model;
use crate::view::painter::Painter;
use crate::view::panels::schedulers;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    schedulers::render(painter, area, model);
}
