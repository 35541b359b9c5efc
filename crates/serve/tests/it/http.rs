//! Requests and responses.

use std::collections::HashSet;
use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::StreamExt;
use http::StatusCode;
use rusm_runtime::{Config, ExitReason, Pid, Runtime};
use rusm_serve::{Body, IntoResponse, Limits, LiveKind, RateLimit, Request, Router, ServeConfig, Server, service};

use crate::client::Client;
use crate::serve;

fn router() -> Router {
    let routes = Router::new()
        .route("GET /", async |_: Request| "hello\n")
        .and_then(|router| {
            router.route("GET /users/:id", async |request: Request| {
                format!("user {} of {}\n", request.param("id").unwrap_or(""), request.connection().peer.ip())
            })
        })
        .and_then(|router| {
            router.route("POST /echo", async |mut request: Request| match request.bytes().await {
                Ok(bytes) => bytes.into_response(),
                Err(error) => error.into_response(),
            })
        })
        .and_then(|router| router.route("GET /crash", async |_: Request| -> StatusCode { panic!("as ordered") }))
        .and_then(|router| {
            router.route("GET /stream", async |_: Request| {
                let chunks = ["one ", "two ", "three"].map(|chunk| Ok::<_, std::io::Error>(chunk.as_bytes()));
                Body::stream(futures_util::stream::iter(chunks))
            })
        })
        .and_then(|router| {
            router.route("GET /cut", async |_: Request| {
                let chunks = [Ok("one "), Err("the source has failed")];
                Body::stream(futures_util::stream::iter(chunks))
            })
        })
        .and_then(|router| {
            router.route("GET /crash-late", async |_: Request| {
                let chunk = |number| match number {
                    0 => Ok::<_, std::io::Error>("one "),
                    _ => panic!("as ordered"),
                };
                Body::stream(futures_util::stream::iter([0, 1]).map(chunk))
            })
        });
    routes.expect("the routes are valid")
}

#[test]
fn connections_are_served_on_all_schedulers() {
    let thread = async |_: Request| std::thread::current().name().map(str::to_owned).unwrap_or_default();
    let (_runtime, server) = serve(Router::new().route("/", thread).expect("a valid route"), Limits::default());
    let mut threads = HashSet::new();

    // The kernel chooses a scheduler for each connection by its port.
    for _ in 0..1_000 {
        threads.insert(Client::connect(server.local_addr()).get("/").text().to_owned());
        if threads.len() == 2 {
            return;
        }
    }

    panic!("all on {threads:?}");
}

