//! Events that go from one publisher to all open event streams: the cost of an event for one client.
//!
//! ```text
//!   publisher ──▶ topic ──▶ request's process, one per stream ── data: … ──▶ client
//!       ▲                                                                       │
//!       └───────── at most `window` events that not all clients have ───────────┘
//! ```
//!
//! At the end the publisher closes the topic, the streams end, and each client must have received every event.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::topic::{Message, Overflow, Subscriber, Topic};
use rusm_serve::{Event, Request, Response, events};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Notify};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::load::http::HttpLink;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::handlers::Handlers;
use crate::scenarios::serving::host::{CO_RESIDENT, Host};
use crate::scenarios::topics::RunTopic;

const STREAMS: Parameter = Parameter {
    name: "streams",
    description: "Open streams, each with a client.",
    kind: Kind::Count { min: 1, max: 100_000, default: 100 },
};
/// Bytes of the stamp at the start of an event's data: hexadecimal digits.
const STAMP_BYTES: usize = 16;

const DETAILS: [&str; 7] =
    details("The events go through a topic to the process of each stream, which formats and sends them.");
const DETAILS_TS: [&str; 7] = details(
    "The events go through a topic to a guest for each stream, which formats and sends them. It is the prebuilt guest \
     feed.ts of examples/guests.",
);

const fn details(way: &'static str) -> [&'static str; 7] {
    [
        "One operation is an event received by one client; an offered rate is in received events.",
        "Latency is from before an event is published until a client has read it.",
        way,
        "At full speed the publisher waits until all clients have received all but the last few events; window sets how \
         many.",
        "The run fails unless every client has received every event at the end.",
        CO_RESIDENT,
        "A good result: a high rate without loss. Goal: at least 0.7 of the rate of a plain loop on hyper, see \
         docs/serving.md.",
    ]
}

/// Scenario with streams of server-sent events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SseFanout(pub(crate) Handlers);

impl Scenario for SseFanout {
    fn card(&self) -> Card {
        Card {
            id: self.0.pick("sse-fanout", "sse-fanout-ts"),
            family: Family::Actors,
            label: self.0.pick("SSE fan-out", "SSE fan-out, TS"),
            description: self.0.pick(
                "Events that one publisher sends to all open streams of server-sent events.",
                "Events that one publisher sends to all open streams, each written by a guest in TypeScript.",
            ),
            details: self.0.pick(&DETAILS, &DETAILS_TS),
            ops_label: "events/s",
            latency_label: Some("publish to client"),
            unit: Unit::Count,
            parameters: &[
                STREAMS,
                Parameter {
                    name: "payload",
                    description: "Bytes of the data of an event.",
                    kind: Kind::Bytes { min: STAMP_BYTES as u64, max: 1 << 20, default: 64 },
                },
                Parameter {
                    name: "window",
                    description: "Events that are published before all clients have received them, at most.",
                    kind: Kind::Count { min: 1, max: 10_000, default: 16 },
                },
            ],
            source_file: file!(),
            timed: "event",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let topics = context.runtime().topics();
            let name = self.card().id;
            let topic = RunTopic::new(topics.create(name))?;
            drive(context, self.0, name, &topic).await
        })
    }
}

/// Counts of publisher and clients.
#[derive(Debug, Default)]
struct Counts {
    published: AtomicU64,
    received: AtomicU64,
    /// Notified by clients while the publisher waits for them.
    progress: Notify,
}

async fn drive(context: &mut RunContext, handlers: Handlers, name: &str, topic: &Topic) -> Result<(), RunError> {
    let (streams, window) = (context.params().number("streams"), context.params().number("window"));
    let payload = context.params().number("payload") as usize;
    let source = topic.clone();
    let answer = move |_: Request| std::future::ready(stream(source.subscribe(Overflow::Block)));
    let router = handlers.feed(context, streams, name, answer).await?;
    let host = Host::start(context, name, streams, router)?;
    let (counts, base) = (Arc::new(Counts::default()), Instant::now());
    let connected = Arc::new(Barrier::new(streams as usize + 1));
    for _ in 0..streams {
        let request = format!("GET /{name} HTTP/1.1\r\nHost: {}\r\n\r\n", host.address());
        let (address, recorder) = (host.address(), context.recorder());
        let client = Client { address, request, counts: Arc::clone(&counts), recorder, base };
        let connected = Arc::clone(&connected);
        context.spawn_worker(move |ctx| client.run(ctx, connected))?;
    }
    tokio::select! {
        _ = connected.wait() => {}
        stopped = context.stopped() => return stopped,
    }
    context.prepared();
    let publisher = Publisher {
        topic: topic.clone(),
        counts: Arc::clone(&counts),
        streams,
        window,
        payload,
        recorder: context.recorder(),
        pace: context.pace_of(0, 1, context.duty(), streams),
        base,
    };
    context.spawn_worker(move |ctx| publisher.run(ctx))?;
    context.stopped().await?;
    context.ended().await?;
    host.show(context);
    account(context, &counts, streams)
}

