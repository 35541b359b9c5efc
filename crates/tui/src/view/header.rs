//! The first two rows: the views and the connection state, then the node's key figures.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::Role as Grant;

use crate::model::ends::{Ends, running_and_ready};
use crate::model::{Link, Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::lints;
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let tabs = model.tabs();
    if layout::tabs(model.size, model.tab, &tabs).next().is_some_and(|(.., first)| first.x > 0) {
        painter.line(area, 0, &Line::from(Span::styled(" rusm-top", theme.style(Role::Accent))));
    }
    let mut used = 0;
    for (tab, word, cells) in layout::tabs(model.size, model.tab, &tabs) {
        let style = theme.style(if tab == model.tab { Role::Selected } else { Role::Text });
        let number = Span::styled(format!(" {} ", tab.key()), style);
        let title = Span::styled(format!("{word} "), style);
        let key = if tab == model.tab { number } else { number.style(theme.style(Role::Dim)) };
        painter.put(cells.x, 0, &Line::from(vec![key, title]), cells.width);
        used = cells.x + cells.width;
    }
    let room = Rect { x: area.x + used, width: area.width.saturating_sub(used + 1), ..area };
    painter.line_right(room, 0, &state(model, theme, room.width));
    key_figures(painter, painter::inset(painter::row(area, 1)), model);
}

/// Returns the right end of the first row. On a narrow screen, the least important parts are dropped first.
fn state(model: &Model, theme: Theme, room: u16) -> Line<'static> {
    let mut spans = Vec::new();
    let mut badge = |text: &str, role| {
        spans.push(Span::styled(
            format!(" {text} "),
            theme.style(role).add_modifier(ratatui::style::Modifier::REVERSED),
        ));
        spans.push(Span::raw(" "));
    };
    if model.demo {
        badge("DEMO", Role::Warn);
    }
    if model.replay {
        badge("REPLAY", Role::Warn);
    }
    if model.paused && !model.past.is_on() {
        badge("PAUSED", Role::Warn);
    }
    let silent = model.silence().map(|silence| format!("{} silent for {} s", theme.sign("●", "*"), silence.as_secs()));
    spans.push(match model.link {
        Link::Live if silent.is_some() => Span::styled(silent.unwrap_or_default(), theme.style(Role::Bad)),
        Link::Live if model.frame.as_ref().is_some_and(|frame| frame.stalled) => {
            Span::styled(format!("{} stalled", theme.sign("●", "*")), theme.style(Role::Warn))
        }
        Link::Live if model.greeted => Span::styled(format!("{} live", theme.sign("●", "*")), theme.style(Role::Good)),
        // Before the greeting, nothing can be requested from the node.
        Link::Live | Link::Connecting { .. } => {
            Span::styled(format!("{} connecting", theme.sign("◌", "o")), theme.style(Role::Warn))
        }
        Link::Lost { .. } => Span::styled(format!("{} lost", theme.sign("○", "x")), theme.style(Role::Bad)),
    });
    let mut line = Line::from(spans);
    if line.width() > room.into()
        && let Some(last) = line.spans.last_mut()
    {
        // The sign alone is enough.
        last.content = last.content.chars().take(1).collect::<String>().into();
    }
    for span in facts(model, theme) {
        if line.width() + span.width() + 2 < room.into() {
            line.spans.insert(0, Span::raw("  "));
            line.spans.insert(0, span);
        }
    }
    line
}

/// Returns the instant on the screen: its time of day in UTC, and how long it is ago.
fn past(model: &Model, at_ms: u64) -> String {
    let started_ms = model.hello.as_ref().map_or(0, |hello| hello.node.started_unix_ms);
    let clock = if started_ms > 0 { format::time_of_day(started_ms + at_ms) } else { format::moment(at_ms) };
    let ago = format::age(model.past.live_ms.saturating_sub(at_ms));
    format!("PAST {clock} (-{ago})")
}

