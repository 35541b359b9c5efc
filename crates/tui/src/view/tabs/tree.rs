//! The Tree view: supervisors and their children as laid out by the node, and the selected one in full.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rusm_protocol::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeSum};

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Age up to which a termination is highlighted as recent.
const FRESH_MS: u64 = 10_000;
/// Restart intensity from which the limit is shown as `any`.
const ANY_NUMBER: u64 = 1_000_000;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreeColumn {
    Name,
    Pid,
    State,
    Strategy,
    Window,
    Restarts,
    Cpu,
    Memory,
    LastEnd,
}

impl TreeColumn {
    const fn heading(self) -> &'static str {
        match self {
            Self::Name => "TREE",
            Self::Pid => "PID",
            Self::State => "STATE",
            Self::Strategy => "POLICY",
            Self::Window => "BUDGET",
            Self::Restarts => "TOTAL",
            Self::Cpu => "CPU%",
            Self::Memory => "MEM",
            Self::LastEnd => "LAST END",
        }
    }

    const fn is_number(self) -> bool {
        matches!(self, Self::Restarts | Self::Cpu | Self::Memory)
    }
}

/// Returns the columns that fit, with their positions and widths.
fn parts(width: u16) -> Vec<(TreeColumn, u16, u16)> {
    use TreeColumn::{Cpu, Memory, Pid, Restarts, State, Strategy, Window};
    let fixed: &[(TreeColumn, u16)] = match width {
        116.. => &[(Pid, 15), (State, 10), (Strategy, 16), (Window, 16), (Restarts, 6), (Cpu, 6), (Memory, 6)],
        92.. => &[(Pid, 12), (State, 10), (Window, 14), (Restarts, 6), (Cpu, 6), (Memory, 6)],
        64.. => &[(State, 10), (Window, 14), (Restarts, 6), (Cpu, 6), (Memory, 6)],
        _ => &[(State, 10), (Restarts, 6), (Cpu, 6)],
    };
    let left = width.saturating_sub(fixed.iter().map(|(_, width)| width + 1).sum());
    let name = if width < 64 { left } else { (left * 13 / 20).clamp(18, 44).min(left) };
    let last = left.saturating_sub(name + 1);
    // A column that is narrower than its heading would say nothing.
    let (name, last) = if usize::from(last) < TreeColumn::LastEnd.heading().len() { (left, 0) } else { (name, last) };
    let all = [(TreeColumn::Name, name)].into_iter().chain(fixed.iter().copied()).chain([(TreeColumn::LastEnd, last)]);
    all.filter(|(_, width)| *width > 0)
        .scan(0, |x, (part, width)| {
            let at = *x;
            *x += width + 1;
            Some((part, at, width))
        })
        .collect()
}

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::tree(model.size, model.tree.in_full);
    table(painter, layout.table.into(), model);
    if layout.detail.height > 0 {
        in_full(painter, layout.detail.into(), model);
    }
}

fn table(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" supervision tree ", theme.style(Role::Title)));
    let inner = painter.panel(area, &title, &counts(model, theme));
    let Some(tree) = &model.tree.rows else {
        return painter.missing(inner, "the tree");
    };
    if tree.total == 0 {
        return painter.note(inner, "no supervisors");
    }
    let parts = parts(inner.width.saturating_sub(1));
    for (part, x, width) in &parts {
        let heading = Line::from(Span::styled(part.heading(), theme.style(Role::Dim)));
        let right = if part.is_number() { width.saturating_sub(part.heading().len() as u16) } else { 0 };
        painter.put(inner.x + 1 + x + right, inner.y, &heading, width - right);
    }
    for at in 0..inner.height.saturating_sub(1) {
        let position = model.tree.top + u64::from(at);
        let line = painter::row(inner, at + 1);
        match model.tree.row(position) {
            Some(row) => self::row(painter, line, &parts, row, tree.at_ms),
            None if position < tree.total => {
                let dots = Span::styled(format!(" {}", theme.sign("⋯", "...")), theme.style(Role::Dim));
                painter.line(line, 0, &Line::from(dots));
            }
            None => {}
        }
        if position == model.tree.cursor && model.tree.selected_row().is_some() {
            painter.select(line);
        } else if position == model.tree.cursor {
            let sign = Span::styled(theme.sign("▹", ">"), theme.style(Role::Accent));
            painter.line(line, 0, &Line::from(sign));
        }
    }
    foot(painter, area, model);
}

