//! HTTP servers of the simulated node.

use rusm_protocol::{
    LimitInfo, RequestFilter, RequestInfo, RequestSort, RequestSubject, RouteInfo, Serve, ServeView, ServerInfo,
};

use crate::demo::random::random;

/// A route: server, label, requests per second, shares of 4xx and 5xx in thousandths, median and 99th percentile in
/// microseconds, bytes of a response.
type RouteSpec = (u32, &'static str, u64, [u64; 2], [u64; 2], u64);

const ROUTES: [RouteSpec; 9] = [
    (0, "GET /", 1_840, [0, 0], [180, 940], 4_800),
    (0, "GET /users/:id", 2_610, [31, 2], [640, 5_200], 1_900),
    (0, "POST /orders", 320, [12, 9], [4_100, 48_000], 420),
    (0, "GET /search", 210, [4, 1], [18_000, 260_000], 22_000),
    (0, "/assets/*", 980, [2, 0], [90, 400], 61_000),
    (0, "GET /chat/:room", 4, [0, 0], [210, 800], 300),
    (0, "GET /events", 2, [0, 0], [160, 700], 90),
    (1, "GET /readyz", 1, [0, 0], [40, 90], 3),
    (1, "(no route)", 3, [1_000, 0], [20, 60], 10),
];

/// A live request: server, state, method, route, path, age in milliseconds at its start, bytes in and out.
type RequestSpec = (u32, &'static str, &'static str, &'static str, &'static str, u64, [u64; 2]);

const REQUESTS: [RequestSpec; 12] = [
    (0, "websocket", "GET", "GET /chat/:room", "/chat/general", 4_380_000, [48_211, 901_442]),
    (0, "websocket", "GET", "GET /chat/:room", "/chat/general", 3_122_000, [12_480, 640_913]),
    (0, "events", "GET", "GET /events", "/events", 912_000, [214, 88_100]),
    (0, "websocket", "GET", "GET /chat/:room", "/chat/music", 401_000, [2_101, 90_233]),
    (0, "handling", "POST", "POST /orders", "/orders", 8_900, [4_190, 0]),
    (0, "responding", "GET", "/assets/*", "/assets/video/intro.webm", 6_200, [180, 31_457_280]),
    (0, "handling", "GET", "GET /search", "/search", 1_450, [240, 0]),
    (0, "handling", "GET", "GET /search", "/search", 870, [236, 0]),
    (0, "handling", "GET", "GET /users/:id", "/users/48213", 120, [190, 0]),
    (0, "handling", "POST", "POST /orders", "/orders", 45, [2_048, 0]),
    (0, "responding", "GET", "GET /", "/", 3, [170, 2_400]),
    (1, "handling", "GET", "GET /readyz", "/readyz", 1, [80, 0]),
];

/// Answers a request for servers.
pub(crate) fn serve(view: &ServeView, seq: u64, now_ms: u64) -> Serve {
    let mut routes: Vec<RouteInfo> = (0..ROUTES.len()).map(|at| route(at, now_ms)).collect();
    let servers = vec![server(0, &routes, now_ms), server(1, &routes, now_ms)];
    view.sort.sort(&mut routes);
    let total = routes.len() as u64;
    let offset = view.window.offset.min(total);
    let filter = RequestFilter::parse(&view.filter).unwrap_or_default();
    let mut requests: Vec<RequestInfo> = (0..REQUESTS.len()).map(|at| request(at, now_ms)).collect();
    let live = requests.len() as u64;
    requests.retain(|request| matches(&filter, request));
    sort(&mut requests, view.request_sort);
    let matched = requests.len() as u64;
    let requests_offset = view.requests.offset.min(matched);
    Serve {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 38.0,
        window_ms: 5_000,
        servers,
        total,
        offset,
        routes: routes.into_iter().skip(offset as usize).take(view.window.len as usize).collect(),
        live,
        matched,
        requests_offset,
        requests: requests.into_iter().skip(requests_offset as usize).take(view.requests.len as usize).collect(),
        limits: limits(now_ms),
    }
}

/// Returns a factor around 1 that changes every second.
fn wave(salt: usize, now_ms: u64) -> f64 {
    0.85 + 0.3 * random(7, salt as u64, now_ms / 1000)
}

fn route(at: usize, now_ms: u64) -> RouteInfo {
    let (server, label, per_sec, [refused, failed], [p50_us, p99_us], bytes) = ROUTES[at];
    let seconds = now_ms as f64 / 1e3;
    let all = (per_sec as f64 * (seconds + 0.4 * (seconds / 3.0).sin() + 0.1 * (seconds * 1.7).sin())).max(0.0) as u64;
    let (refusals, errors) = (all * refused / 1000, all * failed / 1000);
    let rate = per_sec as f64 * wave(at, now_ms);
    RouteInfo {
        server,
        route: label.to_owned(),
        in_flight: REQUESTS.iter().filter(|request| request.3 == label && request.1 == "handling").count() as u64,
        responses_total: [0, 0, all - refusals - errors, 0, refusals, errors],
        requests_per_sec: rate,
        refusals_per_sec: rate * refused as f64 / 1e3,
        errors_per_sec: rate * failed as f64 / 1e3,
        crashed_total: errors / 3,
        cancelled_total: all / 9_000,
        limited_total: if label == "POST /orders" { all / 400 } else { 0 },
        bytes_in_total: all * 240,
        bytes_out_total: all * bytes,
        bytes_in_per_sec: rate * 240.0,
        bytes_out_per_sec: rate * bytes as f64,
        p50_ns: Some(p50_us * 1_000),
        p90_ns: Some((p50_us + p99_us) * 400),
        cpu_ns_per_request: Some(p50_us as f64 * 310.0),
        p99_ns: Some((p99_us as f64 * 1e3 * wave(at + 40, now_ms)) as u64),
    }
}

fn server(number: u32, routes: &[RouteInfo], now_ms: u64) -> ServerInfo {
    let own = || routes.iter().filter(|route| route.server == number);
    let class = |class: usize| own().map(|route| route.responses_total[class]).sum::<u64>();
    let rate = |of: fn(&RouteInfo) -> f64| own().map(of).sum::<f64>();
    let (refusals, errors) = (rate(|route| route.refusals_per_sec), rate(|route| route.errors_per_sec));
    let ok = rate(|route| route.requests_per_sec) - refusals - errors;
    let is_public = number == 0;
    let count = |of_public: u64| if is_public { of_public } else { 0 };
    ServerInfo {
        name: if is_public { "shop" } else { "internal" }.to_owned(),
        listen: if is_public { "0.0.0.0:8443" } else { "127.0.0.1:9000" }.to_owned(),
        is_tls: is_public,
        is_draining: false,
        connections: if is_public { 412 + (now_ms / 1000) % 9 } else { 1 },
        connections_total: count(36 * now_ms / 1000) + 1,
        connections_per_sec: count(36) as f64 * wave(90, now_ms),
        tls_failures_total: count(now_ms / 60_000),
        in_flight: own().map(|route| route.in_flight).sum(),
        in_flight_max: 10_000,
        waiting: 0,
        websockets: count(3),
        event_streams: count(1),
        responses_total: std::array::from_fn(class),
        responses_per_sec: [0.0, count(2) as f64, ok * 0.97, ok * 0.03, refusals, errors],
        cancelled_total: own().map(|route| route.cancelled_total).sum(),
        crashed_total: own().map(|route| route.crashed_total).sum(),
        bytes_in_total: own().map(|route| route.bytes_in_total).sum(),
        bytes_out_total: own().map(|route| route.bytes_out_total).sum(),
        bytes_in_per_sec: rate(|route| route.bytes_in_per_sec),
        bytes_out_per_sec: rate(|route| route.bytes_out_per_sec),
        p50_ns: Some(if is_public { 480_000 } else { 40_000 }),
        p99_ns: Some(if is_public { 61_000_000 } else { 90_000 }),
    }
}

fn request(at: usize, now_ms: u64) -> RequestInfo {
    let (server, state, method, route, path, age_ms, [bytes_in, bytes_out]) = REQUESTS[at];
    // Requests that are only handled are others at each moment.
    let is_long = state != "handling" && age_ms > 1_000;
    RequestInfo {
        server,
        pid: format!("<0.{}.{}>", 4_096 + at * 37, 1 + at % 5),
        state: state.to_owned(),
        method: method.to_owned(),
        route: route.to_owned(),
        path: path.to_owned(),
        client: format!("203.0.113.{}:{}", 10 + at * 7, 40_000 + at * 1_311),
        age_ms: if is_long { age_ms + now_ms } else { age_ms },
        bytes_in,
        bytes_out: if is_long { bytes_out + now_ms / 10 } else { bytes_out },
    }
}

fn matches(filter: &RequestFilter, request: &RequestInfo) -> bool {
    let RequestInfo { pid, state, method, route, path, client, age_ms, bytes_in, bytes_out, .. } = request;
    let (age_ms, bytes_in, bytes_out) = (*age_ms, *bytes_in, *bytes_out);
    filter.matches(&RequestSubject { route, method, path, client, state, pid, age_ms, bytes_in, bytes_out })
}

fn sort(requests: &mut [RequestInfo], sort: RequestSort) {
    let is_socket = |request: &RequestInfo| matches!(request.state.as_str(), "websocket" | "events");
    requests.sort_by_key(|request| (is_socket(request), std::cmp::Reverse(request.age_ms)));
    match sort {
        RequestSort::Age => {}
        RequestSort::BytesIn => requests.sort_by_key(|request| std::cmp::Reverse(request.bytes_in)),
        RequestSort::BytesOut => requests.sort_by_key(|request| std::cmp::Reverse(request.bytes_out)),
        RequestSort::Route => requests.sort_by(|a, b| a.route.cmp(&b.route)),
        RequestSort::Client => requests.sort_by(|a, b| a.client.cmp(&b.client)),
    }
}

fn limits(now_ms: u64) -> Vec<LimitInfo> {
    let seconds = now_ms / 1000;
    let limit = |name: &str, hits_total| LimitInfo { name: name.to_owned(), hits_total, ..LimitInfo::default() };
    vec![
        LimitInfo { count: Some(10_000), ..limit("connections", 0) },
        LimitInfo { count: Some(1_000), status: Some(503), ..limit("queue", 0) },
        LimitInfo { bytes: Some(8 << 10), status: Some(414), ..limit("target_bytes", 2) },
        LimitInfo { bytes: Some(2 << 20), status: Some(413), ..limit("body_bytes", 9) },
        LimitInfo { ms: Some(10_000), status: Some(408), ..limit("head_timeout", seconds / 7) },
        LimitInfo { ms: Some(30_000), status: Some(504), ..limit("handler_timeout", 1) },
        LimitInfo { ms: Some(60_000), ..limit("idle_timeout", 3 * seconds) },
        LimitInfo { status: Some(429), ..limit("rate", 320 * seconds / 400) },
    ]
}
