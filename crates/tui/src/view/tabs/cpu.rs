//! The CPU view: where the CPU time of the node goes.

use ratatui::layout::{Margin, Rect};
use ratatui::text::{Line, Span};

use crate::model::Model;
use crate::view::painter::Painter;
use crate::view::panels::chart;
use crate::view::theme::Role;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let span = chart::span_text(area.inner(Margin::new(1, 1)), theme);
    let cores = model.hello.as_ref().map_or(0, |hello| hello.node.cores);
    let used = format!("{:.2} of {cores} cores ", model.histories.cpu.recent(1000));
    let title = Line::from(vec![
        Span::styled(" cpu ", theme.style(Role::Title)),
        Span::styled(used, theme.style(Role::Accent)),
    ]);
    let right = Line::from(Span::styled(format!(" {span} "), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    chart::render(painter, inner, &model.histories.cpu);
}
