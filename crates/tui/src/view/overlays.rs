//! Overlays over a view: help, confirmations, menus, the lost connection.

mod ask;
mod columns;
mod compare;
mod kill;
mod palette;
mod run_dialog;
mod text;
mod trace;
mod waits;

use ratatui::layout::{Margin, Rect};
use ratatui::text::{Line, Span};
use rusm_protocol::{Column, ParameterMeta};

use self::text::{READING_WIDTH, keys_line, scrolled, scrolled_to};
use crate::model::input::keys::{self, Context};
use crate::model::input::questions::QUESTIONS;
use crate::model::overlay::Overlay;
use crate::model::panes::bench::results::BenchPane;
use crate::model::panes::columns as process_columns;
use crate::model::tab::Tab;
use crate::model::{Link, Model, format};
use crate::view::glossary;
use crate::view::painter::{self, Painter};
use crate::view::panels::causes;
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    lost(painter, model);
    match &model.overlay {
        Some(Overlay::Help { scroll }) => help(painter, area, model, *scroll),
        Some(Overlay::About { scroll }) => about(painter, area, model, *scroll),
        Some(Overlay::Trap { scroll }) => trap(painter, area, model, *scroll),
        Some(Overlay::Event { scroll }) => event(painter, area, model, *scroll),
        Some(Overlay::Cause { scroll }) => {
            let lines = causes::in_full(model, READING_WIDTH, painter.theme);
            scrolled(painter, area, " cause of failures ", &lines, *scroll);
        }
        Some(Overlay::OtherNode { node, before }) => other_node(painter, node, before),
        Some(Overlay::Compare { scroll }) => compare::render(painter, area, model, *scroll),
        Some(overlay @ (Overlay::Kill { .. } | Overlay::KillAll { .. })) => kill::render(painter, model, overlay),
        Some(Overlay::Columns(chooser)) => columns::render(painter, model, chooser),
        Some(Overlay::SortMenu { at }) => sort_menu(painter, model, *at),
        Some(Overlay::Confirm(question)) => ask::render(painter, model, question),
        Some(Overlay::Run(dialog)) => run_dialog::render(painter, dialog),
        Some(Overlay::Palette(line)) => palette::render(painter, line),
        Some(Overlay::Ask { question, .. }) => ask(painter, question),
        Some(Overlay::Waits) => waits::render(painter, model),
        Some(Overlay::Trace) => trace::render(painter, model),
        None => {}
    }
}

/// Draws the bindings of this view, from the table of bindings.
fn help(painter: &mut Painter<'_>, area: Rect, model: &Model, scroll: u16) {
    let theme = painter.theme;
    let view = match model.tab {
        Tab::Cpu => Context::Cpu,
        Tab::Node => Context::Node,
        Tab::Processes if model.detail_in_full() => Context::Detail,
        Tab::Bench => match model.results.pane {
            BenchPane::Live => Context::Bench,
            BenchPane::Result => Context::Result,
            BenchPane::History => Context::Results,
        },
        Tab::Processes => Context::Processes,
        Tab::Tree => Context::Tree,
        Tab::Events => Context::Events,
        Tab::Time | Tab::Sched => Context::List,
        Tab::Topics => Context::Topics,
        Tab::Serve => Context::Serve,
        Tab::Cluster => Context::Cluster,
        Tab::Wasm => Context::Wasm,
        Tab::Store => Context::Store,
    };
    let mut contexts = vec![view, Context::Global];
    contexts.dedup();
    if !matches!(view, Context::Node | Context::List | Context::Global) {
        contexts.insert(1, Context::List);
    }
    let mut lines: Vec<Line> = Vec::new();
    for context in contexts {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(Span::styled(context.title(), theme.style(Role::Title))));
        for binding in keys::bindings(context).filter(|binding| model.offers(binding.action)) {
            let names: Vec<String> = model.keys.keys(binding).iter().map(|key| key.text()).collect();
            lines.push(Line::from(vec![
                Span::styled(format!("  {:<14}", names.join(" ")), theme.style(Role::Key)),
                Span::styled(binding.help, theme.style(Role::Text)),
            ]));
        }
    }
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("questions", theme.style(Role::Title))));
    lines.extend(QUESTIONS.iter().map(|question| {
        Line::from(vec![
            Span::styled(format!("  {:<14}", question.keys(&model.keys).join(" ")), theme.style(Role::Key)),
            Span::styled(question.text, theme.style(Role::Text)),
        ])
    }));
    lines.push(Line::default());
    lines.extend(palette::commands(theme));
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("terms", theme.style(Role::Title))));
    lines.extend(glossary::terms(model.tab).map(|(term, meaning)| {
        Line::from(vec![
            Span::styled(format!("  {term:<14}"), theme.style(Role::Accent)),
            Span::styled(meaning, theme.style(Role::Text)),
        ])
    }));
    scrolled_to(painter, area, &format!(" help: {} ", model.tab.title()), &lines, scroll, reading_width(area).min(92));
}

