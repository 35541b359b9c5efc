//! The CPU view: CPU time by kind, parent or scheduler, with the runtime's own, and their sum beside the kernel's.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{Cpu, CpuGroup, CpuRow};

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::chart;
use crate::view::theme::{Role, Theme};

/// Share of one core from which a group is highlighted.
const HOT_PCT: f64 = 90.0;
/// Delay from which processes run late.
const LATE_NS: u64 = 10_000_000;
/// Width of the share, of the bar, and of the columns after it.
const SHARE: u16 = 8;
const BAR_MAX: u16 = 24;
const ALIVE: u16 = 7;
const ENDED: u16 = 8;
const WAIT: u16 = 10;
/// Minimum width of the name; with the parent beside it, the row must be this wide.
const NAME_MIN: u16 = 16;
const WITH_PARENT: u16 = 86;
/// Rows below the groups: a rule, the runtime and its parts.
const FOOT: u16 = 3;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::zoom::cpu(model);
    history(painter, layout.chart.into(), model);
    groups(painter, layout.groups.into(), model);
}

fn history(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 4 {
        return;
    }
    let theme = painter.theme;
    let used = model.histories.cpu.mean_to(model.chart_end_ms(), 1000);
    let title = Line::from(vec![
        Span::styled(" cores used ", theme.style(Role::Title)),
        Span::styled(format!("{used:.2} "), theme.style(Role::Accent)),
    ]);
    let right = Line::from(Span::styled(format!(" {} ", model.window.text()), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    chart::render(painter, inner, model, &model.histories.cpu);
}

fn groups(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.cpu;
    // A moment of the past has the rows that the recorder kept, whatever is chosen now.
    let group = pane.newest.as_ref().map_or(pane.group, |cpu| cpu.group);
    let title = Line::from(Span::styled(format!(" cpu by {} ", word(group)), theme.style(Role::Title)));
    let Some(cpu) = &pane.newest else {
        let inner = painter.panel(area, &title, &Line::default());
        return painter.missing(inner, "the node's CPU time");
    };
    let inner = painter.panel(area, &title, &used(cpu, theme));
    if cpu.span_ms == 0 {
        return painter.note(inner, "measuring: shares need two looks");
    }
    let columns = Columns::fit(inner.width, group);
    columns.heading(painter, inner);
    for at in 0..model.visible_groups() {
        let position = pane.list.top + u64::from(at);
        if position >= cpu.total {
            break;
        }
        if let Some(row) = pane.row(position) {
            columns.row(painter, inner, at + 1, row);
        }
        if position == pane.list.at {
            painter.select(painter::row(inner, at + 1));
        }
    }
    runtime(painter, inner, cpu, &columns);
    sum(painter, area, cpu);
}

const fn word(group: CpuGroup) -> &'static str {
    match group {
        CpuGroup::Kind | CpuGroup::Other => "kind",
        CpuGroup::Parent => "parent",
        CpuGroup::Scheduler => "scheduler",
    }
}

/// Returns the cores that the node and other programs use.
fn used(cpu: &Cpu, theme: Theme) -> Line<'static> {
    let of = if cpu.cores > 0 { format!(" of {} cores ", cpu.cores) } else { " cores ".to_owned() };
    let rest = format!(
        "{of}{dot} others {} {dot} {:.0} s ",
        format::cores(cpu.others_pct),
        cpu.span_ms as f64 / 1e3,
        dot = theme.dot()
    );
    Line::from(vec![
        Span::styled(format!(" {}", format::cores(cpu.process_pct)), theme.style(Role::Strong)),
        Span::styled(rest, theme.style(Role::Dim)),
    ])
}

/// Draws the runtime's own time and its parts, the largest first.
fn runtime(painter: &mut Painter<'_>, inner: Rect, cpu: &Cpu, columns: &Columns) {
    let theme = painter.theme;
    if inner.height < FOOT + 2 {
        return;
    }
    let at = inner.height - FOOT;
    let rule = theme.sign("─", "-").repeat(inner.width.into());
    painter.line(inner, at, &Line::from(Span::styled(rule, theme.style(Role::Border))));
    let total: f64 = cpu.runtime.iter().map(|part| part.cpu_pct).sum();
    let name = if cpu.group == CpuGroup::Scheduler { "(other threads)" } else { "(runtime)" };
    let mut spans = columns.start(theme, name, Role::Dim, total);
    let mut parts = cpu.runtime.clone();
    parts.sort_by(|a, b| b.cpu_pct.total_cmp(&a.cpu_pct));
    painter.line(inner, at + 1, &Line::from(std::mem::take(&mut spans)));
    let texts = parts.iter().map(|part| format!("{} {}", part.name, share(part.cpu_pct)));
    let room = inner.width.saturating_sub(4);
    let mut line = String::new();
    for text in texts {
        let next = if line.is_empty() { text } else { format!(" {} {text}", theme.dot()) };
        if painter::width(&line) + painter::width(&next) > room {
            break;
        }
        line.push_str(&next);
    }
    painter.line(inner, at + 2, &Line::from(Span::styled(format!("   {line}"), theme.style(Role::Dim))));
}

