//! The end of a server cuts nothing that ends in time, and always comes.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusm_serve::{Limits, Request, Router};

use crate::client::Client;
use crate::serve;

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_request_in_flight_is_answered_and_its_connection_closed() {
    let (started, starts) = mpsc::channel();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let router = Router::new().route("GET /", move |_: Request| {
        started.send(()).expect("the test waits for it");
        let mut finished = finished.clone();
        async move {
            drop(finished.wait_for(|finished| *finished).await);
            "done\n"
        }
    });
    let (_runtime, server) = serve(router.expect("valid"), Limits::default());
    let mut client = Client::connect(server.local_addr());
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    starts.recv_timeout(LONG).expect("the request arrives");

    let address = server.local_addr();
    server.begin_drain(LONG);
    finish.send_replace(true);
    let answer = client.answer();

    assert_eq!((answer.text(), answer.header("connection")), ("done\n", Some("close")));
    assert!(client.is_closed());
    assert!(server.drain(LONG), "nothing is left");
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn an_idle_connection_may_ask_once_more_and_is_then_closed() {
    let (_runtime, server) =
        serve(Router::new().route("GET /", async |_: Request| "hello\n").expect("valid"), Limits::default());
    let mut client = Client::connect(server.local_addr());
    let mut silent = Client::connect(server.local_addr());
    assert_eq!((client.get("/").status, silent.get("/").status), (200, 200));

    server.begin_drain(LONG);

    assert_eq!(client.get("/").header("connection"), Some("close"));
    assert!(client.is_closed() && silent.is_closed());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    assert!(tokio.block_on(server.drain_async(LONG)));
}

#[test]
fn a_drain_ends_even_if_a_request_never_does() {
    let (started, starts) = mpsc::channel();
    let router = Router::new().route("GET /", move |_: Request| {
        started.send(()).expect("the test waits for it");
        std::future::pending::<()>()
    });
    let (runtime, server) = serve(router.expect("valid"), Limits::default());
    let mut client = Client::connect(server.local_addr());
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    starts.recv_timeout(LONG).expect("the request arrives");
    let before = Instant::now();

    assert!(!server.drain(Duration::from_millis(50)), "the request was cut");

    assert!(before.elapsed() < LONG);
    assert!(client.is_closed());
    while runtime.process_count() > 0 {
        std::thread::yield_now();
    }
}
