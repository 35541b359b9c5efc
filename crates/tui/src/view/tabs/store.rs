//! The Store view: a store and its activity, its failures, its buckets, and the keys of one bucket.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{BucketInfo, KeyInfo, StoreInfo, TableInfo};

use crate::model::panes::store::{Rates, StoreFocus};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of the label before a figure, in cells.
const LABEL: u16 = 9;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = model.store_layout();
    store(painter, layout.store.into(), model);
    faults(painter, layout.faults.into(), model);
    buckets(painter, layout.buckets.into(), model);
    keys(painter, layout.keys.into(), model);
    tables(painter, layout.tables.into(), model);
}

fn title(words: &str, has_keys: bool, theme: Theme) -> Line<'static> {
    let role = if has_keys { Role::Accent } else { Role::Title };
    Line::from(Span::styled(format!(" {words} "), theme.style(role)))
}

fn store(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.store;
    let shown = pane.shown();
    let count = pane.newest().map_or(0, |newest| newest.stores.len());
    let name = match shown {
        Some((at, _)) if count > 1 => format!("store {}/{count}", at + 1),
        _ => "store".to_owned(),
    };
    let durability = shown.map_or("", |(_, store)| store.durability.as_str());
    let right = Line::from(Span::styled(format!(" {durability} "), theme.style(Role::Dim)));
    let right = if durability.is_empty() { Line::default() } else { right };
    let inner = painter::inset(painter.panel(area, &title(&name, false, theme), &right));
    let Some((at, store)) = shown else {
        return if pane.newest().is_some() {
            painter.note(inner, "no store on this node");
        } else {
            painter.missing(inner, "stores");
        };
    };
    let rates = pane.rates(at).unwrap_or_default();
    for (row, line) in (0..).zip(figures(store, rates, inner.width, theme)) {
        painter.line(inner, row, &line);
    }
}

fn figures(store: &StoreInfo, rates: Rates, width: u16, theme: Theme) -> [Line<'static>; 5] {
    let dot = theme.dot();
    let each = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::short);
    let sync = rates.sync_ns.map_or_else(|| "-".to_owned(), |ns| format::nanos(ns as u64, theme.micro()));
    let text = |name: &str, words: String| {
        let words = painter::cut(&words, width.saturating_sub(LABEL), theme);
        Line::from(vec![label(name, theme), Span::styled(words, theme.style(Role::Text))])
    };
    let slow = match store.slow_reads_total {
        0 => String::new(),
        slow => format!(" {dot} {} from a slow disk", format::short(slow as f64)),
    };
    [
        text("file", format!("{} {dot} {}", format::bytes(store.file_bytes), store.path)),
        waiting(store, width, theme),
        text("commits", format!("{}/s {dot} {} writes each", each(rates.commits), each(rates.per_commit))),
        text("syncs", format!("{}/s {dot} {} writes each {dot} {sync}", each(rates.syncs), each(rates.per_sync))),
        text("reads", format!("{}/s{slow}", each(rates.reads))),
    ]
}

/// `waiting  ━━────────  64, 12 of 8,192 queued`
fn waiting(store: &StoreInfo, width: u16, theme: Theme) -> Line<'static> {
    let queue =
        format!("{} of {} queued", format::count_within(store.queued, 7), format::short(store.queue_capacity as f64));
    let words = format!(" {}, {queue}", format::count_within(store.waiting, 7));
    let cells = width.saturating_sub(LABEL + painter::width(&words)).min(24);
    let share = store.queued as f64 / store.queue_capacity.max(1) as f64;
    let mut spans = vec![label("waiting", theme)];
    spans.extend(painter::bar(theme, cells, share, |position| theme.heat(position)));
    spans.push(Span::styled(words, theme.style(if share >= 0.9 { Role::Warn } else { Role::Text })));
    Line::from(spans)
}

fn label(name: &str, theme: Theme) -> Span<'static> {
    Span::styled(format!("{name:<width$}", width = usize::from(LABEL)), theme.style(Role::Dim))
}

