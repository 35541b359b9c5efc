//! The Time view: tickers and their lateness, rings and streams, and the readers that writers wait for.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{StreamInfo, TickerInfo, Time, WaitInfo};

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Lateness of the 99th percentile of batches above which a ticker is late. Above ten times this value it is very late.
const LATE_NS: u64 = 1_000_000;
/// Minimum width at which a row shows all columns.
const WIDE: u16 = 110;
/// Minimum width at which a row shows the most important columns.
const USUAL: u16 = 76;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::time(model.size);
    tickers(painter, layout.tickers.into(), model);
    streams(painter, layout.streams.into(), model);
}

fn title(words: &str, theme: Theme) -> Line<'static> {
    Line::from(Span::styled(format!(" {words} "), theme.style(Role::Title)))
}

/// Draws the cells of a row. The first is `first` cells wide, the others have the given widths. A positive width aligns
/// right, a negative one left.
fn put(painter: &mut Painter<'_>, area: Rect, at: u16, first: u16, cells: &[(String, Role)], widths: &[i16]) {
    let theme = painter.theme;
    let mut spans = Vec::new();
    for (position, (text, role)) in cells.iter().enumerate() {
        let (width, right) = match position.checked_sub(1).and_then(|position| widths.get(position)) {
            Some(width) => (width.unsigned_abs(), *width > 0),
            None => (first, false),
        };
        let text = painter::cut(text, width, theme);
        let pad = " ".repeat(usize::from(width - painter::width(&text).min(width)));
        let text = if right { format!(" {pad}{text}") } else { format!(" {text}{pad}") };
        spans.push(Span::styled(text, theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

/// Returns the remaining width for the first cell.
fn first(area: Rect, widths: &[i16], most: u16) -> u16 {
    let taken: u16 = widths.iter().map(|width| width.unsigned_abs() + 1).sum();
    area.width.saturating_sub(taken + 2).min(most)
}

fn heading(painter: &mut Painter<'_>, area: Rect, first: u16, words: &[&str], widths: &[i16]) {
    let cells: Vec<_> = words.iter().map(|word| ((*word).to_owned(), Role::Dim)).collect();
    put(painter, area, 0, first, &cells, widths);
}

fn tickers(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let newest = model.time.newest.as_ref();
    let total = newest.map_or(0, |time| time.tickers_total);
    let realtime =
        newest.and_then(|time| time.realtime.as_deref()).map(|words| format!(" {words} ")).unwrap_or_default();
    let right = Line::from(Span::styled(realtime, theme.style(Role::Dim)));
    let name = format!("tickers {} {}", theme.dot(), format::grouped(total));
    let inner = painter.panel(area, &title(&name, theme), &right);
    let Some(time) = newest.filter(|time| !time.tickers.is_empty()) else {
        return if newest.is_some() { painter.note(inner, "no tickers") } else { painter.missing(inner, "tickers") };
    };
    let wide = inner.width >= WIDE;
    let (words, widths): (&[&str], &[i16]) = if wide {
        (
            &[
                "TICKER",
                "PID",
                "AT",
                "K",
                "OVERRUN",
                "FIRED/S",
                "FIRED",
                "DROPPED",
                "COALESCED",
                "P50 LATE",
                "P99 LATE",
            ],
            &[-16, 9, 7, -10, 9, 9, 9, 9, 9, 9],
        )
    } else if inner.width >= USUAL {
        (&["TICKER", "AT", "K", "FIRED/S", "DROPPED", "COALESCED", "P50 LATE", "P99 LATE"], &[9, 5, 8, 8, 9, 8, 8])
    } else {
        (&["TICKER", "AT", "FIRED/S", "DROPPED", "P99 LATE"], &[9, 8, 8, 8])
    };
    let first = first(inner, widths, 30);
    heading(painter, inner, first, words, widths);
    let top = first_of(time.tickers.len(), inner, model);
    for (row, ticker) in (1..inner.height).zip(time.tickers.iter().skip(top)) {
        put(painter, inner, row, first, &ticker_cells(ticker, inner.width, theme), widths);
    }
}

/// Returns the first visible row of a list. Both lists scroll together, and each stays full.
fn first_of(rows: usize, inner: Rect, model: &Model) -> usize {
    model.time.top.min(rows.saturating_sub(usize::from(inner.height.saturating_sub(1))))
}

fn ticker_cells(ticker: &TickerInfo, width: u16, theme: Theme) -> Vec<(String, Role)> {
    let lost = |count: u64| (format::short(count as f64), if count == 0 { Role::Dim } else { Role::Warn });
    let late = |ns: Option<u64>| match ns {
        None => ("-".to_owned(), Role::Dim),
        Some(ns) if ns >= 10 * LATE_NS => (format::nanos(ns, theme.micro()), Role::Bad),
        Some(ns) if ns >= LATE_NS => (format::nanos(ns, theme.micro()), Role::Warn),
        Some(ns) => (format::nanos(ns, theme.micro()), Role::Delay),
    };
    let text = |text: String| (text, Role::Text);
    let pid = ticker.pid.as_deref().unwrap_or("thread");
    let name = (ticker.name.clone().unwrap_or_else(|| pid.to_owned()), Role::Strong);
    let at = text(hertz(ticker.rate_hz));
    let batch = (format::short(ticker.batch as f64), Role::Dim);
    let rate = (format::short(ticker.fired_per_sec), Role::Flow);
    let (dropped, coalesced) = (lost(ticker.dropped_total), lost(ticker.coalesced_total));
    let (p50, p99) = (late(ticker.late_ns_p50), late(ticker.late_ns_p99));
    if width >= WIDE {
        let (pid, policy) = ((pid.to_owned(), Role::Dim), (ticker.overrun.clone(), Role::Dim));
        let fired = text(format::short(ticker.fired_total as f64));
        vec![name, pid, at, batch, policy, rate, fired, dropped, coalesced, p50, p99]
    } else if width >= USUAL {
        vec![name, at, batch, rate, dropped, coalesced, p50, p99]
    } else {
        vec![name, at, rate, dropped, p99]
    }
}

fn hertz(hz: f64) -> String {
    if hz >= 1.0 { format!("{} Hz", format::short(hz)) } else { format!("{hz:.3} Hz") }
}

fn streams(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let newest = model.time.newest.as_ref();
    let total = newest.map_or(0, |time| time.streams_total);
    let waiting = newest.map_or(0, waiting);
    let words = if waiting == 0 { String::new() } else { format!(" {waiting} wait ") };
    let right = Line::from(Span::styled(words, theme.style(Role::Warn)));
    let name = format!("rings and streams {} {}", theme.dot(), format::grouped(total));
    let inner = painter.panel(area, &title(&name, theme), &right);
    let Some(time) = newest.filter(|time| !time.streams.is_empty()) else {
        return if newest.is_some() {
            painter.note(inner, "no ring or stream is open");
        } else {
            painter.missing(inner, "streams");
        };
    };
    let wide = inner.width >= WIDE;
    let (words, widths): (&[&str], &[i16]) = if wide {
        (
            &[
                "NAME",
                "WRITER",
                "READERS",
                "WHEN FULL",
                "WRITTEN/S",
                "BYTES/S",
                "FILL",
                "OF",
                "WAITS",
                "EVICTED",
                "WAITS FOR",
            ],
            &[-16, 7, -9, 9, 10, 6, 8, 7, 7, -26],
        )
    } else if inner.width >= USUAL {
        (&["NAME", "READERS", "WRITTEN/S", "FILL", "WAITS", "WAITS FOR"], &[7, 9, 5, 6, -24])
    } else {
        (&["NAME", "WRITTEN/S", "FILL", "WAITS FOR"], &[9, 5, -20])
    };
    let first = first(inner, widths, 24);
    heading(painter, inner, first, words, widths);
    let top = first_of(time.streams.len(), inner, model);
    for (row, stream) in (1..inner.height).zip(time.streams.iter().skip(top)) {
        put(painter, inner, row, first, &stream_cells(stream, inner.width, theme), widths);
    }
}

fn waiting(time: &Time) -> usize {
    time.streams.iter().filter(|stream| stream.waits_for.is_some()).count()
}

fn stream_cells(stream: &StreamInfo, width: u16, theme: Theme) -> Vec<(String, Role)> {
    let dim_if_zero = |count: u64, role| (format::short(count as f64), if count == 0 { Role::Dim } else { role });
    let name = stream.label.clone().unwrap_or_else(|| format!("ring {}", stream.id));
    let name = (name, if stream.ended { Role::Dim } else { Role::Strong });
    let share = stream.fill as f64 / stream.capacity.max(1) as f64;
    let heat = if share >= 0.9 { Role::Warn } else { Role::Text };
    let fill = (format!("{:.0}%", share * 100.0), if stream.fill == 0 { Role::Dim } else { heat });
    let readers = dim_if_zero(stream.readers, Role::Text);
    let rate = (format::short(stream.written_per_sec), Role::Flow);
    let waits = dim_if_zero(stream.waits_total, Role::Text);
    let waits_for = match &stream.waits_for {
        Some(reader) => (format!("{} {}", theme.sign("◀", "<"), blocker(reader)), Role::Bad),
        None if stream.ended => ("ended".to_owned(), Role::Dim),
        None => ("-".to_owned(), Role::Dim),
    };
    if width < USUAL {
        return vec![name, rate, fill, waits_for];
    }
    if width < WIDE {
        return vec![name, readers, rate, fill, waits, waits_for];
    }
    let writer = (stream.writer.clone().unwrap_or_else(|| "-".to_owned()), Role::Text);
    let bytes = (format::bytes_per_sec(stream.written_per_sec * stream.item_bytes as f64), Role::Text);
    let capacity = (format::short(stream.capacity as f64), Role::Dim);
    let (policy, evicted) = ((stream.policy.clone(), Role::Dim), dim_if_zero(stream.evicted_total, Role::Bad));
    vec![name, writer, readers, policy, rate, bytes, fill, capacity, waits, evicted, waits_for]
}

/// Formats the reader that blocks the writer: `archive <0.45.1>`.
fn blocker(reader: &WaitInfo) -> String {
    match (&reader.name, &reader.pid) {
        (Some(name), Some(pid)) => format!("{name} {pid}"),
        (None, Some(pid)) => pid.clone(),
        _ => "a thread".to_owned(),
    }
}
