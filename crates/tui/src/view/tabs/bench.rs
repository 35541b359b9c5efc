//! The Bench view: the scenarios, the current run in large figures, and the results of runs.

mod results;

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use rusm_protocol::{Frame as NodeFrame, ParameterMeta, ScenarioMeta, Unit};

use crate::model::panes::bench::menu::{self, MenuRow};
use crate::model::panes::bench::results::BenchPane;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::{big_text, chart, latency};
use crate::view::tabs::node;
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    match model.results.pane {
        BenchPane::Live => {}
        BenchPane::Result => return results::sheet(painter, area, model),
        BenchPane::History => return results::history(painter, area, model),
    }
    let layout = layout::bench(model.size, model.menu_len());
    menu(painter, layout.menu.into(), model);
    card(painter, layout.card.into(), model);
    headline(painter, layout.headline.into(), model);
    let (chart, latency, runs) = (layout.chart.into(), layout.latency.into(), layout.runs.into());
    // The rate of cases in turn says nothing: their tables take its place, and that of the latency.
    if results::replace_chart(model) {
        return results::beside(painter, Rect { height: layout.below_headline(), ..chart }, model);
    }
    curve(painter, chart, model);
    latency::of_run(painter, latency, model);
    figures(painter, layout.figures.into(), model);
    results::latest(painter, runs, model);
}

fn menu(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let scenarios = model.scenarios();
    let find = model.bench.find_text();
    let title = match &find {
        Some(text) => Line::from(vec![
            Span::styled(" find ", theme.style(Role::Title)),
            Span::styled(format!("{text} "), theme.style(Role::Accent)),
        ]),
        None => Line::from(Span::styled(" scenarios ", theme.style(Role::Title))),
    };
    let matching = menu::matching(scenarios, find.as_deref());
    let at = matching.iter().position(|at| *at == model.bench.selected).map_or(0, |at| at + 1);
    let position = format!(" {at}/{} ", matching.len());
    let right = Line::from(Span::styled(position, theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    if scenarios.is_empty() {
        let text = if model.hello.is_some() { "none on this node" } else { "waiting" };
        return painter.note(inner, text);
    }
    if let Some(text) = &find {
        let x = area.x + 2 + 6 + painter::width(text);
        painter.cursor = Some((x.min(area.right().saturating_sub(2)), area.y));
    }
    if matching.is_empty() {
        return painter.note(inner, "no match");
    }
    let running = model.frame.as_ref().filter(|frame| frame.running).and_then(|frame| frame.scenario.as_deref());
    // Show units for all scenarios or for none.
    let line_width = |scenario: &ScenarioMeta| painter::width(&scenario.id) + painter::width(&scenario.ops_label) + 5;
    let with_units = scenarios.iter().all(|scenario| line_width(scenario) <= inner.width);
    let visible = menu::visible(scenarios, find.as_deref(), model.bench.selected, inner.height);
    for (line, row) in visible.into_iter().enumerate() {
        let area = painter::row(inner, line as u16);
        let (at, scenario) = match row {
            MenuRow::Scenario(at, scenario) => (at, scenario),
            MenuRow::Family(family) => {
                painter.line(area, 0, &heading(family, inner.width, theme));
                continue;
            }
        };
        let runs = running == Some(scenario.id.as_str());
        let sign = if runs { theme.sign(" ▶ ", " > ") } else { "   " };
        let role = if scenario.lacks.is_some() { Role::Dim } else { Role::Text };
        let spans =
            vec![Span::styled(sign, theme.style(Role::Good)), Span::styled(scenario.id.clone(), theme.style(role))];
        painter.line(area, 0, &Line::from(spans));
        if with_units {
            let unit = Span::styled(format!("{} ", scenario.ops_label), theme.style(Role::Dim));
            painter.line_right(area, 0, &Line::from(unit));
        }
        if at == model.bench.selected {
            painter.select(area);
        }
    }
}

fn heading(family: &str, width: u16, theme: Theme) -> Line<'static> {
    let rest = usize::from(width).saturating_sub(usize::from(painter::width(family)) + 5);
    let (dash, role) = (theme.sign("─", "-"), theme.style(Role::Dim));
    Line::from(Span::styled(format!(" {dash} {family} {}", dash.repeat(rest)), role))
}

/// Draws the description of the selected scenario.
fn card(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let scenario = model.hello.as_ref().and_then(|hello| hello.scenarios.get(model.bench.selected));
    let theme = painter.theme;
    let Some(scenario) = scenario.filter(|_| area.height > 3) else {
        painter.panel(area, &Line::default(), &Line::default());
        return;
    };
    let name = if scenario.label.is_empty() { &scenario.id } else { &scenario.label };
    let title = Line::from(Span::styled(format!(" {name} "), theme.style(Role::Title)));
    let right = Line::from(Span::styled(format!(" {} ", scenario.family), theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    for (at, line) in card_lines(scenario, model, theme, inner).iter().enumerate() {
        painter.line(inner, at as u16, line);
    }
}

/// Returns the description, as many details as fit uncut, and the parameters.
fn card_lines(scenario: &ScenarioMeta, model: &Model, theme: Theme, area: Rect) -> Vec<Line<'static>> {
    let styled = |text: &str, role: Role| -> Vec<Line<'static>> {
        let lines = painter::wrap(text, area.width).into_iter();
        lines.map(|line| Line::from(Span::styled(line, theme.style(role)))).collect()
    };
    let lacks = scenario.lacks.as_ref().map(|lacks| styled(&format!("cannot run here: {lacks}"), Role::Warn));
    let mut lines = lacks.unwrap_or_default();
    lines.extend(styled(&scenario.description, Role::Text));
    if let Some(gate) = scenario.gates.first() {
        lines.extend(styled(&format!("gate: {} {}", gate.name, gate.limit), Role::Text));
    }
    let parameters = parameter_lines(scenario, model, theme);
    let mut room = usize::from(area.height).saturating_sub(lines.len() + parameters.len() + 2);
    let mut details: Vec<Line> = Vec::new();
    let mut whole = 0;
    for detail in &scenario.details {
        let detail = styled(&format!("{} {detail}", theme.dot()), Role::Dim);
        // Reserve the last row for the hint that there is more.
        let is_last = whole + 1 == scenario.details.len();
        if detail.len() + usize::from(!is_last) > room {
            break;
        }
        room -= detail.len();
        details.extend(detail);
        whole += 1;
    }
    if whole < scenario.details.len() {
        let more = [Span::styled("i", theme.style(Role::Key)), Span::styled(" more", theme.style(Role::Dim))];
        details.push(Line::from(more.to_vec()));
    }
    for part in [details, parameters].into_iter().filter(|part| !part.is_empty()) {
        lines.push(Line::default());
        lines.extend(part);
    }
    lines
}

fn parameter_lines(scenario: &ScenarioMeta, model: &Model, theme: Theme) -> Vec<Line<'static>> {
    let chosen = model.bench.chosen(&scenario.id);
    let line = |parameter: &ParameterMeta| {
        let value = chosen.params.get(&parameter.name);
        let role = if value.is_some() { Role::Accent } else { Role::Text };
        Line::from(vec![
            Span::styled(format!("{} ", parameter.name), theme.style(Role::Dim)),
            Span::styled(value.unwrap_or(&parameter.default).clone(), theme.style(role)),
        ])
    };
    let set = chosen.settings.iter().map(|(name, value)| {
        Line::from(vec![
            Span::styled(format!("{name} "), theme.style(Role::Dim)),
            Span::styled(value.clone(), theme.style(Role::Accent)),
        ])
    });
    set.chain(scenario.parameters.iter().map(line)).collect()
}

