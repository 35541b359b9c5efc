//! The topics of a runtime, by name.
//!
//! The runtime's state owns this registry, so it knows topics only as [`TopicEntry`] objects, which refer to the runtime
//! themselves.

use std::any::Any;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::topic::view::TopicView;

/// A topic in the registry.
pub(crate) trait TopicEntry: Any + Send + Sync {
    /// Returns the state of the topic, with the `subscribers_most` subscribers that are furthest behind.
    fn view(&self, subscribers_most: usize) -> TopicView;

    /// Returns the size of the messages that the topic holds, with their slots in its log.
    fn memory_bytes(&self) -> u64;

    /// Returns the wakers of at most `limit` of the publishers that wait for room in the topic.
    fn waiting_publishers(&self, limit: usize) -> Vec<Waker>;

    /// Ends the topic with its runtime.
    fn end(&self);
}

/// The topics of a runtime.
#[derive(Default)]
pub(crate) struct Topics(Mutex<BTreeMap<Arc<str>, Arc<dyn TopicEntry>>>);

impl Topics {
    /// Adds the topic that `make` returns, unless its name is taken.
    pub(crate) fn add<T: TopicEntry>(&self, name: &str, make: impl FnOnce(Arc<str>) -> T) -> Option<Arc<T>> {
        let mut topics = self.0.lock();
        if topics.contains_key(name) {
            return None;
        }
        let name = Arc::<str>::from(name);
        let topic = Arc::new(make(Arc::clone(&name)));
        topics.insert(name, Arc::<T>::clone(&topic));
        Some(topic)
    }

    /// Returns the topic with this name, if it is a `T`.
    pub(crate) fn find<T: TopicEntry>(&self, name: &str) -> Option<Arc<T>> {
        let topic: Arc<dyn Any + Send + Sync> = self.0.lock().get(name).cloned()?;
        topic.downcast().ok()
    }

    pub(crate) fn remove<T: TopicEntry>(&self, topic: &Arc<T>) {
        self.0.lock().retain(|_, other| !ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(topic)));
    }

    /// Returns the names of the topics, in sorted order.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.0.lock().keys().cloned().collect()
    }

    /// Returns the number of topics and one page of their views, sorted by name.
    pub(crate) fn page(&self, offset: usize, most: usize, subscribers_most: usize) -> (usize, Vec<TopicView>) {
        let (total, topics): (usize, Vec<_>) = {
            let topics = self.0.lock();
            (topics.len(), topics.values().skip(offset).take(most).cloned().collect())
        };
        (total, topics.iter().map(|topic| topic.view(subscribers_most)).collect())
    }

    /// Returns the size of the messages of all topics, with their slots in the logs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let topics: Vec<_> = self.0.lock().values().cloned().collect();
        topics.iter().map(|topic| topic.memory_bytes()).sum()
    }

    /// Returns the topics in which publishers wait for room, with the wakers of at most `limit` of them in each.
    pub(crate) fn with_waiting_publishers(&self, limit: usize) -> Vec<(Arc<dyn TopicEntry>, Vec<Waker>)> {
        let topics: Vec<_> = self.0.lock().values().cloned().collect();
        let waiting = topics.into_iter().map(|topic| {
            let publishers = topic.waiting_publishers(limit);
            (topic, publishers)
        });
        waiting.filter(|(_, publishers)| !publishers.is_empty()).collect()
    }

    /// Ends all topics when the runtime ends, and wakes threads that are waiting at one: no process will publish
    /// again.
    pub(crate) fn end(&self) {
        let topics = std::mem::take(&mut *self.0.lock());
        for topic in topics.values() {
            topic.end();
        }
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        self.end();
    }
}
