//! Plain servers on tokio.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use fastwebsockets::{FragmentCollector, OpCode};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use crate::load::STORM_BYTES;
use crate::ours::publish_events;
use crate::{PAYLOAD_BYTES, THREADS};

pub fn serve(case: &str, server: &str, ready: impl FnOnce(u16)) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let tokio = tokio.expect("a runtime");
    let (publish, _) = broadcast::channel(1024);
    if case == "sse" {
        let publish = publish.clone();
        std::thread::spawn(move || publish_events(&publish));
    }
    let (case, server) = (case.to_owned(), server.to_owned());
    tokio.block_on(async move {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        ready(listener.local_addr().expect("it is bound").port());
        // A task, because the thread of `block_on` is not one of the workers.
        tokio::spawn(accept(listener, case, server, publish)).await.expect("the server runs");
    });
}

async fn accept(listener: TcpListener, case: String, server: String, publish: broadcast::Sender<Arc<str>>) {
    loop {
        let (stream, _) = listener.accept().await.expect("there are descriptors");
        match (&*case, &*server) {
            ("http", _) => drop(tokio::spawn(http(nodelay(stream)))),
            ("ws", "tungstenite") => drop(tokio::spawn(tungstenite(nodelay(stream)))),
            ("ws", _) => drop(tokio::spawn(fastwebsocket(nodelay(stream)))),
            ("sse", _) => drop(tokio::spawn(sse(nodelay(stream), publish.clone()))),
            _ => drop(tokio::spawn(storm(stream))),
        }
    }
}

fn nodelay(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).expect("TCP has this option");
    stream
}

async fn http(stream: TcpStream) {
    let body = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let answer = |_: Request<Incoming>| std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(body.clone()))));
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await);
}

async fn tungstenite(stream: TcpStream) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        if (message.is_binary() || message.is_text()) && socket.send(message).await.is_err() {
            break;
        }
    }
}

async fn fastwebsocket(stream: TcpStream) {
    let answer = async |mut request: Request<Incoming>| {
        let (response, socket) = fastwebsockets::upgrade::upgrade(&mut request).expect("a handshake");
        tokio::spawn(async move {
            let mut socket = FragmentCollector::new(socket.await.expect("an upgrade"));
            while let Ok(frame) = socket.read_frame().await {
                if !matches!(frame.opcode, OpCode::Text | OpCode::Binary) || socket.write_frame(frame).await.is_err() {
                    break;
                }
            }
        });
        Ok::<Response<Empty<Bytes>>, Infallible>(response)
    };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
    drop(connection.with_upgrades().await);
}

async fn sse(stream: TcpStream, publish: broadcast::Sender<Arc<str>>) {
    let answer = |_: Request<Incoming>| {
        let events = futures_util::stream::unfold(publish.subscribe(), async |mut receiver| {
            let event = format!("data: {}\n\n", receiver.recv().await.ok()?);
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(event))), receiver))
        });
        let response = Response::builder().header(CONTENT_TYPE, "text/event-stream").header(CACHE_CONTROL, "no-cache");
        std::future::ready(response.body(StreamBody::new(events)))
    };
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await);
}

async fn storm(mut stream: TcpStream) {
    let mut bytes = [0; STORM_BYTES];
    if stream.read_exact(&mut bytes).await.is_ok() {
        drop(stream.write_all(&bytes).await);
    }
}
