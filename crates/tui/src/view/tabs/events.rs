//! The Events view: the current lints, and below them the process events and log lines, newest first, with the reason of
//! the selected one.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::ends::Ends;
use crate::model::input::complete::Vocabulary;
use crate::model::panes::events::{Item, Level};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::query_field::{self, QueryField};
use crate::view::panels::{causes, lints};
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let below = lints::render(painter, area, model);
    causes::render(painter, below, model);
    let layout = model.events_layout();
    let area = Rect::from(layout.events);
    let title = title(model, theme);
    let inner = painter::inset(painter.panel(area, &title, &counts(model, theme)));
    let (visible, page) = (model.visible_events(), model.events.page(model.visible_events()));
    painter.scrollbar(area, page.top as u64, visible as u64, page.items.len() as u64);
    list(painter, inner, model, layout.reason);
    let filter = &model.events.filter;
    if let Some(field) = &filter.field {
        let error = filter.error.as_ref();
        let query =
            QueryField { area, before: TITLE_WIDTH, text: &field.text(), completion: filter.completion.as_ref() };
        query_field::render(painter, &query, error, Vocabulary::Events);
    }
    if let Some(field) = filter.field.as_ref().filter(|_| model.overlay.is_none()) {
        let before: String = field.text().chars().take(field.cursor()).collect();
        let x = area.x + 2 + TITLE_WIDTH + painter::width(&before);
        painter.cursor = Some((x.min(area.right().saturating_sub(2)), area.y));
    }
}

/// Cells of the title before the text of the filter: ` events /`.
const TITLE_WIDTH: u16 = 9;

fn title(model: &Model, theme: Theme) -> Line<'static> {
    let filter = &model.events.filter;
    let mut spans = vec![Span::styled(" events ", theme.style(Role::Title))];
    if let Some(field) = &filter.field {
        spans.push(Span::styled("/", theme.style(Role::Key)));
        let role = if filter.error.is_some() { Role::Bad } else { Role::Strong };
        spans.push(Span::styled(format!("{} ", field.text()), theme.style(role)));
    } else if !filter.text.is_empty() {
        spans.push(Span::styled(format!("/{} ", filter.text), theme.style(Role::Accent)));
    }
    if model.events.level > Level::Trace {
        let words = if model.events.level == Level::Error {
            "errors only ".to_owned()
        } else {
            format!("{} and above ", model.events.level.word())
        };
        spans.push(Span::styled(words, theme.style(Role::Accent)));
    }
    if model.events.with_log {
        spans.push(Span::styled("with log ", theme.style(Role::Accent)));
    }
    Line::from(spans)
}

/// Returns the number of newer items while the page is held, the number of events, and the number of events dropped in
/// storms.
fn counts(model: &Model, theme: Theme) -> Line<'static> {
    let Some(events) = &model.events.newest else { return Line::default() };
    let mut spans = Vec::new();
    let newer = model.events.page(model.visible_events()).top;
    if model.events.is_held() && newer > 0 {
        spans.push(Span::styled(
            format!(" {} newer: g {}", format::grouped(newer as u64), theme.dot()),
            theme.style(Role::Accent),
        ));
    }
    spans.push(Span::raw(" "));
    if let Some(frame) = &model.frame {
        let ends = Ends::of(&frame.observer);
        let role = if ends.crashed > 0 { Role::Warn } else { Role::Dim };
        spans.push(Span::styled(format!("{} crashed ", format::short(ends.crashed as f64)), theme.style(role)));
        let others = [(ends.killed, "killed"), (ends.linked, "by a link")];
        for (count, word) in others.into_iter().filter(|(count, _)| *count > 0) {
            let text = format!("{} {} {word} ", theme.dot(), format::short(count as f64));
            spans.push(Span::styled(text, theme.style(Role::Dim)));
        }
        spans.push(Span::styled(format!("{} ", theme.dot()), theme.style(Role::Dim)));
    }
    spans.push(Span::styled(format!("{} events ", format::grouped(events.noted)), theme.style(Role::Dim)));
    if events.dropped > 0 {
        let text = format!("and {} more in storms ", format::short(events.dropped as f64));
        spans.push(Span::styled(text, theme.style(Role::Warn)));
    }
    Line::from(spans)
}

