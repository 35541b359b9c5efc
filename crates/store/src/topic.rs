//! Durable topics: a store keeps the messages until every subscription has finished them, also after the node has
//! ended.
//!
//! ```text
//!   publish ──▶ queue ──▶ writer: one commit for all waiting ──▶ store
//!     ▲                    │                                      │ opened again
//!     └─ stored: returns ◀─┴──▶ the log ─▶ subscriptions ◀────────┘ with unfinished messages and their attempts
//! ```
//!
//! Invariants: once `publish` has returned, every saved subscription receives the message until it is acknowledged,
//! whatever happens to the node. Stored messages never exceed the topic's bounds. A subscription's account continues
//! after a restart.

mod durable_state;
mod journal_queue;
mod journal_writer;
mod progress;
mod record;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use self::durable_state::DurableState;
use self::journal_queue::{JournalHandle, JournalQueue};
use self::journal_writer::JournalWriter;
use self::progress::Progress;
use self::record::{RECORD_BYTES_MAX, TopicHeader};
use crate::error::StoreError;
use crate::store::{Bucket, Store};
use rusm_runtime::SpawnError;
use rusm_runtime::embed::spawn_service;
use rusm_runtime::embed::topic::{SavedProgress, WeakTopic, check};
use rusm_runtime::topic::{CreateError, Message, Retention, Topic, TopicConfig, TopicsHandle};

/// Number of rows per page while a topic is read.
const PAGE_ROWS: usize = 1000;

/// Error returned if a durable topic could not be opened.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// use rusm::store::{DurableError, Store, StoreConfig};
/// use rusm::topic::{Retention, TopicConfig};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let config = TopicConfig { retention: Retention::KeepNewest, ..TopicConfig::default() };
/// let opened = store.open_topic(&runtime.topics(), "orders", config);
/// assert!(matches!(opened, Err(DurableError::KeepNewest { name }) if name == "orders"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The name is taken in this runtime, or the name or a bound is out of range.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The store failed to read, or was called from a process (use another thread).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The topic is open elsewhere, or was just closed and is still writing.
    #[error("topic {name:?} of this store is already open")]
    InUse {
        /// Name of the topic.
        name: String,
    },
    /// The policy [`Retention::KeepNewest`] does not work on disk. Use [`Retention::Forget`] or [`Retention::KeepAll`].
    #[error("topic {name:?} is durable and cannot use the policy KeepNewest: use Forget or KeepAll")]
    KeepNewest {
        /// Name of the topic.
        name: String,
    },
    /// The topic holds more than the given bounds. Open it with larger ones.
    #[error("topic {name:?} has {held} {what} on disk, more than its bound of {bound}")]
    Bound {
        /// Name of the topic.
        name: String,
        /// `messages` or `bytes`.
        what: &'static str,
        /// Number on disk.
        held: usize,
        /// The bound.
        bound: usize,
    },
    /// The data on disk is damaged, or was not written by this version.
    #[error("topic {name:?} is damaged on disk: {what}")]
    Damaged {
        /// Name of the topic.
        name: String,
        /// Description of the damage.
        what: String,
    },
    /// The writer process could not be spawned.
    #[error("cannot start the writer process of a topic: {0}")]
    Spawn(#[from] SpawnError),
}