/// Returns the number of top-level rows and of all rows, and the reason for a reduced refresh rate.
fn counts(model: &Model, theme: Theme) -> Line<'static> {
    let Some(tree) = &model.tree.rows else { return Line::default() };
    let text =
        format!(" {} top-level {} {} rows ", format::grouped(tree.top), theme.dot(), format::grouped(tree.total));
    let mut spans = vec![Span::styled(text, theme.style(Role::Dim))];
    if let Some(why) = &tree.degraded {
        spans.push(Span::styled(format!("{} {why} ", theme.dot()), theme.style(Role::Warn)));
    }
    Line::from(spans)
}

/// Draws the position in the tree, and the node's cost of the request, into the lower border.
fn foot(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(tree) = &model.tree.rows else { return };
    let at = format!(" row {} ", format::grouped(model.tree.cursor + 1));
    let cost = format!(" {} CPU per refresh ", format::nanos((tree.cost_us * 1e3).max(0.0) as u64, theme.micro()));
    let (at_width, cost_width) = (painter::width(&at), painter::width(&cost));
    if at_width + cost_width + 6 < area.width {
        let bottom = area.bottom().saturating_sub(1);
        let at = Line::from(Span::styled(at, theme.style(Role::Text)));
        painter.on_border(area.x + 2, bottom, &at, at_width);
        let cost = Line::from(Span::styled(cost, theme.style(Role::Dim)));
        painter.on_border(area.right() - 2 - cost_width, bottom, &cost, cost_width);
    }
}

fn row(painter: &mut Painter<'_>, area: Rect, parts: &[(TreeColumn, u16, u16)], row: &TreeRow, now_ms: u64) {
    let theme = painter.theme;
    for (part, x, width) in parts {
        let line = match part {
            TreeColumn::Name => {
                let has_pid = parts.iter().any(|(part, ..)| *part == TreeColumn::Pid);
                name(row, has_pid, *width, theme)
            }
            TreeColumn::Pid => text(row.pid.as_deref().unwrap_or_default(), Role::Text, *width, theme),
            TreeColumn::State => text(&row.state, state_role(row), *width, theme),
            TreeColumn::Strategy => match &row.branch {
                Some(branch) => text(short_strategy(&branch.strategy, *width), Role::Text, *width, theme),
                None => text(row.restart.as_deref().unwrap_or_default(), Role::Dim, *width, theme),
            },
            TreeColumn::Window => row.branch.as_ref().map(|branch| window(branch, *width, theme)).unwrap_or_default(),
            TreeColumn::Restarts => {
                // For a supervisor, show the restarts of its children: they count against its intensity.
                let total = row.branch.as_ref().map_or(row.restarts_total, |branch| branch.restarts_total);
                let count = format::count_within(total, usize::from(*width));
                let role = if total == 0 { Role::Dim } else { Role::Strong };
                text(&format!("{count:>0$}", usize::from(*width)), role, *width, theme)
            }
            TreeColumn::Cpu => number(row.sum.and_then(|sum| sum.cpu_pct).map(cpu), *width, theme),
            TreeColumn::Memory => {
                let bytes = row.sum.map(|sum| (format::bytes_short(sum.memory_bytes), Role::Text));
                number(bytes, *width, theme)
            }
            TreeColumn::LastEnd => last_end(row, now_ms, *width, theme),
        };
        painter.put(area.x + 1 + x, area.y, &line, *width);
    }
}

