//! Statistics of the node's processes, and the cost of observing: the node's share and this observer's share.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::ends::{Ends, running_and_ready};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Returns a short summary of the cost, for narrow screens.
pub(crate) fn summary(model: &Model, theme: Theme) -> String {
    let Some(now) = &model.frame else { return String::new() };
    let node = format::percent(now.cost.duty_pct);
    let own = format::percent(model.own.cpu_pct);
    format!("observing: node {node} {} here {own}", theme.dot())
}

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 4 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" processes ", theme.style(Role::Title)));
    let inner = painter::inset(painter.panel(area, &title, &Line::default()));
    let Some(now) = model.frame.as_deref() else { return };
    let (seen, cost) = (&now.observer, &now.cost);
    let budget = if cost.duty_pct > 1.0 { Role::Warn } else { Role::Good };
    let hz = format!("{:.0} of {:.0} Hz", cost.actual_hz, cost.target_hz);
    let drawn = format!("{} at {:.0} Hz", format::bytes_per_sec(model.own.drawn_bytes_per_sec), model.frame_hz);
    let ends = Ends::of(seen);
    let crashed = if ends.crashed > 0 { Role::Warn } else { Role::Text };
    let (running, ready) = running_and_ready(seen);
    let taken = format!("{} {} {}", format::short(ends.killed as f64), theme.dot(), format::short(ends.linked as f64));
    let stuck = if seen.stuck.is_empty() { Role::Text } else { Role::Bad };
    let figures = [
        ("alive", format::grouped(seen.process_count), Role::Strong),
        ("running", format::grouped(running), Role::Text),
        ("ready", format::grouped(ready), Role::Text),
        ("waiting", format::grouped(seen.waiting), Role::Text),
        ("stuck", stuck_text(&seen.stuck, theme), stuck),
        ("spawned/s", format::short(seen.spawned_per_sec), Role::Text),
        ("finished/s", format::short(seen.finished_per_sec), Role::Text),
        ("spawned", format::short(seen.spawned_total as f64), Role::Text),
        ("crashed", format::short(ends.crashed as f64), crashed),
        ("killed, by a link", taken, Role::Text),
        ("messages/s", format::short(seen.messages_per_sec), Role::Text),
    ];
    let dropped = seen.log.as_ref().map_or(0, |log| log.dropped_total);
    let observing = [
        ("node's share of a core", format::percent(cost.duty_pct), budget),
        ("a snapshot", format!("{:.0} {}s", cost.snapshot_us, theme.micro()), Role::Text),
        ("snapshots", hz, Role::Text),
        ("this program", format::percent(model.own.cpu_pct), Role::Text),
        ("received", format::bytes_per_sec(model.own.received_bytes_per_sec), Role::Text),
        ("drawn", drawn, Role::Text),
        ("frames skipped", format::grouped(now.skipped), Role::Text),
        ("log lines dropped", format::grouped(dropped), if dropped > 0 { Role::Bad } else { Role::Text }),
    ];
    let split = inner.height.saturating_sub(observing.len() as u16 + 1).min(figures.len() as u16);
    for (at, (label, value, role)) in figures.into_iter().take(split.into()).enumerate() {
        let value = Line::from(Span::styled(value, theme.style(role)));
        painter.labelled(inner, at as u16, label, &value);
    }
    let rule = format!(" observing {}", theme.sign("─", "-").repeat(area.width.into()));
    painter.line(inner, split, &Line::from(Span::styled(rule, theme.style(Role::Dim))));
    for (at, (label, value, role)) in observing.into_iter().enumerate() {
        let value = Line::from(Span::styled(value, theme.style(role)));
        painter.labelled(inner, split + 1 + at as u16, label, &value);
    }
}

fn stuck_text(stuck: &[String], theme: Theme) -> String {
    match stuck {
        [] => "0".to_owned(),
        [pid] => pid.clone(),
        [first, rest @ ..] => format!("{first} {} {} more", theme.dot(), rest.len()),
    }
}
