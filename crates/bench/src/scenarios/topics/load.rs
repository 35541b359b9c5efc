//! Load of the topic scenarios: publishers, a topic and receivers; and an account of every message.
//!
//! ```text
//!   publisher ─┐                ┌─▶ subscriber, or subscription ─▶ consumer, consumer
//!   publisher ─┼─▶ the topic ───┼─▶ …
//!   publisher ─┘                └─▶ …        at the end: published = received, by the counts of all processes
//! ```
//!
//! At the stop the publishers end, the last one closes the topic, and the receivers read the rest. The counts of the
//! receivers, the counts of the publishers, and the topic's own account must then be equal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rusm_runtime::Context;
use rusm_runtime::topic::{
    self, AckStatus, Consumer, Lease, Overflow, PublishError, PublisherConfig, Subscriber, Subscription,
    SubscriptionConfig, Topic, TopicConfig,
};

use crate::context::RunContext;
use crate::measure::live_bytes::live_bytes;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenarios::topics::RunTopic;
use crate::scenarios::topics::payload::{Mix, Payloads, arrived};

/// Detail of cards: what a message costs.
pub(crate) const MESSAGES_ARE_HANDLES: &str = "Messages are handles to a few buffers created before the run; no receiver gets a \
                                               copy. A timed message has its own buffer.";
/// Detail of cards: how the run is checked.
pub(crate) const NUMBERS_AGREE: &str = "At the end all messages are read. The run fails unless publishers, topic and receivers \
                                        agree on the numbers published, received and dropped.";
/// Detail of cards: what the latency is at full speed.
pub(crate) const LATENCY_IS_QUEUE: &str = "At full speed the latency is the length of the queue in the topic. Offer a rate to see \
                                           how fast a single message is delivered.";

/// Delivery guarantee of the receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// At most once.
    Broadcast,
    /// At least once, each message acknowledged separately.
    AckEach,
    /// At least once, a batch acknowledged at once.
    AckBatch,
}

/// Load on a topic: publishers, receivers and their settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicLoad {
    pub(crate) tier: Tier,
    pub(crate) publishers: u64,
    /// Number of subscribers, or of subscriptions.
    pub(crate) subscribers: u64,
    /// Number of consumers per subscription.
    pub(crate) consumers: u64,
    pub(crate) mix: Mix,
    pub(crate) payload: usize,
    /// Number of ordering keys; 0 for none.
    pub(crate) keys: u64,
    /// Number of messages published at once.
    pub(crate) batch: usize,
    /// Batching of messages that are published one by one; `None` for no batching.
    pub(crate) gather: Option<PublisherConfig>,
    /// Maximum number of messages received at once.
    pub(crate) take: usize,
    pub(crate) config: TopicConfig,
    /// Percentage of their maximum rate at which publishers work.
    pub(crate) load_percent: u64,
}

impl Default for TopicLoad {
    fn default() -> Self {
        Self {
            tier: Tier::Broadcast,
            publishers: 1,
            subscribers: 1,
            consumers: 1,
            mix: &[],
            payload: 1024,
            keys: 0,
            batch: 1,
            gather: None,
            take: 64,
            config: TopicConfig::default(),
            load_percent: 100,
        }
    }
}

/// Counts of publishers and receivers.
#[derive(Default)]
struct MessageCounts {
    published: AtomicU64,
    received: AtomicU64,
    /// Number of deliveries out of order for their key.
    disordered: AtomicU64,
    publishing: AtomicUsize,
    /// Bytes that each receiver takes; 0 if unknown.
    receiver_bytes: AtomicU64,
}

/// Row of the account: one subscription, or all subscribers together.
struct AccountRow {
    name: String,
    published: u64,
    received: u64,
    outstanding: u64,
    backlog: u64,
    dead_lettered: u64,
    dropped: u64,
}

impl AccountRow {
    const fn is_exact(&self) -> bool {
        self.published == self.received + self.outstanding + self.backlog + self.dead_lettered + self.dropped
    }
}

