//! What observers see of a server, its rate limits, the traces of its requests, and its access log.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::observe::{self, LiveKind, LiveRequest};
use rusm_runtime::{Config, Runtime};
use rusm_serve::{
    Body, Limit, Limits, RateLimit, Request, RouteReport, Router, ServeConfig, Server, TRACEPARENT, websocket,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::client::Client;
use crate::serve;

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn route(server: &Server, label: &str) -> RouteReport {
    server.report(0).routes.into_iter().find(|route| &*route.label == label).expect("the route exists")
}

#[test]
fn observers_of_the_runtime_see_a_server_until_it_is_dropped() {
    let router = Router::new().route("GET /", async |_: Request| "hello\n").expect("a route");
    let (runtime, server) = serve(router, Limits::default());
    assert_eq!(Client::connect(server.local_addr()).get("/").status, 200);

    let shown = observe::servers(&runtime);
    let report = shown[0].report();
    assert_eq!((shown.len(), report.listen), (1, server.local_addr()));
    assert_eq!((report.routes[0].responses, report.routes[0].latency.count()), ([0, 0, 1, 0, 0, 0], 1));
    let queue = report.limits.iter().find(|limit| limit.name == "queue").expect("all limits are reported");
    assert_eq!((queue.bound, queue.hits_total), (Some(observe::LimitBound::Count(1_000)), 0));

    drop((shown, server));
    until("the server is gone", || observe::servers(&runtime).is_empty());
}

#[test]
fn the_bytes_of_routes_are_all_bytes_of_their_connections() {
    let router = Router::new()
        .route("POST /echo", async |mut request: Request| Body::from(request.bytes().await.expect("a body")))
        .and_then(|router| {
            router.route("GET /ws", async |request: Request| {
                websocket::upgrade(request, async |mut socket| {
                    while let Ok(Some(message)) = socket.receive().await {
                        drop(socket.send(message).await);
                    }
                })
            })
        })
        .expect("routes");
    let (_runtime, server) = serve(router, Limits::default());
    let mut client = Client::connect(server.local_addr());
    for length in [0, 1, 5_000] {
        client
            .write(format!("POST /echo HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length)));
        assert_eq!(client.answer().body.len(), length);
    }
    assert_eq!(client.get("/nowhere").status, 404);

    let mut socket = Client::connect(server.local_addr());
    socket.write(
        "GET /ws HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    );
    assert!(socket.head().contains("101"));
    // A masked text frame of two bytes, whose mask is zero.
    socket.write([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
    let mut frame = [0; 4];
    std::io::Read::read_exact(&mut socket.0, &mut frame).expect("the echo");
    assert_eq!(frame, [0x81, 2, b'h', b'i']);

    let mut live = server.report(10).live;
    let open = live.pop().expect("the socket");
    assert_eq!((open.kind, open.bytes_out > 100, open.is_answered), (LiveKind::WebSocket, true, true));
    until("all bytes are attributed", || {
        let report = server.report(0);
        let sum = |of: fn(&RouteReport) -> u64| report.routes.iter().map(of).sum::<u64>();
        sum(|route| route.bytes_in_total) == report.bytes_in_total
            && sum(|route| route.bytes_out_total) == report.bytes_out_total
    });
    assert!(route(&server, "POST /echo").bytes_in_total > 5_001);
}

#[test]
fn live_requests_say_what_they_do() {
    let router = Router::new().route("GET /wait/:id", async |_: Request| std::future::pending::<()>().await);
    let (runtime, server) = serve(router.expect("a route"), Limits::default());
    let mut client = Client::connect(server.local_addr());
    client.write("GET /wait/7?secret=1 HTTP/1.1\r\nhost: t\r\n\r\n");

    let live = || -> Vec<LiveRequest> {
        let mut found = Vec::new();
        observe::servers(&runtime)[0].for_each_live(&mut |live| found.push(live));
        found
    };
    until("the request is handled", || !live().is_empty());

    let request = &live()[0];
    assert_eq!((&*request.method, &*request.route, &*request.path), ("GET", "GET /wait/:id", "/wait/7"));
    assert_eq!((request.kind, request.is_answered), (LiveKind::Request, false));
    assert_eq!(request.peer, client.0.local_addr().expect("the socket is open"));
    assert!(runtime.is_alive(request.pid));
}

#[test]
fn a_request_over_the_rate_of_its_route_gets_429_and_is_counted() {
    let slow = RateLimit::token_bucket(0.01, 2).expect("a rate").per_client();
    let router = Router::new()
        .limited_route("GET /limited", [slow], async |_: Request| "in\n")
        .and_then(|router| router.route("GET /free", async |_: Request| "in\n"))
        .expect("routes");
    let (_runtime, server) = serve(router, Limits::default());
    let mut client = Client::connect(server.local_addr());

    let statuses = [(); 3].map(|()| client.get("/limited"));

    assert_eq!(statuses.each_ref().map(|answer| answer.status), [200, 200, 429]);
    let seconds: u64 = statuses[2].header("retry-after").and_then(|value| value.parse().ok()).expect("a time");
    assert!((1..=100).contains(&seconds), "{seconds}");
    assert_eq!(client.get("/free").status, 200);
    assert_eq!(server.limits_hit(), [(Limit::Rate, 1)]);
    assert_eq!(route(&server, "GET /limited").limited_total, 1);
}

#[test]
fn a_limit_of_the_server_counts_requests_of_all_routes() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a runtime starts");
    let router = Router::new().route("/*", async |_: Request| "in\n").expect("a route");
    let rate_limits = vec![RateLimit::token_bucket(0.01, 1).expect("a rate")];
    let config = ServeConfig { rate_limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router).expect("a port is free");
    let mut client = Client::connect(server.local_addr());

    assert_eq!([client.get("/a").status, client.get("/b").status], [200, 429]);
}

/// Keeps the events of the access log as text.
#[derive(Clone, Default)]
struct AccessLog(Arc<Mutex<Vec<String>>>);

impl AccessLog {
    fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Subscriber for AccessLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rusm::access"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                write!(self.0, "{}={value:?} ", field.name()).expect("a string takes it");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_trace_goes_on_and_each_request_is_a_line_of_the_access_log() {
    let log = AccessLog::default();
    tracing::subscriber::set_global_default(log.clone()).expect("the only subscriber of these tests");
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a runtime starts");
    let router = Router::new()
        .route("GET /traced", async |request: Request| {
            let trace = request.trace().expect("the client has sent one");
            ([(TRACEPARENT, trace.outgoing())], "traced\n")
        })
        .and_then(|router| router.route("GET /crash", async |_: Request| -> () { panic!("a bug") }))
        .expect("routes");
    let config = ServeConfig { access_log: true, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router).expect("a port is free");
    let mut client = Client::connect(server.local_addr());

    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    client.write(format!(
        "GET /traced?token=secret HTTP/1.1\r\nhost: t\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n"
    ));
    let answer = client.answer();
    let outgoing = answer.header("traceparent").expect("the handler has set it").to_owned();
    assert!(outgoing.starts_with(&format!("00-{trace}-")) && !outgoing.contains("00f067aa0ba902b7"), "{outgoing}");
    assert_eq!(client.get("/crash").status, 500);

    until("both lines are written", || log.lines().len() == 2);
    let lines = log.lines();
    let span = outgoing.split('-').nth(2).expect("a span");
    for part in [
        "status=200 ",
        "message=GET /traced ",
        "route=GET /traced ",
        &format!("trace_id={trace} "),
        &format!("span_id={span} "),
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    assert!(!lines[0].contains("secret"), "the query may contain secrets: {}", lines[0]);
    assert!(lines[1].contains("status=500 ") && lines[1].contains("crashed=true "), "{}", lines[1]);
}
