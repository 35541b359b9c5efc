//! The Serve view: the figures of all HTTP servers, limits that were hit, routes, and live requests.

mod limits;

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{RequestInfo, RouteInfo, Serve, ServerInfo};

use crate::model::input::complete::Vocabulary;
use crate::model::panes::serve::ServeFocus;
use crate::model::panes::serve::totals::Totals;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::query_field::{self, QueryField};
use crate::view::theme::{Role, Theme};

/// Age from which a request without a response is highlighted.
const SLOW_MS: u64 = 1_000;
const VERY_SLOW_MS: u64 = 10_000;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = model.serve_layout();
    totals(painter, layout.totals.into(), model, layout.limits.width > 0);
    if layout.limits.width > 0 {
        limits::render(painter, layout.limits.into(), model);
    }
    if layout.routes.height > 0 {
        routes(painter, layout.routes.into(), model);
    }
    if layout.requests.height > 0 {
        requests(painter, layout.requests.into(), model);
    }
}

/// Returns a word in the style of a label, and its value.
fn fact(theme: Theme, label: &str, value: impl Into<String>, role: Role) -> [Span<'static>; 2] {
    let value = value.into();
    [Span::styled(format!("{label} "), theme.style(Role::Dim)), Span::styled(format!("{value}   "), theme.style(role))]
}

fn totals(painter: &mut Painter<'_>, area: Rect, model: &Model, has_limits: bool) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" serve ", theme.style(Role::Title)));
    let Some(serve) = &model.serve.newest else {
        let inner = painter.panel(area, &title, &Line::default());
        return painter.missing(inner, "servers");
    };
    let inner = painter::inset(painter.panel(area, &title, &listeners(serve, theme)));
    if serve.servers.is_empty() {
        return painter.note(inner, "no server runs on this node");
    }
    let sums = Totals::of(serve);
    rate(painter, inner, model, &sums);
    painter.line(inner, 1, &classes(&sums, inner.width, theme));
    painter.line(inner, 2, &load(&sums, theme));
    let limits = if has_limits { Line::default() } else { limits::line(&model.serve.limits_hit(), theme) };
    painter.line(inner, 3, &traffic(&sums, inner.width.saturating_sub(limits.width() as u16), theme));
    painter.line_right(inner, 3, &limits);
    if inner.height > 5 {
        let rule = theme.track().repeat(inner.width.into());
        painter.line(inner, 4, &Line::from(Span::styled(rule, theme.style(Role::Border))));
        for (at, server) in (5..inner.height).zip(&serve.servers) {
            painter.line(inner, at, &listener(server, theme));
        }
    }
}

/// Returns the address of the server, or the number of servers.
fn listeners(serve: &Serve, theme: Theme) -> Line<'static> {
    let text = match &serve.servers[..] {
        [] => return Line::default(),
        [server] => format!(" {} {} {} ", server.listen, theme.dot(), protocol(server)),
        servers => format!(" {} listeners ", servers.len()),
    };
    Line::from(Span::styled(text, theme.style(Role::Dim)))
}

const fn protocol(server: &ServerInfo) -> &'static str {
    match (server.is_draining, server.is_tls) {
        (true, _) => "draining",
        (false, true) => "https",
        (false, false) => "http",
    }
}

/// Draws requests per second, and their history at the right.
fn rate(painter: &mut Painter<'_>, inner: Rect, model: &Model, sums: &Totals) {
    let theme = painter.theme;
    let newest = model.serve.rates.back().map_or(sums.responses_per_sec, |(_, rate)| *rate);
    let mut spans = vec![Span::styled(format!("{:>7}", format::short(newest)), theme.style(Role::Strong))];
    spans.push(Span::styled(" req/s  ", theme.style(Role::Dim)));
    let room = usize::from(inner.width.saturating_sub(16));
    let rates = model.serve.rates.iter().skip(model.serve.rates.len().saturating_sub(room));
    let values: Vec<Option<f64>> = rates.map(|(_, rate)| Some(*rate)).collect();
    let top = values.iter().flatten().copied().fold(0.0, f64::max);
    spans.push(Span::styled(painter::spark(theme, &values, top), theme.style(Role::Accent)));
    painter.line(inner, 0, &Line::from(spans));
}