fn list(painter: &mut Painter<'_>, inner: Rect, model: &Model, reason: u16) {
    let theme = painter.theme;
    let Some(newest) = &model.events.newest else {
        return painter.missing(inner, "events");
    };
    let rows = inner.height.saturating_sub(1 + reason);
    let page = model.events.page(rows.into());
    if page.items.is_empty() {
        let is_filtered =
            newest.noted > 0 && (model.events.level > Level::Trace || !model.events.filter.text.is_empty());
        let text = match (is_filtered, &newest.log_refusal) {
            (_, Some(refusal)) if model.events.with_log => refusal,
            (true, _) => "no event passes the filter",
            (false, _) => "no process has crashed, restarted or got stuck",
        };
        return painter.note(inner, text);
    }
    let columns = Columns::of(inner.width);
    let heading = columns.line(theme, &["uptime", "event", "process", "name", "reason"], [Role::Dim; 5]);
    painter.line(inner, 0, &heading);
    for (row, item) in (1..=rows).zip(page.items.iter().skip(page.top)) {
        painter.line(inner, row, &line(*item, &columns, theme));
        if page.cursor == Some(page.top + usize::from(row) - 1) {
            painter.select(painter::row(inner, row));
        }
    }
    if let Some(item) = page.cursor.and_then(|at| page.items.get(at)).filter(|_| reason > 1) {
        let below = Rect { y: inner.bottom() - reason, height: reason, ..inner };
        selected(painter, below, *item);
    }
}

/// Draws the reason of the selected item in full, as far as there is room.
fn selected(painter: &mut Painter<'_>, area: Rect, item: Item<'_>) {
    let theme = painter.theme;
    let rule = theme.track().repeat(area.width.into());
    painter.line(area, 0, &Line::from(Span::styled(rule, theme.style(Role::Border))));
    let processes: Vec<String> = item.processes().iter().map(|(role, pid)| format!("{role} {pid}")).collect();
    let mut lines = painter::wrap(item.text(), area.width);
    let room = usize::from(area.height.saturating_sub(1));
    let names = processes.join("   ");
    let has_room_for_names = lines.len() < room && !names.is_empty();
    if lines.len() > room {
        let rest = lines.split_off(room.saturating_sub(1)).join(" ");
        lines.push(painter::cut(&rest, area.width, theme));
    }
    for (row, text) in (1..).zip(&lines) {
        painter.line(area, row, &Line::from(Span::styled(text.clone(), theme.style(Role::Text))));
    }
    if has_room_for_names {
        let row = area.height - 1;
        painter.line(area, row, &Line::from(Span::styled(names, theme.style(Role::Dim))));
    }
}

/// Widths of the columns before the reason.
struct Columns([u16; 4], u16);

impl Columns {
    fn of(width: u16) -> Self {
        let widths = if width >= 106 { [9, 9, 18, 24] } else { [8, 8, 14, 12] };
        let used: u16 = widths.iter().map(|width| width + 1).sum();
        Self(widths, width.saturating_sub(used))
    }

    fn line(&self, theme: Theme, texts: &[&str; 5], roles: [Role; 5]) -> Line<'static> {
        let mut spans = Vec::with_capacity(5);
        for (at, (text, role)) in texts.iter().zip(roles).enumerate() {
            let span = match self.0.get(at) {
                Some(width) => {
                    let (text, width) = (painter::cut(text, *width, theme), usize::from(*width));
                    if at == 0 { format!("{text:>width$} ") } else { format!("{text:<width$} ") }
                }
                None => painter::cut(text, self.1, theme),
            };
            spans.push(Span::styled(span, theme.style(role)));
        }
        Line::from(spans)
    }
}

fn line(item: Item<'_>, columns: &Columns, theme: Theme) -> Line<'static> {
    let (word, role) = match (item.kind(), item.level()) {
        ("", Level::Error) => ("error", Role::Bad),
        ("", Level::Warn) => ("warn", Role::Warn),
        ("", level) => (level.word(), Role::Dim),
        ("restart", _) => ("restart", Role::Good),
        ("restart_failed", _) => ("failed", Role::Bad),
        ("child_lost", _) => ("lost", Role::Bad),
        ("gave_up", _) => ("gave up", Role::Bad),
        ("crash", _) => ("crash", Role::Bad),
        ("killed", _) => ("killed", Role::Warn),
        ("link", _) => ("by link", Role::Warn),
        (other, Level::Warn) => (other, Role::Warn),
        (other, _) => (other, Role::Text),
    };
    let mut text = item.text().to_owned();
    let (at_ms, text_role) = match item {
        Item::Event(event) => {
            if let Some(new) = &event.new {
                let arrow = theme.sign("→", "->");
                text = format!("{arrow} {new}  {text}");
            }
            (event.at_ms, Role::Text)
        }
        Item::Line(line) => (line.at_ms, if item.level() < Level::Info { Role::Dim } else { Role::Text }),
    };
    let time = format::moment(at_ms);
    let name_role = if matches!(item, Item::Event(_)) { Role::Strong } else { Role::Dim };
    columns.line(
        theme,
        &[&time, word, item.pid(), item.name(), &text],
        [Role::Dim, role, Role::Text, name_role, text_role],
    )
}
