//! The Events view: the current lints, and below them the recent process events, newest first.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::EventInfo;

use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::lints;
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let area = lints::render(painter, area, model);
    let title = Line::from(Span::styled(" events ", theme.style(Role::Title)));
    let inner = painter::inset(painter.panel(area, &title, &counts(model, theme)));
    let Some(events) = &model.events.newest else {
        return painter.note(inner, "waiting for events");
    };
    if events.events.is_empty() {
        return painter.note(inner, "no process has crashed, restarted or got stuck");
    }
    let heading = format!("{:>9}  {:<9}{:<18}{:<18}{}", "uptime", "event", "process", "name", "reason");
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let room = usize::from(inner.height.saturating_sub(1));
    for (at, event) in events.events.iter().rev().skip(model.events.top).take(room).enumerate() {
        painter.line(inner, at as u16 + 1, &line(event, inner.width, theme));
    }
}

/// Returns the number of events, and the number of events dropped in storms.
fn counts(model: &Model, theme: Theme) -> Line<'static> {
    let Some(events) = &model.events.newest else { return Line::default() };
    let mut spans = vec![Span::styled(format!(" {} in all ", format::grouped(events.noted)), theme.style(Role::Dim))];
    if events.dropped > 0 {
        let text = format!("and {} more in storms ", format::grouped(events.dropped));
        spans.push(Span::styled(text, theme.style(Role::Warn)));
    }
    Line::from(spans)
}

fn line(event: &EventInfo, width: u16, theme: Theme) -> Line<'static> {
    let (word, role) = match event.kind.as_str() {
        "crash" => ("crash", Role::Bad),
        "restart" => ("restart", Role::Good),
        "restart_failed" => ("failed", Role::Bad),
        "child_lost" => ("lost", Role::Bad),
        "gave_up" => ("gave up", Role::Bad),
        "stuck" => ("stuck", Role::Warn),
        other => (other, Role::Text),
    };
    let mut reason = event.reason.clone().unwrap_or_default();
    if let Some(new) = &event.new {
        let arrow = theme.sign("→", "->");
        reason = format!("{arrow} {new}  {reason}");
    }
    let name = event.name.as_deref().unwrap_or_default();
    let left = width.saturating_sub(9 + 2 + 9 + 18 + 18);
    Line::from(vec![
        Span::styled(format!("{:>9}  ", format::moment(event.at_ms)), theme.style(Role::Dim)),
        Span::styled(format!("{:<9}", painter::cut(word, 8, theme)), theme.style(role)),
        Span::styled(format!("{:<18}", painter::cut(&event.pid, 17, theme)), theme.style(Role::Text)),
        Span::styled(format!("{:<18}", painter::cut(name, 17, theme)), theme.style(Role::Strong)),
        Span::styled(painter::cut(&reason, left, theme), theme.style(Role::Text)),
    ])
}
