//! Topics that span nodes: what is published on one node reaches the subscribers of all nodes that share the topic.
//!
//! ```text
//!   node a: topic ─▶ forwarder for b, with a cursor of its own ─▶ batches ─▶ receiver on b ─▶ topic of b ─▶ subscribers
//!                └─▶ forwarder for c, …                                        ▲ waits for room in its topic
//! ```
//!
//! The receivers of a topic are a group, so forwarders come and go with the nodes. A message has the node where it was
//! published as an attribute, and only that node forwards it. A node that is slow lets only its own forwarder fall behind:
//! it drops the oldest messages beyond its capacity, and tells the receiver how many.

mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use rusm_runtime::topic::{Ended, Message, Overflow, PublishError, Subscriber, Topic};
use rusm_runtime::{Context, ExitReason, Handle, Joined, Left, NAME_MAX_BYTES, Pid, SpawnError, check_name};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

use self::wire::Batch;
pub use self::wire::ORIGIN;
use super::log_budget::{Line, LogBudget};
use super::member::Node;

/// Length of a batch from which no more messages are added, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Prefix of the groups of receivers.
const GROUP: &str = "~topic/";

/// Settings of a shared topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    /// Maximum number of messages that wait for one other node; older ones are dropped. Default 65,536, and never more than
    /// the topic holds.
    pub capacity: usize,
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self { capacity: 65_536 }
    }
}

/// Error returned when a topic cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShareError {
    /// The runtime is at its limit of processes, so none receives.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Numbers of messages of a shared topic on this node. They only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedAccount {
    /// Messages sent to other nodes, counted once for each node.
    pub sent: u64,
    /// Messages dropped because another node was too slow, counted once for each node.
    pub dropped: u64,
    /// Messages received from other nodes.
    pub received: u64,
    /// Messages that other nodes have dropped because this one was too slow.
    pub missed: u64,
    /// Messages of other nodes that the topic here has refused.
    pub refused: u64,
}

/// A topic that is shared with other nodes, until it is dropped.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// # use std::sync::Arc;
/// # use rusm::Runtime;
/// # use rusm::cluster::{BootId, Config, MemoryNetwork, NodeName};
/// use rusm::cluster::node::{Node, ShareConfig};
/// use rusm::topic::{Message, Overflow};
///
/// # let network = MemoryNetwork::new();
/// # let start = |name: &str, boot| {
/// #     let runtime = Runtime::start(rusm::Config::default())?;
/// #     let link = Arc::new(network.join(NodeName::new(name)?));
/// #     let node = Node::start(&runtime, link, BootId(boot), Config::default())?;
/// #     Ok::<_, Box<dyn std::error::Error>>((runtime, node))
/// # };
/// # let ((north, on_north), (south, on_south)) = (start("north", 1)?, start("south", 2)?);
/// // On each of two nodes: a topic of the same name.
/// let (here, there) = (north.topics().create("prices")?, south.topics().create("prices")?);
/// let shared = on_north.share_topic(&here, ShareConfig::default())?;
/// let _shared = on_south.share_topic(&there, ShareConfig::default())?;
///
/// let mut screen = there.subscribe(Overflow::Block);
/// while shared.account().sent == 0 {
///     here.blocking_publish(Message::new("9.80"))?; // the first ones may find no other node yet
/// #   std::thread::sleep(std::time::Duration::from_millis(1));
/// }
/// assert_eq!(screen.blocking_next()?.payload(), "9.80");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedTopic {
    handle: Handle,
    receiver: Pid,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    dropped: AtomicU64,
    received: AtomicU64,
    missed: AtomicU64,
    refused: AtomicU64,
}

