//! Topics for guests: what `rusm:runtime/topics` does, and the same for core modules.
//!
//! ```text
//!   guest ── topic ──▶ capability? topic granted? ──▶ Topic, awaited: other processes run meanwhile
//!     └── a number ──▶ its own consumers ──▶ leases of its own; its end gives them back
//! ```
//!
//! Linked only where the engine gives topics to guests: on another node a guest that imports them does not load.

mod raw;

use std::collections::BTreeMap;
use std::time::Duration;

use wasmtime::component::HasSelf;
use wasmtime::{Linker, component};

use super::bindings::publishing::Publishing;
use super::bindings::publishing::rusm::runtime::topics::{Host, Lease, Message as Wire, Settled};
use super::bindings::rusm::runtime::types::Error;
use super::capability::Capability;
use super::fiber::waiting;
use super::state::State;
use super::vitals::HostCall;
use crate::topic::{AckId, AckStatus, Consumer, Message, PublishError, SubscriptionConfig, Topic};

/// Subscriptions that guests may bring a topic to. They stay when their guests have ended.
const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Shares in subscriptions that a guest may have at once.
const SHARES_MAX: usize = 64;

/// The shares that a guest has.
#[derive(Default)]
pub(super) struct Shares {
    consumers: BTreeMap<u64, Consumer>,
    last: u64,
    /// The key of what a core module was given last.
    key: String,
}

/// Lets components and core modules import topics.
pub(super) fn link(components: &mut component::Linker<State>, modules: &mut Linker<State>) -> wasmtime::Result<()> {
    Publishing::add_to_linker::<_, HasSelf<_>>(components, |state| state)?;
    raw::link(modules)
}

impl Host for State {
    async fn publish(&mut self, topic: String, message: Wire) -> Result<(), Error> {
        self.publish_to(&topic, of_wire(message)).await
    }

    async fn try_publish(&mut self, topic: String, message: Wire) -> Result<(), Error> {
        self.try_publish_to(&topic, of_wire(message))
    }

    async fn subscribe(&mut self, topic: String, subscription: String) -> Result<u64, Error> {
        self.subscribe_to(&topic, &subscription)
    }

    async fn next(&mut self, subscription: u64, timeout_ms: Option<u64>) -> Result<Option<Lease>, Error> {
        let lease = self.next_of(subscription, timeout_ms).await?;
        Ok(lease.map(|lease| Lease {
            id: lease.id.to_u64(),
            attempt: lease.attempt,
            position: lease.position,
            message: Wire {
                key: lease.message.key().map(str::to_owned),
                attributes: lease.message.attributes().to_vec(),
                payload: lease.message.into_payload().into(),
            },
        }))
    }

    async fn ack(&mut self, subscription: u64, id: u64) -> Result<Settled, Error> {
        self.settle(HostCall::TopicAck, subscription, id, Consumer::ack).map(settled)
    }

    async fn nack(&mut self, subscription: u64, id: u64) -> Result<Settled, Error> {
        self.settle(HostCall::TopicNack, subscription, id, Consumer::nack).map(settled)
    }

    async fn unsubscribe(&mut self, subscription: u64) -> bool {
        self.unsubscribe_from(subscription)
    }
}

impl State {
    async fn publish_to(&mut self, topic: &str, message: Message) -> Result<(), Error> {
        let topic = self.topic(HostCall::TopicPublish, topic, &message)?;
        waiting(topic.publish(message)).await.map_err(|error| refused(&error))
    }

    fn try_publish_to(&self, topic: &str, message: Message) -> Result<(), Error> {
        let topic = self.topic(HostCall::TopicPublish, topic, &message)?;
        topic.try_publish(message).map_err(|error| refused(&error))
    }

    fn topic(&self, call: HostCall, name: &str, message: &Message) -> Result<Topic, Error> {
        let topic = self.granted_topic(call, name)?;
        self.fits(message.payload())?;
        // Refused here it does not pause its key, which guests could not resume and which others use, too.
        topic.check(message).map_err(|error| refused(&PublishError::Message(error)))?;
        Ok(topic)
    }