#[test]
fn a_request_without_exactly_one_valid_host_is_refused() {
    let (_runtime, server) = serve(router(), Limits::default());

    for hosts in [
        "",
        "host: a\r\nhost: b\r\n",
        "host: a b\r\n",
        "host: a/../b\r\n",
        "host:\r\n",
        "host: u@a\r\n",
        "host: a:x\r\n",
        "host: a:99999\r\n",
    ] {
        let mut client = Client::connect(server.local_addr());
        client.write(format!("GET / HTTP/1.1\r\n{hosts}\r\n"));
        assert_eq!(client.answer().status, 400, "{hosts:?}");
    }
    let mut client = Client::connect(server.local_addr());
    client.write("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().status, 200, "HTTP/1.0 needs none");
    for host in ["a", "a:80", "[::1]:80", "127.0.0.1"] {
        let mut client = Client::connect(server.local_addr());
        client.write(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        assert_eq!(client.answer().text(), "hello\n", "{host}");
    }
    for (target, status) in [("http://A/", 200), ("http://b/", 400), ("http://a:81/", 400)] {
        let mut client = Client::connect(server.local_addr());
        client.write(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!(client.answer().status, status, "{target}");
    }
}

#[test]
fn requests_of_one_connection_are_answered_in_order() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut client = Client::connect(server.local_addr());

    assert_eq!(client.get("/").text(), "hello\n");
    assert_eq!(client.get("/users/7?x=1").text(), "user 7 of 127.0.0.1\n");
    assert_eq!(client.get("/none").status, 404);
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /users/8 HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "hello\n");
    assert_eq!(client.answer().text(), "user 8 of 127.0.0.1\n");

    let report = server.report(10);
    assert_eq!((report.connections, report.connections_total), (1, 1));
    let totals: Vec<_> = report.routes.iter().map(|route| (&*route.label, route.responses[2])).collect();
    assert_eq!(totals[..2], [("GET /", 2), ("GET /users/:id", 2)]);
    let unrouted = report.routes.last().expect("there was a request without a route");
    assert_eq!((&*unrouted.label, unrouted.responses[4]), ("(no route)", 1));
    assert!(report.bytes_in_total > 100 && report.bytes_out_total > 100);
}

#[test]
fn a_body_goes_in_and_comes_out_with_its_length_or_in_chunks() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut client = Client::connect(server.local_addr());

    client.write("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    assert_eq!(client.answer().text(), "hello");
    client
        .write("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "abcde");
    let streamed = client.get("/stream");
    assert_eq!((streamed.text(), streamed.header("transfer-encoding")), ("one two three", Some("chunked")));
    client.write("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(client.head().contains("content-length: 6"));
    client.write("PUT / HTTP/1.1\r\nhost: a\r\n\r\n");
    let refused = client.answer();
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET")));
}

#[test]
fn a_crash_answers_500_to_its_own_client_alone() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut crashing = Client::connect(server.local_addr());
    let mut other = Client::connect(server.local_addr());

    assert_eq!(crashing.get("/crash").status, 500);

    assert_eq!(crashing.get("/").text(), "hello\n", "the connection lives on");
    assert_eq!(other.get("/").text(), "hello\n");
    let report = server.report(0);
    let crashes = report.routes.iter().find(|route| &*route.label == "GET /crash").expect("the route is there");
    assert_eq!((crashes.crashed_total, crashes.responses[5]), (1, 1));
}

#[test]
fn a_process_that_crashes_after_the_head_of_its_response_is_counted() {
    let (_runtime, server) = serve(router(), Limits::default());
    for path in ["/crash-late", "/cut"] {
        let mut client = Client::connect(server.local_addr());
        client.write(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        client.0.read_to_end(&mut Vec::new()).expect("the connection is closed");
    }

    let report = server.report(0);
    let crashes =
        |label: &str| report.routes.iter().find(|route| &*route.label == label).expect("it is there").crashed_total;
    assert_eq!((crashes("GET /crash-late"), crashes("GET /cut")), (1, 0));
}

#[test]
fn a_body_whose_source_fails_is_not_taken_for_complete() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut client = Client::connect(server.local_addr());

    client.write("GET /cut HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut received = Vec::new();
    client.0.read_to_end(&mut received).expect("the connection is closed");

    assert!(!received.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&received));
}

#[test]
fn a_client_that_leaves_ends_the_process_of_its_request() {
    let (started, starts) = mpsc::channel::<Pid>();
    let router = Router::new()
        .route("GET /slow", move |request: Request| {
            started.send(request.context().pid()).expect("the test waits for it");
            std::future::pending::<()>()
        })
        .expect("the route is valid");
    let (runtime, server) = serve(router, Limits::default());
    let mut client = Client::connect(server.local_addr());

    client.write("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let pid = starts.recv_timeout(Duration::from_mins(1)).expect("the request arrives");
    let live = server.report(10).live;
    assert_eq!((live.len(), live[0].pid, live[0].kind, &*live[0].path), (1, pid, LiveKind::Request, "/slow"));
    let watch = runtime.watch(pid);
    drop(client);

    assert_eq!(watch.wait(), ExitReason::Killed);
}

#[test]
fn a_process_that_is_killed_answers_500() {
    let (started, starts) = mpsc::channel::<Pid>();
    let router = Router::new()
        .route("GET /slow", move |request: Request| {
            started.send(request.context().pid()).expect("the test waits for it");
            std::future::pending::<()>()
        })
        .expect("the route is valid");
    let (runtime, server) = serve(router, Limits::default());
    let mut client = Client::connect(server.local_addr());

    client.write("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let pid = starts.recv_timeout(Duration::from_mins(1)).expect("the request arrives");
    runtime.exit(pid, ExitReason::Killed);

    assert_eq!(client.answer().status, 500);
}

/// A service of tower that needs no other crate.
#[derive(Clone)]
struct Hello;

impl tower_service::Service<http::Request<Body>> for Hello {
    type Response = http::Response<http_body_util::Full<bytes::Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let text = format!("tower at {}", request.uri().path());
        std::future::ready(Ok(http::Response::new(http_body_util::Full::new(text.into()))))
    }
}

#[test]
fn a_service_of_tower_is_a_handler() {
    let (_runtime, server) = serve(Router::new().route("/*", service(Hello)).expect("valid"), Limits::default());

    assert_eq!(Client::connect(server.local_addr()).get("/a/b").text(), "tower at /a/b");
}

#[test]
fn new_routes_replace_the_old_ones_on_open_connections() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut client = Client::connect(server.local_addr());
    assert_eq!(client.get("/").text(), "hello\n");

    server.set_router(Router::new().route("GET /", async |_: Request| "new\n").expect("valid"));

    assert_eq!(client.get("/").text(), "new\n");
    assert_eq!(client.get("/stream").status, 404);
    let report = server.report(0);
    let responses: Vec<_> = report.routes.iter().map(|route| (&*route.label, route.responses[2])).collect();
    assert_eq!(responses, [("GET /", 2), ("(no route)", 0)], "figures go on");
}

#[test]
fn the_rate_of_a_route_goes_on_after_a_reload_and_that_of_the_server_holds_without_a_route() {
    let router = |per_sec: f64| {
        let limit = RateLimit::token_bucket(per_sec, 1).expect("a quota");
        Router::new().limited_route("GET /", [limit], async |_: Request| "hello\n").expect("valid")
    };
    let runtime = Runtime::start(Config::default()).expect("a runtime");
    let rate_limits = vec![RateLimit::token_bucket(0.001, 4).expect("a quota")];
    let config = ServeConfig { rate_limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router(0.001)).expect("a server");
    let mut client = Client::connect(server.local_addr());

    assert_eq!(client.get("/").status, 200);
    server.set_router(router(0.001));
    assert_eq!(client.get("/").status, 429, "the limit is the same");
    server.set_router(router(0.002));
    assert_eq!(client.get("/").status, 200, "it is another limit");
    assert_eq!((client.get("/nope").status, client.get("/nope").status), (404, 429));
}

#[test]
fn refused_requests_use_up_the_rate_too() {
    let runtime = Runtime::start(Config::default()).expect("a runtime");
    let rate_limits = vec![RateLimit::token_bucket(0.001, 2).expect("a quota")];
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let config = ServeConfig { rate_limits, limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    for (request, status) in [
        ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 11\r\n\r\n", 413),
        ("DELETE /echo HTTP/1.1\r\nhost: a\r\n\r\n", 405),
    ] {
        let server = Server::start(&runtime, config.clone(), router()).expect("a server");
        let statuses: Vec<u16> = (0..3)
            .map(|_| {
                let mut client = Client::connect(server.local_addr());
                client.write(request);
                client.answer().status
            })
            .collect();

        assert_eq!(statuses, [status, status, 429], "{request}");
    }
}

/// Longer than the time after which an idle connection gives its buffers back.
const IDLE: Duration = Duration::from_millis(900);

#[test]
#[expect(clippy::disallowed_methods, reason = "the pauses of the client are the case")]
fn a_connection_answers_however_long_it_was_idle() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut client = Client::connect(server.local_addr());
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "hello\n");
        std::thread::sleep(IDLE);
    }
    // The pause is within a head.
    client.write("GET / HTTP/1.1\r\n");
    std::thread::sleep(IDLE);
    client.write("host: a\r\n\r\nPOST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\no");
    assert_eq!(client.answer().text(), "hello\n");
    // And within a body.
    std::thread::sleep(IDLE);
    client.write("k");
    assert_eq!(client.answer().text(), "ok");
    // The second head begins behind the first one, and then the client pauses.
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /");
    assert_eq!(client.answer().text(), "hello\n");
    std::thread::sleep(IDLE);
    client.write(" HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "hello\n");
    drop(client);
    while server.report(0).connections > 0 {
        std::thread::yield_now();
    }
}

/// A handler that could choose where its body ends would write the next response of the connection.
#[test]
fn a_handler_cannot_write_the_next_response() {
    fn lying(length: &str) -> rusm_serve::Response {
        http::Response::builder().header("content-length", length).body(Body::from("0123456789")).expect("valid")
    }
    let router = Router::new()
        .route("GET /short", async |_: Request| lying("5"))
        .and_then(|router| router.route("GET /long", async |_: Request| lying("50")))
        .and_then(|router| router.route("GET /not-final", async |_: Request| StatusCode::SWITCHING_PROTOCOLS))
        .and_then(|router| router.route("GET /own", async |_: Request| "own"))
        .expect("the routes are valid");
    let (_runtime, server) = serve(router, Limits::default());
    let mut client = Client::connect(server.local_addr());

    for path in ["/short", "/long"] {
        assert_eq!(client.get(path).text(), "0123456789", "{path}");
        assert_eq!(client.get("/own").text(), "own", "after {path}");
    }
    assert_eq!(client.get("/not-final").status, 500);
    assert_eq!(client.get("/own").text(), "own");
}
