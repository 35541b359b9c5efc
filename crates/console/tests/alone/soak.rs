//! Many hostile clients for some time: 4 s by default, `SOAK_SECS` seconds for the acceptance test.
//!
//! ```text
//!   SOAK_SECS=60 cargo test -p rusm-console --test alone soak
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::resident_bytes;
use crate::support::{BINARY, DEADLINE, MESSAGE_MAX, Node, PING, TEXT, frame, node_with};
use rusm_fuzz::Rng;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

const HOSTILE_CLIENTS: u64 = 32;

/// Behaviours of a hostile client; [`play`] takes their indices.
const TRICKS: [&str; 9] = [
    "asks for everything and never reads",
    "floods with pings",
    "jumps about in the table and wants it in order",
    "sends nonsense",
    "sends a binary frame, or one without an end",
    "sends more than a message may have",
    "stops in the middle of the handshake",
    "sends a head without an end",
    "comes and goes",
];

/// Addresses and token of the node under attack.
#[derive(Clone)]
struct Target {
    socket: PathBuf,
    address: SocketAddr,
    token: String,
}

impl Target {
    /// Connects and completes the handshake; fails if the node has no free client slot.
    async fn attach(&self) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(Node::upgrade("Host: localhost\r\n").as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if head.starts_with(b"HTTP/1.1 101 ") { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }

    async fn attach_tcp(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        let (host, token) = (self.address, &self.token);
        let headers = format!("Host: {host}\r\nSec-WebSocket-Protocol: rusm.v1\r\nAuthorization: Bearer {token}\r\n");
        stream.write_all(Node::upgrade(&headers).as_bytes()).await?;
        Ok(stream)
    }
}

fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Reads until the node hangs up.
async fn read_to_the_end(stream: &mut UnixStream) -> io::Result<()> {
    let mut heard = vec![0; 4096];
    while stream.read(&mut heard).await? > 0 {}
    Ok(())
}

fn text(message: &serde_json::Value) -> Vec<u8> {
    frame(TEXT, message.to_string().as_bytes())
}

async fn play(trick: usize, target: &Target, rng: &mut Rng) -> io::Result<()> {
    match trick {
        0 => {
            let mut stream = target.attach().await?;
            stream.write_all(&text(&json!({"type": "watch", "frame_hz": 60}))).await?;
            let view = json!({"type": "view", "id": 1, "hz": 10, "window": {"offset": 0, "len": 200}});
            stream.write_all(&text(&view)).await?;
            sleep(Duration::from_millis(500 + rng.below(1500) as u64)).await;
        }
        1 => {
            let mut stream = target.attach().await?;
            stream.write_all(&frame(PING, b"x").repeat(500)).await?;
            read_to_the_end(&mut stream).await?;
        }
        2 => {
            let mut stream = target.attach().await?;
            let mut heard = vec![0; 16 * 1024];
            for id in 0..25 {
                let window = json!({"offset": rng.below(3_000), "len": 200});
                let view = json!({"type": "view", "id": id, "window": window, "reorder": true, "filter": "mem>0"});
                stream.write_all(&text(&view)).await?;
                if stream.read(&mut heard).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        3 => {
            let mut stream = target.attach_tcp().await?;
            for _ in 0..10 {
                let len = rng.below(2_000);
                let nonsense: String = bytes(rng, len).into_iter().map(|byte| char::from(byte & 0x7f)).collect();
                stream.write_all(&frame(TEXT, nonsense.as_bytes())).await?;
            }
            stream.write_all(&text(&json!({"type": "kill", "pid": "<0.1.1>", "id": 1}))).await?;
            stream.read_u8().await?;
        }
        4 => {
            let mut stream = target.attach().await?;
            let first = if rng.below(2) == 0 { BINARY } else { 0x01 };
            stream.write_all(&frame(first, b"{")).await?;
            stream.write_all(&bytes(rng, 300)).await?;
            read_to_the_end(&mut stream).await?;
        }
        5 => {
            let mut stream = target.attach().await?;
            stream.write_all(&frame(TEXT, &vec![b' '; MESSAGE_MAX + 1])).await?;
            read_to_the_end(&mut stream).await?;
        }
        6 => {
            let mut stream = UnixStream::connect(&target.socket).await?;
            let whole = Node::upgrade("Host: localhost\r\n");
            let end = rng.below(whole.len() - 1);
            stream.write_all(&whole.as_bytes()[..end]).await?;
            read_to_the_end(&mut stream).await?;
        }
        7 => {
            let mut stream = TcpStream::connect(target.address).await?;
            stream.write_all(format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(9_000)).as_bytes()).await?;
            stream.read_u8().await?;
        }
        _ => {
            for _ in 0..5 {
                drop(TcpStream::connect(target.address).await?);
                drop(UnixStream::connect(&target.socket).await?);
            }
        }
    }
    Ok(())
}

/// Runs hostile clients on a thread of their own; each plays one trick after another for `span`, and then until each trick
/// was played.
fn crowd(target: Target, seed: u64, span: Duration, played: Arc<[AtomicU64; TRICKS.len()]>) -> JoinHandle<()> {
    let attack = async move {
        let end = Instant::now() + span;
        let hostile = |number: u64| {
            let (target, played) = (target.clone(), Arc::clone(&played));
            async move {
                let mut rng = Rng::new(seed.wrapping_mul(2 * number + 1));
                let mut trick = number as usize;
                let is_missing = |played: &[AtomicU64]| played.iter().any(|played| played.load(Ordering::Relaxed) == 0);
                while Instant::now() < end || is_missing(&*played) {
                    trick = (trick + 1) % TRICKS.len();
                    let patience = if Instant::now() < end { Duration::from_secs(2) } else { DEADLINE };
                    // A client that is refused or disconnected tries again.
                    if let Ok(Ok(())) = timeout(patience, play(trick, &target, &mut rng)).await {
                        played[trick].fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::task::yield_now().await;
                }
            }
        };
        let clients: Vec<_> = (0..HOSTILE_CLIENTS).map(|number| tokio::task::spawn_local(hostile(number))).collect();
        for client in clients {
            client.await.unwrap();
        }
    };
    std::thread::spawn(move || {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&reactor, attack);
    })
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn a_crowd_of_hostile_clients_disturbs_nobody() {
    let _alone = crate::ALONE.lock().await;
    let span = std::env::var("SOAK_SECS").map_or(4, |secs| secs.parse().unwrap());
    let (span, seed) = (Duration::from_secs(span), u64::from(std::process::id()));
    eprintln!("seed {seed}, {span:?}");
    let node = node_with(|config| {
        config.limits.write = Duration::from_millis(500);
        config.limits.handshake = Duration::from_millis(500);
    });
    for _ in 0..3_000 {
        node.parked();
    }
    let mut reader = node.attach().await;
    reader.frame().await;
    let files = open_files();
    let target = Target {
        socket: node.console.socket().to_owned(),
        address: node.console.address().unwrap(),
        token: node.observe_token(),
    };
    let played = Arc::new([const { AtomicU64::new(0) }; TRICKS.len()]);

    let start = Instant::now();
    let crowd = crowd(target, seed, span, Arc::clone(&played));
    let (mut frames, mut skipped, mut commands, mut before) = (0_u64, 0, 0_u64, None);
    while !crowd.is_finished() {
        let frame = reader.frame().await;
        frames += 1;
        skipped = frame["skipped"].as_u64().unwrap();
        if start.elapsed() > span / 3 && before.is_none() {
            before = resident_bytes();
        }
        if frames % 20 == 0 {
            commands += 1;
            reader.send(&json!({"type": "stop", "id": commands}).to_string()).await;
            assert_eq!(reader.next_of("ack").await["id"], commands, "commands are still carried out");
        }
    }
    crowd.join().unwrap();
    eprintln!("{frames} frames, {skipped} skipped, {commands} commands, {played:?} tricks");
    let after = resident_bytes();
    reader.pick(|message| (message["frame"]["observer"]["clients"] == 1).then_some(())).await;
    let healthy = async {
        let probe = format!("GET /healthz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", node.port());
        node.ask(&probe).await
    };

    assert!(healthy.await.ends_with("ok\n"), "the TCP port answers again");
    node.settles("the end of every connection", |_| open_files() <= files).await;
    assert!(commands > 0 && skipped <= frames / 4, "{skipped} frames skipped, {frames} seen by a client that reads");
    assert_eq!(node.runtime.process_count(), 3_000, "no observer ended a process");
    for (trick, played) in TRICKS.iter().zip(played.iter()) {
        assert!(played.load(Ordering::Relaxed) > 0, "no client {trick}");
    }
    if let (Some(before), Some(after)) = (before, after) {
        let grown = after.saturating_sub(before);
        assert!(grown < 32 * 1024 * 1024, "{grown} bytes for {HOSTILE_CLIENTS} hostile clients");
    }
}
