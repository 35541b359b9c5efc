//! The handle of a topic: subscribes to it, closes it and shows its state.

use std::fmt;
use std::sync::{Arc, Weak};

use super::broadcast::Subscriber;
use super::broadcast::overflow::Overflow;
use super::registry::config::UnknownTopic;
use super::registry::topics::TopicEntry;
use super::shared::TopicShared;
use super::subscription::config::{ACK_DEADLINE_MAX, SubscribeError, SubscriptionConfig, UnknownSubscription};
use super::subscription::{Subscription, SubscriptionInner};
use super::view::TopicView;
use crate::links::name::check_name;
use crate::runtime::shared::RuntimeShared;

/// A topic; cheap to clone.
///
/// It exists until it is [closed](Self::close) or its runtime ends, even if no handle is left.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, Overflow};
///
/// let news = runtime.topics().find_or_create("news")?;
/// let mut reader = news.subscribe(Overflow::Block);
/// news.blocking_publish(Message::new("hello"))?;
/// assert_eq!(reader.blocking_next()?.payload(), "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Topic {
    pub(super) shared: Arc<TopicShared>,
    runtime: Weak<RuntimeShared>,
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl Topic {
    pub(super) const fn new(shared: Arc<TopicShared>, runtime: Weak<RuntimeShared>) -> Self {
        Self { shared, runtime }
    }

    /// Returns the name of the topic.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns true if a store keeps the messages.
    pub fn is_durable(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// Returns the total number of published messages.
    pub fn published(&self) -> u64 {
        self.shared.log.head()
    }

    /// Adds a subscriber with at-most-once delivery. It starts with the next published message.
    pub fn subscribe(&self, overflow: Overflow) -> Subscriber {
        Subscriber::join(&self.shared, overflow, false)
    }

    /// Adds a subscriber that starts with the oldest message that the topic still has.
    ///
    /// With [`Overflow::DropNewest`] it starts with the next published message regardless.
    pub fn subscribe_oldest(&self, overflow: Overflow) -> Subscriber {
        Subscriber::join(&self.shared, overflow, true)
    }

    /// Creates a subscription. It keeps all messages published from now on until they are acknowledged.
    ///
    /// # Errors
    /// [`SubscribeError`] if the name is not valid or is taken, or if a value is out of its range.
    pub fn create_subscription(&self, name: &str, config: SubscriptionConfig) -> Result<Subscription, SubscribeError> {
        check_name("subscription", name)?;
        check(&config)?;
        let dead_letters = config.dead_letter.as_ref().map(|dead| self.dead_letters(&dead.topic)).transpose()?;
        let mut subscriptions = self.shared.subscriptions.lock();
        if subscriptions.contains_key(name) {
            return Err(SubscribeError::Taken { topic: self.name().to_owned(), name: name.to_owned() });
        }
        let name: Arc<str> = name.into();
        let inner = SubscriptionInner::new(&self.shared, Arc::clone(&name), config, dead_letters);
        // A closed topic must not keep subscriptions: they keep the topic alive in turn.
        if !self.shared.log.is_closed() {
            subscriptions.insert(name, Arc::clone(&inner));
        }
        Ok(Subscription(inner))
    }

    /// Returns a subscription by its name, or creates it. A subscription that exists keeps its configuration.
    ///
    /// # Errors
    /// [`SubscribeError`] if the name is not valid, or if a value is out of its range.
    #[expect(clippy::needless_pass_by_value, reason = "the same arguments as `create_subscription`")]
    pub fn find_or_create_subscription(
        &self,
        name: &str,
        config: SubscriptionConfig,
    ) -> Result<Subscription, SubscribeError> {
        loop {
            if let Ok(subscription) = self.subscription(name) {
                return Ok(subscription);
            }
            match self.create_subscription(name, config.clone()) {
                // Another thread has created it meanwhile.
                Err(SubscribeError::Taken { .. }) => {}
                created => return created,
            }
        }
    }

    /// Returns a subscription by its name.
    ///
    /// # Errors
    /// [`UnknownSubscription`] if it does not exist.
    pub fn subscription(&self, name: &str) -> Result<Subscription, UnknownSubscription> {
        let found = self.shared.subscriptions.lock().get(name).map(|inner| Subscription(Arc::clone(inner)));
        found.ok_or_else(|| UnknownSubscription { topic: self.name().to_owned(), name: name.to_owned() })
    }

    /// Returns the number of subscriptions.
    pub fn subscriptions_count(&self) -> usize {
        self.shared.subscriptions.lock().len()
    }

    fn dead_letters(&self, name: &str) -> Result<Weak<TopicShared>, SubscribeError> {
        let runtime = self.runtime.upgrade().ok_or_else(|| UnknownTopic { name: name.to_owned() })?;
        let topic: Arc<TopicShared> =
            runtime.topics.find(name).ok_or_else(|| UnknownTopic { name: name.to_owned() })?;
        if Arc::ptr_eq(&topic, &self.shared) {
            return Err(SubscribeError::OwnDeadLetters { topic: name.to_owned() });
        }
        let (max, needed) = (topic.payload_max, self.shared.payload_max);
        if max < needed {
            return Err(SubscribeError::SmallDeadLetters { topic: name.to_owned(), max, needed });
        }
        Ok(Arc::downgrade(&topic))
    }

    /// Accepts messages of an ordering key again, after one of them was rejected for good.
    ///
    /// Returns false if the key was not paused.
    pub fn resume(&self, key: &str) -> bool {
        self.shared.log.lock().paused.remove(key)
    }

    /// Closes the topic: it accepts no more messages. Subscribers still receive those already published, and then
    /// [`Ended`](super::Ended).
    ///
    /// The name of the topic is free from now on. Its subscriptions exist as long as there are handles to them.
    pub fn close(&self) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.topics.remove(&self.shared);
        }
        if let Some(journal) = &self.shared.journal {
            journal.close();
        }
        for waiter in self.shared.log.close() {
            waiter.wake();
        }
        self.shared.release_subscriptions();
    }

    /// Returns the state of the topic for observers, including its slowest subscribers.
    pub fn view(&self, subscribers_most: usize) -> TopicView {
        self.shared.view(subscribers_most)
    }
}

fn check(config: &SubscriptionConfig) -> Result<(), SubscribeError> {
    let within = |what, value: u128, min: u128, max: u128| {
        if (min..=max).contains(&value) { Ok(()) } else { Err(SubscribeError::Range { what, value, min, max }) }
    };
    within("ack deadline in ms", config.ack_deadline.as_millis(), 1, ACK_DEADLINE_MAX.as_millis())?;
    within("longest retry in ms", config.retry.longest.as_millis(), 0, ACK_DEADLINE_MAX.as_millis())?;
    within("outstanding messages", config.outstanding_max as u128, 1, 1 << 24)?;
    within("outstanding bytes", config.outstanding_max_bytes as u128, 1, 1 << 40)?;
    within("queued messages", config.queued_max as u128, 1, 1 << 24)?;
    match &config.dead_letter {
        Some(dead) => within("attempts", dead.attempts_max.into(), 1, 1 << 20),
        None => Ok(()),
    }
}
