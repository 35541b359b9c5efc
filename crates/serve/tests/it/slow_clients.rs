//! Clients that do not take their responses, while the memory for responses is short.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rusm_serve::websocket;
use rusm_serve::{Body, Files, Limit, Limits, Request, Router, Server};
use rustix::net::sockopt;
use tokio_tungstenite::tungstenite::Message;

use crate::client::Client;
use crate::serve;

const LARGE: usize = 12 << 20;
/// More than a large response, and less than two of them.
const LIMITS: fn() -> Limits = || Limits { responses_bytes: 16 << 20, ..Limits::default() };

fn large() -> Router {
    Router::new().route("GET /large", async |_: Request| vec![7_u8; LARGE]).expect("a valid route")
}

/// Repeats what returns `None` until it returns something, for at most two minutes.
fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Requests a large response again and again until its status is this one.
fn until(server: &Server, status: u16) -> crate::client::Answer {
    let answer = || Some(Client::connect(server.local_addr()).get("/large")).filter(|answer| answer.status == status);
    eventually("a response with this status", answer)
}

fn hits(server: &Server) -> u64 {
    let hits = server.limits_hit();
    hits.iter().find(|(limit, _)| *limit == Limit::ResponsesBytes).map_or(0, |(_, hits)| *hits)
}

/// Returns the number of bytes until the connection ends.
fn left(mut client: Client) -> usize {
    let mut bytes = Vec::new();
    // An end by a reset is an end too.
    drop(client.0.read_to_end(&mut bytes));
    bytes.len()
}

#[test]
fn responses_share_their_memory_and_a_client_that_takes_nothing_is_cut() {
    let (_runtime, server) = serve(large(), LIMITS());
    let mut slow = Client::connect(server.local_addr());
    slow.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(slow.head().starts_with("HTTP/1.1 200"));

    let refused = until(&server, 503);
    let answered = until(&server, 200);

    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(answered.body.len(), LARGE);
    assert!(hits(&server) >= 2, "the refusal, and the slow client");
    assert!(left(slow) < LARGE, "the response is cut");
}

#[test]
fn clients_of_one_address_that_read_slowly_leave_half_of_the_memory_to_others() {
    let (_runtime, server) = serve(large(), LIMITS());
    // They take the head of their response and nothing more.
    let mut slow = [(); 2].map(|()| Client::connect(server.local_addr()));
    for client in &mut slow {
        client.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    let mut heads = slow.iter_mut().map(|client| client.head().starts_with("HTTP/1.1 200"));
    assert!(heads.any(|is_answered| is_answered));

    let mut other = Client::connect_from([127, 0, 0, 2].into(), server.local_addr());
    let answer = other.get("/large");

    assert_eq!((answer.status, answer.body.len()), (200, LARGE));
}

#[test]
fn a_file_waits_for_memory_that_a_slow_client_holds_and_then_comes_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("large")).expect("a file");
    file.set_len(LARGE as u64).expect("a length");
    let files = Files::open(folder.path()).expect("the folder exists");
    // As much as one response may have on its way.
    let limits = Limits { responses_bytes: 256 << 10, ..Limits::default() };
    let (_runtime, server) = serve(Router::new().route("GET /*", files).expect("a valid route"), limits);
    let mut slow = Client::connect(server.local_addr());
    slow.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
    eventually("a request", || (server.report(1).live_total > 0).then_some(()));

    let answer = Client::connect(server.local_addr()).get("/large");

    assert_eq!((answer.status, answer.body.len()), (200, LARGE));
    eventually("the limit is hit", || (hits(&server) > 0).then_some(()));
    assert!(left(slow) < LARGE, "the response is cut");
}

#[test]
fn a_stream_of_http2_without_a_window_is_cut_with_its_connection() {
    let (_runtime, server) = serve(large(), LIMITS());
    let address = server.local_addr();
    let (answered, is_answered) = std::sync::mpsc::channel();
    let slow = std::thread::spawn(move || {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a reactor");
        reactor.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
            let mut builder = http2::Builder::new(TokioExecutor::new());
            let handshake = builder.initial_stream_window_size(0).handshake(TokioIo::new(stream));
            let (mut sender, connection) = handshake.await.expect("a handshake");
            let connection = tokio::spawn(connection);
            let request = http::Request::get("http://localhost/large").body(Empty::<bytes::Bytes>::new());
            let response = sender.send_request(request.expect("a valid request")).await.expect("a response");
            answered.send(response.status().as_u16()).expect("the test waits");
            drop(tokio::time::timeout(Duration::from_mins(1), connection).await.expect("the connection ends"));
            drop(response);
        });
    });

    assert_eq!(is_answered.recv(), Ok(200));
    until(&server, 503);
    until(&server, 200);

    slow.join().expect("the slow client sees the end");
}

