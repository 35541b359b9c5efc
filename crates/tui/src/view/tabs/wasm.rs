//! The Wasm view: an engine and its capacity, traps and refusals by kind, the modules, the most recent traps.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{CacheInfo, EngineInfo, FaultInfo, ModuleInfo};

use crate::model::panes::wasm::WasmFocus;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Age up to which a trap is highlighted as recent.
const FRESH_MS: u64 = 10_000;
/// Width of the label before a bar, in cells.
const LABEL: u16 = 11;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::wasm(model.size);
    engine(painter, layout.engine.into(), model);
    counts(painter, layout.counts.into(), model);
    modules(painter, layout.modules.into(), model);
    traps(painter, layout.traps.into(), model);
}

fn title(words: &str, has_keys: bool, theme: Theme) -> Line<'static> {
    let role = if has_keys { Role::Accent } else { Role::Title };
    Line::from(Span::styled(format!(" {words} "), theme.style(role)))
}

fn engine(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let shown = model.wasm.shown_engine();
    let count = model.wasm.newest.as_ref().map_or(0, |newest| newest.engines.len());
    let name = match shown {
        Some((at, engine)) if count > 1 => format!("engine {}/{count}: {}", at + 1, engine.room),
        Some((_, engine)) => format!("engine: {}", engine.room),
        None => "engine".to_owned(),
    };
    let right = shown.map(|(_, engine)| starts(engine, theme)).unwrap_or_default();
    let inner = painter::inset(painter.panel(area, &title(&name, false, theme), &right));
    let Some((_, engine)) = shown else {
        return if model.wasm.newest.is_some() {
            painter.note(inner, "no guest has run on this node");
        } else {
            painter.missing(inner, "engines");
        };
    };
    let mut at = 0;
    let mut next = |line: Line<'static>| {
        painter.line(inner, at, &line);
        at += 1;
    };
    next(gauge("instances", engine.live, engine.capacity, inner.width, theme));
    for slots in engine.slots.iter().take(2) {
        next(gauge(&slots.name, slots.used, slots.slots, inner.width, theme));
    }
    next(epochs(engine, theme));
    next(cache(engine.cache, inner.width, theme));
}

/// Returns the number of instances started, and of those refused because the engine was full.
fn starts(engine: &EngineInfo, theme: Theme) -> Line<'static> {
    let started = format!(" {} started ", format::short(engine.started_total as f64));
    let mut spans = vec![Span::styled(started, theme.style(Role::Dim))];
    if engine.refused_total > 0 {
        let refused = format!("{} without room ", format::short(engine.refused_total as f64));
        spans.push(Span::styled(refused, theme.style(Role::Warn)));
    }
    Line::from(spans)
}

/// `instances ━━━━━━───────  612 of 1,000`
fn gauge(name: &str, used: u64, slots: u64, width: u16, theme: Theme) -> Line<'static> {
    let words = format!("{:>7} of {:<9}", format::count_within(used, 7), format::count_within(slots, 9));
    let cells = width.saturating_sub(LABEL + 1 + painter::width(&words));
    let share = if slots == 0 { 0.0 } else { used as f64 / slots as f64 };
    let mut spans = vec![label(name, theme)];
    // Show at least half a cell if any are used, even if their share rounds to zero.
    let seen = if used > 0 { share.max(0.5 / f64::from(cells.max(1))) } else { 0.0 };
    spans.extend(painter::bar(theme, cells, seen, |position| theme.heat(position)));
    spans.push(Span::styled(format!(" {words}"), theme.style(if share >= 0.9 { Role::Warn } else { Role::Text })));
    Line::from(spans)
}

fn label(name: &str, theme: Theme) -> Span<'static> {
    Span::styled(format!("{name:<width$}", width = usize::from(LABEL)), theme.style(Role::Dim))
}

fn epochs(engine: &EngineInfo, theme: Theme) -> Line<'static> {
    let every = format::nanos(engine.tick_us.saturating_mul(1000), theme.micro());
    let (word, role) = if engine.is_ticking { ("ticking", Role::Good) } else { ("asleep", Role::Dim) };
    Line::from(vec![
        label("epochs", theme),
        Span::styled(format!("{} of {every}, ", format::grouped(engine.ticks_total)), theme.style(Role::Text)),
        Span::styled(word, theme.style(role)),
    ])
}

