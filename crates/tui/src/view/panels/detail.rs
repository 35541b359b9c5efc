//! Details of one process.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{Bonds, Cell, FactInfo, ProcessDetail};

use crate::model::{DetailPane, Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::{chart, lints};
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let Some(pane) = &model.detail else { return };
    let theme = painter.theme;
    let title = Line::from(vec![
        Span::styled(format!(" {} ", pane.pid), theme.style(Role::Accent)),
        Span::styled(name(pane), theme.style(Role::Title)),
    ]);
    let gone = if pane.gone { " gone " } else { "" };
    let right = Line::from(Span::styled(gone, theme.style(Role::Bad)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    let Some(process) = &pane.process else {
        let text = if pane.gone { "this process has ended" } else { "loading" };
        return painter.note(inner, text);
    };
    let mut facts = facts(process, theme);
    let lints = model.lints.shown(model.frame()).into_iter().filter(|lint| lint.pid == pane.pid);
    let lints = lints.map(|lint| ("lint".to_owned(), format!("{}: {}", lint.id, lint.text), lints::role(lint)));
    facts.splice(1..1, lints.collect::<Vec<_>>());
    let (columns, gap) = if area.width > 60 { (2, 3) } else { (1, 0) };
    let per_column = facts.len().div_ceil(columns);
    let width = (inner.width - gap * (columns as u16 - 1)) / columns as u16;
    for (at, (label, value, role)) in facts.into_iter().enumerate() {
        let column = (at / per_column) as u16;
        let cell = Rect { x: inner.x + column * (width + gap), width, ..inner };
        let room = width.saturating_sub(painter::width(&label) + 1);
        let value = Line::from(Span::styled(painter::cut(&value, room, theme), theme.style(role)));
        painter.labelled(cell, (at % per_column) as u16, &label, &value);
    }
    past(painter, inner, per_column as u16, pane);
}

fn name(pane: &DetailPane) -> String {
    let Some(process) = &pane.process else { return String::new() };
    let name = process.name.as_ref().or(process.label.as_ref());
    name.map(|name| format!("{name} ")).unwrap_or_default()
}

/// Draws the reductions per second since the pane was opened.
fn past(painter: &mut Painter<'_>, inner: Rect, at: u16, pane: &DetailPane) {
    let theme = painter.theme;
    if inner.height <= at {
        return;
    }
    let label = "reds/s ";
    let cells = inner.width.saturating_sub(label.len() as u16);
    let values = pane.reds.buckets(500, usize::from(cells) * 2);
    let top = values.iter().flatten().copied().fold(1.0, f64::max);
    let spans = vec![
        Span::styled(label, theme.style(Role::Dim)),
        Span::styled(chart::ribbon(theme, &pane.reds, cells, 500, top), theme.style(Role::Flow)),
    ];
    painter.line(inner, (at + 1).min(inner.height - 1), &Line::from(spans));
}

type Property = (String, String, Role);

/// Formats a rate, or `-` if it is not known yet.
fn or_dash(rate: Option<f64>, text: fn(f64) -> String) -> String {
    rate.map_or_else(|| "-".to_owned(), text)
}

/// Formats a fact that the body of the process reports. The suffix of its name determines the unit.
fn described(fact: &FactInfo) -> Property {
    let (name, is_bytes) = match fact.name.strip_suffix("_bytes") {
        Some(name) => (name, true),
        None => (fact.name.strip_suffix("_total").unwrap_or(&fact.name), false),
    };
    let value = match &fact.value {
        Cell::Text(text) if text.is_empty() => "-".to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Count(count) if is_bytes => format::bytes(*count),
        Cell::Count(count) => format::grouped(*count),
        Cell::Rate(rate) => format::short(*rate),
        Cell::Empty(()) => "-".to_owned(),
    };
    (name.replace('_', " "), value, Role::Text)
}

/// Formats a count, followed by the listed pids.
fn bond_text(bonds: &Bonds) -> String {
    format!("{}: {}", format::grouped(bonds.count), bonds.pids.join(" "))
}

fn facts(process: &ProcessDetail, theme: Theme) -> Vec<Property> {
    let state = if process.stuck { "stuck" } else { process.state.as_str() };
    let state_role = match state {
        "stuck" => Role::Bad,
        "running" | "runnable" => Role::Good,
        _ => Role::Text,
    };
    let of_capacity = match process.mailbox_capacity {
        0 => format::grouped(process.mailbox_len),
        capacity => format!("{} of {}", format::grouped(process.mailbox_len), format::grouped(capacity)),
    };
    let mut facts: Vec<Property> = vec![
        ("state".to_owned(), state.to_owned(), state_role),
        ("kind".to_owned(), process.kind.clone(), Role::Text),
        ("age".to_owned(), format::age(process.age_ms), Role::Text),
        ("parent".to_owned(), process.parent.clone().unwrap_or_else(|| "none".to_owned()), Role::Text),
        ("reductions/s".to_owned(), or_dash(process.reds_per_sec, format::short), Role::Strong),
        ("reductions".to_owned(), format::grouped(process.reductions), Role::Text),
        ("busy".to_owned(), or_dash(process.busy_pct, format::percent), Role::Strong),
        ("busy time".to_owned(), format::nanos(process.busy_ns, theme.micro()), Role::Text),
        ("mailbox".to_owned(), of_capacity, if process.mailbox_len > 0 { Role::Strong } else { Role::Text }),
        ("messages/s".to_owned(), or_dash(process.msgs_per_sec, format::short), Role::Text),
        ("messages".to_owned(), format::grouped(process.messages), Role::Text),
        ("memory".to_owned(), format::bytes(process.memory_bytes), Role::Strong),
        ("control block".to_owned(), format::bytes(process.control_block_bytes), Role::Text),
        ("future".to_owned(), format::bytes(process.future_bytes), Role::Text),
        ("mailbox".to_owned(), format::bytes(process.mailbox_bytes), Role::Text),
    ];
    let own = process.module.iter().map(|module| ("module".to_owned(), module.clone(), Role::Strong));
    facts.splice(2..2, own.chain(process.facts.iter().map(described)).collect::<Vec<_>>());
    facts.extend(
        [("links", &process.links), ("monitors", &process.monitors), ("monitored by", &process.monitored_by)]
            .into_iter()
            .filter(|(_, bonds)| bonds.count > 0)
            .map(|(label, bonds)| (label.to_owned(), bond_text(bonds), Role::Text)),
    );
    if process.traps_exits {
        facts.push(("exit signals".to_owned(), "trapped".to_owned(), Role::Text));
    }
    if let Some(label) = &process.label {
        facts.push(("label".to_owned(), label.clone(), Role::Text));
    }
    if !process.future_type.is_empty() {
        facts.push(("runs".to_owned(), process.future_type.clone(), Role::Dim));
    }
    facts
}