/// Draws the rate in large figures, and the state of the run.
fn headline(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(now) = model.frame.as_deref() else {
        painter.panel(area, &Line::default(), &Line::default());
        return;
    };
    // After the end, the figures stay those of the run.
    let last = model.bench.runs.back();
    let shown = now.scenario.clone().or_else(|| last.map(|run| run.scenario.clone()));
    let name = shown.unwrap_or_else(|| "idle".to_owned());
    let title = Line::from(Span::styled(format!(" {name} "), theme.style(Role::Title)));
    let inner = painter::inset(painter.panel(area, &title, &profiles(model, now, theme)));
    let rate = if now.running {
        model.histories.ops.mean_to(model.chart_end_ms(), 1000)
    } else {
        last.map_or(0.0, |run| run.ops_per_sec)
    };
    let text = if is_bytes(model, now) { format::bytes_per_sec(rate) } else { format::short(rate) };
    let style = theme.style(if now.running && !now.paused { Role::Accent } else { Role::Dim });
    let taken = if inner.height >= 3 && !theme.is_ascii() && !is_bytes(model, now) {
        big_text::render(painter, inner, &text, style)
    } else {
        let wide = format!("{text} ");
        painter.line(inner, inner.height / 2, &Line::from(Span::styled(wide.clone(), style)));
        painter::width(&wide)
    };
    let side = Rect { x: inner.x + taken + 1, width: inner.width.saturating_sub(taken + 1), ..inner };
    current_run(painter, side, model, now);
}