/// Writes the sum of all rows beside the CPU time that the kernel counts.
fn sum(painter: &mut Painter<'_>, area: Rect, cpu: &Cpu) {
    let theme = painter.theme;
    let is_off = (cpu.sum_pct - cpu.process_pct).abs() > 3.0_f64.max(cpu.process_pct * 0.05);
    let text = format!(" sum {:.1} of {:.1} % of a core ", cpu.sum_pct, cpu.process_pct);
    let text = Line::from(Span::styled(text, theme.style(if is_off { Role::Warn } else { Role::Text })));
    let width = text.width() as u16;
    if width + 4 < area.width {
        painter.on_border(area.x + 2, area.bottom().saturating_sub(1), &text, width);
    }
}

fn share(pct: f64) -> String {
    if pct > 0.0 && pct < 0.05 { "<0.1".to_owned() } else { format!("{pct:.1}") }
}

/// Widths of the columns.
struct Columns {
    name: u16,
    bar: u16,
    parent: u16,
    group: CpuGroup,
}

impl Columns {
    fn fit(width: u16, group: CpuGroup) -> Self {
        let fixed = 2 + SHARE + 2 + ALIVE + ENDED + WAIT;
        let has_parent = group == CpuGroup::Kind && width >= WITH_PARENT;
        let parent = if has_parent { 2 + (width / 6).min(24) } else { 0 };
        let room = width.saturating_sub(fixed + parent);
        let bar = (room / 3).min(BAR_MAX).min(room.saturating_sub(NAME_MIN));
        Self { name: room - bar, bar, parent, group }
    }

    fn heading(&self, painter: &mut Painter<'_>, inner: Rect) {
        let dim = painter.theme.style(Role::Dim);
        let name = word(self.group).to_uppercase();
        let (alive, ended) = match self.group {
            CpuGroup::Scheduler => ("READY", ""),
            _ => ("ALIVE", "ENDED/s"),
        };
        let from = if self.parent > 0 { "  FROM" } else { "" };
        let (share, wait) = ("CPU%", "WAIT P99");
        let text = format!(
            " {name:<name_width$}{share:>share_width$}  {:bar$}{alive:>alive_width$}{ended:>ended_width$}{wait:>wait_width$}{from}",
            "",
            name_width = usize::from(self.name),
            share_width = usize::from(SHARE),
            bar = usize::from(self.bar),
            alive_width = usize::from(ALIVE),
            ended_width = if ended.is_empty() { 0 } else { usize::from(ENDED) },
            wait_width = usize::from(WAIT),
        );
        painter.line(inner, 0, &Line::from(Span::styled(text, dim)));
    }

    /// Returns the name, the share and the bar of a row.
    fn start(&self, theme: Theme, name: &str, role: Role, pct: f64) -> Vec<Span<'static>> {
        let cut = painter::cut(name, self.name.saturating_sub(1), theme);
        let width = usize::from(self.name).saturating_sub(usize::from(painter::width(&cut)));
        let heat = match pct {
            pct if pct >= HOT_PCT => Role::Warn,
            pct if pct < 0.05 => Role::Dim,
            _ => Role::Text,
        };
        let mut spans = vec![
            Span::styled(format!(" {cut}{:width$}", ""), theme.style(role)),
            Span::styled(format!("{:>width$}  ", share(pct), width = usize::from(SHARE)), theme.style(heat)),
        ];
        let filled = (pct / 100.0 * f64::from(self.bar)).round().min(f64::from(self.bar)) as u16;
        let bar = theme.bar_cell(true).repeat(filled.into());
        let blank = " ".repeat((self.bar - filled).into());
        spans.push(Span::styled(
            format!("{bar}{blank}"),
            theme.style(if pct >= HOT_PCT { Role::Warn } else { Role::Flow }),
        ));
        spans
    }

    fn row(&self, painter: &mut Painter<'_>, inner: Rect, at: u16, row: &CpuRow) {
        let theme = painter.theme;
        let name = match &row.pid {
            Some(pid) if *pid != row.name => format!("{} {pid}", row.name),
            _ => row.name.clone(),
        };
        let role = if row.kind == "type" || row.kind == "outside" { Role::Text } else { Role::Strong };
        let mut spans = self.start(theme, &name, role, row.cpu_pct);
        let count = |n: f64, width: u16| {
            let role = if n > 0.0 { Role::Text } else { Role::Dim };
            Span::styled(format!("{:>width$}", format::short(n), width = usize::from(width)), theme.style(role))
        };
        spans.push(count(row.live as f64, ALIVE));
        if self.group != CpuGroup::Scheduler {
            spans.push(count(row.ended_per_sec, ENDED));
        }
        let (wait, role) = row.wait_p99_ns.map_or_else(
            || ("-".to_owned(), Role::Dim),
            |ns| (format::nanos(ns, theme.micro()), if ns >= LATE_NS { Role::Warn } else { Role::Text }),
        );
        spans.push(Span::styled(format!("{wait:>width$}", width = usize::from(WAIT)), theme.style(role)));
        if self.parent > 0 {
            let from = painter::cut(row.from.as_deref().unwrap_or_default(), self.parent - 2, theme);
            spans.push(Span::styled(format!("  {from}"), theme.style(Role::Dim)));
        }
        painter.line(inner, at, &Line::from(spans));
    }
}
