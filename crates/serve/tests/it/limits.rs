//! Each limit with its status code and its counter.

use std::thread;
use std::time::Duration;

use rusm_runtime::{Config, Runtime};
use rusm_serve::{IntoResponse, Limit, Limits, RateLimit, Request, Router, ServeConfig, Server};

use crate::client::Client;
use crate::serve;

fn router() -> Router {
    let routes = Router::new()
        .route("POST /echo", async |mut request: Request| match request.bytes().await {
            Ok(bytes) => bytes.into_response(),
            Err(error) => error.into_response(),
        })
        .and_then(|router| router.route("GET /never", async |_: Request| std::future::pending::<()>().await));
    routes.expect("the routes are valid")
}

/// Sends bytes to a server with these limits, and returns the status and the limits that were hit.
fn answer(limits: Limits, bytes: impl AsRef<[u8]>) -> (u16, Vec<(Limit, u64)>) {
    let (_runtime, server) = serve(router(), limits);
    let mut client = Client::connect(server.local_addr());
    client.write(bytes);
    let status = client.answer().status;
    (status, server.limits_hit())
}

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn a_head_that_is_too_long_gets_414_or_431() {
    let long = "x".repeat(9000);
    let fields: Vec<String> = (0..101).map(|number| format!("h{number}: x\r\n")).collect();
    let default = Limits::default();

    let (status, hit) = answer(default, format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!((status, hit), (414, vec![(Limit::TargetBytes, 1)]));
    let (status, hit) = answer(default, format!("GET / HTTP/1.1\r\nhost: a\r\na: {long}\r\nb: {long}\r\n\r\n"));
    assert_eq!((status, hit), (431, vec![(Limit::HeadBytes, 1)]));
    let (_runtime, server) = serve(router(), default);
    let mut client = Client::connect(server.local_addr());
    client.write(format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", fields.concat()));
    assert_eq!(client.answer().status, 431);
    // The limit is counted when the connection has ended, after the answer.
    while server.limits_hit().is_empty() {
        thread::yield_now();
    }
    assert_eq!(server.limits_hit(), [(Limit::HeadFields, 1)]);
    let endless = "x".repeat(40_000);
    assert_eq!(answer(default, format!("GET / HTTP/1.1\r\nhost: a\r\na: {endless}")).0, 431);
}

#[test]
fn a_body_that_is_too_long_gets_413_declared_or_not() {
    let limits = Limits { body_bytes: 4, ..Limits::default() };

    let (status, hit) = answer(limits, "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    assert_eq!((status, hit), (413, vec![(Limit::BodyBytes, 1)]));
    let chunked = "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let (status, hit) = answer(limits, chunked);
    assert_eq!((status, hit), (413, vec![(Limit::BodyBytes, 1)]));
    assert_eq!(answer(limits, "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nfour").0, 200);
}

#[test]
fn bodies_that_are_collected_share_a_bound_and_get_503_beyond_it() {
    let limits = Limits { bodies_bytes: 8, ..Limits::default() };
    let (_runtime, server) = serve(router(), limits);
    let mut slow = Client::connect(server.local_addr());
    slow.write("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 7\r\n\r\nlong");
    let mut client = Client::connect(server.local_addr());
    let mut post = |body: &str| {
        client.write(format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        client.answer()
    };
    // The first part of the slow body may arrive after the answer to the other one.
    let refused = std::iter::from_fn(|| Some(post("hello"))).find(|answer| answer.status == 503).unwrap();

    assert_eq!(refused.header("retry-after"), Some("1"));
    slow.write("est");
    assert_eq!(slow.answer().text(), "longest");
}

#[test]
fn what_is_too_slow_gets_408_or_504() {
    let head = Limits { head_timeout: SHORT, ..Limits::default() };
    assert_eq!(answer(head, "GET / HTTP/1.1\r\nhost: a\r\n"), (408, vec![(Limit::HeadTimeout, 1)]));
    let body = Limits { body_timeout: SHORT, ..Limits::default() };
    let cut = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe";
    assert_eq!(answer(body, cut), (408, vec![(Limit::BodyTimeout, 1)]));
    let handler = Limits { handler_timeout: SHORT, ..Limits::default() };
    let never = "GET /never HTTP/1.1\r\nhost: a\r\n\r\n";
    assert_eq!(answer(handler, never), (504, vec![(Limit::HandlerTimeout, 1)]));
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let (_runtime, server) = serve(router(), Limits { idle_timeout: SHORT, ..Limits::default() });
    let mut client = Client::connect(server.local_addr());
    client.write("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
    assert_eq!(client.answer().text(), "hi");

    assert!(client.is_closed());
    assert_eq!(server.limits_hit(), [(Limit::IdleTimeout, 1)]);
}

#[test]
fn overload_is_answered_with_503_and_when_to_come_back() {
    let limits = Limits { in_flight: 1, queue: 1, queue_timeout: SHORT, ..Limits::default() };
    let (_runtime, server) = serve(router(), limits);
    let mut first = Client::connect(server.local_addr());
    first.write("GET /never HTTP/1.1\r\nhost: a\r\n\r\n");
    while server.report(0).live_total == 0 {
        std::thread::yield_now();
    }

    let mut waiting = Client::connect(server.local_addr());
    let answer = waiting.get("/never");

    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(server.limits_hit(), [(Limit::QueueTimeout, 1)]);
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let (_runtime, server) = serve(router(), Limits { connections: 1, ..Limits::default() });
    let mut first = Client::connect(server.local_addr());
    let ask = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
    first.write(ask);
    assert_eq!(first.answer().text(), "hi");

    let mut second = Client::connect(server.local_addr());
    second.write(ask);
    drop(first);

    assert_eq!(second.answer().text(), "hi");
    // The first one leaves its place before it leaves the report.
    while server.report(0).connections != 1 {
        std::thread::yield_now();
    }
}

#[test]
fn checks_of_health_are_answered_beyond_all_limits() {
    let router = router().unlimited_route("GET /healthz", async |_: Request| "ok\n").expect("valid");
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime starts");
    let limits = Limits { in_flight: 1, queue: 0, ..Limits::default() };
    let rate_limits = vec![RateLimit::token_bucket(0.001, 1).expect("in range")];
    let config = ServeConfig { limits, rate_limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router).expect("a port is free");
    let mut busy = Client::connect(server.local_addr());
    busy.write("GET /never HTTP/1.1\r\nhost: a\r\n\r\n");
    while server.report(0).live_total == 0 {
        thread::yield_now();
    }

    let mut client = Client::connect(server.local_addr());
    assert_eq!(client.get("/never").status, 429);
    for _ in 0..3 {
        assert_eq!(client.get("/healthz").text(), "ok\n");
    }
}

#[test]
fn the_time_for_a_handler_begins_when_it_has_the_body() {
    let (_runtime, server) = serve(router(), Limits { handler_timeout: 40 * SHORT, ..Limits::default() });
    let mut client = Client::connect(server.local_addr());
    client.write("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nsl");
    // The limit of a later request passes after that of the first.
    assert_eq!(Client::connect(server.local_addr()).get("/never").status, 504);
    client.write("ow");

    assert_eq!(client.answer().text(), "slow");
    assert_eq!(server.limits_hit(), [(Limit::HandlerTimeout, 1)]);
}

#[test]
fn a_handler_that_gives_up_its_wait_for_the_body_keeps_its_limit() {
    let router = Router::new().route("POST /", async |mut request: Request| {
        let first = futures_util::FutureExt::now_or_never(request.body().chunk());
        assert!(first.is_none(), "the body has not arrived");
        std::future::pending::<()>().await;
    });
    let limits = Limits { handler_timeout: SHORT, body_timeout: SHORT, ..Limits::default() };
    let (_runtime, server) = serve(router.expect("valid"), limits);
    let mut client = Client::connect(server.local_addr());
    client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n");

    assert_eq!(client.answer().status, 504);
}
