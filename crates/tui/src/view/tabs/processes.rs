//! The Processes view: a page of the table that the node sorts and filters, and the details of one process.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use rusm_protocol::QueryError;

use crate::model::input::complete::Vocabulary;
use crate::model::panes::columns;
use crate::model::panes::table::Selection;
use crate::model::panes::table::trends::POINTS;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::query_field::{self, QueryField};
use crate::view::panels::{detail, process_rows};
use crate::view::theme::{Role, Theme};

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if model.detail_in_full() {
        return detail::render(painter, area, model);
    }
    let layout = layout::processes(model.size, model.detail.is_some());
    table(painter, layout.table.into(), model);
    detail::render(painter, layout.detail.into(), model);
}

fn table(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let inner = painter.panel(area, &title(model, theme), &order(model, theme));
    foot(painter, area, model);
    if let Some(page) = model.table.rows.as_ref().filter(|_| model.rows_wanted) {
        painter.scrollbar(area, model.table.top, model.visible_rows().into(), page.matched);
    }
    rows(painter, inner, model);
    query(painter, area, model);
}

/// Draws the error of the filter being typed, or the candidates of its completion.
fn query(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let table = &model.table;
    let Some(field) = &table.field else { return };
    let text = field.edit.text();
    let by_node = || table.refused.as_ref().map(|message| QueryError::new(0..text.len(), message.clone()));
    let error = table.error.clone().or_else(by_node);
    let query = QueryField { area, before: TITLE_WIDTH, text: &text, completion: field.completion.as_ref() };
    query_field::render(painter, &query, error.as_ref(), Vocabulary::Processes { names: &[], modules: &[] });
}

/// Cells of the title before the text of the filter: ` processes /`.
const TITLE_WIDTH: u16 = 12;

fn rows(painter: &mut Painter<'_>, inner: Rect, model: &Model) {
    let theme = painter.theme;
    if !model.rows_wanted {
        return painter.note(inner, "row stream off: press d");
    }
    let table = &model.table;
    let slots = table.columns.fit(inner.width.saturating_sub(1), table.sort);
    process_rows::heading(painter, inner, &slots, table.sort);
    let Some(page) = &table.rows else {
        return painter.missing(inner, "rows");
    };
    if page.matched == 0 {
        let text = if page.total == 0 { "no processes" } else { "no process matches the filter" };
        return painter.note(inner, text);
    }
    let folded = table.folded();
    let has_trends = has_trends(painter, inner, model);
    let top = table.trends.top();
    for at in 0..inner.height.saturating_sub(1) {
        let position = table.top + u64::from(at);
        let area = painter::row(inner, at + 1);
        let is_cursor = position == table.cursor && table.selection != Selection::None;
        let is_folded = |(count, first): &(u64, u64)| (*first..first + count).contains(&position) && !is_cursor;
        if let Some((count, first)) = folded.filter(is_folded) {
            if position == first.max(table.top) {
                let text = format!(" + {} ended since this order ", format::grouped(count));
                painter.line(area, 0, &Line::from(Span::styled(text, theme.style(Role::Dim))));
            }
        } else if table.row(position).is_some() {
            let at = (position - page.offset) as usize;
            process_rows::row(painter, area, model, &slots, (page, at));
            if let Some(pid) = table.pid_at(position).filter(|_| has_trends) {
                let points = painter::spark(theme, &table.trends.points(&pid), top);
                painter.line_right(left_of_border(area), 0, &Line::from(Span::styled(points, theme.style(Role::Flow))));
            }
        } else if position < page.matched {
            let dots = theme.sign("⋯", "...");
            painter.line(area, 0, &Line::from(Span::styled(format!(" {dots}"), theme.style(Role::Dim))));
        }
        if position == table.cursor {
            mark(painter, area, model);
        }
    }
}

/// Draws the heading of the trends. Returns true if the table shows trends; it does not in the past.
fn has_trends(painter: &mut Painter<'_>, inner: Rect, model: &Model) -> bool {
    let width = model.table.columns.trend_width(inner.width.saturating_sub(1));
    let has_trends = width > 0 && !model.past.is_on();
    if has_trends {
        let text = format!("{:<points$}", format!("CPU% {POINTS} s"), points = POINTS);
        painter.line_right(left_of_border(inner), 0, &Line::from(Span::styled(text, painter.theme.style(Role::Dim))));
    }
    has_trends
}