impl TopicLoad {
    /// Runs the load until the run stops, and accounts for all messages.
    pub(crate) async fn run(self, context: &mut RunContext, name: &str) -> Result<(), RunError> {
        let topic = RunTopic::new(context.runtime().topics().create_with(name, self.config))?;
        self.run_on(context, &topic).await
    }

    async fn run_on(self, context: &mut RunContext, topic: &Topic) -> Result<(), RunError> {
        let (counts, base) = (Arc::new(MessageCounts::default()), Instant::now());
        let before = live_bytes();
        let subscriptions = match self.tier {
            Tier::Broadcast => {
                self.start_subscribers(context, topic, &counts, base)?;
                Vec::new()
            }
            Tier::AckEach | Tier::AckBatch => self.start_consumers(context, topic, &counts, base)?,
        };
        let receivers = self.subscribers * if self.tier == Tier::Broadcast { 1 } else { self.consumers };
        let taken = live_bytes().zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
        // With few receivers, other allocations in the meantime outweigh theirs.
        counts.receiver_bytes.store(if receivers >= RECEIVERS_MIN { taken / receivers } else { 0 }, Ordering::Relaxed);
        counts.publishing.store(self.publishers as usize, Ordering::Relaxed);
        for index in 0..self.publishers {
            let pace = context.pace_of(index, self.publishers, context.duty(), self.subscribers);
            let part = context.duty().times(self.load_percent as f64 / 100.0);
            let gather = self.gather.map(|gather| topic.publisher(gather)).transpose();
            let publisher = Publisher {
                topic: topic.clone(),
                gather: gather.map_err(|error| RunError::Lacks(error.to_string()))?,
                batch: self.batch,
                payloads: Payloads::new(self.mix, self.payload, self.keys, false, base, context.seed() + index),
                pace: if self.load_percent < 100 { pace.at_part_of_maximum(part) } else { pace },
                recorder: context.recorder(),
                counts: Arc::clone(&counts),
            };
            context.spawn_worker(|ctx| publisher.run(ctx))?;
        }
        context.stopped().await?;
        context.ended().await?;
        self.account(context, topic, &counts, &subscriptions)
    }

    fn start_subscribers(
        self,
        context: &mut RunContext,
        topic: &Topic,
        counts: &Arc<MessageCounts>,
        base: Instant,
    ) -> Result<(), RunError> {
        for _ in 0..self.subscribers {
            let (subscriber, recorder) = (topic.subscribe(Overflow::Block), context.recorder());
            let (counts, take) = (Arc::clone(counts), self.take);
            context.spawn_worker(move |ctx| hear(ctx, subscriber, recorder, counts, base, take))?;
        }
        Ok(())
    }

    fn start_consumers(
        self,
        context: &mut RunContext,
        topic: &Topic,
        counts: &Arc<MessageCounts>,
        base: Instant,
    ) -> Result<Vec<Subscription>, RunError> {
        let config = SubscriptionConfig { ordered: self.keys > 0, ..SubscriptionConfig::default() };
        let mut subscriptions = Vec::new();
        for index in 0..self.subscribers {
            let subscription = topic
                .create_subscription(&format!("subscription-{index}"), config.clone())
                .map_err(|error| RunError::Lacks(error.to_string()))?;
            let newest: Arc<[AtomicU64]> = (0..self.keys).map(|_| AtomicU64::new(0)).collect();
            for _ in 0..self.consumers {
                let worker = Worker {
                    consumer: subscription.consumer(),
                    recorder: context.recorder(),
                    counts: Arc::clone(counts),
                    newest: Arc::clone(&newest),
                    base,
                };
                let (tier, take) = (self.tier, self.take);
                context.spawn_worker(move |ctx| worker.run(ctx, tier, take))?;
            }
            subscriptions.push(subscription);
        }
        Ok(subscriptions)
    }

