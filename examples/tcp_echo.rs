//! A server with one process per connection. Tokio's sockets work unchanged inside processes.
//!
//! ```text
//!   listener ── spawns ──▶ connection 1 ◀──▶ socket
//!                    └───▶ connection 2 ◀──▶ socket
//! ```
//!
//! `cargo run -p rusm-examples --bin tcp_echo -- [PORT]`, then `nc 127.0.0.1 7000`. Port 0 selects a free port.

#![expect(clippy::print_stdout, reason = "an example that prints its address")]

use std::error::Error;
use std::io;
use std::time::Duration;

use rusm::{Config, Context, Runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

async fn listener(ctx: Context, socket: std::net::TcpListener) -> io::Result<()> {
    let socket = TcpListener::from_std(socket)?;
    loop {
        let (stream, peer) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly no file descriptor is free. Clients wait meanwhile.
                eprintln!("cannot accept: {error}");
                ctx.sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pid = ctx.spawn(move |ctx| connection(ctx, stream));
        println!("{peer} is served by {pid}");
    }
}

/// An error of a connection is the exit reason of its process, and does not affect other connections.
async fn connection(ctx: Context, mut stream: TcpStream) -> io::Result<()> {
    ctx.set_label(format!("echo {}", stream.peer_addr()?));
    let mut buffer = vec![0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(7000), |text| text.parse::<u16>())?;
    // Install the handler before printing anything: an earlier signal would not reach it.
    let mut interrupts = signal(SignalKind::interrupt())?;
    // Bind here, so that `main` can report a port that is in use.
    let socket = std::net::TcpListener::bind(("127.0.0.1", port))?;
    socket.set_nonblocking(true)?;
    println!("listening on {}, press ctrl-c to stop", socket.local_addr()?);

    let runtime = Runtime::start(Config::default())?;
    let listener = runtime.spawn(move |ctx| listener(ctx, socket))?;
    tokio::select! {
        reason = runtime.watch(listener) => return Err(reason.to_string().into()),
        _ = interrupts.recv() => {}
    }

    let served = runtime.spawned() - 1;
    runtime.shutdown(Duration::from_secs(1));
    println!("served {served} connections");
    Ok(())
}
