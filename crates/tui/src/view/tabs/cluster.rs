//! The Cluster view: the node that is watched, the other nodes, the node under the cursor, and the unique names.

mod fact;
mod facts;

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{Cluster, ClusterNode, NameInfo, OwnNode};

use self::fact::{Fact, facts_within, optional};
use crate::model::panes::cluster::ClusterFocus;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Share of the credit from which a connection is highlighted, in percent.
const FULL_PCT: u64 = 90;
/// Difference of clocks from which it is highlighted, in nanoseconds.
const SKEW_NS: u64 = 500_000_000;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = model.cluster_layout();
    own(painter, layout.own.into(), model);
    nodes(painter, layout.nodes.into(), model);
    if layout.node.height > 0 {
        facts::render(painter, layout.node.into(), model);
        names(painter, layout.names.into(), model);
    }
}

fn own(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" cluster ", theme.style(Role::Title)));
    let own = model.cluster.newest.as_ref().map(|newest| (newest, &newest.own));
    let (cluster, node) = match own {
        Some((cluster, Some(node))) => (cluster, node),
        other => {
            let inner = painter.panel(area, &title, &Line::default());
            return if other.is_some() {
                painter.note(inner, "this node has joined no cluster");
            } else {
                painter.missing(inner, "the cluster");
            };
        }
    };
    let dot = theme.dot();
    let secret = if node.is_encrypted { "encrypted" } else { "not encrypted" };
    let at = node.endpoints.first().map_or("", String::as_str);
    let right = format!(" {} {dot} {secret} {dot} {at} ", node.link);
    let room = area.width.saturating_sub(16);
    let right = Line::from(Span::styled(painter::cut(&right, room, theme), theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    for (row, facts) in [(0, majority(node)), (1, vitals(node)), (2, traffic(cluster))] {
        painter.line(inner, row, &Line::from(facts_within(theme, inner.width, facts)));
    }
}

/// Returns how many nodes this one sees, and whether that is a majority.
fn majority(node: &OwnNode) -> Vec<Fact> {
    let is_majority = node.nodes_seen * 2 > node.nodes_total;
    let (word, role) = if is_majority { ("majority", Role::Good) } else { ("minority", Role::Bad) };
    let mut facts = vec![
        ("", node.name.clone(), Role::Strong),
        ("sees", format!("{} of {} nodes", node.nodes_seen, node.nodes_total), Role::Text),
        ("", word.to_owned(), role),
    ];
    if node.vitals.is_draining {
        facts.push(("", "draining".to_owned(), Role::Warn));
    }
    facts.push(("boot", node.boot.chars().take(8).collect(), Role::Dim));
    facts
}

fn vitals(node: &OwnNode) -> Vec<Fact> {
    let vitals = &node.vitals;
    vec![
        ("procs", format::short(vitals.processes as f64), Role::Text),
        ("cpu", optional(vitals.busy_pct, format::percent), Role::Text),
        ("mem", format::bytes(vitals.memory_bytes), Role::Text),
        ("msgs/s", optional(vitals.messages_per_sec, format::short), Role::Text),
        ("rusm", vitals.version.clone(), Role::Dim),
    ]
}

/// Returns the sums over all connections.
fn traffic(cluster: &Cluster) -> Vec<Fact> {
    let sum = |of: fn(&ClusterNode) -> f64| cluster.nodes.iter().map(of).sum::<f64>();
    let rate =
        |messages: f64, bytes: f64| format!("{} msg/s {}", format::short(messages), format::bytes_per_sec(bytes));
    let out = rate(sum(|node| node.messages_out_per_sec), sum(|node| node.bytes_out_per_sec));
    let inbound = rate(sum(|node| node.messages_in_per_sec), sum(|node| node.bytes_in_per_sec));
    let in_doubt = format::short(sum(|node| node.in_doubt_frames as f64));
    vec![("out", out, Role::Text), ("in", inbound, Role::Text), ("in doubt", in_doubt, Role::Text)]
}

/// A text with its role.
type TableCell = (String, Role);

/// Columns of the nodes: heading, width, and the least width of the panel that shows the column.
const COLUMNS: [(&str, u16, u16); 13] = [
    ("STATE", 10, 0),
    ("FOR", 6, 0),
    ("RTT", 7, 0),
    ("CLOCK", 8, 76),
    ("OUT/S", 7, 0),
    ("IN/S", 7, 60),
    ("BYTES/S", 8, 110),
    ("CREDIT", 6, 60),
    ("PROCS", 6, 70),
    ("CPU", 5, 110),
    ("MEM", 6, 110),
    ("VERSION", 9, 110),
    ("LOST", 5, 110),
];

fn nodes(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.cluster;
    let total = pane.newest.as_ref().map_or(0, |newest| newest.total);
    let right = Line::from(Span::styled(format!(" {} ", format::grouped(total)), theme.style(Role::Dim)));
    let has_focus = pane.focus == ClusterFocus::Nodes;
    let title = Line::from(Span::styled(" other nodes ", theme.style(title_role(has_focus))));
    let inner = painter.panel(area, &title, &right);
    let visible = inner.height.saturating_sub(1);
    painter.scrollbar(area, pane.nodes.top, visible.into(), total);
    let inner = painter::inset(inner);
    if total == 0 {
        return match &pane.newest {
            Some(newest) if newest.own.is_some() => painter.note(inner, "no other node was seen yet"),
            Some(_) => painter.note(inner, "start it with rusm node --cluster"),
            None => painter.missing(inner, "nodes"),
        };
    }
    let shown = |cells: Vec<TableCell>| -> Vec<(TableCell, u16)> {
        let all = cells.into_iter().zip(COLUMNS).filter(|(_, (.., least))| inner.width >= *least);
        all.map(|(cell, (_, width, _))| (cell, width)).collect()
    };
    let heading = COLUMNS.map(|(word, ..)| (word.to_owned(), Role::Dim)).to_vec();
    put(painter, inner, 0, ("NODE", Role::Dim), &shown(heading));
    for at in 0..visible {
        let position = pane.nodes.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(node) = pane.node_at(position) {
            let role = if node.state == "up" { Role::Strong } else { Role::Dim };
            put(painter, inner, at + 1, (&node.name, role), &shown(cells(node, theme)));
        }
        if position == pane.nodes.at && has_focus {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

const fn title_role(has_focus: bool) -> Role {
    if has_focus { Role::Accent } else { Role::Title }
}

/// Draws a text at the left, and columns at the right end; the state stays beside the text.
fn put(painter: &mut Painter<'_>, area: Rect, at: u16, name: (&str, Role), columns: &[(TableCell, u16)]) {
    let theme = painter.theme;
    let taken: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    let room = area.width.saturating_sub(taken).min(24);
    let cut = painter::cut(name.0, room, theme);
    let mut spans = vec![Span::styled(format!("{cut:<width$}", width = usize::from(room)), theme.style(name.1))];
    for (column, ((text, role), width)) in columns.iter().enumerate() {
        let (text, width) = (painter::cut(text, *width, theme), usize::from(*width));
        let text = if column == 0 { format!(" {text:<width$}") } else { format!(" {text:>width$}") };
        spans.push(Span::styled(text, theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

fn cells(node: &ClusterNode, theme: Theme) -> Vec<TableCell> {
    let is_up = node.state == "up";
    let dash = || ("-".to_owned(), Role::Dim);
    let connected = |cell: TableCell| if is_up { cell } else { dash() };
    let rate = |rate: f64| (format::short(rate), if rate > 0.0 { Role::Text } else { Role::Dim });
    let bytes = node.bytes_out_per_sec + node.bytes_in_per_sec;
    // What a lost node last said about itself stays visible, in the style of the past.
    let said = |text: &dyn Fn(&rusm_protocol::VitalsInfo) -> Option<String>| {
        let text = node.vitals.as_ref().and_then(text);
        text.map_or_else(dash, |text| (text, if is_up { Role::Text } else { Role::Dim }))
    };
    let losses = if node.losses_total > 0 { Role::Warn } else { Role::Dim };
    vec![
        state(node, theme),
        node.since_ms.map_or_else(dash, |ms| (format::age(ms), Role::Text)),
        node.rtt_ns.map_or_else(dash, |ns| (format::nanos(ns, theme.micro()), Role::Text)),
        node.clock_offset_ns.map_or_else(dash, |ns| clock(ns, theme)),
        connected(rate(node.messages_out_per_sec)),
        connected(rate(node.messages_in_per_sec)),
        connected((format::bytes_short(bytes as u64), if bytes > 0.0 { Role::Text } else { Role::Dim })),
        connected(credit(node)),
        said(&|vitals| Some(format::short(vitals.processes as f64))),
        said(&|vitals| vitals.busy_pct.map(format::percent)),
        said(&|vitals| Some(format::bytes_short(vitals.memory_bytes))),
        said(&|vitals| Some(vitals.version.clone())),
        (format::short(node.losses_total as f64), losses),
    ]
}

/// Returns the state with its sign.
fn state(node: &ClusterNode, theme: Theme) -> TableCell {
    let is_draining = node.vitals.as_ref().is_some_and(|vitals| vitals.is_draining);
    match node.state.as_str() {
        "up" if is_draining => ("draining".to_owned(), Role::Warn),
        "up" => (format!("{} up", theme.sign("●", "*")), Role::Good),
        "down" => (format!("{} down", theme.sign("○", "x")), Role::Bad),
        "left" => (format!("{} left", theme.sign("○", "x")), Role::Dim),
        other => (other.to_owned(), Role::Warn),
    }
}

/// Returns the free share of the credit.
fn credit(node: &ClusterNode) -> TableCell {
    let used = |in_doubt: u64, window: u64| (in_doubt * 100).checked_div(window).unwrap_or(0).min(100);
    let used = used(node.in_doubt_frames, node.window_frames).max(used(node.in_doubt_bytes, node.window_bytes));
    let role = match used {
        FULL_PCT.. => Role::Bad,
        50.. => Role::Warn,
        _ => Role::Text,
    };
    (format!("{} %", 100 - used), role)
}

/// Returns the offset of a clock, with its sign.
fn clock(ns: i64, theme: Theme) -> TableCell {
    let sign = if ns < 0 { '-' } else { '+' };
    let role = if ns.unsigned_abs() >= SKEW_NS { Role::Warn } else { Role::Text };
    (format!("{sign}{}", format::nanos(ns.unsigned_abs(), theme.micro())), role)
}

fn names(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.cluster;
    let total = pane.newest.as_ref().map_or(0, |newest| newest.names_total);
    let right = Line::from(Span::styled(format!(" {} ", format::grouped(total)), theme.style(Role::Dim)));
    let has_focus = pane.focus == ClusterFocus::Names;
    let title = Line::from(Span::styled(" unique names ", theme.style(title_role(has_focus))));
    let inner = painter.panel(area, &title, &right);
    let visible = inner.height.saturating_sub(1);
    painter.scrollbar(area, pane.names.top, visible.into(), total);
    let inner = painter::inset(inner);
    if total == 0 {
        return painter.note(inner, if pane.newest.is_some() { "no process has a unique name" } else { "" });
    }
    let row = |cells: [TableCell; 5]| -> Vec<Span<'static>> {
        let hidden: u16 = match inner.width {
            ..40 => 12,
            40..52 => 14,
            _ => 0,
        };
        let widths =
            [0, 10, 12, 14, 9].map(|width| if width >= hidden && hidden > 0 && width > 10 { 0 } else { width });
        let taken: u16 = widths.iter().filter(|width| **width > 0).map(|width| width + 1).sum();
        let room = inner.width.saturating_sub(taken);
        let widths = [room, widths[1], widths[2], widths[3], widths[4]];
        let shown = cells.into_iter().zip(widths).filter(|(_, width)| *width > 0);
        shown
            .enumerate()
            .map(|(at, ((text, role), width))| {
                let (text, cells) = (painter::cut(&text, width, theme), usize::from(width));
                let gap = if at == 0 { "" } else { " " };
                Span::styled(format!("{gap}{text:<cells$}"), theme.style(role))
            })
            .collect()
    };
    let heading = ["NAME", "NODE", "OWNER", "EPOCH", "STATE"].map(|word| (word.to_owned(), Role::Dim));
    painter.line(inner, 0, &Line::from(row(heading)));
    for at in 0..visible {
        let position = pane.names.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(name) = pane.name_at(position) {
            painter.line(inner, at + 1, &Line::from(row(name_cells(name))));
        }
        if position == pane.names.at && has_focus {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

fn name_cells(name: &NameInfo) -> [TableCell; 5] {
    let state = match name.state.as_str() {
        "owned" => Role::Good,
        "suspended" => Role::Bad,
        _ => Role::Warn,
    };
    [
        (name.name.clone(), Role::Strong),
        (name.node.clone(), Role::Text),
        (name.pid.clone().unwrap_or_else(|| "-".to_owned()), Role::Text),
        (name.epoch.to_string(), Role::Dim),
        (name.state.clone(), state),
    ]
}
