//! Access to the topics of a runtime: creates and finds them by name.

pub(crate) mod config;
pub(crate) mod topics;

use std::fmt;
use std::sync::{Arc, Weak};

use super::handle::Topic;
use super::log::Log;
use super::retention::LogLimits;
use super::shared::TopicShared;
use super::view::TopicView;
use crate::process::context::Context;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;
use config::{CreateError, TopicConfig, UnknownTopic, check};

/// Handle to the topics of a runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::topic::TopicConfig;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let topics = runtime.topics();
/// let news = topics.create_with("news", TopicConfig { messages: 1_000, ..TopicConfig::default() })?;
/// assert_eq!(topics.find("news")?.name(), news.name());
/// assert!(topics.find("olds").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TopicsHandle(pub(super) Arc<RuntimeShared>);

impl fmt::Debug for TopicsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.topics.names()).finish()
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

    /// Finds a topic by its name, or creates it with the default bounds.
    ///
    /// # Errors
    /// [`CreateError`] for a name that is empty or too long.
    pub fn find_or_create(&self, name: &str) -> Result<Topic, CreateError> {
        self.find_or_create_with(name, TopicConfig::default())
    }

    /// Finds a topic by its name, or creates it. A topic that exists keeps its configuration.
    ///
    /// # Errors
    /// [`CreateError`] for a name that is empty or too long, or for a bound out of range.
    pub fn find_or_create_with(&self, name: &str, config: TopicConfig) -> Result<Topic, CreateError> {
        loop {
            if let Ok(topic) = self.find(name) {
                return Ok(topic);
            }
            match self.create_with(name, config) {
                // Another thread has created it meanwhile.
                Err(CreateError::Taken { .. }) => {}
                created => return created,
            }
        }
    }

    /// Adds a topic unless its name is taken.
    pub(super) fn add(
        &self,
        name: &str,
        make: impl FnOnce(Arc<str>, Weak<RuntimeShared>) -> TopicShared,
    ) -> Result<Topic, CreateError> {
        let runtime = Arc::downgrade(&self.0);
        let shared = self.0.topics.add(name, |name| make(name, Weak::clone(&runtime)));
        let shared = shared.ok_or_else(|| CreateError::Taken { name: name.to_owned() })?;
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

/// Returns the number of topics and one page of them, sorted by name. Each view holds all subscriptions and the
/// `subscribers_most` subscribers that are furthest behind.
pub fn topics(runtime: &Handle, offset: usize, most: usize, subscribers_most: usize) -> (usize, Vec<TopicView>) {
    runtime.shared.topics.page(offset, most, subscribers_most)
}
