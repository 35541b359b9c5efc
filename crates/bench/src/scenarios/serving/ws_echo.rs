//! Messages echoed on held WebSocket connections: the cost of a message for a connection that is a process.
//!
//! ```text
//!   client, a process per connection ── binary message ──▶ socket's process
//!         ◀──────────────── the same bytes ──────────────────────┘       one in flight per connection
//! ```

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_serve::{Request, Response, websocket};
use rusm_wasm::InstanceReuse;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::handlers::{HANDLER, Handlers};
use crate::scenarios::serving::host::{CO_RESIDENT, Host};

/// Bytes that a client reads at once.
const READ_BUFFER: usize = 4096;

const CONNECTIONS: Parameter = Parameter {
    name: "connections",
    description: "Held connections, each with one message in flight.",
    kind: Kind::Count { min: 1, max: 100_000, default: 64 },
};
const MESSAGE: Parameter = Parameter {
    name: "message",
    description: "Bytes of a message.",
    kind: Kind::Bytes { min: 0, max: 1 << 20, default: 64 },
};

/// Scenario that sends messages over a WebSocket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WsEcho(pub(crate) Handlers);

impl Scenario for WsEcho {
    fn card(&self) -> Card {
        Card {
            id: self.0.pick("ws-echo", "ws-echo-ts"),
            family: Family::Actors,
            label: self.0.pick("WebSocket echo", "WebSocket echo, TS"),
            description: self.0.pick(
                "Messages that are echoed on held WebSocket connections, each a process, native or a guest.",
                "Messages that are echoed on held WebSocket connections, each a guest in TypeScript.",
            ),
            details: &[
                "One operation is a message sent and received back, a round trip; all its bytes are compared.",
                "Latency is the round trip, from before the message is sent until the echo is read.",
                "Each connection has one message in flight.",
                "A guest has an instance for each connection. It is the prebuilt guest of examples/guests.",
                CO_RESIDENT,
                "An echo with other bytes is an error; a lost connection fails the run.",
                "A good result: no errors. The goal of native handlers is at least the rate of a plain loop of \
                 tokio-tungstenite, see docs/serving.md.",
            ],
            ops_label: "round trips/s",
            latency_label: Some("round trip"),
            unit: Unit::Count,
            parameters: self.0.pick(&[CONNECTIONS, MESSAGE, HANDLER], &[CONNECTIONS, MESSAGE]),
            source_file: file!(),
            timed: "round trip",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let connections = context.params().number("connections");
            let bytes = context.params().number("message") as usize;
            let guests = (connections, InstanceReuse::Request);
            let router = self.0.router(context, guests, ("GET /socket", echo), "GET /socket").await?;
            let host = Host::start(context, self.card().id, connections, router)?;
            context.prepared();
            for index in 0..connections {
                let client = Client {
                    address: host.address(),
                    bytes,
                    recorder: context.recorder(),
                    pace: context.pace(index, connections, context.duty()),
                };
                context.spawn_worker(move |ctx| client.run(ctx))?;
            }
            context.stopped().await?;
            let ended = context.ended().await;
            host.show(context);
            ended
        })
    }
}

/// Answers with an upgrade to a WebSocket that echoes all messages.
pub(super) async fn echo(request: Request) -> Response {
    websocket::upgrade(request, async |mut socket| {
        while let Ok(Some(message)) = socket.receive().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    })
}

struct Client {
    address: SocketAddr,
    bytes: usize,
    recorder: Recorder,
    pace: Pace,
}

impl Client {
    async fn run(mut self, ctx: Context) -> Result<(), String> {
        ctx.set_label("websocket client");
        let failed = |error| format!("a WebSocket client: {error}");
        let mut socket = connect(self.address).await.map_err(failed)?;
        let mut number = 0_u8;
        while self.pace.next_batch(&ctx, 1).await.is_some() {
            number = number.wrapping_add(1);
            let stamp = self.pace.begin(&mut self.recorder);
            let message = Bytes::from(vec![number; self.bytes]);
            socket.send(Message::Binary(message.clone())).await.map_err(failed)?;
            let answer = loop {
                // A guest that has waited for a second says so in a text.
                match socket.next().await.unwrap_or(Err(Error::ConnectionClosed)).map_err(failed)? {
                    Message::Text(_) => {}
                    answer => break answer,
                }
            };
            if matches!(answer, Message::Binary(bytes) if bytes == message) {
                self.recorder.end(stamp);
                self.recorder.count(1);
            } else {
                self.recorder.fail(1);
            }
        }
        // Ends the server's process with a close frame, as a browser does.
        socket.close(None).await.map_err(failed)?;
        while let Some(Ok(_)) = socket.next().await {}
        Ok(())
    }
}

async fn connect(address: SocketAddr) -> Result<WebSocketStream<TcpStream>, Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER).write_buffer_size(0);
    let (socket, _) = client_async_with_config(format!("ws://{address}/socket"), stream, Some(config)).await?;
    Ok(socket)
}
