//! Topics for guests: implements `rusm:runtime/topics`, and the same functions for core modules.
//!
//! ```text
//!   guest ── topic ──▶ capability? topic granted? ──▶ Topic, awaited: other processes run meanwhile
//!     └── a number ──▶ its own consumers ──▶ its own leases; returned when the guest ends
//! ```
//!
//! Linked only if the engine gives guests access to topics. On other nodes, a guest that imports them does not load.

mod raw;

use std::collections::VecDeque;
use std::time::Duration;

use wasmtime::component::HasSelf;
use wasmtime::{Linker, component};

use super::bindings::publishing::Publishing;
use super::bindings::publishing::rusm::runtime::topics::{
    Host, Lease, Message as Wire, Overflow as WireOverflow, Settled, SubscriptionOptions,
};
use super::bindings::rusm::runtime::types::Error;
use super::engine::fiber::waiting;
use super::guest::capability::Capability;
use super::guest::guest_info::HostCall;
use super::guest::name::check_name;
use super::guest::state::GuestState;
use rusm_runtime::topic::{
    AckId, AckStatus, Consumer, DeadLetter, Ended, Message, Overflow, PublishError, SubscriptionConfig, Topic,
};

/// Number of subscriptions of a topic at which guests cannot create further ones. Subscriptions outlive their guests.
const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Maximum number of consumers and listeners per guest.
const TOPIC_HANDLES_MAX: usize = 64;

/// Maximum number of leases per batch.
const BATCH_MAX: u32 = 1_000;

/// Adds the topic functions to the linkers of components and core modules.
pub(super) fn link(
    components: &mut component::Linker<GuestState>,
    modules: &mut Linker<GuestState>,
) -> wasmtime::Result<()> {
    Publishing::add_to_linker::<_, HasSelf<_>>(components, |state| state)?;
    raw::link(modules)
}

impl Host for GuestState {
    async fn publish(&mut self, topic: String, message: Wire) -> Result<(), Error> {
        self.publish_to(&topic, of_wire(message)).await
    }

    async fn try_publish(&mut self, topic: String, message: Wire) -> Result<(), Error> {
        self.try_publish_to(&topic, of_wire(message))
    }

    async fn publish_all(&mut self, topic: String, messages: Vec<Wire>) -> Result<(), Error> {
        let topic = self.granted_topic(HostCall::TopicPublish, &topic)?;
        let messages = messages.into_iter().map(of_wire);
        let mut checked = VecDeque::new();
        let mut refused_one = Ok(());
        for message in messages {
            refused_one = self.check_message(&topic, &message);
            if refused_one.is_err() {
                break;
            }
            checked.push_back(message);
        }
        let _share = self.share_if_long(checked.iter().map(Message::bytes).sum())?;
        waiting(topic.publish_all(&mut checked)).await.map_err(|error| refused(&error))?;
        refused_one
    }

    async fn subscribe(&mut self, topic: String, subscription: String) -> Result<u64, Error> {
        self.subscribe_to(&topic, &subscription, SubscriptionConfig::default())
    }

    async fn subscribe_with(
        &mut self,
        topic: String,
        subscription: String,
        options: SubscriptionOptions,
    ) -> Result<u64, Error> {
        let SubscriptionOptions { ordered, oldest, ack_deadline_ms, dead_letter } = options;
        let dead_letter = dead_letter.map(|dead| DeadLetter { topic: dead.topic, attempts_max: dead.attempts_max });
        let config = self.subscription_config(ordered, oldest, ack_deadline_ms, dead_letter)?;
        self.subscribe_to(&topic, &subscription, config)
    }

    async fn listen(&mut self, topic: String, overflow: WireOverflow) -> Result<u64, Error> {
        self.listen_to(
            &topic,
            match overflow {
                WireOverflow::Block => Overflow::Block,
                WireOverflow::DropOldest(most) => Overflow::DropOldest { capacity: most as usize },
                WireOverflow::DropNewest(most) => Overflow::DropNewest { capacity: most as usize },
                WireOverflow::Disconnect(most) => Overflow::Disconnect { capacity: most as usize },
            },
        )
    }