    fn subscribe_to(&mut self, topic: &str, subscription: &str) -> Result<u64, Error> {
        let topic = self.granted_topic(HostCall::TopicSubscribe, topic)?;
        if self.shares.as_ref().is_some_and(|shares| shares.consumers.len() >= SHARES_MAX) {
            return Err(Error::Limit(format!("a process may have {SHARES_MAX} shares in subscriptions: give some up")));
        }
        let found = match topic.subscription(subscription) {
            Ok(found) => found,
            Err(_unknown) if topic.subscriptions_count() >= SUBSCRIPTIONS_MAX => {
                return Err(Error::Limit(format!("topic {:?} has {SUBSCRIPTIONS_MAX} subscriptions", topic.name())));
            }
            Err(_unknown) => match topic.create_subscription(subscription, SubscriptionConfig::default()) {
                Ok(created) => created,
                // Somebody else was faster, or the name is none.
                Err(error) => topic.subscription(subscription).map_err(|_unknown| Error::Invalid(error.to_string()))?,
            },
        };
        let shares = self.shares.get_or_insert_default();
        shares.last += 1;
        shares.consumers.insert(shares.last, found.consumer());
        Ok(shares.last)
    }

    async fn next_of(
        &mut self,
        subscription: u64,
        timeout_ms: Option<u64>,
    ) -> Result<Option<crate::topic::Lease>, Error> {
        self.asks(HostCall::TopicNext);
        let consumer = self.share(subscription)?;
        let next = match timeout_ms {
            Some(0) => consumer.try_next().transpose(),
            None => Some(waiting(consumer.next()).await),
            Some(ms) => waiting(tokio::time::timeout(Duration::from_millis(ms), consumer.next())).await.ok(),
        };
        next.transpose().map_err(|ended| Error::NoSuch(ended.to_string()))
    }

    fn settle(
        &mut self,
        call: HostCall,
        subscription: u64,
        id: u64,
        settle: impl FnOnce(&Consumer, AckId) -> AckStatus,
    ) -> Result<AckStatus, Error> {
        self.asks(call);
        let (consumer, id) = (self.share(subscription)?, AckId::from_u64(id));
        // A number may be that of another process's lease.
        Ok(if consumer.may_settle(id) { settle(consumer, id) } else { AckStatus::Unknown })
    }

    fn unsubscribe_from(&mut self, subscription: u64) -> bool {
        self.asks(HostCall::TopicUnsubscribe);
        self.shares.as_mut().is_some_and(|shares| shares.consumers.remove(&subscription).is_some())
    }

    fn share(&mut self, subscription: u64) -> Result<&mut Consumer, Error> {
        let consumers = self.shares.as_mut().map(|shares| &mut shares.consumers);
        consumers
            .and_then(|consumers| consumers.get_mut(&subscription))
            .ok_or_else(|| Error::Invalid(format!("there is no share {subscription} in a subscription")))
    }

    /// The topic of a name, if this guest may use it.
    fn granted_topic(&self, call: HostCall, name: &str) -> Result<Topic, Error> {
        self.asks(call);
        self.may(Capability::Topics)?;
        if !self.vitals.grant.allows_topic(name) {
            drop(self.refuse(Capability::Topics));
            let name: String = name.chars().take(128).collect();
            return Err(Error::Denied(format!("topic {name:?}")));
        }
        self.ctx.topics().find(name).map_err(|unknown| Error::NoSuch(unknown.to_string()))
    }
}

fn of_wire(message: Wire) -> Message {
    let Wire { payload, key, attributes } = message;
    let mut message = Message::new(payload);
    if let Some(key) = key {
        message = message.with_key(key);
    }
    attributes.into_iter().fold(message, |message, (name, value)| message.with_attribute(name, value))
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
