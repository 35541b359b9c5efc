//! Handlers that run in the process of the connection.

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::observe::LiveKind;
use rusm_serve::{Body, Limits, Request, RouteError, Router, websocket};

use crate::client::Client;
use crate::serve;

fn router() -> Result<Router, RouteError> {
    Router::new()
        .inline_route("GET /pid", async |request: Request| {
            format!("{} {}", request.context().pid(), request.connection().pid)
        })?
        .inline_route("GET /crash", async |_: Request| -> () { panic!("on purpose") })?
        .inline_route("GET /crash-at-once", |_: Request| -> std::future::Ready<()> { panic!("on purpose") })?
        .inline_route("GET /slow", async |_: Request| std::future::pending::<()>().await)?
        .inline_route("GET /stream", async |_: Request| {
            Body::stream(futures_util::stream::iter(
                ["one ", "two"]
                    .map(Ok::<_, std::io::Error>)
                    .map(|chunk| chunk.map(|text| Bytes::from_static(text.as_bytes()))),
            ))
        })?
        .inline_route("GET /ws", async |request: Request| {
            websocket::upgrade(request, async |mut socket| {
                drop(socket.send(socket.context().pid().to_string()).await);
                drop(socket.receive().await);
            })
        })
}

#[test]
fn an_inline_route_is_handled_by_the_process_of_its_connection() {
    let (_runtime, server) = serve(router().expect("routes"), Limits::default());
    let mut client = Client::connect(server.local_addr());

    let first = client.get("/pid");
    let (handler, connection) = first.text().split_once(' ').expect("two pids");
    assert_eq!(handler, connection);
    assert_eq!(client.get("/pid").text(), first.text(), "the second request has the same process");
    assert_eq!(server.report(0).routes[0].responses[2], 2);
}

#[test]
fn a_crash_of_an_inline_route_answers_500_and_its_connection_lives_on() {
    let (_runtime, server) = serve(router().expect("routes"), Limits::default());
    let mut client = Client::connect(server.local_addr());

    let before = client.get("/pid");
    assert_eq!((client.get("/crash").status, client.get("/crash-at-once").status), (500, 500));

    assert_eq!(client.get("/pid").text(), before.text());
    let crashed = |label: &str| {
        let routes = server.report(0).routes;
        routes.iter().find(|route| &*route.label == label).map(|route| route.crashed_total)
    };
    assert_eq!((crashed("GET /crash"), crashed("GET /crash-at-once")), (Some(1), Some(1)));
    let report = server.report(0);
    assert_eq!((report.in_flight, report.live_total), (0, 0));
}

#[test]
fn an_inline_route_that_waits_is_seen_and_has_a_deadline() {
    let limits = Limits { handler_timeout: Duration::from_millis(300), ..Limits::default() };
    let (runtime, server) = serve(router().expect("routes"), limits);
    let mut client = Client::connect(server.local_addr());

    client.write("GET /slow HTTP/1.1\r\nhost: t\r\n\r\n");
    let live = loop {
        let mut live = server.report(10).live;
        if let Some(live) = live.pop() {
            break live;
        }
    };
    assert_eq!((live.kind, &*live.path, runtime.is_alive(live.pid)), (LiveKind::Request, "/slow", true));
    assert_eq!(client.answer().status, 504);
    assert_eq!(client.get("/pid").text().split(' ').next(), Some(&*live.pid.to_string()));
    assert_eq!(server.report(0).in_flight, 0);
}

#[test]
fn a_stream_and_a_socket_of_an_inline_route_have_their_own_process() {
    let (runtime, server) = serve(router().expect("routes"), Limits::default());
    let mut client = Client::connect(server.local_addr());
    let pid = client.get("/pid").text().split(' ').next().map(str::to_owned);

    assert_eq!(client.get("/stream").text(), "one two");
    client.write(
        "GET /ws HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    );
    assert!(client.head().contains("101"));
    let mut frame = [0; 2];
    std::io::Read::read_exact(&mut client.0, &mut frame).expect("a frame");
    let mut text = vec![0; usize::from(frame[1])];
    std::io::Read::read_exact(&mut client.0, &mut text).expect("its text");
    let text = String::from_utf8(text).expect("text");

    let live = server.report(10).live.pop().expect("the socket");
    assert_eq!((text, live.kind), (live.pid.to_string(), LiveKind::WebSocket));
    assert_ne!(Some(live.pid.to_string()), pid);
    assert!(runtime.is_alive(live.pid));
}

#[test]
fn a_panic_in_the_process_of_a_connection_has_a_line_without_a_subscriber() {
    const PROGRAM: &str = "RUSM_TEST_INLINE_PANIC";
    if std::env::var_os(PROGRAM).is_some() {
        let (_runtime, server) = serve(router().expect("routes"), Limits::default());
        assert_eq!(Client::connect(server.local_addr()).get("/crash").status, 500);
        return;
    }
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    let name = "inline::a_panic_in_the_process_of_a_connection_has_a_line_without_a_subscriber";
    let output = again.args(["--exact", name, "--nocapture"]).env(PROGRAM, "1").output().expect("it runs again");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.lines().any(|line| line == "a handler of GET /crash panicked: on purpose"), "{text}");
}