fn cache(cache: CacheInfo, width: u16, theme: Theme) -> Line<'static> {
    if cache.max_bytes == 0 {
        let words = format!("off {} {} compiled", theme.dot(), format::grouped(cache.misses_total));
        return Line::from(vec![label("cache", theme), Span::styled(words, theme.style(Role::Dim))]);
    }
    let dot = theme.dot();
    let held = format!("{} of {}", format::bytes(cache.bytes), format::bytes(cache.max_bytes));
    let [hits, misses, evicted] = [cache.hits_total, cache.misses_total, cache.evictions_total];
    let short = |n: u64| format::short(n as f64);
    let mut parts = vec![format!("{} entries", short(cache.entries)), held];
    parts.extend([format!("{} hits", short(hits)), format!("{} misses", short(misses))]);
    parts.push(format!("{} evicted", short(evicted)));
    let mut words = parts.join(&format!(" {dot} "));
    if painter::width(&words) + LABEL > width {
        words = format!(
            "{} in {}, hit {} missed {}",
            short(cache.entries),
            format::bytes(cache.bytes),
            short(hits),
            short(misses)
        );
    }
    let mut line = Line::from(vec![label("cache", theme), Span::styled(words, theme.style(Role::Text))]);
    for (count, what) in [(cache.unkept_total, "not kept"), (cache.damaged_total, "damaged")] {
        if count != 0 {
            line.push_span(Span::styled(format!(" {dot} {} {what}", short(count)), theme.style(Role::Warn)));
        }
    }
    line
}

/// Draws the traps by code, and the refusals by missing capability, of all engines.
fn counts(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let engines = model.wasm.newest.as_ref().map_or(&[][..], |newest| &newest.engines);
    let traps = summed(engines.iter().flat_map(|engine| &engine.faults_total));
    let refusals = summed(engines.iter().flat_map(|engine| &engine.refusals_total));
    let total = |counts: &[(String, u64)]| format::short(counts.iter().map(|(_, count)| *count).sum::<u64>() as f64);
    let name = format!("{} traps {} {} refusals", total(&traps), theme.dot(), total(&refusals));
    let inner = painter::inset(painter.panel(area, &title(&name, false, theme), &Line::default()));
    let refusals = refusals.into_iter().map(|(name, count)| (format!("lacks {name}"), count, Role::Warn));
    let all: Vec<_> = traps.into_iter().map(|(name, count)| (name, count, Role::Bad)).chain(refusals).collect();
    if all.is_empty() {
        return painter.note(inner, "none");
    }
    let columns = if inner.width >= 48 && all.len() > inner.height.into() { 2 } else { 1 };
    let width = (inner.width - 3 * (columns - 1)) / columns;
    for (at, (name, count, role)) in (0..).zip(all).take(usize::from(inner.height * columns)) {
        let cell = Rect { x: inner.x + at / inner.height * (width + 3), width, ..inner };
        let name = painter::cut(&name, width.saturating_sub(6), theme);
        let value = Line::from(Span::styled(format::count_within(count, 7), theme.style(role)));
        painter.line(cell, at % inner.height, &Line::from(Span::styled(name, theme.style(Role::Text))));
        painter.line_right(cell, at % inner.height, &value);
    }
}