#[test]
fn heads_of_http2_share_the_memory_too() {
    let heads = Router::new().route("GET /head", async |_: Request| {
        // HTTP/2 sends the first value without its blank, and without the field that names it.
        let first =
            http::Response::builder().header("first", format!(" {}", "x".repeat(2_000))).header("connection", "first");
        let head = (0..30).fold(first, |head, _| head.header("x", "x".repeat(1_000)));
        head.body(Body::empty()).expect("valid fields")
    });
    let limits = Limits { responses_bytes: 256 << 10, ..Limits::default() };
    let (_runtime, server) = serve(heads.expect("a valid route"), limits);
    let mut slow = Client::connect(server.local_addr());

    // The preface, empty settings, and a hundred requests, of which no response is read.
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let request = b"\x82\x86\x04\x05/head\x01\x01t";
    for stream in (1_u32..200).step_by(2) {
        bytes.extend([0, 0, request.len() as u8, 1, 5]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(request);
    }
    slow.0.write_all(&bytes).expect("the server reads");

    eventually("the limit is hit", || (hits(&server) > 0).then_some(()));
}

#[test]
fn a_socket_that_takes_no_message_is_cut() {
    let echo = async |request: Request| {
        websocket::upgrade(request, async |mut socket| {
            while let Ok(Some(message)) = socket.receive().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    let limits = Limits { responses_bytes: 256 << 10, ..Limits::default() };
    let (_runtime, server) = serve(Router::new().route("GET /echo", echo).expect("a valid route"), limits);
    let stream = std::net::TcpStream::connect(server.local_addr()).expect("the server listens");
    sockopt::set_socket_recv_buffer_size(&stream, 16 * 1024).expect("allowed");
    let url = format!("ws://{}/echo", server.local_addr());
    let (mut socket, _) = tokio_tungstenite::tungstenite::client(url, stream).expect("a handshake");

    socket.send(Message::binary(vec![7; 1 << 20])).expect("the server reads");
    eventually("the socket is cut", || {
        (!server.limits_hit().is_empty() && server.report(0).websockets == 0).then_some(())
    });

    assert_eq!(hits(&server), 1);
}

#[test]
fn a_socket_whose_handler_gave_up_a_message_is_cut_too() {
    gives_up_a_message(false);
}

#[test]
fn a_socket_whose_handler_gave_up_a_message_and_sends_the_next_one_is_cut_too() {
    gives_up_a_message(true);
}

/// Serves a socket. Its handler gives up a message that takes long, and then receives, or sends another one.
fn gives_up_a_message(then_sends: bool) {
    let impatient = move |request: Request| async move {
        websocket::upgrade(request, async move |mut socket| {
            drop(tokio::time::timeout(Duration::from_millis(1), socket.send(vec![7; 16 << 20])).await);
            if then_sends {
                drop(socket.send("more").await);
            }
            while let Ok(Some(_)) = socket.receive().await {}
        })
    };
    // The rest of the message is more than half of it.
    let limits = Limits { responses_bytes: 16 << 20, ..Limits::default() };
    let (_runtime, server) = serve(Router::new().route("GET /ws", impatient).expect("a valid route"), limits);
    let stream = std::net::TcpStream::connect(server.local_addr()).expect("the server listens");
    sockopt::set_socket_recv_buffer_size(&stream, 16 * 1024).expect("allowed");
    let url = format!("ws://{}/ws", server.local_addr());
    let (_socket, _) = tokio_tungstenite::tungstenite::client(url, stream).expect("a handshake");

    eventually("the socket is cut", || (hits(&server) > 0 && server.report(0).websockets == 0).then_some(()));

    assert_eq!(hits(&server), 1);
}

#[test]
fn a_client_that_reads_a_complete_response_steadily_gets_all_of_it() {
    let short = Duration::from_millis(100);
    let (_runtime, server) = serve(large(), Limits { idle_timeout: short, head_timeout: short, ..Limits::default() });
    let mut client = Client::connect(server.local_addr());
    sockopt::set_socket_recv_buffer_size(&client.0, 64 * 1024).expect("allowed");
    // The beginning of a next request, which must not end this one.
    client.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\nGET");
    assert!(client.head().starts_with("HTTP/1.1 200"));

    let mut piece = vec![0; LARGE / 4];
    for _ in 0..4 {
        // The limit of a later connection has passed.
        assert!(Client::connect(server.local_addr()).is_closed());
        client.0.read_exact(&mut piece).expect("the response is not cut");
        assert!(piece.iter().all(|byte| *byte == 7));
    }
}