    async fn hear(&mut self, listener: u64, timeout_ms: Option<u64>) -> Result<Option<Wire>, Error> {
        let heard = self.next_message_of(listener, timeout_ms).await?;
        self.hold_result(heard.as_ref().map_or(0, Message::bytes))?;
        Ok(heard.map(to_wire))
    }

    async fn next(&mut self, subscription: u64, timeout_ms: Option<u64>) -> Result<Option<Lease>, Error> {
        let next = self.next_of(subscription, timeout_ms).await?;
        // Without room, the lease ends at its deadline, and the message comes again.
        self.hold_result(next.as_ref().map_or(0, |lease| lease.message.bytes()))?;
        Ok(next.map(to_wire_lease))
    }

    async fn next_batch(&mut self, subscription: u64, most: u32, timeout_ms: Option<u64>) -> Result<Vec<Lease>, Error> {
        if !(1..=BATCH_MAX).contains(&most) {
            return Err(Error::Limit(format!("a batch of {most} is not between 1 and {BATCH_MAX}")));
        }
        // A batch must fit into the guest's memory; a single message is always returned.
        let bytes_max = self.info.bounds.memory_max_bytes / 4;
        let mut next = self.next_of(subscription, timeout_ms).await?;
        let (mut bytes, mut leases) = (0, Vec::new());
        while let Some(lease) = next {
            bytes += lease.message.bytes() as u64;
            if bytes > bytes_max && !leases.is_empty() {
                bytes -= lease.message.bytes() as u64;
                self.topic_handles.get_or_insert_default().held.insert(subscription, lease);
                break;
            }
            leases.push(lease);
            // If the subscription has ended meanwhile, the next call reports it.
            let is_full = leases.len() >= most as usize;
            next = if is_full { None } else { self.consumer(subscription)?.try_next().unwrap_or(None) };
        }
        self.hold_result(bytes as usize)?;
        Ok(leases.into_iter().map(to_wire_lease).collect())
    }

    async fn ack(&mut self, subscription: u64, id: u64) -> Result<Settled, Error> {
        self.settle(HostCall::TopicAck, subscription, id, Consumer::ack).map(settled)
    }

    async fn ack_all(&mut self, subscription: u64, ids: Vec<u64>) -> Result<u32, Error> {
        self.record_call(HostCall::TopicAck);
        let consumer = self.consumer(subscription)?;
        let own = ids.into_iter().map(AckId::from_u64).filter(|id| consumer.may_settle(*id));
        let own: Vec<_> = own.collect();
        Ok(consumer.subscription().ack_all(own) as u32)
    }

    async fn extend(&mut self, subscription: u64, id: u64, by_ms: u64) -> Result<Settled, Error> {
        self.extend_by(subscription, id, by_ms).map(settled)
    }

    async fn nack(&mut self, subscription: u64, id: u64) -> Result<Settled, Error> {
        self.settle(HostCall::TopicNack, subscription, id, Consumer::nack).map(settled)
    }

    async fn unsubscribe(&mut self, subscription: u64) -> bool {
        self.unsubscribe_from(subscription)
    }
}

impl GuestState {
    async fn publish_to(&mut self, topic: &str, message: Message) -> Result<(), Error> {
        let topic = self.topic(HostCall::TopicPublish, topic, &message)?;
        let _share = self.share_if_long(message.bytes())?;
        waiting(topic.publish(message)).await.map_err(|error| refused(&error))
    }

    fn try_publish_to(&self, topic: &str, message: Message) -> Result<(), Error> {
        let topic = self.topic(HostCall::TopicPublish, topic, &message)?;
        topic.try_publish(message).map_err(|error| refused(&error))
    }

    fn topic(&self, call: HostCall, name: &str, message: &Message) -> Result<Topic, Error> {
        let topic = self.granted_topic(call, name)?;
        self.check_message(&topic, message)?;
        Ok(topic)
    }

    /// Checks the size of a message before publishing. Otherwise a refusal would pause its key, which guests cannot
    /// resume and other publishers may use.
    fn check_message(&self, topic: &Topic, message: &Message) -> Result<(), Error> {
        self.check_length(message.payload())?;
        topic.check(message).map_err(|error| refused(&PublishError::Message(error)))
    }