/// Returns the shares of the classes of status, and the latency.
fn classes(sums: &Totals, width: u16, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    let is_narrow = width < 74;
    let roles = [(2, Role::Good), (3, Role::Text), (4, Role::Warn), (5, Role::Bad)];
    for (class, role) in roles.into_iter().filter(|(class, _)| !is_narrow || *class != 3) {
        let share = sums.shares.map(|shares| shares[class] * 100.0);
        let role = if share.is_some_and(|share| share > 0.0) { role } else { Role::Dim };
        let value = share.map_or_else(|| "-".to_owned(), format::percent);
        spans.extend(fact(theme, &format!("{class}xx"), format!("{value:>5}"), role));
    }
    let nanos = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format::nanos(ns, theme.micro()));
    if !is_narrow {
        spans.extend(fact(theme, "p50", format!("{:>7}", nanos(sums.p50_ns)), Role::Text));
    }
    spans.extend(fact(theme, "p99", format!("{:>7}", nanos(sums.p99_ns)), Role::Strong));
    Line::from(spans)
}

fn load(sums: &Totals, theme: Theme) -> Line<'static> {
    let short = |count: u64| format::short(count as f64);
    let full = sums.in_flight_max > 0 && sums.in_flight * 10 >= sums.in_flight_max * 9;
    let in_flight = format!("{} of {}", short(sums.in_flight), short(sums.in_flight_max));
    let mut spans = Vec::new();
    spans.extend(fact(theme, "in flight", in_flight, if full { Role::Bad } else { Role::Text }));
    if sums.waiting > 0 {
        spans.extend(fact(theme, "waiting", short(sums.waiting), Role::Warn));
    }
    spans.extend(fact(theme, "connections", short(sums.connections), Role::Text));
    spans.extend(fact(theme, "websockets", short(sums.websockets), dim_if_zero(sums.websockets, Role::Text)));
    spans.extend(fact(theme, "events", short(sums.event_streams), dim_if_zero(sums.event_streams, Role::Text)));
    Line::from(spans)
}

/// Returns the bytes per second, and what has gone wrong as far as there is room for it.
fn traffic(sums: &Totals, room: u16, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    spans.extend(fact(theme, "in", format::bytes_per_sec(sums.bytes_in_per_sec), Role::Text));
    spans.extend(fact(theme, "out", format::bytes_per_sec(sums.bytes_out_per_sec), Role::Text));
    for (label, count) in [("crashed", sums.crashed), ("gone", sums.cancelled), ("tls failed", sums.tls_failures)] {
        if count > 0 {
            let role = if label == "crashed" { Role::Bad } else { Role::Text };
            let fact = fact(theme, label, format::short(count as f64), role);
            let width = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
            if width(&spans) + width(&fact) <= room.into() {
                spans.extend(fact);
            }
        }
    }
    Line::from(spans)
}

fn listener(server: &ServerInfo, theme: Theme) -> Line<'static> {
    let role = if server.is_draining { Role::Warn } else { Role::Text };
    let name = if server.name == server.listen { "" } else { &server.name };
    let mut spans = vec![
        Span::styled(format!("{:<16}", painter::cut(name, 15, theme)), theme.style(Role::Strong)),
        Span::styled(format!("{:<24}", painter::cut(&server.listen, 23, theme)), theme.style(Role::Text)),
        Span::styled(format!("{:<10}", protocol(server)), theme.style(role)),
    ];
    spans.extend(fact(theme, "connections", format::short(server.connections as f64), Role::Text));
    spans.extend(fact(theme, "accepted", format!("{}/s", format::short(server.connections_per_sec)), Role::Text));
    Line::from(spans)
}

fn dim_if_zero(count: u64, role: Role) -> Role {
    if count == 0 { Role::Dim } else { role }
}

/// A text with its role.
type TableCell = (String, Role);

