//! The clients: plain sockets on a tokio runtime of their own, each with one operation in flight.

use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::{PAYLOAD_BYTES, THREADS};

/// Connections of the cases `http`, `ws` and `tcp`.
const CONNECTIONS: usize = 64;
/// Streams of the case `sse`.
const STREAMS: usize = 100;
/// Events published in a second, each one for all streams.
pub const EVENTS_PER_SEC: f64 = 300.0;
/// Bytes that a connection of the case `tcp` echoes.
pub const STORM_BYTES: usize = 16;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

/// A running load.
pub struct Load {
    tokio: Runtime,
    count: Arc<AtomicU64>,
}

impl Load {
    pub fn start(case: &str, port: u16) -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let (tokio, count) = (tokio.expect("a runtime"), Arc::new(AtomicU64::new(0)));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        for _ in 0..if case == "sse" { STREAMS } else { CONNECTIONS } {
            let (case, count) = (case.to_owned(), Arc::clone(&count));
            tokio.spawn(async move {
                let ended = match &*case {
                    "http" => http(address, &count).await,
                    "ws" => ws(address, &count).await,
                    "sse" => sse(address, &count).await,
                    _ => storm(address, &count).await,
                };
                // The server ends after the load is stopped, so this is a failure.
                eprintln!("a client has ended: {ended:?}");
            });
        }
        Self { tokio, count }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub fn stop(self) {
        self.tokio.shutdown_timeout(std::time::Duration::from_secs(1));
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn http(address: SocketAddr, count: &AtomicU64) -> Result<()> {
    let mut stream = connect(address).await?;
    let (mut answer, mut len) = ([0; 4096], 0);
    loop {
        stream.write_all(REQUEST).await?;
        loop {
            len += more(stream.read(&mut answer[len..]).await?)?;
            let head = answer[..len].windows(4).position(|end| end == b"\r\n\r\n");
            if head.is_some_and(|head| len == head + 4 + PAYLOAD_BYTES) {
                break;
            }
        }
        len = 0;
        count.fetch_add(1, Relaxed);
    }
}

async fn ws(address: SocketAddr, count: &AtomicU64) -> Result<()> {
    let mut stream = connect(address).await?;
    stream.write_all(UPGRADE).await?;
    let mut answer = [0; 4096];
    let mut len = 0;
    while !answer[..len].ends_with(b"\r\n\r\n") {
        len += more(stream.read(&mut answer[len..]).await?)?;
    }
    // Binary, masked; a mask of zeros leaves the bytes as they are.
    let message = [&[0x82, 0x80 | PAYLOAD_BYTES as u8, 0, 0, 0, 0][..], &[b'x'; PAYLOAD_BYTES]].concat();
    loop {
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer[..2 + PAYLOAD_BYTES]).await?;
        count.fetch_add(1, Relaxed);
    }
}

async fn sse(address: SocketAddr, count: &AtomicU64) -> Result<()> {
    let mut stream = connect(address).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = vec![0; 64 * 1024];
    loop {
        let len = more(stream.read(&mut answer).await?)?;
        let events = answer[..len].iter().filter(|byte| **byte == b':').count() as u64;
        count.fetch_add(events, Relaxed);
    }
}

async fn storm(address: SocketAddr, count: &AtomicU64) -> Result<()> {
    let mut echo = [0; STORM_BYTES];
    loop {
        let mut stream = connect(address).await?;
        stream.set_zero_linger()?;
        stream.write_all(&[b'x'; STORM_BYTES]).await?;
        stream.read_exact(&mut echo).await?;
        // The server closes first; the client then resets, so that no port stays in TIME_WAIT.
        if stream.read(&mut [0]).await? != 0 {
            return Err(Error::other("more bytes than were sent"));
        }
        count.fetch_add(1, Relaxed);
    }
}

/// Returns an error at the end of a stream.
fn more(bytes: usize) -> Result<usize> {
    if bytes > 0 { Ok(bytes) } else { Err(Error::other("the server has closed the connection")) }
}
