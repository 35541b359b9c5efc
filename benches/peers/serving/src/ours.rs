//! The servers of rusm, one for each case; `peers.rs` has those that they are compared with.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Config, Context, Runtime};
use rusm_serve::{Event, Limits, Request, Response, Router, ServeConfig, Server, events, listeners, websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast;

use crate::load::{EVENTS_PER_SEC, STORM_BYTES};
use crate::{PAYLOAD_BYTES, THREADS};

/// Of the case `all`: time of a slow request, between two events, and of the drain.
const SLOW: Duration = Duration::from_millis(100);
const CLOCK: Duration = Duration::from_millis(100);
const DRAIN: Duration = Duration::from_secs(4);

/// Runs the server of a case, and passes its port to `ready`. Never returns: the process ends with its parent.
pub fn serve(case: &str, server: &str, ready: impl FnOnce(u16)) {
    let runtime = Runtime::start(Config { schedulers: THREADS, ..Config::default() }).expect("a runtime");
    let body = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let (publish, _) = broadcast::channel::<Arc<str>>(1024);
    let source = publish.clone();
    let answer = move |_: Request| std::future::ready(body.clone());
    let router = match case {
        "http" if server == "rusm-inline" => Router::new().inline_route("GET /", answer),
        "http" => Router::new().route("GET /", answer),
        "ws" => Router::new().route("GET /", echo),
        "sse" => Router::new().route("GET /", move |_: Request| std::future::ready(stream(source.subscribe()))),
        "all" => return all(&runtime, ready),
        _ => return storm(&runtime, ready),
    };
    let limits = Limits { connections: 100_000, in_flight: 100_000, ..Limits::default() };
    let config = ServeConfig { limits, ..ServeConfig::listen((Ipv4Addr::LOCALHOST, 0)) };
    let server = Server::start(&runtime, config, router.expect("the route is valid")).expect("a server");
    ready(server.local_addr().port());
    if case == "sse" {
        publish_events(&publish);
    }
    loop {
        std::thread::park();
    }
}

/// Publishes events at a fixed rate on the calling thread; never returns. All servers of the case `sse` use it.
pub fn publish_events(publish: &broadcast::Sender<Arc<str>>) {
    let event: Arc<str> = "x".repeat(PAYLOAD_BYTES).into();
    let (start, mut published) = (std::time::Instant::now(), 0_u64);
    loop {
        let due = (start.elapsed().as_secs_f64() * EVENTS_PER_SEC) as u64;
        while published < due {
            drop(publish.send(Arc::clone(&event)));
            published += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Serves requests, events and WebSockets at once until SIGTERM, and then drains. Exit code 3: something was cut.
fn all(runtime: &Runtime, ready: impl FnOnce(u16)) {
    let body = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let slow = |_: Request| async {
        tokio::time::sleep(SLOW).await;
        "slow\n"
    };
    let clock = |_: Request| async {
        events(futures_util::stream::unfold(0_u64, |tick| async move {
            tokio::time::sleep(CLOCK).await;
            Some((Event::data(tick.to_string()), tick + 1))
        }))
    };
    let upload = |mut request: Request| async move { request.bytes().await.map(|bytes| bytes.len().to_string()) };
    let router = Router::new()
        .route("GET /", move |_: Request| std::future::ready(body.clone()))
        .and_then(|router| router.route("GET /slow", slow))
        .and_then(|router| router.route("GET /events", clock))
        .and_then(|router| router.route("POST /upload", upload))
        .and_then(|router| router.route("GET /ws", echo));
    let config = ServeConfig::listen((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(runtime, config, router.expect("the routes are valid")).expect("a server");
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio.block_on(async {
        let mut signals = signal(SignalKind::terminate()).expect("a handler");
        ready(server.local_addr().port());
        signals.recv().await;
    });
    std::process::exit(if server.drain(DRAIN) { 0 } else { 3 });
}

async fn echo(request: Request) -> Response {
    websocket::upgrade(request, async |mut socket| {
        while let Ok(Some(message)) = socket.receive().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    })
}

fn stream(receiver: broadcast::Receiver<Arc<str>>) -> Response {
    events(futures_util::stream::unfold(receiver, async |mut receiver| {
        Some((Event::data(receiver.recv().await.ok()?.to_string()), receiver))
    }))
}

/// Runs the server of the case `tcp`, where each scheduler accepts on its own socket; never returns.
fn storm(runtime: &Runtime, ready: impl FnOnce(u16)) {
    let (sockets, address) = listeners((Ipv4Addr::LOCALHOST, 0).into(), THREADS).expect("sockets");
    for (scheduler, socket) in sockets.into_iter().enumerate() {
        let accept = move |context: Context| async move {
            let socket = tokio::net::TcpListener::from_std(socket).expect("a socket that does not block");
            loop {
                let (mut stream, _) = socket.accept().await.expect("there are descriptors");
                context.spawn(move |_| async move {
                    let mut bytes = [0; STORM_BYTES];
                    if stream.read_exact(&mut bytes).await.is_ok() {
                        drop(stream.write_all(&bytes).await);
                    }
                });
            }
        };
        runtime.spawn_pinned(scheduler, accept).expect("there is room");
    }
    ready(address.port());
    loop {
        std::thread::park();
    }
}
