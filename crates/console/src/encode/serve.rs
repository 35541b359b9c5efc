//! Encodes servers, a window of their routes, and a window of their live requests.

use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::{
    LimitInfo, RequestFilter, RequestInfo, RequestSort, RequestSubject, RouteInfo, Serve, ServeView, ServerInfo,
};

use super::round;
use super::text::cut;
use rusm_runtime::observe::{
    DelayCounts, HttpServer, LimitBound, LimitReport, LiveKind, LiveRequest, RouteReport, ServerReport,
};

/// Number of servers that are shown.
pub(crate) const SERVERS_SHOWN: usize = 8;
/// Bytes of a name, a route or a path that are shown.
const NAME_MAX_BYTES: usize = 128;
/// Bytes of a method that are shown.
const METHOD_MAX_BYTES: usize = 16;

/// Encodes the routes. Rates and percentiles are those since the earlier reports.
pub(crate) fn routes(reports: &[ServerReport], earlier: &[ServerReport], elapsed: Duration) -> Vec<RouteInfo> {
    let seconds = elapsed.as_secs_f64();
    let mut routes = Vec::new();
    for (at, report) in (0_u32..).zip(reports) {
        let before = before_of(report, earlier);
        let before_of = |route: &RouteReport| before?.routes.iter().find(|before| before.label == route.label);
        routes.extend(report.routes.iter().map(|report| route(at, report, before_of(report), seconds)));
    }
    routes
}

fn before_of<'a>(report: &ServerReport, earlier: &'a [ServerReport]) -> Option<&'a ServerReport> {
    earlier.iter().find(|before| before.listen == report.listen && before.name == report.name)
}

/// Encodes the servers, their limits, and a window of these routes. Rates and percentiles are those since the earlier
/// reports.
pub(crate) fn servers(
    reports: &[ServerReport],
    earlier: &[ServerReport],
    elapsed: Duration,
    mut routes: Vec<RouteInfo>,
    view: &ServeView,
) -> Serve {
    let places = || (0_u32..).zip(reports);
    let seconds = elapsed.as_secs_f64();
    let infos = reports.iter().map(|report| server(report, before_of(report, earlier), seconds)).collect();
    view.sort.sort(&mut routes);
    let total = routes.len() as u64;
    let offset = view.window.offset.min(total);
    Serve {
        window_ms: elapsed.as_millis() as u64,
        servers: infos,
        total,
        offset,
        routes: routes.into_iter().skip(offset as usize).take(view.window.len as usize).collect(),
        live: reports.iter().map(|report| report.live_total).sum(),
        limits: places().flat_map(|(at, report)| report.limits.iter().map(move |of| limit(at, of))).collect(),
        ..Serve::default()
    }
}

/// Adds the window of the live requests that match.
pub(crate) fn requests(found: &mut Serve, servers: &[Arc<dyn HttpServer>], filter: &RequestFilter, view: &ServeView) {
    let mut matching: Vec<(u32, LiveRequest)> = Vec::new();
    for (at, server) in (0_u32..).zip(servers.iter().take(SERVERS_SHOWN)) {
        server.for_each_live(&mut |live| {
            if filter.is_empty() || matches(filter, &live) {
                matching.push((at, live));
            }
        });
    }
    found.matched = matching.len() as u64;
    found.requests_offset = view.requests.offset.min(found.matched);
    let window = found.requests_offset as usize..(found.requests_offset + u64::from(view.requests.len)) as usize;
    // Only the page is sorted completely.
    let order = |a: &(u32, LiveRequest), b: &(u32, LiveRequest)| compare(view.request_sort, &a.1, &b.1);
    if window.end < matching.len() {
        matching.select_nth_unstable_by(window.end, order);
        matching.truncate(window.end);
    }
    matching.sort_unstable_by(order);
    found.requests = matching.iter().skip(window.start).map(|(at, live)| request(*at, live)).collect();
}

fn compare(sort: RequestSort, a: &LiveRequest, b: &LiveRequest) -> std::cmp::Ordering {
    let by_figure = match sort {
        // Sockets last for hours; they must not hide slow requests.
        RequestSort::Age => (a.kind != LiveKind::Request).cmp(&(b.kind != LiveKind::Request)),
        RequestSort::BytesIn => b.bytes_in.cmp(&a.bytes_in),
        RequestSort::BytesOut => b.bytes_out.cmp(&a.bytes_out),
        RequestSort::Route => a.route.cmp(&b.route),
        RequestSort::Client => a.peer.cmp(&b.peer),
    };
    by_figure.then(b.age.cmp(&a.age)).then(a.pid.slot().cmp(&b.pid.slot()))
}

fn matches(filter: &RequestFilter, live: &LiveRequest) -> bool {
    filter.matches(&RequestSubject {
        route: &live.route,
        method: &live.method,
        path: &live.path,
        client: &live.peer.to_string(),
        state: state(live),
        pid: &live.pid.to_string(),
        age_ms: live.age.as_millis() as u64,
        bytes_in: live.bytes_in,
        bytes_out: live.bytes_out,
    })
}