    fn account(
        &self,
        context: &RunContext,
        topic: &Topic,
        counts: &MessageCounts,
        subscriptions: &[Subscription],
    ) -> Result<(), RunError> {
        let published = counts.published.load(Ordering::Relaxed);
        let received = counts.received.load(Ordering::Relaxed);
        let view = topic.view(0);
        let everybody = AccountRow {
            name: format!("all {} receivers", self.subscribers),
            published: published * self.subscribers,
            received,
            outstanding: subscriptions.iter().map(|subscription| subscription.account().outstanding).sum(),
            backlog: subscriptions.iter().map(|subscription| subscription.account().backlog).sum(),
            dead_lettered: subscriptions.iter().map(|subscription| subscription.account().dead_lettered).sum(),
            dropped: view.dropped_total,
        };
        let mut lines = vec![everybody];
        for subscription in subscriptions.iter().take(LINES_MAX) {
            let account = subscription.account();
            lines.push(AccountRow {
                name: subscription.name().to_owned(),
                published: account.published,
                received: account.acked,
                outstanding: account.outstanding,
                backlog: account.backlog,
                dead_lettered: account.dead_lettered,
                dropped: account.dropped,
            });
        }
        let disordered = counts.disordered.load(Ordering::Relaxed);
        let mut table = table(&lines, self.keys, disordered, published);
        let bytes = counts.receiver_bytes.load(Ordering::Relaxed);
        if bytes > 0 {
            table.note(format!("{bytes} bytes for each receiver: its process, its subscription and its recorder"));
        }
        context.tables().show(table);
        if let Some(line) = lines.iter().find(|line| !line.is_exact()) {
            return Err(RunError::Account(format!(
                "{}: {} published, {} received",
                line.name, line.published, line.received
            )));
        }
        if view.published_total != published || disordered > 0 {
            let (topics, own) = (view.published_total, published);
            return Err(RunError::Account(format!(
                "the topic counts {topics} messages, its publishers {own}; {disordered} came out of order"
            )));
        }
        Ok(())
    }
}

/// Minimum number of receivers for a meaningful figure of bytes per receiver.
const RECEIVERS_MIN: u64 = 10;
/// Maximum number of subscriptions that the account lists separately.
const LINES_MAX: usize = 8;

fn table(lines: &[AccountRow], keys: u64, disordered: u64, published: u64) -> Table {
    let columns = [
        ("of", ColumnUnit::Text),
        ("published", ColumnUnit::Count),
        ("received", ColumnUnit::Count),
        ("outstanding", ColumnUnit::Count),
        ("backlog", ColumnUnit::Count),
        ("dead letters", ColumnUnit::Count),
        ("dropped", ColumnUnit::Count),
        ("exact", ColumnUnit::Text),
    ];
    let mut table = Table::new("Loss account", &columns);
    for line in lines {
        table.row([
            line.name.as_str().into(),
            line.published.into(),
            line.received.into(),
            line.outstanding.into(),
            line.backlog.into(),
            line.dead_lettered.into(),
            line.dropped.into(),
            if line.is_exact() { "yes" } else { "no" }.into(),
        ]);
    }
    table.note(format!(
        "{published} messages were published; received is what the receivers have counted or acknowledged"
    ));
    if keys > 0 {
        table.note(format!("{keys} ordering keys: {disordered} messages were out of order within their key"));
    }
    table
}

struct Publisher {
    topic: Topic,
    gather: Option<topic::Publisher>,
    batch: usize,
    payloads: Payloads,
    pace: Pace,
    recorder: Recorder,
    counts: Arc<MessageCounts>,
}