impl Store {
    /// Opens a topic that a store keeps, or creates it. Blocks while it reads, so it must not be called from a
    /// process.
    ///
    /// The bounds apply to the stored messages: all from the oldest one on that a subscription has not finished.
    /// Create the subscriptions again, with their previous names, and each continues where it was; until then all of
    /// its messages are retained. The durability of the store determines what the return of a publish call guarantees.
    ///
    /// ```
    /// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
    /// use rusm::store::{Store, StoreConfig};
    /// use rusm::topic::{AckStatus, Message, SubscriptionConfig, TopicConfig};
    /// use rusm::{Config, Runtime};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
    /// let runtime = Runtime::start(Config::default())?;
    /// let orders = store.open_topic(&runtime.topics(), "orders", TopicConfig::default())?;
    /// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
    /// // From here on it is there, also if the node is killed …
    /// billing.blocking_flush_acks()?;
    /// // … as is every order once this returns.
    /// orders.blocking_publish(Message::new("tea"))?;
    /// let mut consumer = billing.consumer();
    /// let lease = consumer.blocking_next()?;
    /// assert_eq!(consumer.ack(lease.id), AckStatus::Done);
    /// // And this one will not come again.
    /// billing.blocking_flush_acks()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DurableError`] names the topic and what is wrong with it.
    pub fn open_topic(&self, topics: &TopicsHandle, name: &str, config: TopicConfig) -> Result<Topic, DurableError> {
        check(name, &config)?;
        if config.retention == Retention::KeepNewest {
            return Err(DurableError::KeepNewest { name: name.to_owned() });
        }
        let bucket = self.bucket_of_any_length(&bucket_name(name))?;
        let claim = self.claim(bucket.name()).ok_or_else(|| DurableError::InUse { name: name.to_owned() })?;
        // Another runtime that had the topic open has passed its last writes to the queue of the store.
        drop(self.transaction(|_| Ok::<(), StoreError>(())).wait());
        let (head, durable_state, messages) = Found { name, bucket: &bucket }.read(&config)?;
        let queue = Arc::new(JournalQueue::default());
        let payload_max = self.config().value_bytes_max.saturating_sub(RECORD_BYTES_MAX);
        let journal = Arc::new(JournalHandle(Arc::clone(&queue)));
        let (topic, stored) = topics.add_durable(name, &config, durable_state.floor, payload_max, journal)?;
        // Other callers can find the topic from now on, before this function returns it: fill it first.
        fill(&stored, &durable_state, &queue, messages);
        let writer = JournalWriter {
            topic: stored,
            queue,
            store: self.clone(),
            bucket,
            durable_state,
            stored: VecDeque::new(),
            ticket: 0,
            heads: vec![head],
            is_disk_full: false,
            claim: Some(claim),
        };
        let label = format!("topic {name}");
        // The processes of an application may acknowledge messages until their end.
        let spawned = spawn_service(&topics.runtime(), move |ctx| async move {
            ctx.set_label(label);
            writer.run().await;
        });
        spawned.inspect_err(|_| topic.close())?;
        Ok(topic)
    }

    /// Finds a topic of this store that is open in this runtime, or opens it. A topic that is open keeps its
    /// configuration. Blocks as [`open_topic`](Self::open_topic) does.
    ///
    /// ```
    /// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
    /// use rusm::store::{Store, StoreConfig};
    /// use rusm::topic::{Message, Overflow, TopicConfig};
    /// use rusm::{Config, Runtime};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
    /// let runtime = Runtime::start(Config::default())?;
    /// // Two parts of a program, of which none has to know whether the other has opened the topic.
    /// let billing = store.find_or_open_topic(&runtime.topics(), "orders", TopicConfig::default())?;
    /// let shop = store.find_or_open_topic(&runtime.topics(), "orders", TopicConfig::default())?;
    /// let mut orders = billing.subscribe(Overflow::Block);
    /// shop.blocking_publish(Message::new("tea"))?;
    /// assert_eq!(orders.blocking_next()?.payload(), "tea");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open_topic`](Self::open_topic): also if the name belongs to a topic that this store does not keep.
    pub fn find_or_open_topic(
        &self,
        topics: &TopicsHandle,
        name: &str,
        config: TopicConfig,
    ) -> Result<Topic, DurableError> {
        let _opening = self.0.core.topic_opening.lock();
        match topics.find(name) {
            Ok(topic) if topic.is_durable() && self.is_claimed(&bucket_name(name)) => Ok(topic),
            _ => self.open_topic(topics, name, config),
        }
    }
}

fn bucket_name(topic: &str) -> String {
    format!("topic/{topic}")
}