/// Draws the full description of the selected scenario, which may not fit on its card.
fn about(painter: &mut Painter<'_>, area: Rect, model: &Model, scroll: u16) {
    let Some(scenario) = model.scenarios().get(model.bench.selected) else { return };
    let theme = painter.theme;
    let mut lines: Vec<Line> = Vec::new();
    let mut say = |text: &str, indent: usize, role: Role| {
        for part in painter::wrap(text, READING_WIDTH - indent as u16) {
            lines.push(Line::from(Span::styled(format!("{:indent$}{part}", ""), theme.style(role))));
        }
    };
    say(&scenario.description, 0, Role::Strong);
    for detail in &scenario.details {
        say(&format!("{} {detail}", theme.dot()), 0, Role::Text);
    }
    for gate in &scenario.gates {
        say(&format!("gate: {} {}", gate.name, gate.limit), 0, Role::Text);
    }
    say(&format!("unit: {}", scenario.ops_label), 0, Role::Text);
    if let Some(latency) = &scenario.latency_label {
        say(&format!("latency: {latency}"), 0, Role::Text);
    }
    if let Some(file) = &scenario.source_file {
        say(file, 0, Role::Dim);
    }
    for parameter in &scenario.parameters {
        let ParameterMeta { name, description, default, range } = parameter;
        say(&format!("{name} = {default} ({range})"), 0, Role::Accent);
        say(description, 2, Role::Text);
    }
    scrolled(painter, area, &format!(" {} ", scenario.id), &lines, scroll);
}

/// Draws a trap and its backtrace.
fn trap(painter: &mut Painter<'_>, area: Rect, model: &Model, scroll: u16) {
    let theme = painter.theme;
    let Some(detail) = model.wasm.read() else {
        let text = Line::from(Span::styled("loading", theme.style(Role::Dim)));
        return scrolled(painter, area, " trap ", &[text], 0);
    };
    let fault = &detail.fault;
    let now_ms = model.wasm.newest.as_ref().map_or(0, |newest| newest.at_ms);
    let ago = format!("{} ago", format::age(now_ms.saturating_sub(fault.at_ms)));
    let mut lines = vec![
        Line::from(Span::styled(fault.code.clone(), theme.style(Role::Bad))),
        Line::from(vec![
            Span::styled(fault.module.clone(), theme.style(Role::Strong)),
            Span::styled(format!("  {}  {ago}", fault.pid), theme.style(Role::Dim)),
        ]),
        Line::default(),
    ];
    if detail.backtrace.is_empty() {
        lines.push(Line::from(Span::styled("no backtrace", theme.style(Role::Dim))));
    }
    lines.extend(functions(&detail.backtrace, READING_WIDTH, theme));
    scrolled(painter, area, &format!(" trap {} ", fault.id.seq), &lines, scroll);
}

/// Draws an event or a log line in full, with links to its processes.
fn event(painter: &mut Painter<'_>, area: Rect, model: &Model, scroll: u16) {
    let theme = painter.theme;
    let Some((item, detail)) = model.events.opened() else { return };
    let width = reading_width(area);
    let (at_ms, seq) = (item.key().0, item.key().2);
    let ago = model.frame().map_or(0, |frame| frame.uptime_ms.saturating_sub(at_ms));
    let mut lines = vec![Line::from(vec![
        Span::styled(item.name().to_owned(), theme.style(Role::Strong)),
        Span::styled(
            format!("  {} after the start, {} ago", format::moment(at_ms), format::age(ago)),
            theme.style(Role::Dim),
        ),
    ])];
    for (at, (role, pid)) in item.processes().into_iter().enumerate() {
        lines.push(Line::from(vec![
            Span::styled(format!("{} ", at + 1), theme.style(Role::Key)),
            Span::styled(format!("{role:<11}"), theme.style(Role::Dim)),
            Span::styled(pid.to_owned(), theme.style(Role::Text)),
        ]));
    }
    lines.push(Line::default());
    let text = if item.text().is_empty() { "no reason" } else { item.text() };
    lines.extend(
        painter::wrap(text, width).into_iter().map(|line| Line::from(Span::styled(line, theme.style(Role::Text)))),
    );
    if let Some(detail) = detail.filter(|detail| !detail.backtrace.is_empty()) {
        let module = detail.module.as_deref().unwrap_or("a guest");
        lines.push(Line::default());
        lines.push(Line::from(Span::styled(format!("backtrace of {module}"), theme.style(Role::Title))));
        lines.extend(functions(&detail.backtrace, width, theme));
    }
    lines.push(Line::default());
    lines.push(keys_line(Context::Event, painter));
    let word = if item.kind().is_empty() { "log line" } else { item.kind() };
    scrolled_to(painter, area, &format!(" {} {seq} ", word.replace('_', " ")), &lines, scroll, width);
}

/// Returns the lines of a backtrace, innermost function first.
fn functions<'a>(backtrace: &[String], width: u16, theme: Theme) -> Vec<Line<'a>> {
    let line = |(at, function): (usize, &String)| {
        let role = if at == 0 { Role::Strong } else { Role::Text };
        let function = painter::cut(function, width - 4, theme);
        let number = Span::styled(format!("{at:>2}  "), theme.style(Role::Dim));
        Line::from(vec![number, Span::styled(function, theme.style(role))])
    };
    backtrace.iter().enumerate().map(line).collect()
}