impl Node {
    /// Shares a topic with all nodes that share one of the same name, now or later. At most once: a message is lost for a
    /// node that is too slow or is lost, and both nodes count it. The order of the messages of a node is kept.
    ///
    /// # Errors
    /// [`ShareError`] if a process cannot be spawned.
    pub fn share_topic(&self, topic: &Topic, config: ShareConfig) -> Result<SharedTopic, ShareError> {
        let counters = Arc::new(Counters::default());
        let sharing = Sharing {
            topic: topic.clone(),
            own: self.identity().name.as_str().into(),
            group: group_of(topic.name()),
            config,
            counters: Arc::clone(&counters),
        };
        let handle = self.runtime();
        let receiver = handle.spawn(move |ctx: Context| receive(ctx, sharing))?;
        Ok(SharedTopic { handle, receiver, counters })
    }
}

impl SharedTopic {
    /// Returns the numbers of sent, received and lost messages.
    pub fn account(&self) -> SharedAccount {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { sent, dropped, received, missed, refused } = &*self.counters;
        SharedAccount {
            sent: read(sent),
            dropped: read(dropped),
            received: read(received),
            missed: read(missed),
            refused: read(refused),
        }
    }
}

impl Drop for SharedTopic {
    fn drop(&mut self) {
        self.handle.exit(self.receiver, ExitReason::Shutdown);
    }
}

/// Returns the group of the receivers of a topic. If its name has no room for the prefix, a hash replaces the end of the
/// name: every name of a topic is valid between nodes.
fn group_of(topic: &str) -> String {
    let full = format!("{GROUP}{topic}");
    if check_name("group", &full).is_ok() {
        return full;
    }
    let hash = format!("~{:032x}", xxh3_128(topic.as_bytes()));
    let end = full.floor_char_boundary(NAME_MAX_BYTES - hash.len());
    format!("{}{hash}", &full[..end])
}

/// State of the processes of a shared topic.
#[derive(Clone)]
struct Sharing {
    topic: Topic,
    own: Arc<str>,
    group: String,
    config: ShareConfig,
    counters: Arc<Counters>,
}

/// Publishes what other nodes send, and keeps one forwarder for each receiver on another node.
async fn receive(ctx: Context, sharing: Sharing) {
    ctx.set_label("topic receiver");
    let Ok((_, members)) = ctx.monitor_group(&sharing.group) else { return };
    let mut forwarders: HashMap<Pid, Pid> = HashMap::new();
    for member in members {
        forward_to(&ctx, &sharing, member, &mut forwarders);
    }
    if ctx.join(&sharing.group).is_err() {
        return;
    }
    let (started, mut log) = (Instant::now(), LogBudget::default());
    loop {
        let message = ctx.receive().await;
        let message = match message.downcast::<Bytes>() {
            Ok(batch) => {
                publish(&sharing, batch, || log.take(started.elapsed())).await;
                continue;
            }
            Err(other) => other,
        };
        match message.downcast::<Joined>() {
            Ok(joined) => forward_to(&ctx, &sharing, joined.pid, &mut forwarders),
            Err(other) => {
                if let Ok(left) = other.downcast::<Left>()
                    && let Some(forwarder) = forwarders.remove(&left.pid)
                {
                    ctx.unlink(forwarder);
                    ctx.exit(forwarder, ExitReason::Shutdown);
                }
            }
        }
    }
}

/// Starts the forwarder for a receiver, unless that is on this node.
fn forward_to(ctx: &Context, sharing: &Sharing, receiver: Pid, forwarders: &mut HashMap<Pid, Pid>) {
    if receiver.node() == 0 || forwarders.contains_key(&receiver) {
        return;
    }
    let own = sharing.clone();
    match ctx.spawn_link(move |ctx: Context| forward(ctx, own, receiver)) {
        Ok(forwarder) => drop(forwarders.insert(receiver, forwarder)),
        Err(error) => tracing::error!(topic = sharing.topic.name(), %error, "a topic is not forwarded to a node"),
    }
}

