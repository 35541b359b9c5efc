//! Sockets of the WebSocket protocol, seen by a client of the library that browsers are tested with.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusm_serve::{Limit, Limits, LiveKind, Request, Router, websocket};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::client::Client;
use crate::serve;

fn router() -> Router {
    let echo = async |request: Request| {
        websocket::upgrade(request, async |mut socket| {
            while let Ok(Some(message)) = socket.receive().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    };
    Router::new().route("GET /echo", echo).expect("valid")
}

fn connect(server: &rusm_serve::Server) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(server.local_addr()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("the socket is open");
    tungstenite::client(format!("ws://{}/echo", server.local_addr()), stream).expect("a handshake").0
}

fn close_code(socket: &mut WebSocket<TcpStream>) -> Option<CloseCode> {
    loop {
        match socket.read() {
            Ok(Message::Close(frame)) => return frame.map(|frame| frame.code),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn a_handshake_with_two_keys_or_two_versions_is_refused() {
    let (_runtime, server) = serve(router(), Limits::default());
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let version = "sec-websocket-version: 13\r\n";

    for (fields, status) in
        [(vec![key, version], 101), (vec![key, key, version], 400), (vec![key, version, version], 400)]
    {
        let mut client = Client::connect(server.local_addr());
        let fields = fields.concat();
        client.write(format!(
            "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n{fields}\r\n"
        ));
        assert_eq!(client.answer().status, status, "{fields}");
    }
}

#[test]
fn messages_come_back_and_the_socket_is_one_process() {
    let (runtime, server) = serve(router(), Limits::default());
    let mut socket = connect(&server);

    for message in [Message::text("grüße"), Message::binary(vec![7; 100_000]), Message::text("")] {
        socket.send(message.clone()).expect("the server reads");
        assert_eq!(socket.read().expect("an echo"), message);
    }

    // Two acceptors and the socket: the process of the connection has ended.
    while server.report(0).connections > 0 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.process_count(), 3);
    let report = server.report(1);
    assert_eq!((report.websockets, report.live[0].kind, &*report.live[0].path), (1, LiveKind::WebSocket, "/echo"));
    socket.close(None).expect("the server reads");
    while server.report(0).websockets > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn messages_that_are_not_whole_share_a_bound_and_get_1013_beyond_it() {
    let (_runtime, server) = serve(router(), Limits { bodies_bytes: 100_000, ..Limits::default() });
    let mut slow = connect(&server);
    // A frame of 70,000 bytes that are all zero, as is its mask.
    let head = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70, 0, 0, 0, 0];
    slow.get_mut().write_all(&head).expect("the server reads");
    slow.get_mut().write_all(&vec![0; 60_000]).expect("the server reads");

    // The first message may be whole before the server has read the start of the slow one.
    let refused = loop {
        let mut socket = connect(&server);
        socket.send(Message::binary(vec![7; 60_000])).expect("the server reads");
        if let Message::Close(frame) = socket.read().expect("an echo, or the end") {
            break frame.map(|frame| frame.code);
        }
    };

    assert_eq!(refused, Some(CloseCode::Again));
    slow.get_mut().write_all(&vec![0; 10_000]).expect("the server reads");
    assert_eq!(slow.read().expect("an echo"), Message::binary(vec![0; 70_000]));
}

#[test]
fn a_message_that_is_too_long_gets_1009() {
    let (_runtime, server) = serve(router(), Limits { ws_message_bytes: 10, ws_frame_bytes: 10, ..Limits::default() });
    let mut socket = connect(&server);

    socket.send(Message::text("eleven bytes")).expect("the server reads");

    assert_eq!(close_code(&mut socket), Some(CloseCode::Size));
}

/// Tells the instant at which a handler has ended.
struct Ends(mpsc::Sender<Instant>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.send(Instant::now()).ok();
    }
}

#[test]
fn a_handler_that_waits_briefly_again_and_again_still_waits_for_the_answer_to_1001() {
    let (ends, end) = mpsc::channel();
    let brief = move |request: Request| {
        let ends = Ends(ends.clone());
        std::future::ready(websocket::upgrade(request, async move |mut socket| {
            let _ends = ends;
            let wait = Duration::from_millis(5);
            while !matches!(tokio::time::timeout(wait, socket.receive()).await, Ok(Ok(None) | Err(_))) {}
        }))
    };
    let (_runtime, server) = serve(Router::new().route("GET /echo", brief).expect("valid"), Limits::default());
    let mut socket = connect(&server);
    let begin = Instant::now();

    server.begin_drain(Duration::from_secs(2));

    // The client has a second for its answer, which does not come.
    let end = end.recv_timeout(Duration::from_mins(1)).expect("the drain ends it");
    assert!(end - begin >= Duration::from_secs(1), "{:?}", end - begin);
    assert_eq!(close_code(&mut socket), Some(CloseCode::Away));
}

#[test]
fn a_drain_says_1001() {
    let (_runtime, server) = serve(router(), Limits::default());
    let mut socket = connect(&server);
    socket.send(Message::text("here")).expect("the server reads");
    assert_eq!(socket.read().expect("an echo"), Message::text("here"));

    server.begin_drain(Duration::from_secs(2));

    assert_eq!(close_code(&mut socket), Some(CloseCode::Away));
    drop(socket);
    assert!(server.drain(Duration::from_mins(1)));
}

#[test]
fn a_client_that_answers_no_ping_is_disconnected() {
    is_disconnected_without_an_answer(Duration::from_mins(1));
}

#[test]
fn a_handler_that_receives_for_short_times_does_not_keep_a_client_that_answers_no_ping() {
    is_disconnected_without_an_answer(Duration::from_millis(1));
}

/// The handler waits for a message for `patience` at a time.
fn is_disconnected_without_an_answer(patience: Duration) {
    let (over, is_over) = std::sync::mpsc::channel();
    let echo = move |request: Request| {
        let over = over.clone();
        async move {
            websocket::upgrade(request, async move |mut socket| {
                let first = loop {
                    if let Ok(received) = tokio::time::timeout(patience, socket.receive()).await {
                        break received.is_err();
                    }
                };
                over.send((first, matches!(socket.receive().await, Ok(None)))).expect("the test waits");
            })
        }
    };
    let router = Router::new().route("GET /echo", echo).expect("valid");
    let (_runtime, server) = serve(router, Limits { ws_ping: Duration::from_millis(20), ..Limits::default() });
    let mut client = Client::connect(server.local_addr());
    client.write(
        "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");

    assert_eq!(is_over.recv_timeout(Duration::from_mins(1)), Ok((true, true)), "the socket stays closed");
    let hits: Vec<_> = server.limits_hit().iter().map(|(limit, hits)| (limit.id(), *hits)).collect();
    assert_eq!(hits, [("ws_ping", 1)]);
}

#[test]
fn a_request_that_is_no_handshake_is_refused() {
    let (_runtime, server) = serve(router(), Limits::default());
    let ask = |fields: &str| {
        let mut client = Client::connect(server.local_addr());
        client.write(format!("GET /echo HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
        client.answer()
    };
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";

    assert_eq!(ask("").status, 400);
    let old = ask(&format!("{upgrade}sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    assert_eq!((old.status, old.header("sec-websocket-version")), (426, Some("13")));
    assert_eq!(ask(&format!("{upgrade}sec-websocket-version: 13\r\nsec-websocket-key: short\r\n")).status, 400);
}

#[test]
fn a_socket_keeps_its_place_among_the_open_connections() {
    let (_runtime, server) = serve(router(), Limits { connections: 1, ..Limits::default() });
    let mut socket = connect(&server);
    socket.send(Message::text("one")).expect("it is open");
    assert_eq!(socket.read().expect("an echo"), Message::text("one"));

    let mut waiting = Client::connect(server.local_addr());
    waiting.write("GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n");
    while server.limits_hit() != [(Limit::Connections, 1)] {
        std::thread::yield_now();
    }
    socket.send(Message::text("two")).expect("it is open");
    assert_eq!(socket.read().expect("an echo"), Message::text("two"));
    drop(socket);

    assert_eq!(waiting.answer().status, 404);
}