/// Draws the text beside the large figures.
fn current_run(painter: &mut Painter<'_>, area: Rect, model: &Model, now: &NodeFrame) {
    let theme = painter.theme;
    let (word, role) = if now.run_error.is_some() {
        ("failed", Role::Bad)
    } else if now.paused {
        ("paused: z continues", Role::Warn)
    } else if now.running && now.warming_up {
        ("warming up", Role::Warn)
    } else if now.running {
        ("running", Role::Good)
    } else if now.run_id > 0 {
        ("ended: mean rate", Role::Dim)
    } else {
        ("enter runs the selected scenario", Role::Dim)
    };
    let low = area.height < 3;
    let unit = Line::from(Span::styled(node::ops_label(model), theme.style(Role::Dim)));
    let clock = if now.run_id > 0 { format!(" {}", format::clock(now.run_ms)) } else { String::new() };
    let state = vec![Span::styled(word, theme.style(role)), Span::styled(clock, theme.style(Role::Text))];
    painter.line(area, 0, &unit);
    if low {
        return painter.line_right(area, 0, &Line::from(state));
    }
    painter.line(area, 1, &Line::from(state));
    let third = now.run_error.as_ref().map_or_else(
        || Span::styled(format!("{} since the warm-up", format::grouped(now.ops_total)), theme.style(Role::Dim)),
        |error| Span::styled(painter::cut(error, area.width, theme), theme.style(Role::Bad)),
    );
    painter.line(area, 2, &Line::from(third));
}

fn is_bytes(model: &Model, now: &NodeFrame) -> bool {
    let scenarios = model.scenarios();
    let known = scenarios.iter().find(|scenario| Some(&scenario.id) == now.scenario.as_ref());
    known.is_some_and(|scenario| scenario.unit == Unit::Bytes)
}

/// Returns the profiles, with the selected one marked.
fn profiles(model: &Model, now: &NodeFrame, theme: Theme) -> Line<'static> {
    let known = model.hello.as_ref().map_or(&[][..], |hello| &hello.profiles);
    let mut spans = vec![Span::raw(" ")];
    for profile in known {
        if profile.id == now.profile {
            let style = theme.style(Role::Accent).add_modifier(Modifier::REVERSED);
            spans.push(Span::styled(format!(" {} ", profile.id), style));
        } else {
            spans.push(Span::styled(format!(" {} ", profile.id), theme.style(Role::Dim)));
        }
    }
    spans.push(Span::raw(" "));
    if known.is_empty() { Line::default() } else { Line::from(spans) }
}

fn curve(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 3 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" throughput ", theme.style(Role::Title)));
    let right = Line::from(Span::styled(format!(" {} ", model.window.text()), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    chart::render(painter, inner, model, &model.histories.ops);
}

/// Draws the costs and errors of the run.
fn figures(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" figures ", theme.style(Role::Title)));
    let inner = painter::inset(painter.panel(area, &title, &Line::default()));
    let Some(now) = model.frame.as_deref() else { return };
    let bad = |n: f64| if n > 0.0 { Role::Bad } else { Role::Text };
    let both = |total: u64, rate: f64| format!("{}  {}/s", format::grouped(total), format::short(rate));
    let offered = match now.offered_per_sec {
        rate if rate > 0.0 => format!("{}/s", format::short(rate)),
        _ => "closed loop".to_owned(),
    };
    let facts = [
        ("cpu per op", cpu_per_op(now, theme), Role::Strong),
        ("peak alive", format::grouped(now.peak_concurrent), Role::Text),
        ("errors", both(now.errors_total, now.errors_per_sec), bad(now.errors_total as f64)),
        ("dropped", both(now.dropped_total, now.dropped_per_sec), bad(now.dropped_total as f64)),
        ("offered", offered, Role::Text),
        ("cores used", format::cores(now.observer.cpu_pct), Role::Text),
        ("observing", format::percent(now.cost.duty_pct), Role::Text),
        ("rss", format::bytes(now.observer.memory.rss_bytes), Role::Text),
        ("alive now", format::grouped(now.observer.process_count), Role::Text),
    ];
    for (at, (label, value, role)) in facts.into_iter().enumerate() {
        let value = Line::from(Span::styled(value, theme.style(role)));
        painter.labelled(inner, at as u16, label, &value);
    }
}

fn cpu_per_op(now: &NodeFrame, theme: Theme) -> String {
    if now.cpu_ns_per_op > 0.0 && now.running {
        format::nanos(now.cpu_ns_per_op.round() as u64, theme.micro())
    } else {
        "-".to_owned()
    }
}