/// Sends what is published on this node to the receiver of another one.
async fn forward(ctx: Context, sharing: Sharing, to: Pid) {
    ctx.set_label("topic forwarder");
    let mut subscriber = sharing.topic.subscribe(Overflow::DropOldest { capacity: sharing.config.capacity });
    let mut told = 0;
    loop {
        let mut batch = Batch::new(&sharing.own);
        if fill(&mut batch, &mut subscriber).await.is_err() {
            return;
        }
        let dropped = subscriber.dropped();
        let missed = dropped - told;
        if batch.is_empty() && missed == 0 {
            continue;
        }
        told = dropped;
        sharing.counters.dropped.fetch_add(missed, Ordering::Relaxed);
        sharing.counters.sent.fetch_add(batch.len(), Ordering::Relaxed);
        // Waits for the credit of the receiver, and meanwhile falls behind.
        ctx.send(to, batch.encode(missed)).await;
    }
}

/// Waits for messages, and adds those of this node to a batch. It exceeds its length by one message at most, so it is
/// never too long for the network.
async fn fill(batch: &mut Batch, subscriber: &mut Subscriber) -> Result<(), Ended> {
    let mut add = |message: &Message| {
        if message.attribute(ORIGIN).is_none() {
            batch.push(message);
        }
        batch.bytes() < BATCH_BYTES
    };
    let mut has_room = add(subscriber.next().await?);
    while has_room && let Ok(Some(message)) = subscriber.try_next() {
        has_room = add(message);
    }
    Ok(())
}

/// Publishes the messages of a batch here. Waits while the topic is full, and so does the forwarder then. `line` allows a line of
/// the log.
async fn publish(sharing: &Sharing, batch: Bytes, line: impl FnOnce() -> Option<Line>) {
    let topic = sharing.topic.name();
    let Some((origin, missed, messages)) = wire::decode(batch) else {
        if let Some(Line { dropped }) = line() {
            tracing::error!(topic, dropped, "a batch of a topic was dropped: its bytes are not valid");
        }
        return;
    };
    if missed > 0 {
        sharing.counters.missed.fetch_add(missed, Ordering::Relaxed);
        if let Some(Line { dropped }) = line() {
            tracing::warn!(topic, node = %origin, missed, dropped, "this node was too slow for messages of a topic of another one");
        }
    }
    for message in messages {
        sharing.counters.received.fetch_add(1, Ordering::Relaxed);
        let message: Message = message.with_attribute(ORIGIN, &*origin);
        match sharing.topic.publish(message).await {
            Ok(()) => {}
            Err(PublishError::Closed { .. }) => return,
            Err(error) => {
                sharing.counters.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(topic, %error, "a message of another node was refused");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rusm_runtime::topic::{PAYLOAD_MAX_BYTES, TopicConfig};
    use rusm_runtime::{Config, Runtime};

    use super::*;
    use crate::wire::limits::MESSAGE_BYTES_MAX;

    #[test]
    fn a_batch_of_the_largest_messages_is_not_too_long_for_the_network() {
        const COUNT: usize = MESSAGE_BYTES_MAX / PAYLOAD_MAX_BYTES + 2;
        let runtime = Runtime::start(Config::default()).unwrap();
        let config = TopicConfig { bytes: 2 * MESSAGE_BYTES_MAX, ..TopicConfig::default() };
        let topic = runtime.topics().create_with("pictures", config).unwrap();
        let mut subscriber = topic.subscribe(Overflow::DropOldest { capacity: 1000 });
        let picture = Bytes::from(vec![7; PAYLOAD_MAX_BYTES]);
        for _ in 0..COUNT {
            topic.blocking_publish(Message::new(picture.clone())).unwrap();
        }

        let sizes: Vec<(u64, usize)> = runtime.block_on(|_| async move {
            let mut sizes = Vec::new();
            while sizes.iter().map(|(count, _)| *count).sum::<u64>() < COUNT as u64 {
                let mut batch = Batch::new("north");
                fill(&mut batch, &mut subscriber).await.unwrap();
                sizes.push((batch.len(), batch.bytes()));
            }
            sizes
        });

        assert!(sizes.iter().all(|(count, bytes)| *count == 1 && *bytes < MESSAGE_BYTES_MAX), "{sizes:?}");
    }
}