    fn subscription_config(
        &self,
        ordered: bool,
        oldest: bool,
        ack_deadline_ms: Option<u64>,
        dead_letter: Option<DeadLetter>,
    ) -> Result<SubscriptionConfig, Error> {
        if let Some(dead) = &dead_letter {
            self.granted_topic(HostCall::TopicSubscribe, &dead.topic)?;
        }
        let usual = SubscriptionConfig::default();
        let ack_deadline = ack_deadline_ms.map_or(usual.ack_deadline, Duration::from_millis);
        Ok(SubscriptionConfig { ack_deadline, ordered, dead_letter, oldest, ..usual })
    }

    fn check_topic_handles(&self) -> Result<(), Error> {
        let has = self
            .topic_handles
            .as_ref()
            .map_or(0, |topic_handles| topic_handles.consumers.len() + topic_handles.listeners.len());
        if has >= TOPIC_HANDLES_MAX {
            return Err(Error::Limit(format!(
                "a process may have at most {TOPIC_HANDLES_MAX} shares in subscriptions: give some up"
            )));
        }
        Ok(())
    }

    fn listen_to(&mut self, topic: &str, overflow: Overflow) -> Result<u64, Error> {
        let topic = self.granted_topic(HostCall::TopicListen, topic)?;
        self.check_topic_handles()?;
        let topic_handles = self.topic_handles.get_or_insert_default();
        topic_handles.last += 1;
        topic_handles.listeners.insert(topic_handles.last, topic.subscribe(overflow));
        Ok(topic_handles.last)
    }

    async fn next_message_of(&mut self, listener: u64, timeout_ms: Option<u64>) -> Result<Option<Message>, Error> {
        self.record_call(HostCall::TopicHear);
        let listeners = self.topic_handles.as_mut().map(|topic_handles| &mut topic_handles.listeners);
        let subscriber = listeners
            .and_then(|listeners| listeners.get_mut(&listener))
            .ok_or_else(|| Error::Invalid(format!("listener {listener} does not exist")))?;
        let heard = match timeout_ms {
            Some(0) => subscriber.try_next(),
            _ => within(timeout_ms, subscriber.next()).await.transpose(),
        };
        heard.map(Option::<&Message>::cloned).map_err(no_such)
    }

    fn subscribe_to(&mut self, topic: &str, subscription: &str, config: SubscriptionConfig) -> Result<u64, Error> {
        let topic = self.granted_topic(HostCall::TopicSubscribe, topic)?;
        check_name(subscription)?;
        self.check_topic_handles()?;
        let found = match topic.subscription(subscription) {
            Ok(found) => found,
            Err(_unknown) if topic.subscriptions_count() >= SUBSCRIPTIONS_MAX => {
                return Err(Error::Limit(format!(
                    "topic {:?} has {SUBSCRIPTIONS_MAX} subscriptions, the limit for guests",
                    topic.name()
                )));
            }
            Err(_unknown) => match topic.create_subscription(subscription, config) {
                Ok(created) => created,
                // Another process created it first, or the name is not valid.
                Err(error) => topic.subscription(subscription).map_err(|_unknown| Error::Invalid(error.to_string()))?,
            },
        };
        let topic_handles = self.topic_handles.get_or_insert_default();
        topic_handles.last += 1;
        topic_handles.consumers.insert(topic_handles.last, found.consumer());
        Ok(topic_handles.last)
    }

    async fn next_of(
        &mut self,
        subscription: u64,
        timeout_ms: Option<u64>,
    ) -> Result<Option<rusm_runtime::topic::Lease>, Error> {
        self.record_call(HostCall::TopicNext);
        if let Some(held) =
            self.topic_handles.as_mut().and_then(|topic_handles| topic_handles.held.remove(&subscription))
        {
            return Ok(Some(held));
        }
        let consumer = self.consumer(subscription)?;
        let next = match timeout_ms {
            Some(0) => consumer.try_next(),
            _ => within(timeout_ms, consumer.next()).await.transpose(),
        };
        next.map_err(no_such)
    }