/// Returns a share of a core as text, and its importance.
fn cpu(cpu_pct: f64) -> (String, Role) {
    let role = match cpu_pct {
        ..0.05 => Role::Dim,
        ..90.0 => Role::Text,
        _ => Role::Warn,
    };
    (format!("{cpu_pct:.1}"), role)
}

/// Returns a right-aligned number, or a dash if it is not known.
fn number(value: Option<(String, Role)>, width: u16, theme: Theme) -> Line<'static> {
    let (value, role) = value.unwrap_or_else(|| ("-".to_owned(), Role::Dim));
    text(&format!("{value:>0$}", usize::from(width)), role, width, theme)
}

fn text(text: &str, role: Role, width: u16, theme: Theme) -> Line<'static> {
    Line::from(Span::styled(painter::cut(text, width, theme), theme.style(role)))
}

/// Returns the connecting lines, the fold marker, the name, and the number of running children of a row.
fn name(row: &TreeRow, has_pid: bool, width: u16, theme: Theme) -> Line<'static> {
    let has_sibling = |depth: u32| row.rails.checked_shr(depth).is_some_and(|rails| rails & 1 == 1);
    let depth = row.depth.min(u32::from(width / 3));
    let mut lines = String::new();
    for at in 1..=depth {
        lines.push_str(match (at == depth, has_sibling(at)) {
            (true, true) => theme.sign("├─", "|-"),
            (true, false) => theme.sign("└─", "`-"),
            (false, true) => theme.sign("│ ", "| "),
            (false, false) => "  ",
        });
    }
    let sign = match &row.branch {
        Some(branch) if branch.open => theme.sign("▾ ", "v "),
        Some(_) => theme.sign("▸ ", "> "),
        None if depth > 0 => " ",
        None => "",
    };
    let taken = painter::width(&lines) + painter::width(sign);
    let room = width.saturating_sub(taken);
    let shown = painter::cut(&title(row, has_pid, room, theme), room, theme);
    let left = width.saturating_sub(taken + painter::width(&shown));
    let mut spans = vec![
        Span::styled(lines, theme.style(Role::Dim)),
        Span::styled(sign, theme.style(Role::Accent)),
        Span::styled(shown, theme.style(if row.branch.is_some() { Role::Strong } else { Role::Text })),
    ];
    spans.extend(row.branch.as_ref().and_then(|branch| children(branch, left, theme)));
    Line::from(spans)
}

/// Returns the name of a row, with the label of its process. A supervisor without a name or a label is shown by its pid,
/// unless that is beside it.
fn title(row: &TreeRow, has_pid: bool, room: u16, theme: Theme) -> String {
    match (&row.pid, row.name.is_empty()) {
        (_, false) => match &row.label {
            Some(label) => format!("{} {} {label}", row.name, theme.dot()),
            None => row.name.clone(),
        },
        (Some(pid), true) if !has_pid => {
            let words = format!("Supervisor {pid}");
            if painter::width(&words) > room { pid.clone() } else { words }
        }
        (_, true) => "Supervisor".to_owned(),
    }
}

/// Returns the number of running children, and the total if it differs, in words if `width` has room for them.
fn children(branch: &TreeBranch, width: u16, theme: Theme) -> Option<Span<'static>> {
    let all = branch.running + branch.waiting + branch.ended;
    let (count, role) = if branch.running == all {
        (format::count_within(all, 7), Role::Dim)
    } else {
        let [running, all] = [branch.running, all].map(|count| format::count_within(count, 7));
        (format!("{running} of {all}"), Role::Warn)
    };
    let word = if all == 1 { "child" } else { "children" };
    let texts = [format!(" {} {count} {word}", theme.dot()), format!(" {count}")];
    let text = texts.into_iter().find(|text| painter::width(text) <= width)?;
    Some(Span::styled(text, theme.style(role)))
}

