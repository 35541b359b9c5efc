//! Topics that span nodes.

use rusm_runtime::NAME_MAX_BYTES;
use rusm_runtime::topic::{Message, Overflow, Topic, TopicConfig};

use super::*;
use crate::node::{ORIGIN, ShareConfig, SharedTopic};

fn share(member: &Member, capacity: usize) -> (Topic, SharedTopic) {
    let topic = member.runtime.topics().create("news").unwrap();
    let shared = member.node.share_topic(&topic, ShareConfig { capacity }).unwrap();
    (topic, shared)
}

/// Waits until each topic has a forwarder, and so one subscriber, for each other node.
fn forwarded(topics: &[&Topic], others: usize) {
    let subscribers = |topic: &Topic| topic.view(0).subscribers;
    eventually("the forwarders", || topics.iter().all(|topic| subscribers(topic) == others));
}

#[test]
fn what_is_published_on_one_node_reaches_the_subscribers_of_all_once_and_in_order() {
    let network = MemoryNetwork::new();
    let members = [("a", 1), ("b", 2), ("c", 3)].map(|(name, boot)| start(&network, name, boot, 1024));
    connected(&members.each_ref());
    let shared = members.each_ref().map(|member| share(member, 10_000));
    forwarded(&shared.each_ref().map(|(topic, _)| topic), 2);
    let mut subscribers = shared.each_ref().map(|(topic, _)| topic.subscribe(Overflow::Block));

    for number in 0..500_u32 {
        for ((topic, _), name) in shared.iter().zip(["a", "b", "c"]) {
            let message = Message::new(format!("{name}{number}")).with_key("k").with_attribute("kind", "test");
            topic.blocking_publish(message).unwrap();
        }
    }

    for (own, subscriber) in ["a", "b", "c"].into_iter().zip(&mut subscribers) {
        let mut next = [0_u32; 3];
        for _ in 0..1_500 {
            let message = subscriber.blocking_next().unwrap();
            let text = std::str::from_utf8(message.payload()).unwrap();
            let (name, number) = text.split_at(1);
            let at = ["a", "b", "c"].iter().position(|known| *known == name).unwrap();
            assert_eq!(number, next[at].to_string(), "on {own}");
            next[at] += 1;
            assert_eq!(message.attribute(ORIGIN), (name != own).then_some(name));
            assert_eq!((message.key(), message.attribute("kind")), (Some("k"), Some("test")));
        }
        assert_eq!(next, [500; 3]);
    }
    for (_, shared) in &shared {
        let account = shared.account();
        assert_eq!((account.sent, account.received, account.dropped, account.missed), (1_000, 1_000, 0, 0));
    }
}

#[test]
fn every_name_of_a_topic_is_valid_between_nodes() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 1024));
    connected(&[&a, &b]);
    // The longest names, equal up to their last byte: the hash in the group tells them apart.
    let names = ["x", "y"].map(|last| format!("{}{last}", "n".repeat(NAME_MAX_BYTES - 1)));
    let share_all = |member: &Member| {
        names.clone().map(|name| {
            let topic = member.runtime.topics().create(&name).unwrap();
            let shared = member.node.share_topic(&topic, ShareConfig::default()).unwrap();
            (topic, shared)
        })
    };
    let (from, to) = (share_all(&a), share_all(&b));
    forwarded(&[&from[0].0, &from[1].0, &to[0].0, &to[1].0], 1);
    let mut subscribers = to.each_ref().map(|(topic, _)| topic.subscribe(Overflow::Block));

    for ((topic, _), payload) in from.iter().zip(["first", "second"]) {
        topic.blocking_publish(Message::new(payload)).unwrap();
    }

    for (subscriber, payload) in subscribers.iter_mut().zip(["first", "second"]) {
        assert_eq!(subscriber.blocking_next().unwrap().payload(), payload);
        assert_eq!(subscriber.try_next().unwrap(), None);
    }
}

#[test]
fn a_node_that_is_lost_or_no_longer_shares_gets_nothing_and_comes_back() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 1024));
    connected(&[&a, &b]);
    let ((from, shared), (to, _also)) = (share(&a, 100), share(&b, 100));
    forwarded(&[&from, &to], 1);
    let mut subscriber = to.subscribe(Overflow::Block);

    network.cut(&name("a"), &name("b"));
    forwarded(&[&from], 0);
    from.blocking_publish(Message::new("lost")).unwrap();
    network.heal(&name("a"), &name("b"));
    forwarded(&[&from], 1);
    from.blocking_publish(Message::new("seen")).unwrap();

    assert_eq!(subscriber.blocking_next().unwrap().payload(), "seen");
    drop(shared);
    forwarded(&[&from], 0);
    eventually("the end of the group", || b.runtime.members("~topic/news").len() == 1);
}

#[test]
fn what_a_slow_node_misses_is_counted_on_both_sides() {
    const TOTAL: u64 = 6_000;
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 4));
    connected(&[&a, &b]);
    let (topic_of_a, sender) = share(&a, 50);
    let small = TopicConfig { messages: 100, ..TopicConfig::default() };
    let topic = b.runtime.topics().create_with("news", small).unwrap();
    let receiver = b.node.share_topic(&topic, ShareConfig::default()).unwrap();
    forwarded(&[&topic_of_a], 1);
    // A subscriber that reads nothing and may lose nothing fills the topic of the slow node.
    let mut reader = topic.subscribe(Overflow::Block);

    let payload = vec![0_u8; 4_096];
    for _ in 0..TOTAL {
        topic_of_a.blocking_publish(Message::new(payload.clone())).unwrap();
    }
    eventually("a loss", || sender.account().dropped > 0 || sender.account().sent < TOTAL);
    let mut read = 0;
    eventually("the rest", || {
        while let Ok(Some(_)) = reader.try_next() {
            read += 1;
        }
        let (from, to) = (sender.account(), receiver.account());
        from.sent + from.dropped == TOTAL && to.received == from.sent && to.missed == from.dropped
    });
    while let Ok(Some(_)) = reader.try_next() {
        read += 1;
    }

    assert!(sender.account().dropped > 0, "{:?}", sender.account());
    eventually("the last messages", || {
        while let Ok(Some(_)) = reader.try_next() {
            read += 1;
        }
        read == receiver.account().received
    });
}
