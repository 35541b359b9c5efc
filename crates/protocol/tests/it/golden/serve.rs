//! The view of the servers, and its answer.

use rusm_protocol::{
    LimitInfo, RequestInfo, RequestSort, RouteInfo, RouteSort, Serve, ServeView, ServerInfo, ViewWindow,
};

pub(crate) fn serve_view() -> ServeView {
    ServeView {
        id: 9,
        sort: RouteSort::P99,
        window: ViewWindow { offset: 0, len: 20 },
        request_sort: RequestSort::Age,
        filter: "route~users and age>1s".to_owned(),
        requests: ViewWindow { offset: 0, len: 40 },
        hz: 2.0,
    }
}

pub(crate) fn serve() -> Serve {
    let server = ServerInfo {
        name: "web".to_owned(),
        listen: "127.0.0.1:8080".to_owned(),
        is_tls: true,
        is_draining: false,
        connections: 120,
        connections_total: 5_000,
        connections_per_sec: 4.5,
        tls_failures_total: 3,
        in_flight: 12,
        in_flight_max: 10_000,
        waiting: 1,
        websockets: 20,
        event_streams: 5,
        responses_total: [0, 20, 90_000, 10, 400, 7],
        responses_per_sec: [0.0, 0.5, 900.5, 0.0, 4.0, 0.5],
        cancelled_total: 6,
        crashed_total: 2,
        bytes_in_total: 8_000_000,
        bytes_out_total: 90_000_000,
        bytes_in_per_sec: 80_000.5,
        bytes_out_per_sec: 900_000.5,
        p50_ns: Some(800_000),
        p99_ns: Some(9_000_000),
    };
    let route = RouteInfo {
        server: 0,
        route: "GET /users/:id".to_owned(),
        in_flight: 11,
        responses_total: [0, 0, 80_000, 0, 300, 7],
        requests_per_sec: 800.5,
        refusals_per_sec: 3.5,
        errors_per_sec: 0.5,
        crashed_total: 2,
        cancelled_total: 6,
        limited_total: 40,
        bytes_in_total: 7_000_000,
        bytes_out_total: 80_000_000,
        bytes_in_per_sec: 70_000.5,
        bytes_out_per_sec: 800_000.5,
        p50_ns: Some(700_000),
        p90_ns: Some(2_000_000),
        p99_ns: Some(9_500_000),
        cpu_ns_per_request: Some(41_000.5),
    };
    let request = RequestInfo {
        server: 0,
        pid: "<0.44.1>".to_owned(),
        state: "handling".to_owned(),
        method: "GET".to_owned(),
        route: "GET /users/:id".to_owned(),
        path: "/users/7".to_owned(),
        client: "10.0.0.9:50123".to_owned(),
        age_ms: 1_250,
        bytes_in: 88,
        bytes_out: 0,
    };
    let limit = |name: &str| LimitInfo { server: 0, name: name.to_owned(), hits_total: 40, ..LimitInfo::default() };
    Serve {
        id: 9,
        seq: 4,
        at_ms: 64_000,
        cost_us: 31.0,
        window_ms: 5_000,
        servers: vec![server],
        total: 1,
        offset: 0,
        routes: vec![route],
        live: 37,
        matched: 1,
        requests_offset: 0,
        requests: vec![request],
        limits: vec![
            LimitInfo { count: Some(1_000), status: Some(503), ..limit("queue") },
            LimitInfo { bytes: Some(8_192), status: Some(414), ..limit("target_bytes") },
            LimitInfo { ms: Some(60_000), ..limit("idle_timeout") },
            LimitInfo { status: Some(429), ..limit("rate") },
        ],
    }
}