/// Appends the messages found on disk to the log, and holds them for subscriptions that have not resumed yet.
fn fill(topic: &WeakTopic, durable_state: &DurableState, queue: &JournalQueue, mut messages: VecDeque<Message>) {
    let Some(log) = topic.log() else { return };
    let saved_progress = |progress: &Progress| SavedProgress { hold: Some(log.hold()), ..progress.saved_progress() };
    let found =
        durable_state.progress.iter().map(|(name, progress)| (Arc::clone(name), saved_progress(progress))).collect();
    if durable_state.head.had_subscriber {
        log.set_had_subscriber();
    }
    let is_filled = log.append(&mut messages, None, &mut 0);
    debug_assert!(is_filled, "the messages on disk are within the bounds");
    queue.state.lock().found = found;
}

/// A topic on disk.
struct Found<'a> {
    name: &'a str,
    bucket: &'a Bucket,
}

impl Found<'_> {
    fn read(
        &self,
        config: &TopicConfig,
    ) -> Result<(Option<TopicHeader>, DurableState, VecDeque<Message>), DurableError> {
        let decode =
            |value: Bytes| TopicHeader::decode(&value).ok_or_else(|| self.damaged("its head is not valid".to_owned()));
        let found = self.bucket.get(record::HEADER_KEY).wait()?.map(decode).transpose()?;
        let head = found.unwrap_or_default();
        let mut progress = BTreeMap::new();
        self.each(record::SUBSCRIPTIONS, Bytes::new(), |key, value| {
            let name = std::str::from_utf8(&key[record::SUBSCRIPTIONS.len()..]).ok();
            match (name, record::decode_progress(value)) {
                (Some(name), Some(mut found)) => {
                    found.raise(head.oldest);
                    progress.insert(Arc::from(name), found);
                    Ok(())
                }
                _ => Err(self.damaged(format!("the row {} is not a subscription", key.escape_ascii()))),
            }
        })?;
        self.check(head, &progress)?;
        let mut durable_state = DurableState::new(*config, head, progress);
        let mut messages = VecDeque::new();
        let after =
            durable_state.floor.checked_sub(1).map_or_else(Bytes::new, |before| record::message_key(before).into());
        self.each(record::MESSAGES, after, |key, value| {
            let expected = durable_state.floor + messages.len() as u64;
            match (record::position(key), record::decode_message(value)) {
                // Row of a publication that failed and was never reported as stored.
                (Some(position), _) if position >= head.next => Ok(()),
                (Some(position), Some(message)) if position == expected => {
                    durable_state.count(message.bytes());
                    messages.push_back(message);
                    Ok(())
                }
                _ => Err(self.damaged(format!("the row {} is not message {expected}", key.escape_ascii()))),
            }
        })?;
        let missing = durable_state.floor + messages.len() as u64;
        if missing != head.next {
            return Err(self.damaged(format!("message {missing} is missing, of {}", head.next)));
        }
        let (count, bytes) = durable_state.usage();
        for (what, held, bound) in [("messages", count, config.messages), ("bytes", bytes, config.bytes)] {
            if held > bound {
                return Err(DurableError::Bound { name: self.name.to_owned(), what, held, bound });
            }
        }
        Ok((found, durable_state, messages))
    }

    fn check(&self, head: TopicHeader, progress: &BTreeMap<Arc<str>, Progress>) -> Result<(), DurableError> {
        let within = |position: &u64| (head.oldest..=head.next).contains(position);
        let is_sane = |one: &Progress| {
            let last = one.done.last().copied().unwrap_or(one.floor).max(one.floor);
            within(&one.floor) && (last < head.next || last == one.floor)
        };
        match progress.iter().find(|(_, one)| !is_sane(one)) {
            Some((name, one)) => {
                Err(self.damaged(format!("subscription {name:?} is at position {} of {}", one.floor, head.next)))
            }
            None => Ok(()),
        }
    }

    fn each(
        &self,
        prefix: &[u8],
        mut after: Bytes,
        mut look: impl FnMut(&Bytes, &Bytes) -> Result<(), DurableError>,
    ) -> Result<(), DurableError> {
        loop {
            let page = self.bucket.scan(prefix, &after, PAGE_ROWS).wait()?;
            page.rows.iter().try_for_each(|row| look(&row.key, &row.value))?;
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    fn damaged(&self, what: String) -> DurableError {
        DurableError::Damaged { name: self.name.to_owned(), what }
    }
}