    fn settle(
        &mut self,
        call: HostCall,
        subscription: u64,
        id: u64,
        settle: impl FnOnce(&Consumer, AckId) -> AckStatus,
    ) -> Result<AckStatus, Error> {
        self.record_call(call);
        let (consumer, id) = (self.consumer(subscription)?, AckId::from_u64(id));
        // The number may belong to the lease of another process.
        Ok(if consumer.may_settle(id) { settle(consumer, id) } else { AckStatus::Unknown })
    }

    fn extend_by(&mut self, subscription: u64, id: u64, by_ms: u64) -> Result<AckStatus, Error> {
        let by = Duration::from_millis(by_ms);
        self.settle(HostCall::TopicExtend, subscription, id, |consumer, id| consumer.subscription().extend(id, by))
    }

    fn unsubscribe_from(&mut self, subscription: u64) -> bool {
        self.record_call(HostCall::TopicUnsubscribe);
        self.topic_handles.as_mut().is_some_and(|topic_handles| {
            // Dropping the consumer returns the lease.
            topic_handles.held.remove(&subscription);
            topic_handles.consumers.remove(&subscription).is_some()
                || topic_handles.listeners.remove(&subscription).is_some()
        })
    }

    fn consumer(&mut self, subscription: u64) -> Result<&mut Consumer, Error> {
        let consumers = self.topic_handles.as_mut().map(|topic_handles| &mut topic_handles.consumers);
        consumers
            .and_then(|consumers| consumers.get_mut(&subscription))
            .ok_or_else(|| Error::Invalid(format!("subscription share {subscription} does not exist")))
    }

    /// Returns the topic with this name, if this guest may use it.
    fn granted_topic(&self, call: HostCall, name: &str) -> Result<Topic, Error> {
        self.record_call(call);
        self.require(Capability::Topics)?;
        check_name(name)?;
        if !self.info.grant.allows_topic(name) {
            drop(self.refuse(Capability::Topics));
            let name: String = name.chars().take(128).collect();
            return Err(Error::Denied(format!("topic {name:?}")));
        }
        self.ctx.topics().find(name).map_err(|unknown| Error::NoSuch(unknown.to_string()))
    }
}

/// Waits for at most `timeout_ms` milliseconds, or without a limit; `None` after a timeout.
async fn within<T>(timeout_ms: Option<u64>, wait: impl Future<Output = T>) -> Option<T> {
    match timeout_ms {
        None => Some(waiting(wait).await),
        Some(ms) => waiting(tokio::time::timeout(Duration::from_millis(ms), wait)).await.ok(),
    }
}

fn no_such(ended: Ended) -> Error {
    Error::NoSuch(ended.to_string())
}

fn of_wire(message: Wire) -> Message {
    let Wire { payload, key, attributes } = message;
    let mut message = Message::new(payload);
    if let Some(key) = key {
        message = message.with_key(key);
    }
    attributes.into_iter().fold(message, |message, (name, value)| message.with_attribute(name, value))
}

fn to_wire(message: Message) -> Wire {
    Wire {
        key: message.key().map(str::to_owned),
        attributes: message.attributes().to_vec(),
        payload: message.into_payload().into(),
    }
}

fn to_wire_lease(lease: rusm_runtime::topic::Lease) -> Lease {
    let rusm_runtime::topic::Lease { id, attempt, position, message, .. } = lease;
    Lease { id: id.to_u64(), attempt, position, message: to_wire(message) }
}

fn refused(error: &PublishError) -> Error {
    let line = error.to_string();
    match error {
        PublishError::Closed { .. } => Error::NoSuch(line),
        PublishError::Message(_) | PublishError::Waits { .. } => Error::Invalid(line),
        _ => Error::Limit(line),
    }
}

const fn settled(status: AckStatus) -> Settled {
    match status {
        AckStatus::Done => Settled::Done,
        AckStatus::AlreadyAcked => Settled::AlreadyAcked,
        AckStatus::AlreadyNacked => Settled::AlreadyNacked,
        AckStatus::Expired => Settled::Expired,
        AckStatus::Revoked => Settled::Revoked,
        AckStatus::Unknown => Settled::Unknown,
    }
}
