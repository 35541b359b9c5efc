//! A server with its own clients, for a look at the Serve view of rusm-top: fast, slow, failing and limited routes,
//! and sockets that stay open.
//!
//! ```text
//!   clients (processes) ── HTTP over real sockets ──▶ server ◀── V ── rusm-top
//! ```
//!
//! `cargo run -p rusm-examples --bin serve_demo`, then start rusm-top as the program says, and press `V`.

#![expect(clippy::print_stdout, reason = "an example that prints how to watch it")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use rusm::console::{Console, ConsoleConfig};
use rusm::serve::http::StatusCode;
use rusm::serve::{Body, Limits, RateLimit, Request, Response, Router, ServeConfig, Server, websocket};
use rusm::{Config, Runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

/// Requests that the clients repeat: number of clients, pause between two requests, and the path.
const LOADS: [(u32, u64, &str); 8] = [
    (4, 2, "/"),
    (8, 3, "/users/7"),
    (2, 40, "/search?q=actors"),
    (1, 60, "/orders"),
    (1, 500, "/crash"),
    (1, 150, "/missing"),
    (1, 20, "/login"),
    (3, 0, "/chat"),
];

async fn search(_: Request) -> String {
    tokio::time::sleep(Duration::from_millis(30)).await;
    "found\n".repeat(400)
}

async fn orders(request: Request) -> Response {
    // Some orders take much longer than others.
    let number = request.context().pid().slot();
    tokio::time::sleep(Duration::from_millis(if number.is_multiple_of(16) { 4_000 } else { 5 })).await;
    Response::new(Body::from("ordered\n"))
}

fn chat(request: Request) -> Response {
    websocket::upgrade(request, async |mut socket| {
        while let Ok(Some(message)) = socket.receive().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

/// Sends one request after the other on a connection, and reads what the server answers.
async fn client(server: SocketAddr, path: &str, pause: Duration) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let mut buffer = [0; 8192];
    let extra = if path == "/chat" {
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    } else {
        ""
    };
    let request = format!("GET {path} HTTP/1.1\r\nhost: demo\r\n{extra}\r\n");
    loop {
        stream.write_all(request.as_bytes()).await?;
        if stream.read(&mut buffer).await? == 0 {
            return Ok(());
        }
        while !extra.is_empty() {
            // A masked text frame of five bytes with a mask of zeros; the server echoes it.
            stream.write_all(b"\x81\x85\0\0\0\0hello").await?;
            if stream.read(&mut buffer).await? == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(pause).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(Config::default())?;
    let logins = RateLimit::token_bucket(5.0, 10)?.per_client();
    let router = Router::new()
        .route("GET /", async |_: Request| "hello\n")?
        .route("GET /users/:id", async |request: Request| format!("user {}\n", request.param("id").unwrap_or("")))?
        .route("GET /search", search)?
        .route("GET /orders", orders)?
        .route("GET /crash", async |_: Request| -> &'static str { panic!("a bug in a handler") })?
        .route("GET /missing", async |_: Request| StatusCode::NOT_FOUND)?
        .limited_route("GET /login", [logins], async |_: Request| "welcome\n")?
        .route("GET /chat", |request: Request| std::future::ready(chat(request)))?;
    let limits = Limits { in_flight: 200, ..Limits::default() };
    let config = ServeConfig { name: Some("demo".to_owned()), limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router)?;
    let address = server.local_addr();
    for (clients, pause_ms, path) in LOADS {
        for _ in 0..clients {
            runtime.spawn(move |ctx| async move {
                ctx.set_label("client");
                loop {
                    // A connection that the server has closed is opened again.
                    drop(client(address, path, Duration::from_millis(pause_ms)).await);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            })?;
        }
    }
    let console = Console::bind(&runtime, ConsoleConfig::named("serve-demo"))?;
    println!("http://{address}, watch it with: rusm-top {} --tab serve", console.socket().display());
    println!("press ctrl-c to stop");
    interrupts.recv().await;
    server.drain(Duration::from_secs(2));
    runtime.shutdown(Duration::from_secs(1));
    Ok(())
}
