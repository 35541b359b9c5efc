//! Percentiles of the last second and of the whole run, with bars on a logarithmic scale.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{DelaysInfo, LatencySnapshot};

use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

type Percentile = (&'static str, fn(&LatencySnapshot) -> u64);

const PERCENTILES: [Percentile; 6] = [
    ("p50", |l| l.p50_ns),
    ("p90", |l| l.p90_ns),
    ("p95", |l| l.p95_ns),
    ("p99", |l| l.p99_ns),
    ("p99.9", |l| l.p999_ns),
    ("max", |l| l.max_ns),
];

/// Width of a label and of a duration, in cells.
const LABEL: u16 = 6;
const VALUE: u16 = 9;

/// Draws the delays of all processes, also while a scenario measures a latency of its own.
pub(crate) fn of_processes(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    match model.frame().and_then(|frame| frame.observer.delays.as_ref()) {
        Some(delays) => of_the_node(painter, area, delays),
        None => of_run(painter, area, model),
    }
}

/// Draws the latency that the scenario measures; without one, the delays of all processes.
pub(crate) fn of_run(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let frame = model.frame();
    let measured = model.frame.as_deref().filter(|now| now.latency.count + now.latency_window.count > 0);
    if let (None, Some(delays)) = (measured, frame.and_then(|frame| frame.observer.delays.as_ref())) {
        return of_the_node(painter, area, delays);
    }
    let subject = subject(model);
    let inner = panel(painter, area, &subject);
    let Some(now) = measured else { return painter.note(inner, "nothing measured yet") };
    let heading =
        format!("{:LABEL$}{:>VALUE$}{:>VALUE$}", "", "last 1 s", "run", LABEL = LABEL.into(), VALUE = VALUE.into());
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let bar_cells = inner.width.saturating_sub(LABEL + 2 * VALUE + 1);
    for (at, (label, of)) in PERCENTILES.iter().enumerate() {
        let window = now.latency_window;
        let mut spans = vec![Span::styled(format!("{label:<6}"), theme.style(Role::Dim))];
        spans.push(duration(&window, *of, theme, Role::Strong));
        spans.push(duration(&now.latency, *of, theme, Role::Text));
        if bar_cells >= 6 {
            spans.push(Span::raw(" "));
            let source = if window.count > 0 { &window } else { &now.latency };
            spans.extend(painter::bar(theme, bar_cells, log_share(source, of(source)), |_| theme.style(Role::Delay)));
        }
        painter.line(inner, at as u16 + 1, &Line::from(spans));
    }
    let sampling =
        if now.latency_sampling > 1 { format!(", 1 of {} timed", now.latency_sampling) } else { String::new() };
    let counted = format!(
        "n {} in 1 s, {} in all{sampling}",
        format::short(now.latency_window.count as f64),
        format::short(now.latency.count as f64)
    );
    if inner.height > 8 {
        painter.line(inner, inner.height - 1, &Line::from(Span::styled(counted, theme.style(Role::Dim))));
    }
}

/// Draws the panel with the description of the latency, as far as it fits.
fn panel(painter: &mut Painter<'_>, area: Rect, subject: &str) -> Rect {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" latency ", theme.style(Role::Title)));
    let right = if subject.is_empty() { String::new() } else { format!(" {subject} ") };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    painter::inset(painter.panel(area, &title, &right))
}

/// Draws the delays of all processes of the node.
fn of_the_node(painter: &mut Painter<'_>, area: Rect, delays: &DelaysInfo) {
    let theme = painter.theme;
    let inner = panel(painter, area, "of all processes, last 10 s");
    let of = [&delays.scheduling, &delays.poll, &delays.handling];
    let heading = format!(
        "{:LABEL$}{:>VALUE$}{:>VALUE$}{:>VALUE$}",
        "",
        "ready",
        "poll",
        "handled",
        LABEL = LABEL.into(),
        VALUE = VALUE.into()
    );
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let bar_cells = inner.width.saturating_sub(LABEL + 3 * VALUE + 1);
    for (at, (label, percentile)) in PERCENTILES.iter().enumerate() {
        let mut spans = vec![Span::styled(format!("{label:<6}"), theme.style(Role::Dim))];
        spans.extend(
            of.iter()
                .zip([Role::Strong, Role::Text, Role::Text])
                .map(|(of, role)| duration(of, *percentile, theme, role)),
        );
        if bar_cells >= 6 && delays.scheduling.count > 0 {
            let share = log_share(&delays.scheduling, percentile(&delays.scheduling));
            spans.push(Span::raw(" "));
            spans.extend(painter::bar(theme, bar_cells, share, |_| theme.style(Role::Delay)));
        }
        painter.line(inner, at as u16 + 1, &Line::from(spans));
    }
    if inner.height > 7 {
        let text = format!(
            "n {}, 1 of {} polls timed",
            format::short(delays.scheduling.count as f64),
            format::short(delays.sampling),
        );
        painter.line(inner, inner.height - 1, &Line::from(Span::styled(text, theme.style(Role::Dim))));
    }
}

/// Returns the description of the measured latency.
fn subject(model: &Model) -> String {
    let running = model.frame.as_ref().and_then(|frame| frame.scenario.as_ref());
    let scenarios = model.scenarios();
    let known = running.and_then(|id| scenarios.iter().find(|scenario| scenario.id == *id));
    known.and_then(|scenario| scenario.latency_label.clone()).unwrap_or_default()
}

fn duration(latency: &LatencySnapshot, of: fn(&LatencySnapshot) -> u64, theme: Theme, role: Role) -> Span<'static> {
    if latency.count == 0 {
        return Span::styled(format!("{:>9}", "-"), theme.style(Role::Dim));
    }
    Span::styled(format!("{:>9}", format::nanos(of(latency), theme.micro())), theme.style(role))
}

/// Returns the position of a duration between half the median and the maximum, on a logarithmic scale.
fn log_share(latency: &LatencySnapshot, ns: u64) -> f64 {
    let log = |ns: u64| (ns.max(1) as f64).ln();
    let (low, high) = (log((latency.p50_ns / 2).max(1)), log(latency.max_ns));
    if high <= low { 0.0 } else { ((log(ns) - low) / (high - low)).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_the_maximum() {
        let latency = LatencySnapshot { p50_ns: 1_000, p99_ns: 30_000, max_ns: 1_000_000, ..Default::default() };

        let shares = [1_000, 30_000, 1_000_000].map(|ns| log_share(&latency, ns));

        assert!(shares[0] < shares[1] && shares[1] < shares[2]);
        assert!((shares[2] - 1.0).abs() < 1e-9);
    }
}
