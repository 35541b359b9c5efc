//! A component of `rusm:http` behind a server: whole responses, streams of events, and sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use rusm_runtime::ExitReason;
use rusm_serve::{Limits, LiveKind};
use rusm_wasm::{GuestOptions, InstanceReuse, WasmConfig};

use crate::{Node, node_of};

/// Components with equal answers in three languages: Rust, C and TypeScript.
const COMPONENTS: [&str; 3] = ["wasi/sockets.wasm", "c/web.wasm", "ts/web.wasm"];

fn nodes() -> impl Iterator<Item = Node> {
    COMPONENTS.into_iter().map(node)
}

fn node(file: &str) -> Node {
    let config = WasmConfig { capacity: 16, ..WasmConfig::default() };
    node_of(file, config, Limits::default(), GuestOptions::default(), InstanceReuse::Request)
}

/// The client of a WebSocket.
struct Client(TcpStream);

impl Client {
    fn of(node: &Node) -> Self {
        let mut stream = node.connect();
        write!(
            stream,
            "GET /socket HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        Self(stream)
    }

    /// Sends a short frame, masked with zeros.
    fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.0.write_all(&frame).unwrap();
    }

    /// Returns opcode and payload of the next frame.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let mut payload = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut payload).unwrap();
        (head[0] & 0x0f, payload)
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

#[test]
fn a_request_is_a_record_and_so_is_its_response() {
    for node in nodes() {
        let sent = vec![b'x'; 300_000];

        let hello = node.get("/a?b=c");
        let echo = node.ask("POST /echo HTTP/1.1\r\ncontent-length: 300000", &sent);
        let (empty, missing) = (node.get("/status/204"), node.get("/status/404"));

        assert_eq!((hello.status, hello.text()), (200, "GET /a?b=c from test\n"));
        assert_eq!(hello.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(echo.is_whole && echo.body == sent);
        assert_eq!((empty.status, missing.status), (204, 404));
        node.until("each instance ends with its request", |node| node.guests() == 0);
    }
}

#[test]
fn a_handler_that_fails_harms_only_its_own_request() {
    for node in nodes() {
        let (trap, wrong) = (node.get("/trap"), node.get("/wrong"));

        assert_eq!([trap.status, wrong.status, node.get("/").status], [500, 500, 200]);
    }
}

#[test]
fn a_stream_is_sent_as_it_is_written() {
    for node in nodes() {
        let events = node.get("/events");

        assert_eq!((events.status, events.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(events.text(), "id: 1\ndata: event 1\n\nid: 2\ndata: event 2\n\nid: 3\ndata: event 3\n\n");
        assert!(events.is_whole);
    }
}

#[test]
fn a_websocket_is_a_process_with_a_guest() {
    for node in nodes() {
        let mut client = Client::of(&node);

        client.send(TEXT, b"hello");
        assert_eq!(client.receive(), (TEXT, b"hello".to_vec()));
        client.send(BINARY, &[0, 1, 2]);
        assert_eq!(client.receive(), (BINARY, vec![0, 1, 2]));
        let live = node.server.report(10).live;
        assert!(live.iter().any(|live| live.kind == LiveKind::WebSocket), "{live:?}");
        assert_eq!(client.receive(), (TEXT, b"tick".to_vec()), "the guest waits for a second, not for ever");

        client.send(TEXT, b"bye");
        let mut closing = client.receive();
        while closing.0 == TEXT {
            // The guest was slow, and has sent another tick.
            closing = client.receive();
        }
        assert_eq!(closing, (CLOSE, [&4_000_u16.to_be_bytes()[..], b"goodbye"].concat()));
        client.send(CLOSE, &4_000_u16.to_be_bytes());
        node.until("the guest ends with its socket", |node| node.guests() == 0);
    }
}

#[test]
fn a_socket_ends_with_its_client_and_with_its_process() {
    for node in nodes() {
        drop(Client::of(&node));
        node.until("the guest ends with its client", |node| node.guests() == 0);
        let mut client = Client::of(&node);
        node.until("the guest runs", |node| node.guests() == 1);

        let live = node.server.report(10).live;
        node.runtime.exit(live[0].pid, ExitReason::Killed);

        let mut rest = Vec::new();
        // The connection is cut; what was sent before it may still come.
        client.0.read_to_end(&mut rest).ok();
        node.until("the guest has ended", |node| node.guests() == 0);
    }
}

#[test]
fn a_client_that_does_not_ask_for_a_websocket_is_told_so() {
    for node in nodes() {
        let answer = node.get("/socket");

        assert_eq!((answer.status, answer.text()), (400, "this is a WebSocket: connect with `Upgrade: websocket`\n"));
        node.until("the guest ends", |node| node.guests() == 0);
    }
}

#[test]
fn a_component_in_typescript_has_promises_and_web_crypto() {
    let node = node("ts/web.wasm");

    let json = node.ask("POST /json HTTP/1.1\r\ncontent-length: 9", b"{\"a\": 1}\n");
    let digest = node.ask("POST /digest HTTP/1.1\r\ncontent-length: 3", b"abc");

    assert_eq!((json.status, json.text()), (201, "{\"got\":{\"a\":1}}"));
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(digest.text(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
