//! A thousand concurrent publishers with one message each, repeatedly.

mod sockets;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::{Either, select};
use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::topic::{AckStatus, Consumer, Lease, Message, SubscriptionConfig, Topic};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use self::sockets::Sockets;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::RunTopic;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES, words};

/// Scenario with a thousand concurrent publishers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicHerd;

impl Scenario for TopicHerd {
    fn card(&self) -> Card {
        Card {
            id: "topic-herd",
            family: Family::Topics,
            label: "Topic herd",
            description: "Processes that start together, find the topic, publish one message and end, herd after herd.",
            details: &[
                "One operation is the message of one publisher, received and acknowledged. A herd is one message from \
                 each publisher.",
                "Latency is from before a publisher is spawned until its message is received. It includes the wait for \
                 publishers that were spawned earlier.",
                "Each publisher finds the topic by its name. The next herd starts when all messages of the last one \
                 are acknowledged.",
                "A good result is no errors: a message that is missing or comes twice fails the run.",
                "Publishers are native processes, guests that publish their argument, or WebSocket clients.",
                "WebSocket clients connect over loopback to a server in this run, which publishes what they send. They \
                 leave when the server has answered their close, and the next herd waits for that.",
                "Clients and server are processes of this node, so the CPU time is that of both. A connection takes \
                 two file descriptors.",
            ],
            ops_label: "messages/s",
            latency_label: Some("spawn call to received"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "herd",
                    description: "Publishers that start together.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 1_000 },
                },
                Parameter {
                    name: "publishers",
                    description: "Kind of the publishers.",
                    kind: Kind::Choice { words: &["native", "guests", "websockets"] },
                },
            ],
            source_file: file!(),
            timed: "message",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let body = Body::of(context).await?;
            context.prepared();
            let topic = RunTopic::new(context.runtime().topics().create(NAME))?;
            drive(context, &topic, body).await
        })
    }
}

const NAME: &str = "topic-herd";

/// Kind of publisher.
enum Body {
    Native,
    Guest(Wasm, Module),
    Socket(Sockets),
}

impl Body {
    async fn of(context: &mut RunContext) -> Result<Self, RunError> {
        match context.params().word("publishers") {
            "native" => return Ok(Self::Native),
            "websockets" => return Ok(Self::Socket(Sockets::open(NAME, context.params().number("herd"))?)),
            _ => {}
        }
        // Twice the herd: publishers of the previous herd may not have ended yet.
        let capacity = 2 * context.params().number("herd") as u32 + 64;
        let config =
            WasmConfig { capacity, topics: true, parts_max: 1, memory_max_bytes: PAGE_BYTES, ..WasmConfig::default() };
        let guests = Guests::start(context, config).await?;
        let module = guests.load(context, "herder", Code::of(include_str!("../wasm/guests/herder.wat"), 1)).await?;
        Ok(Self::Guest(guests.wasm, module))
    }

    /// Starts a publisher that publishes a stamp and its number. Returns false if it cannot be started.
    fn start(&self, ctx: &Context, stamp: u64, number: u64) -> bool {
        match self {
            Self::Native => {
                ctx.spawn(move |ctx| async move {
                    let payload = payload(stamp, number);
                    // If this fails, the herd's driver misses the message and reports it.
                    if let Ok(topic) = ctx.topics().find(NAME) {
                        drop(topic.publish(Message::new(payload)).await);
                    }
                });
                true
            }
            Self::Guest(wasm, module) => {
                // Arguments of guests are text.
                let args = [format!("{stamp} {number}")];
                wasm.spawn_from(ctx, module, &GuestOptions::default().profile("trusted").args(args)).is_ok()
            }
            Self::Socket(sockets) => {
                sockets.start(ctx, payload(stamp, number));
                true
            }
        }
    }

    /// Parses the stamp and the number in a publisher's message.
    fn parse(&self, payload: &[u8]) -> Option<(u64, usize)> {
        match self {
            Self::Native | Self::Socket(_) => words(payload).map(|[stamp, number]| (stamp, number as usize)),
            Self::Guest(..) => {
                let (stamp, number) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
                Some((stamp.parse().ok()?, number.parse().ok()?))
            }
        }
    }
}

