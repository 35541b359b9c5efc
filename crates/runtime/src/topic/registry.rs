//! Registry of the topics of a runtime, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thiserror::Error;

use super::log::{Log, LogLimits, Retention};
use super::message::PAYLOAD_MAX_BYTES;
use super::view::{self, TopicView};
use super::{NAME_MAX_BYTES, Topic, TopicShared};
use crate::process::context::Context;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;

/// Bounds of a topic, and its policy for unread messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// Maximum number of messages, between 1 and 2²⁴; default 65,536. More absorbs longer bursts but uses memory.
    pub messages: usize,
    /// Maximum number of bytes, between 1 KiB and 1 TiB; default 64 MiB. A payload may have at most half of it, and at
    /// most [`PAYLOAD_MAX_BYTES`].
    pub bytes: usize,
    /// Policy for messages that no subscriber is waiting to read; default [`Retention::Forget`].
    pub retention: Retention,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self { messages: 65_536, bytes: 64 << 20, retention: Retention::Forget }
    }
}

impl TopicConfig {
    /// Returns the maximum length of a payload, without key and attributes.
    pub(super) fn payload_max(&self) -> usize {
        PAYLOAD_MAX_BYTES.min(self.bytes / 2)
    }
}

impl From<&TopicConfig> for LogLimits {
    fn from(config: &TopicConfig) -> Self {
        Self { messages: config.messages, bytes: config.bytes, retention: config.retention }
    }
}

/// Error returned if no topic has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("topic {name:?} does not exist")]
pub struct UnknownTopic {
    /// The requested name.
    pub name: String,
}

/// Error returned if a topic could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The name is taken. Use [`TopicsHandle::find`] to get the topic.
    #[error("topic {name:?} already exists")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name is empty or too long.
    #[error("topic name of {bytes} bytes is not between 1 and {NAME_MAX_BYTES}")]
    Name {
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// A bound is out of range.
    #[error("a bound of {value} {what} is not between {min} and {max}")]
    Bound {
        /// Unit of the bound.
        what: &'static str,
        /// The given bound.
        value: usize,
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
    },
}

/// Checks the name and the bounds of a topic.
pub fn check(name: &str, config: &TopicConfig) -> Result<(), CreateError> {
    if name.is_empty() || name.len() > NAME_MAX_BYTES {
        return Err(CreateError::Name { bytes: name.len() });
    }
    let within = |what, value: usize, min: usize, max: usize| {
        if (min..=max).contains(&value) { Ok(()) } else { Err(CreateError::Bound { what, value, min, max }) }
    };
    within("messages", config.messages, 1, 1 << 24)?;
    within("bytes", config.bytes, 1024, 1 << 40)
}

/// The topics of a runtime.
#[derive(Default)]
pub(crate) struct Topics(Mutex<BTreeMap<Arc<str>, Arc<TopicShared>>>);

impl Topics {
    pub(super) fn find(&self, name: &str) -> Option<Arc<TopicShared>> {
        self.0.lock().get(name).cloned()
    }

    pub(super) fn remove(&self, topic: &Arc<TopicShared>) {
        self.0.lock().retain(|_, other| !Arc::ptr_eq(other, topic));
    }

    /// Returns the number of topics and one page of their views, sorted by name.
    pub(crate) fn page(&self, offset: usize, most: usize, subscribers_most: usize) -> (usize, Vec<TopicView>) {
        let (total, topics): (usize, Vec<_>) = {
            let topics = self.0.lock();
            (topics.len(), topics.values().skip(offset).take(most).cloned().collect())
        };
        (total, topics.iter().map(|topic| view::topic(topic, subscribers_most)).collect())
    }
}

impl Topics {
    /// Ends all topics when the runtime ends, and wakes threads that are waiting at one: no process will publish
    /// again.
    pub(crate) fn end(&self) {
        let topics = std::mem::take(&mut *self.0.lock());
        for topic in topics.values() {
            topic.release_subscriptions();
            for waiter in topic.log.close() {
                waiter.wake();
            }
        }
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        self.end();
    }
}

/// Handle to the topics of a runtime.
#[derive(Clone)]
pub struct TopicsHandle(pub(super) Arc<RuntimeShared>);

impl fmt::Debug for TopicsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.topics.0.lock().keys()).finish()
    }
}

impl Handle {
    /// Returns the topics of the runtime.
    pub fn topics(&self) -> TopicsHandle {
        TopicsHandle(Arc::clone(&self.shared))
    }
}

impl Context {
    /// Returns the topics of the runtime.
    pub fn topics(&self) -> TopicsHandle {
        self.runtime().topics()
    }
}

impl TopicsHandle {
    /// Creates a topic with the default bounds.
    ///
    /// # Errors
    /// [`CreateError`] for a name that is taken, empty or too long.
    pub fn create(&self, name: &str) -> Result<Topic, CreateError> {
        self.create_with(name, TopicConfig::default())
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// [`CreateError`] for a name that is taken, empty or too long, or for a bound out of range.
    pub fn create_with(&self, name: &str, config: TopicConfig) -> Result<Topic, CreateError> {
        check(name, &config)?;
        self.add(name, |name, runtime| {
            TopicShared::new(name, Log::new(LogLimits::from(&config), 0), config.payload_max(), runtime)
        })
    }

    /// Adds a topic unless its name is taken.
    pub(super) fn add(
        &self,
        name: &str,
        make: impl FnOnce(Arc<str>, Weak<RuntimeShared>) -> TopicShared,
    ) -> Result<Topic, CreateError> {
        let mut topics = self.0.topics.0.lock();
        if topics.contains_key(name) {
            return Err(CreateError::Taken { name: name.to_owned() });
        }
        let (name, runtime) = (Arc::<str>::from(name), Arc::downgrade(&self.0));
        let shared = Arc::new(make(Arc::clone(&name), Weak::clone(&runtime)));
        topics.insert(name, Arc::clone(&shared));
        Ok(Topic::new(shared, runtime))
    }

    /// Finds a topic by its name.
    ///
    /// # Errors
    /// [`UnknownTopic`] if the topic does not exist.
    pub fn find(&self, name: &str) -> Result<Topic, UnknownTopic> {
        let shared = self.0.topics.find(name).ok_or_else(|| UnknownTopic { name: name.to_owned() })?;
        Ok(Topic::new(shared, Arc::downgrade(&self.0)))
    }

    /// Returns the views of all topics, sorted by name. Each holds the `subscribers_most` subscribers that are
    /// furthest behind.
    pub fn views(&self, subscribers_most: usize) -> Vec<TopicView> {
        self.0.topics.page(0, usize::MAX, subscribers_most).1
    }
}
