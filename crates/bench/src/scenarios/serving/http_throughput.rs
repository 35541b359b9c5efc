//! HTTP requests on kept connections: the cost of a request that has a process of its own.
//!
//! ```text
//!   client, a process per connection ── GET / ──▶ connection's process ──▶ request's process
//!         ◀──────── 200, the whole body ────────────────┘ ◀─────── response ───────┘
//! ```
//!
//! A guest is sent the body as the body of the request, and echoes it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_serve::Request;
use tokio::net::TcpStream;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::load::http::HttpLink;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::handlers::{HANDLER, Handlers, INSTANCES, reuse};
use crate::scenarios::serving::host::{CO_RESIDENT, Host};

const CONNECTIONS: Parameter = Parameter {
    name: "connections",
    description: "Kept connections, each with one request in flight.",
    kind: Kind::Count { min: 1, max: 100_000, default: 64 },
};
const BODY: Parameter = Parameter {
    name: "body",
    description: "Bytes of the body of a response.",
    kind: Kind::Bytes { min: 0, max: 16 << 20, default: 16 },
};

/// Scenario that sends HTTP/1.1 requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpThroughput(pub(crate) Handlers);

impl Scenario for HttpThroughput {
    fn card(&self) -> Card {
        Card {
            id: self.0.pick("http-throughput", "http-throughput-ts"),
            family: Family::Actors,
            label: self.0.pick("HTTP throughput", "HTTP throughput, TS"),
            description: self.0.pick(
                "HTTP/1.1 requests on kept connections, each handled by a process, native or a guest.",
                "HTTP/1.1 requests on kept connections, each handled by a guest in TypeScript.",
            ),
            details: &[
                "One operation is a request whose whole response was read; its length is checked.",
                "Latency is from before the request is sent until the last byte of its response is read.",
                "Each connection has one request in flight. Its server side is a process, and each request is a process.",
                "A guest echoes the body of its request, which has as many bytes as that of the response. It is the prebuilt \
                 guest of examples/guests; TypeScript runs in QuickJS, which is part of the guest.",
                CO_RESIDENT,
                "A response with another status or length is an error, and its client connects again.",
                "A good result: no errors. The goals are shares of the rate of plain hyper on its own tokio: 0.9 for native \
                 handlers, and with instances=pool 0.6 for guests in C and 0.3 for TypeScript. See docs/serving.md.",
            ],
            ops_label: "requests/s",
            latency_label: Some("request to the last byte"),
            unit: Unit::Count,
            parameters: self.0.pick(&[CONNECTIONS, BODY, HANDLER, INSTANCES], &[CONNECTIONS, BODY, INSTANCES]),
            source_file: file!(),
            timed: "request",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let (connections, bytes) = (context.params().number("connections"), context.params().number("body"));
            let body = Bytes::from(vec![b'x'; bytes as usize]);
            let answer = move |_: Request| std::future::ready(body.clone());
            let guests = (connections, reuse(context, connections));
            let router = self.0.router(context, guests, ("GET /", answer), "POST /echo").await?;
            let host = Host::start(context, self.card().id, connections, router)?;
            let request: Arc<[u8]> = if self.0.is_guest(context) {
                let head =
                    format!("POST /echo HTTP/1.1\r\nHost: {}\r\nContent-Length: {bytes}\r\n\r\n", host.address());
                [head.as_bytes(), &vec![b'x'; bytes as usize]].concat().into()
            } else {
                format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", host.address()).into_bytes().into()
            };
            context.prepared();
            for index in 0..connections {
                let client = Client {
                    address: host.address(),
                    request: Arc::clone(&request),
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

struct Client {
    address: SocketAddr,
    request: Arc<[u8]>,
    bytes: u64,
    recorder: Recorder,
    pace: Pace,
}

impl Client {
    async fn run(mut self, ctx: Context) -> Result<(), String> {
        ctx.set_label("http client");
        let mut link = None;
        while self.pace.next_batch(&ctx, 1).await.is_some() {
            let stamp = self.pace.begin(&mut self.recorder);
            let open = match &mut link {
                Some(open) => open,
                None => link.insert(self.connect().await?),
            };
            let mut bytes = 0;
            let answered = open.exchange(&self.request, "GET", |part| bytes += part.len() as u64).await;
            if answered == Ok(true) && bytes == self.bytes {
                self.recorder.end(stamp);
                self.recorder.count(1);
            } else {
                self.recorder.fail(1);
                link = None;
            }
        }
        Ok(())
    }

    /// Connects; an error ends the run, because the server is in this process.
    async fn connect(&self) -> Result<HttpLink, String> {
        let connect = async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(HttpLink::new(stream))
        };
        connect.await.map_err(|error| format!("cannot connect to {}: {error}", self.address))
    }
}