/// Sums the counts of each name, largest first.
fn summed<'a>(counts: impl Iterator<Item = &'a rusm_protocol::CountInfo>) -> Vec<(String, u64)> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for count in counts {
        match sums.iter_mut().find(|(name, _)| *name == count.name) {
            Some((_, sum)) => *sum = sum.saturating_add(count.count),
            None => sums.push((count.name.clone(), count.count)),
        }
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

fn modules(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.wasm;
    let has_keys = pane.focus == WasmFocus::Modules;
    let total = pane.newest.as_ref().map_or(0, |newest| newest.total);
    let right = Line::from(Span::styled(format!(" {} ", format::grouped(total)), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title("modules", has_keys, theme), &right);
    if total == 0 {
        return painter.note(inner, "no module is loaded");
    }
    let widths = [14, 9, 9, 7];
    let heading = ["KIND", "ALIVE", "SPAWNED", "TRAPS"];
    put(painter, inner, 0, ("MODULE", Role::Dim), widths, &heading.map(|word| (word.to_owned(), Role::Dim)));
    for at in 0..inner.height.saturating_sub(1) {
        let position = pane.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(module) = pane.module_at(position) {
            put(painter, inner, at + 1, (&module.name, Role::Strong), widths, &figures(module));
        } else {
            let dots = Span::styled(format!(" {}", theme.sign("⋯", "...")), theme.style(Role::Dim));
            painter.line(inner, at + 1, &Line::from(dots));
        }
        if has_keys && position == pane.module {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

fn figures(module: &ModuleInfo) -> [(String, Role); 4] {
    let dim_if_zero = |count: u64, role| if count == 0 { Role::Dim } else { role };
    [
        (module.kind.clone(), Role::Dim),
        (format::count_within(module.live, 9), dim_if_zero(module.live, Role::Text)),
        (format::short(module.started_total as f64), dim_if_zero(module.started_total, Role::Text)),
        (format::short(module.faults_total as f64), dim_if_zero(module.faults_total, Role::Bad)),
    ]
}

/// Draws a name at the left, and columns at the right end: the first contains words, the others numbers.
fn put(
    painter: &mut Painter<'_>,
    area: Rect,
    at: u16,
    (name, role): (&str, Role),
    widths: [u16; 4],
    columns: &[(String, Role); 4],
) {
    let theme = painter.theme;
    let taken: u16 = widths.iter().map(|width| width + 1).sum();
    let room = area.width.saturating_sub(taken + 2).min(60);
    let name = painter::cut(name, room, theme);
    let mut spans = vec![Span::styled(format!(" {name:<width$}", width = usize::from(room)), theme.style(role))];
    for (position, ((text, role), width)) in columns.iter().zip(widths).enumerate() {
        let (text, width) = (painter::cut(text, width, theme), usize::from(width));
        let text = if position == 0 { format!(" {text:<width$}") } else { format!(" {text:>width$}") };
        spans.push(Span::styled(text, theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

fn traps(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.wasm;
    let has_keys = pane.focus == WasmFocus::Traps;
    let inner = painter.panel(area, &title("last traps", has_keys, theme), &Line::default());
    let Some(newest) = pane.newest.as_ref().filter(|newest| !newest.faults.is_empty()) else {
        return painter.note(inner, "no guest has trapped");
    };
    let heading = format!(" {:>6}  {:<16} {:<14} {:<20} {}", "AGE", "PID", "MODULE", "TRAP", "IN");
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let first = model.first_trap();
    let room = inner.height.saturating_sub(1);
    for (row, (at, fault)) in (1..=room).zip(newest.faults.iter().enumerate().skip(first)) {
        painter.line(inner, row, &trap(fault, newest.at_ms, inner.width, theme));
        if has_keys && at == pane.trap {
            painter.select(painter::row(inner, row));
        }
    }
}

fn trap(fault: &FaultInfo, now_ms: u64, width: u16, theme: Theme) -> Line<'static> {
    let age_ms = now_ms.saturating_sub(fault.at_ms);
    let role = if age_ms < FRESH_MS { Role::Bad } else { Role::Text };
    let function = fault.function.as_deref().unwrap_or("-");
    Line::from(vec![
        Span::styled(format!(" {:>6}  ", format::age(age_ms)), theme.style(Role::Dim)),
        Span::styled(format!("{:<16} ", painter::cut(&fault.pid, 16, theme)), theme.style(Role::Text)),
        Span::styled(format!("{:<14} ", painter::cut(&fault.module, 14, theme)), theme.style(Role::Strong)),
        Span::styled(format!("{:<20} ", painter::cut(&fault.code, 20, theme)), theme.style(role)),
        Span::styled(painter::cut(function, width.saturating_sub(62), theme), theme.style(Role::Text)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Capabilities;

    #[test]
    fn a_cache_that_cannot_be_kept_says_so() {
        let said = |unkept_total, damaged_total| {
            let of =
                CacheInfo { max_bytes: 1 << 30, misses_total: 2, unkept_total, damaged_total, ..CacheInfo::default() };
            cache(of, 80, Theme::of(Capabilities { ascii: true, ..Capabilities::default() })).to_string()
        };

        assert!(!said(0, 0).contains("kept"));
        assert!(said(2, 1).contains("2 not kept") && said(2, 1).contains("1 damaged"), "{}", said(2, 1));
    }
}
