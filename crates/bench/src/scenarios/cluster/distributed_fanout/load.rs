//! The processes of a distributed fan-out, and what they say to each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::remote::{Decoder, Encoder, Exports, Portable};
use rusm_runtime::{Context, Pid};

use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::run::flags::StopFlag;

/// Name under which other nodes start subscribers.
pub(super) const SUBSCRIBER: &str = "bench/subscriber";
/// Time between two checks of the stop flag by a publisher that waits for replies.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Time after the last publication within which all replies have to come.
const REPLIES_WITHIN: Duration = Duration::from_secs(10);

/// A message to a subscriber.
#[derive(Debug)]
struct Ping {
    /// Process that counts the replies.
    collector: Pid,
    publication: u64,
    /// Start of the publication on its publisher's clock; 0 if it is not timed.
    stamp_ns: u64,
    body: Bytes,
}

/// The reply of a subscriber.
#[derive(Debug)]
struct Pong {
    subscriber: u32,
    publication: u64,
    stamp_ns: u64,
    /// The payload is that of the publication, and the publication is the next one.
    is_right: bool,
}

impl Portable for Ping {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.collector.encode(to);
        self.publication.encode(to);
        self.stamp_ns.encode(to);
        self.body.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self {
            collector: Pid::decode(from)?,
            publication: u64::decode(from)?,
            stamp_ns: u64::decode(from)?,
            body: Bytes::decode(from)?,
        })
    }
}

impl Portable for Pong {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.subscriber.encode(to);
        self.publication.encode(to);
        self.stamp_ns.encode(to);
        self.is_right.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self {
            subscriber: u32::decode(from)?,
            publication: u64::decode(from)?,
            stamp_ns: u64::decode(from)?,
            is_right: bool::decode(from)?,
        })
    }
}

/// Adds what the nodes of this scenario exchange.
pub(crate) fn export(exports: Exports) -> Exports {
    let exports = exports.message::<Ping>("bench/ping").message::<Pong>("bench/pong");
    exports.spawnable(SUBSCRIBER, |ctx, argument: Bytes| subscriber(ctx, argument))
}

/// Replies to each message. The argument is the number of the subscriber.
async fn subscriber(ctx: Context, argument: Bytes) {
    ctx.set_label("subscriber");
    let subscriber = argument.as_ref().try_into().map_or(u32::MAX, u32::from_le_bytes);
    let mut expected: HashMap<Pid, u64> = HashMap::new();
    loop {
        let Ping { collector, publication, stamp_ns, body } = ctx.receive_of::<Ping>().await;
        let next = expected.entry(collector).or_default();
        let is_right = publication == *next && body.iter().all(|byte| *byte == publication as u8);
        *next = publication + 1;
        ctx.send(collector, Pong { subscriber, publication, stamp_ns, is_right }).await;
    }
}

/// Counts of a run over all publishers, including the warm-up.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) replied: AtomicU64,
    /// Messages and replies that were out of order, or had another payload.
    pub(super) wrong: AtomicU64,
}

/// A process that publishes.
pub(super) struct Publisher {
    pub(super) pace: Pace,
    pub(super) stop: StopFlag,
    pub(super) recorder: Recorder,
    /// Recorder of its collector.
    pub(super) collects: Recorder,
    pub(super) subscribers: Arc<[Pid]>,
    pub(super) payload: usize,
    pub(super) window: u64,
    pub(super) base: Instant,
    pub(super) counts: Arc<Counts>,
    /// Dropped when everything is counted.
    pub(super) is_over: Sender<()>,
}

/// All replies to a publication were received.
struct Done;

/// The publisher has sent this number of publications, and no more.
struct Sent(u64);

impl Publisher {
    pub(super) async fn run(self, ctx: Context) {
        ctx.set_label("publisher");
        let Self { mut pace, stop, mut recorder, collects, subscribers, payload, window, base, counts, is_over } = self;
        let collector = Collector {
            publisher: ctx.pid(),
            recorder: collects,
            base,
            counts: Arc::clone(&counts),
            next: vec![0; subscribers.len()],
            open: VecDeque::new(),
            first_open: 0,
        };
        let Ok(collector) = ctx.try_spawn(move |ctx| collector.run(ctx, is_over)) else { return };
        let (mut sent, mut in_flight) = (0_u64, 0);
        'run: while pace.next_batch(&ctx, 1).await.is_some() {
            while in_flight >= window {
                match ctx.receive_timeout(STOP_CHECK).await {
                    Some(_done) => in_flight -= 1,
                    None if stop.is_set() => break 'run,
                    None => {}
                }
            }
            let body = Bytes::from(vec![sent as u8; payload]);
            let stamp_ns = pace.begin(&mut recorder).to_ns(base);
            for subscriber in subscribers.iter() {
                ctx.send(*subscriber, Ping { collector, publication: sent, stamp_ns, body: body.clone() }).await;
            }
            counts.sent.fetch_add(subscribers.len() as u64, Ordering::Relaxed);
            (sent, in_flight) = (sent + 1, in_flight + 1);
        }
        ctx.send(collector, Sent(sent)).await;
    }
}

/// The process that counts the replies to one publisher.
struct Collector {
    publisher: Pid,
    recorder: Recorder,
    base: Instant,
    counts: Arc<Counts>,
    /// Next publication of each subscriber.
    next: Vec<u64>,
    /// Number of replies to come for each publication from `first_open` on.
    open: VecDeque<usize>,
    first_open: u64,
}

impl Collector {
    async fn run(mut self, ctx: Context, is_over: Sender<()>) {
        ctx.set_label("collector");
        let mut end: Option<(u64, Instant)> = None;
        loop {
            let message = match end {
                None => ctx.receive().await,
                Some((sent, _)) if self.first_open == sent => break,
                Some((_, until)) => {
                    let left = until.saturating_duration_since(Instant::now());
                    let Some(message) = ctx.receive_timeout(left).await else { break };
                    message
                }
            };
            match message.downcast::<Pong>() {
                Ok(pong) => self.replied(&ctx, &pong).await,
                Err(other) => {
                    if let Ok(Sent(sent)) = other.downcast::<Sent>() {
                        end = Some((sent, Instant::now() + REPLIES_WITHIN));
                    }
                }
            }
        }
        drop(is_over);
    }

    async fn replied(&mut self, ctx: &Context, pong: &Pong) {
        let Some(next) = self.next.get_mut(pong.subscriber as usize) else { return };
        let is_right = pong.is_right && pong.publication == *next;
        *next = pong.publication + 1;
        self.recorder.end(Stamp::from_ns(self.base, pong.stamp_ns));
        self.counts.replied.fetch_add(1, Ordering::Relaxed);
        if is_right {
            self.recorder.count(1);
        } else {
            self.counts.wrong.fetch_add(1, Ordering::Relaxed);
            self.recorder.fail(1);
        }
        let Some(position) = pong.publication.checked_sub(self.first_open) else { return };
        while self.open.len() as u64 <= position {
            self.open.push_back(self.next.len());
        }
        if let Some(left) = self.open.get_mut(position as usize) {
            *left = left.saturating_sub(1);
        }
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first_open += 1;
            // The publisher has ended if the run has stopped.
            ctx.send(self.publisher, Done).await;
        }
    }
}