/// Returns an area without the column before the border.
fn left_of_border(area: Rect) -> Rect {
    Rect { width: area.width.saturating_sub(1), ..area }
}

/// Draws the cursor: solid if a process is selected, hollow if the selected process is not on the page.
fn mark(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    match model.table.selection {
        Selection::None => {}
        Selection::Here(_) => painter.select(area),
        Selection::Awaited | Selection::Away(_) => {
            let sign = theme.sign("▹", ">");
            painter.line(area, 0, &Line::from(Span::styled(sign, theme.style(Role::Accent))));
        }
    }
}

/// Returns the title with the filter, if there is one or it is being edited.
fn title(model: &Model, theme: Theme) -> Line<'static> {
    let table = &model.table;
    let mut spans = vec![Span::styled(" processes ", theme.style(Role::Title))];
    if let Some(field) = &table.field {
        spans.push(Span::styled("/", theme.style(Role::Key)));
        spans.push(Span::styled(format!("{} ", field.edit.text()), theme.style(Role::Strong)));
    } else if !table.filter.is_empty() {
        spans.push(Span::styled(format!("/{} ", table.filter), theme.style(Role::Accent)));
    }
    if table.refused.is_some() {
        spans.push(Span::styled("not applied ", theme.style(Role::Bad)));
    } else if let Some(rows) = &table.rows {
        let shown = if table.filter_taken().is_empty() {
            format!("{} ", format::grouped(rows.total))
        } else {
            format!("{} of {} ", format::grouped(rows.matched), format::grouped(rows.total))
        };
        spans.push(Span::styled(shown, theme.style(Role::Text)));
    }
    Line::from(spans)
}

/// Returns the sort order of the rows and its age.
fn order(model: &Model, theme: Theme) -> Line<'static> {
    let table = &model.table;
    let Some(rows) = table.rows.as_ref().filter(|_| model.rows_wanted) else {
        return Line::default();
    };
    let way = match (table.sort.desc, theme.is_ascii()) {
        (true, false) => "▼",
        (false, false) => "▲",
        (true, true) => "desc",
        (false, true) => "asc",
    };
    let follow = if table.follow { format!("follow {} ", theme.dot()) } else { String::new() };
    let mut spans = vec![
        Span::styled(format!(" {follow}"), theme.style(Role::Accent)),
        Span::styled(format!("by {} {way} ", columns::label(table.sort.key)), theme.style(Role::Dim)),
    ];
    let (text, role) = match &rows.degraded {
        _ if table.is_stale() => (format!("{} updating ", theme.dot()), Role::Dim),
        Some(reason) => (format!("{} {reason} ", theme.dot()), Role::Warn),
        None => (format!("{} order {} old ", theme.dot(), age(rows.order_age_ms)), Role::Dim),
    };
    spans.push(Span::styled(text, theme.style(role)));
    Line::from(spans)
}

/// Formats an age in tenths of a second, so that the cells rarely change.
fn age(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

/// Draws the position in the table, and the node's cost of sorting, into the lower border.
fn foot(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let table = &model.table;
    let Some(rows) = table.rows.as_ref().filter(|rows| rows.matched > 0 && model.rows_wanted) else { return };
    let at = match &table.selection {
        Selection::Away(pid) => format!(" {pid} has left this page "),
        Selection::None => {
            let last = (table.top + u64::from(model.visible_rows())).min(rows.matched);
            format!(" {}{}{} ", format::grouped(table.top + 1), theme.sign("–", "-"), format::grouped(last))
        }
        _ => format!(" row {} ", format::grouped(table.cursor + 1)),
    };
    let bottom = area.bottom().saturating_sub(1);
    let at = Line::from(Span::styled(at, theme.style(Role::Text)));
    let cost = format!(" sorted in {:.1} ms ", rows.cost_us / 1000.0);
    let cost = Line::from(Span::styled(cost, theme.style(Role::Dim)));
    let (at_width, cost_width) = (at.width() as u16, cost.width() as u16);
    if at_width + cost_width + 6 < area.width {
        painter.on_border(area.x + 2, bottom, &at, at_width);
        painter.on_border(area.right() - 2 - cost_width, bottom, &cost, cost_width);
    }
}
