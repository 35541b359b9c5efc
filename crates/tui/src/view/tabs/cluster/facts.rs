//! The node under the cursor: its connection, and what it last said about itself.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{ClusterNode, VitalsInfo};

use super::fact::{Fact, facts_within, optional};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Width of the label before a line, in cells.
const LABEL: u16 = 9;

pub(super) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(node) = model.cluster.node() else {
        let title = Line::from(Span::styled(" node ", theme.style(Role::Title)));
        painter.panel(area, &title, &Line::default());
        return;
    };
    let title = Line::from(Span::styled(
        format!(" {} ", painter::cut(&node.name, area.width.saturating_sub(24), theme)),
        theme.style(Role::Title),
    ));
    let boot: String = node.boot.chars().take(8).collect();
    let right = if boot.is_empty() { String::new() } else { format!(" boot {boot} ") };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    for (at, (label, facts)) in (0..inner.height).zip(lines(node)) {
        let mut spans =
            vec![Span::styled(format!("{label:<width$}", width = usize::from(LABEL)), theme.style(Role::Dim))];
        spans.extend(facts_within(theme, inner.width.saturating_sub(LABEL), facts));
        painter.line(inner, at, &Line::from(spans));
    }
}

/// Returns the lines, each with its label.
fn lines(node: &ClusterNode) -> Vec<(&'static str, Vec<Fact>)> {
    let mut lines = vec![("state", seen(node))];
    if let Some(vitals) = &node.vitals {
        lines.extend(said(node, vitals));
    }
    lines.extend([
        ("in doubt", in_doubt(node)),
        ("bonds", bonds(node)),
        ("total", totals(node)),
        ("lost", losses(node)),
    ]);
    if node.stalled_targets + node.slow_receivers > 0 {
        lines.push(("slow", some([("there", node.stalled_targets), ("here", node.slow_receivers)], Role::Warn)));
    }
    // Messages that a node could not decode: the two run programs that differ.
    if node.undecodable_total + node.undecodable_there_total > 0 {
        let counts = [("there", node.undecodable_there_total), ("here", node.undecodable_total)];
        lines.push(("dropped", some(counts, Role::Bad)));
    }
    lines
}

/// Returns the state, and since when.
fn seen(node: &ClusterNode) -> Vec<Fact> {
    let since = node.since_ms.map(format::age);
    let (words, role) = match (node.state.as_str(), since) {
        ("up", Some(since)) => (format!("connected for {since}"), Role::Good),
        ("down", Some(since)) => (format!("lost {since} ago"), Role::Bad),
        ("left", Some(since)) => (format!("left {since} ago"), Role::Text),
        (state, _) => (state.to_owned(), Role::Warn),
    };
    let wire = node.wire_version.map(|version| ("wire", version.to_string(), Role::Dim));
    [("", words, role)].into_iter().chain(wire).collect()
}

/// Returns what the node last said about itself, and when.
fn said(node: &ClusterNode, vitals: &VitalsInfo) -> [(&'static str, Vec<Fact>); 2] {
    let role = if node.state == "up" { Role::Text } else { Role::Dim };
    let first = vec![
        ("procs", format::short(vitals.processes as f64), role),
        ("cpu", optional(vitals.busy_pct, format::percent), role),
        ("mem", format::bytes_short(vitals.memory_bytes), role),
    ];
    let second = vec![
        ("msgs/s", optional(vitals.messages_per_sec, format::short), role),
        ("up", format::age(vitals.uptime_ms), role),
        ("rusm", vitals.version.clone(), role),
    ];
    [(if node.state == "up" { "itself" } else { "at last" }, first), ("", second)]
}

fn in_doubt(node: &ClusterNode) -> Vec<Fact> {
    if node.window_frames == 0 {
        return vec![("", "-".to_owned(), Role::Dim)];
    }
    let (frames, window) = (format::short(node.in_doubt_frames as f64), format::short(node.window_frames as f64));
    let bytes = format!("{}/{}", format::bytes_short(node.in_doubt_bytes), format::bytes_short(node.window_bytes));
    vec![("frames", format!("{frames}/{window}"), Role::Text), ("bytes", bytes, Role::Text)]
}

fn bonds(node: &ClusterNode) -> Vec<Fact> {
    let short = |count: u64| format::short(count as f64);
    let monitors = format!("{}/{}", short(node.monitors), short(node.monitored_by));
    vec![("links", short(node.links), Role::Text), ("monitors", monitors, Role::Text)]
}

fn totals(node: &ClusterNode) -> Vec<Fact> {
    let of = |messages: u64, bytes: u64| format!("{} {}", format::short(messages as f64), format::bytes_short(bytes));
    vec![
        ("out", of(node.messages_out_total, node.bytes_out_total), Role::Text),
        ("in", of(node.messages_in_total, node.bytes_in_total), Role::Text),
    ]
}

fn losses(node: &ClusterNode) -> Vec<Fact> {
    let count = match node.losses_total {
        0 => return vec![("", "never".to_owned(), Role::Dim)],
        1 => "once".to_owned(),
        count => format!("{} times", format::short(count as f64)),
    };
    let why = node.last_loss.clone().map(|why| ("", why, Role::Warn));
    [("", count, Role::Warn)].into_iter().chain(why).collect()
}

fn some(counts: [(&'static str, u64); 2], role: Role) -> Vec<Fact> {
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(label, count)| (label, format::short(count as f64), role)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_a_node_could_not_read_have_a_line_of_their_own() {
        let line = |here, there| {
            let counts =
                ClusterNode { undecodable_total: here, undecodable_there_total: there, ..ClusterNode::default() };
            lines(&counts).into_iter().find(|(label, _)| *label == "dropped").map(|(_, facts)| facts)
        };

        assert_eq!(line(0, 0), None);
        assert_eq!(line(0, 3), Some(vec![("there", "3".to_owned(), Role::Bad)]));
        assert_eq!(line(1, 3).map(|facts| facts.len()), Some(2));
    }
}