/// Draws a text at the left, and columns at the right end.
fn put(painter: &mut Painter<'_>, area: Rect, at: u16, name: (&str, Role), columns: &[(TableCell, u16)]) {
    let theme = painter.theme;
    let taken: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    let room = area.width.saturating_sub(taken);
    let cut = painter::cut(name.0, room, theme);
    let mut spans = vec![Span::styled(format!("{cut:<width$}", width = usize::from(room)), theme.style(name.1))];
    for ((text, role), width) in columns {
        let text = painter::cut(text, *width, theme);
        spans.push(Span::styled(format!(" {text:>width$}", width = usize::from(*width)), theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

/// Columns of the routes: heading, width, and the least width of the panel that shows the column.
const ROUTE_COLUMNS: [(&str, u16, u16); 12] = [
    ("REQ/S", 6, 0),
    ("4XX/S", 6, 60),
    ("5XX/S", 6, 0),
    ("P50", 7, 70),
    ("P90", 7, 110),
    ("P99", 7, 0),
    ("CPU", 7, 110),
    ("LIVE", 5, 60),
    ("IN/S", 8, 110),
    ("OUT/S", 8, 76),
    ("LIMITED", 7, 110),
    ("CRASHED", 7, 110),
];

fn routes(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.serve;
    let total = pane.newest.as_ref().map_or(0, |newest| newest.total);
    let right = format!(" by {} {} {} ", pane.sort.label(), theme.dot(), format::grouped(total));
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let has_focus = pane.focus == ServeFocus::Routes;
    let title = Line::from(Span::styled(" routes ", theme.style(title_role(has_focus))));
    let inner = painter.panel(area, &title, &right);
    let visible = inner.height.saturating_sub(1);
    painter.scrollbar(area, pane.routes.top, visible.into(), total);
    let inner = painter::inset(inner);
    if total == 0 {
        return if pane.newest.is_some() { painter.note(inner, "no routes") } else { painter.missing(inner, "routes") };
    }
    let shown = |cells: Vec<TableCell>| -> Vec<(TableCell, u16)> {
        let all = cells.into_iter().zip(ROUTE_COLUMNS).filter(|(_, (.., least))| inner.width >= *least);
        all.map(|(cell, (_, width, _))| (cell, width)).collect()
    };
    let heading = ROUTE_COLUMNS.map(|(word, ..)| (word.to_owned(), Role::Dim)).to_vec();
    put(painter, inner, 0, ("ROUTE", Role::Dim), &shown(heading));
    for at in 0..visible {
        let position = pane.routes.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(route) = pane.route_at(position) {
            put(painter, inner, at + 1, (&route.route, Role::Strong), &shown(route_cells(route, theme)));
        }
        if position == pane.routes.at && has_focus {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

const fn title_role(has_focus: bool) -> Role {
    if has_focus { Role::Accent } else { Role::Title }
}

fn route_cells(route: &RouteInfo, theme: Theme) -> Vec<TableCell> {
    let rate = |rate: f64, role: Role| (format::short(rate), if rate > 0.0 { role } else { Role::Dim });
    let nanos = |ns: Option<u64>, role: Role| {
        ns.map_or_else(|| ("-".to_owned(), Role::Dim), |ns| (format::nanos(ns, theme.micro()), role))
    };
    let count = |count: u64, role: Role| (format::short(count as f64), dim_if_zero(count, role));
    let bytes = |rate: f64| (format::bytes_short(rate as u64), if rate > 0.0 { Role::Text } else { Role::Dim });
    vec![
        rate(route.requests_per_sec, Role::Text),
        rate(route.refusals_per_sec, Role::Warn),
        rate(route.errors_per_sec, Role::Bad),
        nanos(route.p50_ns, Role::Text),
        nanos(route.p90_ns, Role::Text),
        nanos(route.p99_ns, Role::Text),
        nanos(route.cpu_ns_per_request.map(|ns| ns as u64), Role::Text),
        count(route.in_flight, Role::Text),
        bytes(route.bytes_in_per_sec),
        bytes(route.bytes_out_per_sec),
        count(route.limited_total, Role::Warn),
        count(route.crashed_total, Role::Bad),
    ]
}

/// Cells of the title before the text of the filter: ` requests /`.
const TITLE_WIDTH: u16 = 11;

fn requests(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.serve;
    let (live, matched) = pane.newest.as_ref().map_or((0, 0), |newest| (newest.live, newest.matched));
    // The two numbers are read at different moments: without a filter, only one of them is shown.
    let count = if pane.filter.text.is_empty() || matched >= live {
        format::grouped(matched)
    } else {
        format!("{} of {}", format::grouped(matched), format::grouped(live))
    };
    let right = format!(" {} {} {count} ", pane.request_sort.label(), theme.dot());
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let has_focus = pane.focus == ServeFocus::Requests;
    let inner = painter.panel(area, &requests_title(model, theme, has_focus), &right);
    let visible = inner.height.saturating_sub(1);
    painter.scrollbar(area, pane.requests.top, visible.into(), matched);
    let inner = painter::inset(inner);
    if matched == 0 {
        match &pane.newest {
            None => painter.missing(inner, "requests"),
            Some(_) if live > 0 => painter.note(inner, "no request passes the filter"),
            Some(_) => painter.note(inner, "no request is handled now"),
        }
    } else {
        request_rows(painter, inner, model, matched);
    }
    field(painter, area, model);
}

fn requests_title(model: &Model, theme: Theme, has_focus: bool) -> Line<'static> {
    let filter = &model.serve.filter;
    let mut spans = vec![Span::styled(" requests ", theme.style(title_role(has_focus)))];
    if let Some(field) = &filter.field {
        spans.push(Span::styled("/", theme.style(Role::Key)));
        let role = if filter.error.is_some() { Role::Bad } else { Role::Strong };
        spans.push(Span::styled(format!("{} ", field.text()), theme.style(role)));
    } else if !filter.text.is_empty() {
        spans.push(Span::styled(format!("/{} ", filter.text), theme.style(Role::Accent)));
    }
    Line::from(spans)
}

/// Draws the candidates or the error of the filter that is being typed, and the cursor.
fn field(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let filter = &model.serve.filter;
    let Some(field) = filter.field.as_ref() else { return };
    let query = QueryField { area, before: TITLE_WIDTH, text: &field.text(), completion: filter.completion.as_ref() };
    query_field::render(painter, &query, filter.error.as_ref(), Vocabulary::Requests);
    if model.overlay.is_none() {
        let before: String = field.text().chars().take(field.cursor()).collect();
        let x = area.x + 2 + TITLE_WIDTH + painter::width(&before);
        painter.cursor = Some((x.min(area.right().saturating_sub(2)), area.y));
    }
}

fn request_rows(painter: &mut Painter<'_>, inner: Rect, model: &Model, matched: u64) {
    let theme = painter.theme;
    let pane = &model.serve;
    let columns = RequestColumns::of(inner.width);
    let heading = ["AGE", "PROCESS", "STATE", "ROUTE", "CLIENT", "IN", "OUT", "REQUEST"];
    painter.line(inner, 0, &columns.line(theme, heading.map(|word| (word.to_owned(), Role::Dim))));
    for at in 0..inner.height.saturating_sub(1) {
        let position = pane.requests.top + u64::from(at);
        if position >= matched {
            break;
        }
        if let Some(request) = pane.request_at(position) {
            painter.line(inner, at + 1, &columns.line(theme, request_cells(request)));
        }
        if position == pane.requests.at && pane.focus == ServeFocus::Requests {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

fn request_cells(request: &RequestInfo) -> [TableCell; 8] {
    let is_socket = matches!(request.state.as_str(), "websocket" | "events");
    let age = match request.age_ms {
        _ if is_socket => Role::Dim,
        VERY_SLOW_MS.. => Role::Bad,
        SLOW_MS.. => Role::Warn,
        _ => Role::Text,
    };
    let state = if is_socket { Role::Accent } else { Role::Text };
    let bytes = |count: u64| (format::bytes_short(count), dim_if_zero(count, Role::Text));
    [
        (format::age(request.age_ms), age),
        (request.pid.clone(), Role::Text),
        (request.state.clone(), state),
        (request.route.clone(), Role::Strong),
        (request.client.clone(), Role::Text),
        bytes(request.bytes_in),
        bytes(request.bytes_out),
        (format!("{} {}", request.method, request.path), Role::Dim),
    ]
}

/// Widths of the columns of the live requests; 0 for one that is not shown.
struct RequestColumns([u16; 8]);

impl RequestColumns {
    fn of(width: u16) -> Self {
        let mut widths = match width {
            110.. => [6, 14, 10, 28, 22, 6, 6, 0],
            76.. => [6, 13, 10, 0, 20, 0, 6, 0],
            _ => [6, 13, 10, 0, 0, 0, 0, 0],
        };
        let used: u16 = widths.iter().filter(|width| **width > 0).map(|width| width + 1).sum();
        // The route takes the rest, or the request if there is room for it.
        let rest = if width >= 110 { 7 } else { 3 };
        widths[rest] = width.saturating_sub(used);
        Self(widths)
    }

    fn line(&self, theme: Theme, cells: [TableCell; 8]) -> Line<'static> {
        let mut spans = Vec::with_capacity(8);
        for (at, ((text, role), width)) in
            cells.into_iter().zip(self.0).enumerate().filter(|(_, (_, width))| *width > 0)
        {
            let (text, width) = (painter::cut(&text, width, theme), usize::from(width));
            let is_number = matches!(at, 0 | 5 | 6);
            let text = if is_number { format!("{text:>width$} ") } else { format!("{text:<width$} ") };
            spans.push(Span::styled(text, theme.style(role)));
        }
        Line::from(spans)
    }
}