fn state_role(row: &TreeRow) -> Role {
    match row.state.as_str() {
        "running" => Role::Good,
        "starting" | "stopping" | "restarting" | "waiting" => Role::Warn,
        _ => Role::Dim,
    }
}

/// Shortens the long name of the dynamic strategy if it does not fit.
fn short_strategy(strategy: &str, width: u16) -> &str {
    if painter::width(strategy) > width { strategy.strip_suffix("_one_for_one").unwrap_or(strategy) } else { strategy }
}

/// Formats the used part of the restart intensity: `2 of 5, 10 s`; without the period if it does not fit.
fn window(branch: &TreeBranch, width: u16, theme: Theme) -> Line<'static> {
    let role = match branch.used {
        0 => Role::Dim,
        used if used >= branch.allowed => Role::Bad,
        used if used * 2 >= branch.allowed => Role::Warn,
        _ => Role::Text,
    };
    let words = used(branch);
    let short = words.split_once(',').map_or("", |(short, _)| short);
    let fits = |words: &&str| painter::width(words) <= width;
    text([&*words, words.trim_start(), short].into_iter().find(fits).unwrap_or(short), role, width, theme)
}

/// Formats the used part of the restart intensity. The digits keep their places while the number grows.
fn used(branch: &TreeBranch) -> String {
    if branch.allowed >= ANY_NUMBER {
        return "no limit".to_owned();
    }
    let [used, allowed] = [branch.used, branch.allowed].map(|count| format::short(count as f64));
    format!("{used:>0$} of {allowed}, {1}", allowed.len(), period(branch.period_ms))
}

fn period(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{} s", ms / 1000),
        _ => format!("{} min", ms / 60_000),
    }
}

fn is_normal(reason: &str) -> bool {
    reason == "normal" || reason.starts_with("shutdown")
}

/// Returns the time and reason of the last termination.
fn last_end(row: &TreeRow, now_ms: u64, width: u16, theme: Theme) -> Line<'static> {
    let (Some(at_ms), Some(reason)) = (row.ended_at_ms, &row.reason) else { return Line::default() };
    let age_ms = now_ms.saturating_sub(at_ms);
    let role = match (is_normal(reason), age_ms < FRESH_MS) {
        (true, _) => Role::Dim,
        (false, true) => Role::Bad,
        (false, false) => Role::Text,
    };
    let age = format!("{:>5} ", format::age(age_ms));
    let left = width.saturating_sub(painter::width(&age));
    Line::from(vec![
        Span::styled(painter::cut(age.trim_end(), width, theme), theme.style(Role::Dim)),
        Span::raw(" "),
        Span::styled(if left > 3 { painter::cut(reason, left, theme) } else { String::new() }, theme.style(role)),
    ])
}

/// Draws the selected row and its last terminations.
fn in_full(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(detail) = model.tree.detail() else {
        let inner = painter.panel(area, &Line::default(), &Line::default());
        let text = if model.tree.selected_row().is_some() { "loading" } else { "nothing is selected" };
        return painter.note(inner, text);
    };
    let row = &detail.row;
    let room = area.width.saturating_sub(24);
    let title = Line::from(vec![
        Span::styled(
            format!(" {} ", painter::cut(&title(row, true, room, theme), room, theme)),
            theme.style(Role::Title),
        ),
        Span::styled(row.pid.as_ref().map(|pid| format!("{pid} ")).unwrap_or_default(), theme.style(Role::Accent)),
    ]);
    let inner = painter::inset(painter.panel(area, &title, &Line::default()));
    let mut at = 0;
    let sum = model.tree.selected_row().and_then(|row| row.sum);
    for (words, role) in facts(detail, sum, theme) {
        for part in painter::wrap(&words, inner.width) {
            painter.line(inner, at, &Line::from(Span::styled(part, theme.style(role))));
            at += 1;
        }
    }
    let now_ms = model.tree.rows.as_ref().map_or(0, |rows| rows.at_ms);
    ends(painter, Rect { y: inner.y + at, height: inner.height.saturating_sub(at), ..inner }, detail, now_ms);
}

