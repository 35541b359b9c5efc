//! A chat room on the web. Each request is a process, each WebSocket is one, and so is the room.
//!
//! ```text
//!   browser ◀── WebSocket ──▶ member (a process) ── say ──▶ room ── Line ──▶ every member
//!                                                              └─ monitors its members
//! ```
//!
//! `cargo run -p rusm-examples --bin web_chat -- [PORT]`, then open the printed address in two windows. Port 0 selects a
//! free port.

#![expect(clippy::print_stdout, reason = "an example that prints its address")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rusm::MonitorRef;
use rusm::prelude::{Actor, Address, Config, Context, Down, Runtime, actor};
use rusm::serve::{Html, Limits, Request, Response, Router, ServeConfig, Server, websocket};
use tokio::signal::unix::{SignalKind, signal};

const PAGE: &str = r#"<!doctype html><title>rusm chat</title><ul id=lines></ul><form><input id=text autofocus></form>
<script>
const socket = new WebSocket(`ws://${location.host}/chat/${prompt("Your name?") || "guest"}`);
socket.onmessage = ({data}) => lines.append(Object.assign(document.createElement("li"), {textContent: data}));
onsubmit = event => { event.preventDefault(); socket.send(text.value); text.value = ""; };
</script>"#;

/// A line, in memory once for all members that have not read it.
#[derive(Clone)]
struct Line(Arc<str>);

/// Maximum length of a line, in bytes: a member that does not read has up to a thousand lines waiting.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Default)]
struct Room(HashMap<MonitorRef, Address<Line>>);

/// Passes on what members say, and forgets those that end, for whatever reason.
#[actor]
impl Room {
    fn join(&mut self, ctx: &Context, member: Address<Line>) {
        self.0.insert(ctx.monitor(member.pid()), member);
    }

    fn say(&mut self, ctx: &Context, line: String) {
        let line = Line(line.into());
        for member in self.0.values() {
            // A member that reads too slowly misses lines; the room does not wait for it.
            drop(member.try_send(ctx, line.clone()));
        }
    }

    #[info]
    fn left(&mut self, down: Down) {
        self.0.remove(&down.reference);
    }
}

/// Turns the request's process into a member of the room.
fn chat(request: Request, room: RoomRef) -> Response {
    let name = request.param("name").unwrap_or("guest").to_owned();
    websocket::upgrade(request, async move |mut socket| {
        let ctx = Arc::clone(socket.context());
        room.join(&ctx, Address::of(ctx.pid())).await;
        loop {
            tokio::select! {
                message = socket.receive() => match message {
                    Ok(Some(websocket::WsMessage::Text(text))) => room.say(&ctx, format!("{name}: {}", &*text)).await,
                    Ok(Some(websocket::WsMessage::Binary(_))) => {}
                    Ok(None) | Err(_) => return,
                },
                Line(line) = ctx.receive_of::<Line>() => if socket.send(&*line).await.is_err() {
                    return;
                },
            }
        }
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(8080), |text| text.parse::<u16>())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(Config::default())?;
    let room = Room::start(&runtime, Room::default()).await?;
    let router = Router::new()
        .route("GET /", async |_: Request| Html(PAGE))?
        .route("GET /chat/:name", move |request: Request| std::future::ready(chat(request, room)))?;
    let limits = Limits { ws_message_bytes: LINE_BYTES_MAX, ..Limits::default() };
    let config = ServeConfig { limits, ..ServeConfig::listen(([127, 0, 0, 1], port)) };
    let server = Server::start(&runtime, config, router)?;
    println!("http://{} - press ctrl-c to stop", server.local_addr());

    interrupts.recv().await;
    let complete = server.drain(Duration::from_secs(5));
    println!("{}", if complete { "every member was told" } else { "some members were cut off" });
    runtime.shutdown(Duration::from_secs(1));
    Ok(())
}
