//! The Node view: throughput, schedulers, latency, memory, the busiest processes, and the cost of observing.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::Column;

use crate::model::panes::{columns, table};
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::panels::{chart, cost, latency, memory, process_rows, schedulers};
use crate::view::theme::Role;

pub(crate) fn render(painter: &mut Painter<'_>, _area: Rect, model: &Model) {
    let layout = layout::zoom::node(model);
    throughput(painter, layout.chart.into(), model);
    schedulers::render(painter, layout.schedulers.into(), model);
    latency::of_processes(painter, layout.latency.into(), model);
    memory::render(painter, layout.memory.into(), model);
    busiest(painter, layout.table.into(), model);
    cost::render(painter, layout.figures.into(), model);
}

/// Draws the scenario's operations, or the node's messages if no scenario has run yet.
pub(crate) fn throughput(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let right = Line::from(Span::styled(format!(" {} ", model.window.text()), theme.style(Role::Dim)));
    let ran = model.frame.as_ref().is_some_and(|frame| frame.run_id > 0 || frame.running);
    let (name, unit, series) = if ran {
        let frame = model.frame.as_deref();
        let last = || model.bench.runs.back().map(|run| format!("{}, ended", run.scenario));
        let id = frame.and_then(|frame| frame.scenario.clone()).or_else(last).unwrap_or_else(|| "idle".to_owned());
        (id, ops_label(model), &model.histories.ops)
    } else {
        ("messages".to_owned(), "received/s".to_owned(), &model.histories.msgs)
    };
    let now = format!("{:>5} ", format::short(series.mean_to(model.chart_end_ms(), 1000)));
    let title = Line::from(vec![
        Span::styled(format!(" {name} "), theme.style(Role::Title)),
        Span::styled(now, theme.style(Role::Accent)),
        Span::styled(format!("{unit} "), theme.style(Role::Dim)),
    ]);
    let inner = painter.panel(area, &title, &right);
    chart::render(painter, inner, model, series);
}

/// Returns the unit that the running or selected scenario counts.
pub(crate) fn ops_label(model: &Model) -> String {
    let Some(hello) = &model.hello else { return "ops/s".to_owned() };
    let running = model.frame.as_ref().and_then(|frame| frame.scenario.as_ref());
    let running = running.or_else(|| model.bench.runs.back().map(|run| &run.scenario));
    let scenario = running.and_then(|id| hello.scenarios.iter().find(|known| known.id == *id));
    scenario
        .map(|scenario| scenario.ops_label.clone())
        .filter(|label| !label.is_empty())
        .unwrap_or_else(|| "ops/s".to_owned())
}

fn busiest(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    if area.height < 4 {
        return;
    }
    let title = Line::from(Span::styled(" busiest processes ", theme.style(Role::Title)));
    let right = if model.size.width >= layout::WIDE {
        Line::from(Span::styled(" by cpu, % of a core ", theme.style(Role::Dim)))
    } else {
        Line::from(Span::styled(format!(" {} ", cost::summary(model, theme)), theme.style(Role::Dim)))
    };
    let inner = painter.panel(area, &title, &right);
    if !model.rows_wanted {
        return painter.note(inner, "row stream off: press d");
    }
    let Some(page) = &model.top else {
        return painter.missing(inner, "rows");
    };
    let slots = columns::fit(inner.width, columns::BY_CPU, columns::ColumnSet::Usual);
    process_rows::heading(painter, inner, &slots, columns::BY_CPU);
    // Skip processes that ended after the order was computed: they are not busy any more.
    let is_alive = |at: &usize| table::text(page, &page.rows[*at], Column::State) != "exited";
    let alive = (0..page.rows.len()).filter(is_alive);
    for (line, at) in alive.take(inner.height.saturating_sub(1).into()).enumerate() {
        process_rows::row(painter, painter::row(inner, line as u16 + 1), model, &slots, (page, at));
    }
}