impl Publisher {
    async fn run(mut self, ctx: Context) -> Result<(), PublishError> {
        ctx.set_label("publisher");
        let most = self.payloads.per_turn((self.batch as u64).max(64));
        let mut batch = VecDeque::with_capacity(self.batch);
        let mut published = 0;
        while let Some(ops) = self.pace.next_batch(&ctx, most).await {
            if let Some(gather) = &self.gather {
                for _ in 0..ops {
                    let stamp = self.pace.begin(&mut self.recorder);
                    gather.publish(self.payloads.next(stamp)).await?;
                }
            } else if self.batch == 1 {
                for _ in 0..ops {
                    let stamp = self.pace.begin(&mut self.recorder);
                    self.topic.publish(self.payloads.next(stamp)).await?;
                }
            } else {
                let mut left = ops;
                while left > 0 {
                    let row = left.min(self.batch as u64);
                    left -= row;
                    let stamp = self.pace.begin_batch(&mut self.recorder, row);
                    batch.push_back(self.payloads.next(stamp));
                    batch.extend((1..row).map(|_| self.payloads.next(crate::measure::meter::Stamp::default())));
                    self.topic.publish_all(&mut batch).await?;
                }
            }
            published += ops;
        }
        if let Some(gather) = &self.gather {
            gather.flush().await?;
        }
        self.counts.published.fetch_add(published, Ordering::Relaxed);
        if self.counts.publishing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.topic.close();
        }
        Ok(())
    }
}

async fn hear(
    ctx: Context,
    mut subscriber: Subscriber,
    mut recorder: Recorder,
    counts: Arc<MessageCounts>,
    base: Instant,
    take: usize,
) {
    ctx.set_label("subscriber");
    let mut received = 0;
    while let Ok(batch) = subscriber.next_batch(take).await {
        let count = batch.len() as u64;
        for message in batch {
            arrived(&recorder, base, message.payload());
        }
        recorder.count(count);
        received += count;
    }
    counts.received.fetch_add(received, Ordering::Relaxed);
}

struct Worker {
    consumer: Consumer,
    recorder: Recorder,
    counts: Arc<MessageCounts>,
    /// Highest position received for each key, plus 1.
    newest: Arc<[AtomicU64]>,
    base: Instant,
}

impl Worker {
    async fn run(mut self, ctx: Context, tier: Tier, take: usize) {
        ctx.set_label("consumer");
        let received = if take == 1 { self.one_by_one().await } else { self.in_batches(tier, take).await };
        self.counts.received.fetch_add(received, Ordering::Relaxed);
    }

    async fn one_by_one(&mut self) -> u64 {
        let mut received = 0;
        while let Ok(lease) = self.consumer.next().await {
            self.handle(&lease);
            received += self.ack(&lease);
        }
        received
    }

    async fn in_batches(&mut self, tier: Tier, take: usize) -> u64 {
        let (mut batch, mut received) = (Vec::with_capacity(take), 0);
        while self.consumer.next_batch_into(&mut batch, take).await.is_ok() {
            for lease in &batch {
                self.handle(lease);
                if tier == Tier::AckEach {
                    received += self.ack(lease);
                }
            }
            if tier == Tier::AckBatch {
                let acked = self.consumer.subscription().ack_all(batch.iter().map(|lease| lease.id)) as u64;
                self.recorder.count(acked);
                received += acked;
            }
        }
        received
    }

    #[inline]
    fn ack(&mut self, lease: &Lease) -> u64 {
        // If the acknowledgement came too late, the message goes to another consumer, which counts it.
        let acked = u64::from(self.consumer.ack(lease.id) == AckStatus::Done);
        self.recorder.count(acked);
        acked
    }

    #[inline]
    fn handle(&mut self, lease: &Lease) {
        arrived(&self.recorder, self.base, lease.message.payload());
        if !self.newest.is_empty() {
            self.check_order(lease);
        }
    }

    fn check_order(&self, lease: &Lease) {
        let key = lease.message.key().and_then(|key| key.parse::<usize>().ok()).unwrap_or(0);
        let newest = self.newest[key].fetch_max(lease.position + 1, Ordering::Relaxed);
        if newest > lease.position && lease.attempt == 1 {
            self.counts.disordered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