const fn state(live: &LiveRequest) -> &'static str {
    match live.kind {
        LiveKind::WebSocket => "websocket",
        LiveKind::Events => "events",
        LiveKind::Request if live.is_answered => "responding",
        LiveKind::Request => "handling",
    }
}

fn request(server: u32, live: &LiveRequest) -> RequestInfo {
    RequestInfo {
        server,
        pid: live.pid.to_string(),
        state: state(live).to_owned(),
        method: cut(&live.method, METHOD_MAX_BYTES),
        route: cut(&live.route, NAME_MAX_BYTES),
        path: cut(&live.path, NAME_MAX_BYTES),
        client: live.peer.to_string(),
        age_ms: live.age.as_millis() as u64,
        bytes_in: live.bytes_in,
        bytes_out: live.bytes_out,
    }
}

fn server(report: &ServerReport, before: Option<&ServerReport>, seconds: f64) -> ServerInfo {
    let sum = |report: &ServerReport, of: fn(&RouteReport) -> u64| report.routes.iter().map(of).sum::<u64>();
    let classes = |report: &ServerReport| -> [u64; 6] {
        std::array::from_fn(|class| report.routes.iter().map(|route| route.responses[class]).sum())
    };
    let per_sec = |of: fn(&ServerReport) -> u64| rate(of(report), before.map(of), seconds);
    let (now, then) = (classes(report), before.map(classes));
    let mut latency = DelayCounts::default();
    let mut earlier = DelayCounts::default();
    for route in &report.routes {
        latency.add(&route.latency);
    }
    for route in before.iter().flat_map(|before| &before.routes) {
        earlier.add(&route.latency);
    }
    let recent = latency.since(&earlier);
    ServerInfo {
        name: cut(&report.name, NAME_MAX_BYTES),
        listen: report.listen.to_string(),
        is_tls: report.is_tls,
        is_draining: report.is_draining,
        connections: report.connections + report.websockets,
        connections_total: report.connections_total,
        connections_per_sec: per_sec(|report| report.connections_total),
        tls_failures_total: report.tls_failures_total,
        in_flight: report.in_flight,
        in_flight_max: report.in_flight_max,
        waiting: report.waiting,
        websockets: report.websockets,
        event_streams: report.event_streams,
        responses_total: now,
        responses_per_sec: std::array::from_fn(|class| rate(now[class], then.map(|then| then[class]), seconds)),
        cancelled_total: sum(report, |route| route.cancelled_total),
        crashed_total: sum(report, |route| route.crashed_total),
        bytes_in_total: report.bytes_in_total,
        bytes_out_total: report.bytes_out_total,
        bytes_in_per_sec: per_sec(|report| report.bytes_in_total),
        bytes_out_per_sec: per_sec(|report| report.bytes_out_total),
        p50_ns: percentile(&recent, 0.5),
        p99_ns: percentile(&recent, 0.99),
    }
}

fn route(server: u32, report: &RouteReport, before: Option<&RouteReport>, seconds: f64) -> RouteInfo {
    let per_sec = |of: fn(&RouteReport) -> u64| rate(of(report), before.map(of), seconds);
    let recent = before.map_or_else(|| report.latency.clone(), |before| report.latency.since(&before.latency));
    RouteInfo {
        server,
        route: cut(&report.label, NAME_MAX_BYTES),
        in_flight: report.in_flight,
        responses_total: report.responses,
        requests_per_sec: per_sec(|route| route.responses.iter().sum()),
        refusals_per_sec: per_sec(|route| route.responses[4]),
        errors_per_sec: per_sec(|route| route.responses[5]),
        crashed_total: report.crashed_total,
        cancelled_total: report.cancelled_total,
        limited_total: report.limited_total,
        bytes_in_total: report.bytes_in_total,
        bytes_out_total: report.bytes_out_total,
        bytes_in_per_sec: per_sec(|route| route.bytes_in_total),
        bytes_out_per_sec: per_sec(|route| route.bytes_out_total),
        p50_ns: percentile(&recent, 0.5),
        p90_ns: percentile(&recent, 0.9),
        p99_ns: percentile(&recent, 0.99),
        cpu_ns_per_request: None,
    }
}

fn limit(server: u32, report: &LimitReport) -> LimitInfo {
    let info = LimitInfo {
        server,
        name: report.name.to_owned(),
        status: report.status,
        hits_total: report.hits_total,
        ..LimitInfo::default()
    };
    match report.bound {
        None => info,
        Some(LimitBound::Count(count)) => LimitInfo { count: Some(count), ..info },
        Some(LimitBound::Bytes(bytes)) => LimitInfo { bytes: Some(bytes), ..info },
        Some(LimitBound::Time(time)) => LimitInfo { ms: Some(time.as_millis() as u64), ..info },
    }
}

/// Returns the increase of a counter per second; 0 without an earlier value.
fn rate(now: u64, before: Option<u64>, seconds: f64) -> f64 {
    match before {
        Some(before) if seconds > 0.0 => round(now.saturating_sub(before) as f64 / seconds),
        _ => 0.0,
    }
}

fn percentile(counts: &DelayCounts, share: f64) -> Option<u64> {
    (counts.count() > 0).then(|| counts.percentile_ns(share))
}