/// Draws the failures and the swept entries.
fn faults(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let shown = model.store.shown().map(|(_, store)| store);
    let failures = shown.map_or(0, |store| store.failures_total);
    let name =
        if failures == 1 { "1 failure".to_owned() } else { format!("{} failures", format::short(failures as f64)) };
    let inner = painter::inset(painter.panel(area, &title(&name, false, theme), &Line::default()));
    let Some(store) = shown else { return };
    let mut lines = Vec::new();
    if !store.is_open {
        lines.push(("not open".to_owned(), Role::Bad));
    }
    if store.undone_total > 0 {
        lines.push((format!("{} weak writes undone", format::short(store.undone_total as f64)), Role::Bad));
    }
    lines.push((format!("{} keys expired", format::short(store.expired_total as f64)), Role::Dim));
    if let Some(error) = &store.last_error {
        let role = if store.is_open { Role::Warn } else { Role::Bad };
        lines.extend(painter::wrap(&format!("last: {error}"), inner.width).into_iter().map(|line| (line, role)));
    }
    for (at, (text, role)) in (0..inner.height).zip(lines) {
        let text = painter::cut(&text, inner.width, theme);
        painter.line(inner, at, &Line::from(Span::styled(text, theme.style(role))));
    }
}

fn buckets(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.store;
    let has_keys = pane.focus == StoreFocus::Buckets;
    let total = pane.newest().map_or(0, |newest| newest.total);
    let right = Line::from(Span::styled(format!(" {} ", format::grouped(total)), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title("buckets", has_keys, theme), &right);
    if total == 0 {
        return painter.note(inner, "no buckets");
    }
    let heading = ["KEYS", "BYTES", "READS/s", "WRITES/s"].map(|word| (word.to_owned(), Role::Dim));
    put(painter, inner, 0, ("BUCKET", Role::Dim), &heading);
    for at in 0..inner.height.saturating_sub(1) {
        let position = pane.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(bucket) = pane.bucket_at(position) {
            let rates = pane.bucket_rates(bucket).unzip();
            put(painter, inner, at + 1, (&bucket.name, Role::Strong), &sizes(bucket, rates));
        } else {
            let dots = Span::styled(format!(" {}", theme.sign("⋯", "...")), theme.style(Role::Dim));
            painter.line(inner, at + 1, &Line::from(dots));
        }
        if has_keys && position == pane.bucket {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

/// Draws the tables and registries in memory.
fn tables(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(newest) = model.store.newest().filter(|_| area.height > 0) else { return };
    let right = Line::from(Span::styled(format!(" {} ", format::grouped(newest.tables_total)), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title("tables and registries in memory", false, theme), &right);
    let heading = ["ENTRIES", "BYTES", "READS/s", "WRITES/s"].map(|word| (word.to_owned(), Role::Dim));
    put(painter, inner, 0, ("NAME", Role::Dim), &heading);
    for (at, table) in (0..inner.height.saturating_sub(1)).zip(&newest.tables) {
        let rates = model.store.table_rates(at.into()).unzip();
        put(painter, inner, at + 1, (&described(table, theme), Role::Strong), &table_sizes(table, rates));
    }
}

/// `hits: table of <0.9.1>, String → i64`
fn described(table: &TableInfo, theme: Theme) -> String {
    let owner = table.owner.as_ref().map(|pid| format!(" of {pid}")).unwrap_or_default();
    let short = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    let arrow = theme.sign("→", "->");
    format!("{}: {}{owner}, {} {arrow} {}", table.name, table.kind, short(&table.key_type), short(&table.value_type))
}

/// Returns a rate as text, or a dash if it is not known yet.
fn rate(rate: Option<f64>) -> (String, Role) {
    let role = if rate.is_some_and(|rate| rate > 0.0) { Role::Text } else { Role::Dim };
    (rate.map_or_else(|| "-".to_owned(), format::short), role)
}

fn table_sizes(table: &TableInfo, (reads, writes): (Option<f64>, Option<f64>)) -> [(String, Role); 4] {
    let bytes = if table.bytes > 0 { format::bytes(table.bytes) } else { "-".to_owned() };
    [(format::count_within(table.entries, 11), Role::Text), (bytes, Role::Text), rate(reads), rate(writes)]
}

fn sizes(bucket: &BucketInfo, (reads, writes): (Option<f64>, Option<f64>)) -> [(String, Role); 4] {
    [
        (format::count_within(bucket.keys, 11), Role::Text),
        (format::bytes(bucket.bytes), Role::Text),
        rate(reads),
        rate(writes),
    ]
}

/// Draws a name at the left, and columns of numbers at the right end.
fn put(painter: &mut Painter<'_>, area: Rect, at: u16, (name, role): (&str, Role), columns: &[(String, Role); 4]) {
    let theme = painter.theme;
    let widths = [11_u16, 10, 9, 9];
    let taken: u16 = widths.iter().map(|width| width + 1).sum();
    let room = area.width.saturating_sub(taken + 2).min(60);
    let name = painter::cut(name, room, theme);
    let mut spans = vec![Span::styled(format!(" {name:<width$}", width = usize::from(room)), theme.style(role))];
    for ((text, role), width) in columns.iter().zip(widths) {
        let (text, width) = (painter::cut(text, width, theme), usize::from(width));
        spans.push(Span::styled(format!(" {text:>width$}"), theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

fn keys(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.store;
    let has_keys = pane.focus == StoreFocus::Keys;
    let opened = pane.opened();
    let name = opened.map_or_else(|| "keys".to_owned(), |(bucket, _)| format!("keys of {bucket}"));
    let more = pane.page().is_some_and(|page| page.next.is_some());
    let right =
        opened.map_or_else(String::new, |(_, page)| format!(" page {page}{} ", if more { ", more" } else { "" }));
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = painter.panel(area, &title(&name, has_keys, theme), &right);
    let Some(shown) = pane.page() else {
        let text = if opened.is_some() { "waiting for keys" } else { "Enter opens a bucket" };
        return painter.note(inner, text);
    };
    if let Some(refusal) = &shown.refusal {
        return painter.note(inner, refusal);
    }
    if shown.keys.is_empty() {
        return painter.note(inner, "no keys");
    }
    let width = usize::from(key_width(inner.width));
    let heading = format!(" {:<width$} {:>9} {:>8}  {}", "KEY", "BYTES", "EXPIRES", "VALUE");
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    for (row, (at, key)) in (1..inner.height).zip(shown.keys.iter().enumerate()) {
        painter.line(inner, row, &entry(key, inner.width, theme));
        if has_keys && at == pane.key {
            painter.select(painter::row(inner, row));
        }
    }
}

const fn key_width(width: u16) -> u16 {
    width * 3 / 8
}

fn entry(key: &KeyInfo, width: u16, theme: Theme) -> Line<'static> {
    let room = key_width(width);
    let cut = |text: &str, whole: u64, cells: u16| {
        // Hexadecimal text is twice as long as the bytes that it represents.
        let shown = if text.starts_with("0x") { (text.len() as u64).saturating_sub(2) / 2 } else { text.len() as u64 };
        let more = if shown < whole { theme.sign("…", "...") } else { "" };
        painter::cut(&format!("{text}{more}"), cells, theme)
    };
    let name = cut(&key.key, key.key_bytes, room);
    let blank = " ".repeat(usize::from(room.saturating_sub(painter::width(&name))));
    let expires = key.expires_in_ms.map_or_else(|| "never".to_owned(), format::age);
    Line::from(vec![
        Span::styled(format!(" {name}{blank}"), theme.style(Role::Strong)),
        Span::styled(format!(" {:>9}", format::bytes(key.value_bytes)), theme.style(Role::Text)),
        Span::styled(format!(" {expires:>8}  "), theme.style(Role::Dim)),
        Span::styled(cut(&key.value, key.value_bytes, width.saturating_sub(room + 22)), theme.style(Role::Text)),
    ])
}