/// Returns the identity of the node, most important part first.
fn facts(model: &Model, theme: Theme) -> Vec<Span<'static>> {
    let Some(hello) = &model.hello else {
        return vec![Span::styled(model.target.clone(), theme.style(Role::Dim))];
    };
    let mut facts = Vec::new();
    if hello.node.build == "debug" {
        facts.push(Span::styled("debug build", theme.style(Role::Warn)));
    }
    if model.role() == Some(Grant::Observe) {
        facts.push(Span::styled("observe only", theme.style(Role::Dim)));
    }
    facts.push(Span::styled(hello.node.name.clone(), theme.style(Role::Strong)));
    if hello.node.cores > 0 {
        let text = format!("{} cores", hello.node.cores);
        facts.push(Span::styled(text, theme.style(Role::Dim)));
    }
    if !hello.node.version.is_empty() {
        facts.push(Span::styled(format!("rusm {}", hello.node.version), theme.style(Role::Dim)));
    }
    facts
}

/// Draws pairs of a label and a value, as many as fit.
fn key_figures(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(now) = &model.frame else {
        let text = if model.hello.is_some() { "waiting for the first frame" } else { "waiting for the node" };
        return painter.line(area, 0, &Line::from(Span::styled(text, theme.style(Role::Dim))));
    };
    let seen = &now.observer;
    let badge = lints::badge(model, theme);
    let mut spans: Vec<Span> = Vec::new();
    if let Some(at_ms) = model.past.shown_ms.or(model.past.cursor_ms) {
        // In this row there is always room for it.
        let style = theme.style(Role::Warn).add_modifier(ratatui::style::Modifier::REVERSED);
        spans.extend([Span::styled(format!(" {} ", past(model, at_ms)), style), Span::raw(" ")]);
    }
    spans.extend(badge.iter().cloned());
    let mut used = spans.iter().map(|span| span.width() as u16).sum::<u16>();
    let mut is_full = false;
    let mut pair = |label: &str, value: String, role: Role| {
        let gap = if used == 0 { 0 } else { 2 };
        let width = gap + painter::width(label) + 1 + painter::width(&value);
        is_full |= used + width > area.width;
        if is_full {
            return;
        }
        used += width;
        spans.push(Span::raw(" ".repeat(gap.into())));
        spans.push(Span::styled(format!("{label} "), theme.style(Role::Dim)));
        spans.push(Span::styled(value, theme.style(role)));
    };
    if !seen.stuck.is_empty() && badge.is_none() {
        pair("stuck", seen.stuck.len().to_string(), Role::Bad);
    }
    pair("up", format::clock(now.uptime_ms), Role::Text);
    pair("procs", format!("{:>9}", format::count_within(seen.process_count, 11)), Role::Strong);
    pair("cpu", cpu(model, seen.cpu_pct), Role::Text);
    pair("spawn/s", format!("{:>5}", format::short(seen.spawned_per_sec)), Role::Text);
    pair("msgs/s", format!("{:>5}", format::short(seen.messages_per_sec)), Role::Text);
    if let Some(others) = seen.others_pct {
        pair("others", format::cores(others), Role::Text);
    }
    pair("rss", format::bytes_short(seen.memory.rss_bytes), Role::Text);
    let ends = Ends::of(seen);
    pair("crashed", format::short(ends.crashed as f64), warn_if(ends.crashed > 0));
    let (running, ready) = running_and_ready(seen);
    pair("run", format::short(running as f64), Role::Text);
    pair("ready", format::short(ready as f64), Role::Text);
    if ends.killed > 0 {
        pair("killed", format::short(ends.killed as f64), Role::Text);
    }
    if ends.linked > 0 {
        pair("by link", format::short(ends.linked as f64), Role::Text);
    }
    pair("wait", format::short(seen.waiting as f64), Role::Text);
    pair("observers", seen.clients.to_string(), Role::Text);
    pair("profile", now.profile.clone(), Role::Text);
    painter.line(area, 0, &Line::from(spans));
}

/// Returns the cores that the node uses, of those that it may use.
fn cpu(model: &Model, pct: f64) -> String {
    let cores = model.hello.as_ref().map_or(0, |hello| hello.node.cores);
    if cores > 0 { format!("{} of {cores}", format::cores(pct)) } else { format!("{} cores", format::cores(pct)) }
}

const fn warn_if(is: bool) -> Role {
    if is { Role::Warn } else { Role::Text }
}