/// Returns the payload of a publisher.
fn payload(stamp: u64, number: u64) -> Vec<u8> {
    [stamp.to_le_bytes(), number.to_le_bytes()].concat()
}

async fn drive(context: &mut RunContext, topic: &Topic, body: Body) -> Result<(), RunError> {
    let herd = context.params().number("herd");
    let subscription = topic
        .create_subscription("herd", SubscriptionConfig { outstanding_max: 1 << 20, ..SubscriptionConfig::default() })
        .map_err(|error| RunError::Lacks(error.to_string()))?;
    let driver = Herd {
        body,
        consumer: subscription.consumer(),
        recorder: context.recorder(),
        pace: context.pace(0, 1, context.duty()),
        size: herd,
        base: Instant::now(),
    };
    let published = Arc::new(AtomicU64::new(0));
    let publishers = Arc::clone(&published);
    context.spawn_worker(move |ctx| driver.run(ctx, publishers))?;
    context.stopped().await?;
    context.ended().await?;
    let (published, account) = (published.load(Ordering::Relaxed), subscription.account());
    let columns = [
        ("published", ColumnUnit::Count),
        ("received", ColumnUnit::Count),
        ("left", ColumnUnit::Count),
        ("exact", ColumnUnit::Text),
    ];
    let mut table = Table::new("Loss account", &columns);
    let exact = account.is_exact() && account.acked == published && account.published == published;
    let left = account.outstanding + account.backlog;
    table.row([account.published.into(), account.acked.into(), left.into(), if exact { "yes" } else { "no" }.into()]);
    table.note(format!("{} herds of {herd}", published / herd.max(1)));
    context.tables().show(table);
    if exact { Ok(()) } else { Err(RunError::Account(format!("{published} publishers, {account:?}"))) }
}

struct Herd {
    body: Body,
    consumer: Consumer,
    recorder: Recorder,
    pace: Pace,
    size: u64,
    base: Instant,
}

impl Herd {
    /// Drives herds until the run stops, and counts the publishers.
    async fn run(
        mut self,
        ctx: Context,
        total: Arc<AtomicU64>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        ctx.set_label("herd");
        let server = match &self.body {
            Body::Socket(sockets) => Some(sockets.serve(&ctx)?),
            _ => None,
        };
        let (mut published, mut seen) = (0, Vec::new());
        let mut batch = Vec::new();
        while let Some(count) = self.pace.next_batch(&ctx, self.size).await {
            let mut missing = 0;
            for number in 0..count {
                let stamp = self.pace.begin(&mut self.recorder).to_ns(self.base);
                missing += u64::from(self.body.start(&ctx, stamp, number));
            }
            // Publishers that could not be started are failures.
            self.recorder.fail(count - missing);
            published += count;
            total.store(published, Ordering::Relaxed);
            seen.clear();
            seen.resize(count as usize, false);
            while missing > 0 {
                if !self.next(&mut batch).await? {
                    return Ok(());
                }
                for lease in &batch {
                    let (stamp, number) = self.body.parse(lease.message.payload()).unwrap_or((0, usize::MAX));
                    self.recorder.end(Stamp::from_ns(self.base, stamp));
                    // An invalid number counts as a failure, just like a duplicate.
                    let twice = seen.get_mut(number).is_none_or(|seen| std::mem::replace(seen, true));
                    let acked = self.consumer.ack(lease.id) == AckStatus::Done;
                    self.recorder.fail(u64::from(twice || !acked));
                    missing -= 1;
                }
                self.recorder.count(batch.len() as u64);
            }
            if let Body::Socket(sockets) = &self.body {
                sockets.left(published).await?;
            }
        }
        if let Some(server) = server {
            Sockets::stop(&ctx, server);
        }
        Ok(())
    }

    /// Waits for messages. Returns false if none will come; the error says why one is missing.
    async fn next(&mut self, batch: &mut Vec<Lease>) -> Result<bool, String> {
        let next = self.consumer.next_batch_into(batch, 256);
        match &self.body {
            Body::Socket(sockets) => match select(pin!(next), pin!(sockets.left(u64::MAX))).await {
                Either::Left((next, _)) => Ok(next.is_ok()),
                Either::Right((failed, _)) => failed.map(|()| false),
            },
            _ => Ok(next.await.is_ok()),
        }
    }
}
