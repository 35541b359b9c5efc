//! Topics: publish messages to many subscribers, with at-most-once or at-least-once delivery.
//!
//! ```text
//!                      ┌──────────── bounds: messages, bytes ───────────┐
//!   publish ─────────▶ │ one log, shared by all readers                 │ ──▶ Subscriber     at most once, own pace
//!      ▲               └────────────────────────────────────────────────┘ ──▶ Subscription ──▶ Consumer, Consumer
//!      └── full: waits, or gets the message back                                    ▲  at least once: lease ─▶ ack
//!                                                                                   └─ nack, deadline, its end ─┘
//! ```
//!
//! ```
//! # use rusm_runtime as rusm;
//! use rusm::topic::{Message, Overflow, SubscriptionConfig};
//! use rusm::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let orders = runtime.topics().create("orders")?;
//! let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
//! let mut screen = orders.subscribe(Overflow::DropOldest { capacity: 100 });
//!
//! let (mut consumer, account) = (billing.consumer(), billing.clone());
//! let worker = runtime.spawn(|_| async move {
//!     for _ in 0..3 {
//!         let lease = consumer.next().await?;
//!         // … work that may fail, time out or crash: the message comes again …
//!         assert_eq!(consumer.ack(lease.id), rusm::topic::AckStatus::Done);
//!     }
//!     Ok::<_, rusm::topic::Ended>(())
//! })?;
//! let worker = runtime.watch(worker);
//! for order in ["tea", "milk", "bread"] {
//!     orders.blocking_publish(Message::new(order))?;
//! }
//! assert_eq!(worker.wait(), rusm::ExitReason::Normal);
//! assert_eq!(screen.blocking_next()?.payload(), "tea");
//! assert_eq!((account.account().published, account.account().acked), (3, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A subscriber that keeps up costs a publisher nothing. A subscriber that has nothing to read is woken by the next
//! message, at the end of the publishing process's turn. Unread messages are kept within the bounds of the topic. When
//! it is full, publishers wait, or messages are dropped for the subscribers that allow it; these receive the number of
//! lost messages.
//!
//! Invariants: published = acknowledged + outstanding + backlog + dead letters + reported drops, at any moment and for
//! each subscription. A lease belongs to one consumer until it is acknowledged or given back, its deadline passes, or
//! its consumer has ended.

pub(crate) mod broadcast;
pub(crate) mod consumer;
mod cursor;
mod handle;
pub(crate) mod journal;
mod log;
mod message;
mod publish;
mod publisher;
pub(crate) mod registry;
mod retention;
mod segment;
mod shared;
mod subscription;
pub(crate) mod view;

pub use crate::links::name::NAME_MAX_BYTES;
pub use broadcast::overflow::{BroadcastAccount, Ended, Overflow};
pub use broadcast::{Batch, Subscriber};
pub use consumer::Consumer;
pub use handle::Topic;
pub use message::{
    ATTRIBUTE_NAME_MAX_BYTES, ATTRIBUTE_VALUE_MAX_BYTES, ATTRIBUTES_MAX, Message, MessageError, ORDERING_KEY_MAX_BYTES,
    PAYLOAD_MAX_BYTES,
};
pub use publish::PublishError;
pub use publisher::Publisher;
pub use publisher::config::{PublisherAccount, PublisherConfig, PublisherConfigError};
pub use registry::config::{CreateError, TopicConfig, UnknownTopic};
pub use registry::{TopicsHandle, topics};
pub use retention::Retention;
pub use subscription::Subscription;
pub use subscription::config::{
    ACK_DEADLINE_MAX, DeadLetter, FlushError, Lease, SubscribeError, SubscriptionAccount, SubscriptionConfig,
    UnknownSubscription,
};
pub use subscription::in_flight::{AckId, AckStatus};
pub use subscription::retry::Retry;
pub use view::{SubscriptionView, TopicView};
