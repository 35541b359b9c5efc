//! The Schedulers view: what each scheduler does and how much waits for it, and the memory of the node by kind over time.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{IdleInfo, SchedulerInfo, Schedulers};

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::{chart, memory};
use crate::view::theme::{Role, Theme};

/// Minimum widths at which a row shows its history, and its rates.
const USUAL: u16 = 76;
const WIDE: u16 = 120;
/// Age of a waiting process from which it is highlighted.
const LATE_US: u64 = 5_000;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::zoom::sched(model);
    table(painter, layout.schedulers.into(), model);
    memory::over_time(painter, layout.memory.into(), model);
    if layout.chart.width > 0 {
        memory::chart(painter, layout.chart.into(), model);
    }
}

/// A column: heading, width, and true if it aligns right.
type SchedColumn = (&'static str, u16, bool);

const CORE: [SchedColumn; 5] =
    [("", 4, false), ("CPU", 5, true), ("AWAKE", 5, true), ("READY", 6, true), ("OLDEST", 8, true)];
const RATES: [SchedColumn; 6] = [
    ("POLLS/S", 8, true),
    ("STEALS/S", 8, true),
    ("STOLEN/S", 8, true),
    ("PARKS/S", 8, true),
    ("WAKES/S", 8, true),
    ("PREEMPT/S", 9, true),
];

/// Returns the columns that fit, and the width that is left for the history.
fn columns(width: u16) -> (Vec<SchedColumn>, u16) {
    let mut columns = CORE.to_vec();
    if width >= WIDE {
        columns.extend(RATES);
    }
    let now = match width {
        WIDE.. => 24,
        USUAL.. => 20,
        _ => 12,
    };
    columns.extend([("NOW", now, false), ("FOR", 9, true)]);
    let taken: u16 = columns.iter().map(|(_, width, _)| width + 1).sum();
    (columns, width.saturating_sub(taken + 1))
}

fn table(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let newest = model.sched.newest.as_ref();
    let total = newest.map_or(0, |newest| newest.total);
    let title = Line::from(Span::styled(format!(" schedulers {} {total} ", theme.dot()), theme.style(Role::Title)));
    let injected = newest.map(|newest| format!(" injected queue {} ", format::short(newest.injected as f64)));
    let right = Line::from(Span::styled(injected.unwrap_or_default(), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    let Some(newest) = newest.filter(|newest| !newest.schedulers.is_empty()) else {
        return painter.missing(inner, "the schedulers");
    };
    let (columns, history) = columns(inner.width);
    let headings: Vec<_> = columns.iter().map(|(heading, ..)| ((*heading).to_owned(), Role::Dim)).collect();
    put(painter, inner, 0, &columns, &headings);
    let x = inner.width - history;
    if history >= 6 {
        painter.put(inner.x + x, inner.y, &Line::from(Span::styled("60 s", theme.style(Role::Dim))), history);
    }
    let rows = inner.height.saturating_sub(2);
    for (at, scheduler) in (1..=rows).zip(&newest.schedulers) {
        put(painter, inner, at, &columns, &cells(scheduler, inner.width, theme));
        if let Some(past) = model.histories.schedulers.get(scheduler.number as usize).filter(|_| history >= 6) {
            let bucket_ms = (60_000 / (u64::from(history) * 2)).max(100);
            let ribbon = chart::ribbon(theme, past, model.chart_end_ms(), history, bucket_ms, 1.0);
            let line = Line::from(Span::styled(ribbon, theme.style(Role::Flow)));
            painter.put(inner.x + x, inner.y + at, &line, history);
        }
    }
    let (text, role) = match &newest.idle {
        Some(idle) => (format!(" ! {}", idle_text(idle)), Role::Warn),
        None => (sums(newest, usize::from(rows), inner.width, theme), Role::Dim),
    };
    painter.line(inner, inner.height.saturating_sub(1), &Line::from(Span::styled(text, theme.style(role))));
}

/// Describes a scheduler that sleeps although processes wait at another one.
fn idle_text(idle: &IdleInfo) -> String {
    let IdleInfo { idle, busy, ready, pinned, stolen_per_sec } = *idle;
    let (ready, pinned) = (format::grouped(ready), format::grouped(pinned));
    format!(
        "s{idle} sleeps while {ready} wait on s{busy} (pinned {pinned}, stolen {}/s)",
        format::short(stolen_per_sec)
    )
}

/// Returns the sums over all shown schedulers, as many as fit into `width`.
fn sums(newest: &Schedulers, rows: usize, width: u16, theme: Theme) -> String {
    let sum = |of: fn(&SchedulerInfo) -> f64| format::short(newest.schedulers.iter().map(of).sum());
    let hidden = newest.total.saturating_sub(rows as u64);
    let parts = [
        (hidden > 0).then(|| format!("{hidden} more")),
        Some(format!("ready {}", sum(|one| one.ready as f64))),
        Some(format!("polls/s {}", sum(|one| one.polls_per_sec))),
        Some(format!("steals/s {}", sum(|one| one.steals_per_sec))),
        Some(format!("preempted/s {}", sum(|one| one.preemptions_per_sec))),
    ];
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        let separator = if text.is_empty() { " ".to_owned() } else { format!(" {} ", theme.dot()) };
        if painter::width(&text) + painter::width(&separator) + painter::width(&part) <= width {
            text.push_str(&separator);
            text.push_str(&part);
        }
    }
    text
}

fn cells(scheduler: &SchedulerInfo, width: u16, theme: Theme) -> Vec<(String, Role)> {
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let count = |count: u64, role| (format::short(count as f64), if count == 0 { Role::Dim } else { role });
    let rate = |rate: f64| (format::short(rate), if rate == 0.0 { Role::Dim } else { Role::Text });
    let time = |us: u64| format::nanos(us.saturating_mul(1000), theme.micro());
    let heat = |share: f64| if share >= 0.95 { Role::Warn } else { Role::Strong };
    let cpu = scheduler.cpu.map_or_else(|| ("-".to_owned(), Role::Dim), |cpu| (share(cpu), heat(cpu)));
    let oldest = match scheduler.oldest_us {
        Some(us) => (time(us), if us >= LATE_US { Role::Warn } else { Role::Delay }),
        None => ("-".to_owned(), Role::Dim),
    };
    let (now, since) = match (&scheduler.running, scheduler.asleep_us) {
        (Some(pid), _) => {
            let now = scheduler.name.as_ref().map_or_else(|| pid.clone(), |name| format!("{pid} {name}"));
            let at_most = theme.sign("≤", "<");
            ((now, Role::Text), scheduler.slice_us.map_or_else(String::new, |us| format!("{at_most}{}", time(us))))
        }
        (None, Some(us)) => (("asleep".to_owned(), Role::Dim), time(us)),
        (None, None) => (("between polls".to_owned(), Role::Dim), String::new()),
    };
    let mut cells = vec![
        (format!("s{}", scheduler.number), Role::Dim),
        cpu,
        (share(scheduler.awake), Role::Text),
        count(scheduler.ready, Role::Strong),
        oldest,
    ];
    if width >= WIDE {
        cells.extend([
            rate(scheduler.polls_per_sec),
            rate(scheduler.steals_per_sec),
            rate(scheduler.stolen_per_sec),
            rate(scheduler.parks_per_sec),
            rate(scheduler.wakes_per_sec),
            rate(scheduler.preemptions_per_sec),
        ]);
    }
    cells.extend([now, (since, Role::Text)]);
    cells
}

/// Draws the cells of a row.
fn put(painter: &mut Painter<'_>, area: Rect, at: u16, columns: &[SchedColumn], cells: &[(String, Role)]) {
    let theme = painter.theme;
    let mut spans = Vec::new();
    for ((_, width, is_right), (text, role)) in columns.iter().zip(cells) {
        let text = painter::cut(text, *width, theme);
        let pad = " ".repeat(usize::from(width - painter::width(&text).min(*width)));
        let text = if *is_right { format!(" {pad}{text}") } else { format!(" {text}{pad}") };
        spans.push(Span::styled(text, theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}