/// Describes the selected row, one sentence per line.
fn facts(detail: &TreeDetail, sum: Option<TreeSum>, theme: Theme) -> Vec<(String, Role)> {
    let (row, dot) = (&detail.row, theme.dot());
    let mut first = vec![match row.wait_ms {
        Some(ms) => format!("restarts in {}", format::age(ms)),
        None => row.state.clone(),
    }];
    first.extend(row.restart.clone());
    first.extend(detail.shutdown.as_deref().map(|shutdown| match shutdown.parse() {
        Ok(ms) => format!("stops within {}", format::age(ms)),
        Err(_) => format!("stops by {}", shutdown.replace('_', " ")),
    }));
    first.extend(detail.significant.then(|| "significant".to_owned()));
    first.extend(detail.parent.as_ref().map(|parent| format!("started by {parent}")));
    if row.restart.is_some() {
        first.push(format!("{} restarts", format::grouped(row.restarts_total)));
    }
    let mut facts = vec![(first.join(&format!(" {dot} ")), state_role(row))];
    if let Some(branch) = row.branch.as_ref().filter(|branch| !branch.strategy.is_empty()) {
        let (used, total) = (used(branch).trim_start().to_owned(), format::grouped(branch.restarts_total));
        facts.push((format!("{} {dot} {used} {dot} {total} restarts in all", branch.strategy), Role::Strong));
        let [running, waiting, ended] = [branch.running, branch.waiting, branch.ended].map(format::grouped);
        facts.push((format!("children: {running} running {dot} {waiting} waiting {dot} {ended} ended"), Role::Text));
    }
    if let Some((sum, cpu_pct)) = sum.and_then(|sum| Some((sum, sum.cpu_pct?))) {
        let (bytes, processes) = (format::bytes(sum.memory_bytes), format::grouped(sum.processes));
        let below =
            if sum.processes > 1 { format!(" {dot} {processes} processes, all below included") } else { String::new() };
        facts.push((format!("{cpu_pct:.1} % of a core {dot} {bytes}{below}"), Role::Text));
    }
    facts
}

/// Draws the last terminations, newest first: one line each, or more if there is room for the whole reason.
fn ends(painter: &mut Painter<'_>, area: Rect, detail: &TreeDetail, now_ms: u64) {
    let theme = painter.theme;
    if detail.ends.is_empty() {
        let words = "has not ended by itself";
        return painter.line(area, 0, &Line::from(Span::styled(words, theme.style(Role::Dim))));
    }
    let is_narrow = area.width < 60;
    let mut at = 0;
    for end in &detail.ends {
        let (head, role) = (head(end, now_ms), if is_normal(&end.reason) { Role::Dim } else { Role::Bad });
        let head_width = painter::width(&head) + 2;
        painter.line(area, at, &Line::from(Span::styled(head, theme.style(Role::Text))));
        if is_narrow {
            for part in painter::wrap(&end.reason, area.width.saturating_sub(2)) {
                at += 1;
                put(painter, area, at, 2, &part, theme.style(role));
            }
        } else {
            let reason = painter::cut(&end.reason, area.width.saturating_sub(head_width), theme);
            put(painter, area, at, head_width, &reason, theme.style(role));
        }
        at += 1;
    }
}

fn head(end: &TreeEnd, now_ms: u64) -> String {
    let pid = end.pid.as_deref().unwrap_or("did not start");
    format!("{:>6} ago  {pid}", format::age(now_ms.saturating_sub(end.at_ms)))
}

fn put(painter: &mut Painter<'_>, area: Rect, at: u16, x: u16, text: &str, style: Style) {
    let row = painter::row(area, at);
    if row.width > x {
        let line = Line::from(Span::styled(text.to_owned(), style));
        painter.put(row.x + x, row.y, &line, row.width - x);
    }
}
