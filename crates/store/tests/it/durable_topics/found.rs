//! A durable topic is found where it is open, and opened where it is not.

use super::Node;
use crate::disk::Disk;
use rusm_runtime::topic::{Message, TopicConfig};
use rusm_runtime::{Config, Runtime};
use rusm_store::DurableError;

#[test]
fn a_topic_is_found_or_opened() {
    let node = Node::start(Disk::default());
    let topics = node.runtime.topics();
    let find = |name: &str| node.store.find_or_open_topic(&topics, name, TopicConfig::default());
    let opened: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| find("orders"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    opened[0].blocking_publish(Message::new("tea")).unwrap();
    assert!(opened.iter().all(|topic| topic.is_durable() && topic.published() == 1));

    assert!(!topics.create("in memory").unwrap().is_durable());
    assert!(matches!(find("in memory"), Err(DurableError::Create(_))), "it would lose messages without a word");
    let other = Runtime::start(Config::default()).unwrap();
    let elsewhere = node.store.find_or_open_topic(&other.topics(), "orders", TopicConfig::default());
    assert!(matches!(elsewhere, Err(DurableError::InUse { .. })));
}