/// Answers with a stream of all events from now on.
fn stream(subscriber: Subscriber) -> Response {
    events(futures_util::stream::unfold(subscriber, async |mut subscriber| {
        let data = String::from_utf8_lossy(subscriber.next().await.ok()?.payload()).into_owned();
        Some((Event::data(data), subscriber))
    }))
}

fn account(context: &RunContext, counts: &Counts, streams: u64) -> Result<(), RunError> {
    let [published, received] = [&counts.published, &counts.received].map(|count| count.load(Ordering::Relaxed));
    let columns = [
        ("streams", ColumnUnit::Count),
        ("published", ColumnUnit::Count),
        ("received", ColumnUnit::Count),
        ("exact", ColumnUnit::Text),
    ];
    let is_exact = received == published * streams;
    let mut table = Table::new("Loss account", &columns);
    table.row([streams.into(), published.into(), received.into(), if is_exact { "yes" } else { "no" }.into()]);
    context.tables().show(table);
    if is_exact {
        return Ok(());
    }
    Err(RunError::Account(format!("{published} events to each of {streams} streams, {received} received")))
}

struct Publisher {
    topic: Topic,
    counts: Arc<Counts>,
    streams: u64,
    window: u64,
    payload: usize,
    recorder: Recorder,
    pace: Pace,
    base: Instant,
}

impl Publisher {
    async fn run(mut self, ctx: Context) -> Result<(), String> {
        ctx.set_label("publisher");
        let mut published = 0;
        while let Some(ops) = self.pace.next_batch(&ctx, 1).await {
            for _ in 0..ops {
                let stamp = self.pace.begin(&mut self.recorder).to_ns(self.base);
                let event = format!("{stamp:0STAMP_BYTES$x}{:x<1$}", "", self.payload - STAMP_BYTES);
                self.topic.publish(Message::new(event)).await.map_err(|error| error.to_string())?;
                published += 1;
                // An open loop does not wait for anything.
                while !self.pace.is_open() && self.is_ahead(published) {
                    self.counts.progress.notified().await;
                }
            }
        }
        self.counts.published.store(published, Ordering::Relaxed);
        self.topic.close();
        Ok(())
    }

    fn is_ahead(&self, published: u64) -> bool {
        let received = self.counts.received.load(Ordering::Relaxed);
        published * self.streams >= received + self.window * self.streams
    }
}

struct Client {
    address: SocketAddr,
    request: String,
    counts: Arc<Counts>,
    recorder: Recorder,
    base: Instant,
}

impl Client {
    async fn run(mut self, ctx: Context, connected: Arc<Barrier>) -> Result<(), String> {
        ctx.set_label("event client");
        let stream = TcpStream::connect(self.address).await.map_err(|error| format!("cannot connect: {error}"))?;
        let mut link = HttpLink::new(stream);
        link.send(self.request.as_bytes()).await?;
        let mut head = link.head("GET").await?;
        if !head.is_event_stream {
            return Err(format!("no event stream: status {}", head.status));
        }
        // The handler has subscribed before its head was sent.
        connected.wait().await;
        let mut lines = Lines::default();
        loop {
            let mut received = 0;
            let goes_on = link.part(&mut head.body, |bytes| {
                lines.read(bytes, |data| {
                    received += 1;
                    let stamp = data.get(..STAMP_BYTES).and_then(|stamp| std::str::from_utf8(stamp).ok());
                    let stamp = stamp.and_then(|stamp| u64::from_str_radix(stamp, 16).ok());
                    self.recorder.end(Stamp::from_ns(self.base, stamp.unwrap_or(0)));
                });
            });
            if !goes_on.await? {
                return Ok(());
            }
            if received > 0 {
                self.recorder.count(received);
                self.counts.received.fetch_add(received, Ordering::Relaxed);
                self.counts.progress.notify_one();
            }
        }
    }
}

/// Splits a stream into the data of its events.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Passes the data of each event of one line to `seen`.
    fn read(&mut self, bytes: &[u8], mut seen: impl FnMut(&[u8])) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(line);
            if let Some(line) = self.0.strip_suffix(b"\n") {
                if let Some(data) = line.strip_prefix(b"data: ") {
                    seen(data);
                }
                self.0.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_seen_however_their_bytes_come() {
        let stream = b"data: one\n\n: comment\n\ndata: two\n\n";
        for cut in 0..stream.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());

            for part in [&stream[..cut], &stream[cut..]] {
                lines.read(part, |data| seen.push(data.to_vec()));
            }

            assert_eq!(seen, [b"one".to_vec(), b"two".to_vec()], "{cut}");
        }
    }
}