/// Width of a line of text on a screen that may be wide, in cells.
fn reading_width(area: Rect) -> u16 {
    area.width.saturating_sub(12).clamp(READING_WIDTH.min(area.width.saturating_sub(4)), 110)
}

/// Draws the question before keys reach another node.
fn other_node(painter: &mut Painter<'_>, node: &str, before: &str) {
    let theme = painter.theme;
    let title = Line::from(format!(" another node: {node} "));
    let width = (title.width() as u16 + 8).clamp(46, 70);
    let inner = painter.popup(width, 6, &title);
    let mut say = |at: u16, text: String, role: Role| {
        let text = painter::cut(&text, inner.width, theme);
        painter.line(inner, at, &Line::from(Span::styled(text, theme.style(role))));
    };
    say(0, format!("before: {before}"), Role::Text);
    say(1, "filter, selection and follow mode are cleared".to_owned(), Role::Dim);
    let keys = Line::from(vec![
        Span::styled("enter", theme.style(Role::Key)),
        Span::styled(" show it", theme.style(Role::Dim)),
    ]);
    painter.line(inner, 3, &keys);
}

fn sort_menu(painter: &mut Painter<'_>, model: &Model, at: usize) {
    let theme = painter.theme;
    // Tabs and keys stay visible.
    let height = (Column::ALL.len() as u16 + 2).min(painter.area().height.saturating_sub(2));
    let inner = painter.popup(34, height, &Line::from(" sort by "));
    let first = (at as u16 + 1).saturating_sub(inner.height);
    let panel = inner.outer(Margin::new(2, 1));
    painter.scrollbar(panel, first.into(), inner.height.into(), Column::ALL.len() as u64);
    for (index, &column) in Column::ALL.iter().enumerate().skip(first.into()).take(inner.height.into()) {
        let row = painter::row(inner, index as u16 - first);
        let sorts = column == model.table.sort.key;
        let way = if model.table.sort.desc { "largest first" } else { "smallest first" };
        let role = if sorts { Role::Accent } else { Role::Text };
        painter.line(row, 0, &Line::from(Span::styled(process_columns::label(column), theme.style(role))));
        if sorts {
            painter.line_right(row, 0, &Line::from(Span::styled(way, theme.style(Role::Dim))));
        }
        if index == at {
            painter.select(row);
        }
    }
}

/// Draws a question.
fn ask(painter: &mut Painter<'_>, question: &str) {
    let theme = painter.theme;
    let rows = painter::wrap(question, READING_WIDTH - 8);
    let inner = painter.popup(READING_WIDTH - 4, rows.len() as u16 + 5, &Line::from(" go on? "));
    for (at, row) in rows.iter().enumerate() {
        painter.line(inner, at as u16 + 1, &Line::from(Span::styled(row.clone(), theme.style(Role::Strong))));
    }
    painter.line(inner, inner.height.saturating_sub(1), &keys_line(Context::Ask, painter));
}

/// Draws the loss of the connection over the last frame, which is dimmed.
fn lost(painter: &mut Painter<'_>, model: &Model) {
    let Link::Lost { since, reason, attempt, retry_at } = &model.link else { return };
    let theme = painter.theme;
    let gone_ms = model.now.saturating_sub(*since).as_millis() as u64;
    let title = format!(" connection lost {} ", format::clock(gone_ms));
    let inner = painter.popup(70.min(painter.area().width), 9, &Line::from(title));
    let mut say = |at: u16, text: &str, role: Role| {
        let text = painter::cut(text, inner.width, theme);
        painter.line(inner, at, &Line::from(Span::styled(text, theme.style(role))));
    };
    let node =
        model.hello.as_ref().map(|hello| format!("{}, pid {}: {}", hello.node.name, hello.node.os_pid, model.target));
    say(0, node.as_ref().unwrap_or(&model.target), Role::Dim);
    let reason = painter::wrap(reason, inner.width);
    let (first, rest) =
        reason.split_first().map_or((String::new(), String::new()), |(first, rest)| (first.clone(), rest.join(" ")));
    say(1, &first, Role::Strong);
    say(2, &rest, Role::Strong);
    let wait = retry_at.saturating_sub(model.now).as_secs_f64();
    let next = if wait > 0.0 { format!("in {wait:.1} s") } else { "now".to_owned() };
    say(4, &format!("attempt {} {next}", attempt + 1), Role::Warn);
    say(5, "the last frame stays on the screen, dimmed", Role::Dim);
    let keys = Line::from(vec![
        Span::styled("r", theme.style(Role::Key)),
        Span::styled(" retry now   ", theme.style(Role::Dim)),
        Span::styled("q", theme.style(Role::Key)),
        Span::styled(" quit", theme.style(Role::Dim)),
    ]);
    painter.line(inner, 6, &keys);
}
