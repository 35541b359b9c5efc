//! Topics in guests: what they may use, the results of calls, and their absence on a node that does not offer them.

use std::time::Duration;

use rusm_runtime::observe::{EventKind, events};
use rusm_runtime::topic::{AckStatus, Message, Overflow, Retention, SubscriptionConfig, Topic, TopicConfig};
use rusm_wasm::{Capability, GuestOptions, Profiles, WasmConfig};

use crate::guests::Node;

/// Starts a node with a topic `orders` for guests, and a profile that may use it and the topics that begin with `log/`.
fn fixture() -> (Node, Topic) {
    let mut profiles = Profiles::default();
    profiles.set("clerk", [Capability::Topics].into_iter().collect());
    profiles.set_topics("clerk", ["orders", "log/*"]);
    profiles.set("topicless", [Capability::Topics].into_iter().collect());
    let node = Node::start(WasmConfig { capacity: 16, profiles, topics: true, ..WasmConfig::default() });
    let bounds = TopicConfig { messages: 4, bytes: 1 << 20, retention: Retention::KeepAll };
    let orders = node.runtime.topics().create_with("orders", bounds).unwrap();
    (node, orders)
}

fn end(node: &Node, run: &str, profile: &str) -> String {
    node.end_of(&clerk(run), &GuestOptions::default().profile(profile)).to_string()
}

/// A core module with the imports of topics: `orders` at 0, `other` at 8, `work` at 16, `key` at 24, `tea` at 32.
fn clerk(run: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "rusm" "self" (func $self (result i64)))
        (import "rusm" "exit" (func $exit (param i64 i32 i32 i32) (result i32)))
        (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
        (import "rusm" "item_tag" (func $lease (result i64)))
        (import "rusm" "item_ref" (func $attempt (result i64)))
        (import "rusm" "item_reply" (func $position (result i64)))
        (import "rusm" "error_read" (func $error_read (param i32 i32) (result i32)))
        (import "rusm" "topic_publish" (func $publish (param i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "topic_try_publish" (func $try_publish (param i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "topic_subscribe" (func $subscribe (param i32 i32 i32 i32) (result i64)))
        (import "rusm" "topic_next" (func $next (param i64 i64) (result i32)))
        (import "rusm" "topic_key" (func $key (param i32 i32) (result i32)))
        (import "rusm" "topic_ack" (func $ack (param i64 i64) (result i32)))
        (import "rusm" "topic_nack" (func $nack (param i64 i64) (result i32)))
        (import "rusm" "topic_unsubscribe" (func $unsubscribe (param i64) (result i32)))
        (import "rusm" "topic_subscribe_with" (func $subscribe_with (param i32 i32 i32 i32 i32 i64 i32 i32 i32) (result i64)))
        (import "rusm" "topic_listen" (func $listen (param i32 i32 i32 i32) (result i64)))
        (import "rusm" "topic_hear" (func $hear (param i64 i64) (result i32)))
        (import "rusm" "topic_extend" (func $extend (param i64 i64 i64) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 48) "log/dead")
        (data (i32.const 0) "orders") (data (i32.const 8) "other") (data (i32.const 16) "work")
        (data (i32.const 24) "key") (data (i32.const 32) "tea")
        (global $lease_id (mut i64) (i64.const 0))
        (func $expect (param $is i32) (param $due i32)
            (if (i32.ne (local.get $is) (local.get $due)) (then (call $words) unreachable)))
        (func $due (param $is i64) (result i64)
            (if (i64.lt_s (local.get $is) (i64.const 0)) (then (call $words) unreachable))
            (local.get $is))
        (func $words (drop (call $exit (call $self) (i32.const 4) (i32.const 64) (call $error_read (i32.const 64) (i32.const 500)))))
        (func $item (drop (call $exit (call $self) (i32.const 4) (i32.const 64) (call $item_read (i32.const 64) (i32.const 500) (i32.const 0)))))
        (func (export "run") (local $s i64) {run}))"#
    ))
    .unwrap()
}

const ORDERS: &str = "(i32.const 0) (i32.const 6)";
const OTHER: &str = "(i32.const 8) (i32.const 5)";
const WORK: &str = "(i32.const 16) (i32.const 4)";
const KEY: &str = "(i32.const 24) (i32.const 3)";
const NO_KEY: &str = "(i32.const 0) (i32.const -1)";
const TEA: &str = "(i32.const 32) (i32.const 3)";

#[test]
fn a_guest_publishes_and_receives_until_it_has_acknowledged() {
    let (node, orders) = fixture();
    let work = orders.create_subscription("work", SubscriptionConfig::default()).unwrap();
    let run = format!(
        r"(call $expect (call $publish {ORDERS} {KEY} {TEA}) (i32.const 0))
        (local.set $s (call $subscribe {ORDERS} {WORK}))
        (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
        (call $expect (i32.wrap_i64 (call $attempt)) (i32.const 1))
        (call $expect (call $key (i32.const 200) (i32.const 2)) (i32.const 3))
        (call $expect (i32.load16_u (i32.const 200)) (i32.const 0x656b))
        (global.set $lease_id (call $lease))
        (call $expect (call $next (local.get $s) (i64.const 5)) (i32.const 0))
        (call $expect (call $nack (local.get $s) (global.get $lease_id)) (i32.const 1))
        (call $expect (call $ack (local.get $s) (global.get $lease_id)) (i32.const 0))
        (call $expect (call $next (local.get $s) (i64.const 0)) (i32.const 1))
        (call $expect (i32.wrap_i64 (call $attempt)) (i32.const 2))
        (call $expect (i32.wrap_i64 (call $position)) (i32.const 0))
        (call $expect (call $ack (local.get $s) (call $lease)) (i32.const 1))
        (call $item)"
    );

    assert_eq!(end(&node, &run, "clerk"), "tea");

    let account = work.account();
    assert_eq!((account.published, account.acked, account.outstanding), (1, 1, 0));
}

#[test]
fn a_guest_makes_a_subscription_as_it_needs_it() {
    let (node, orders) = fixture();
    let dead = node.runtime.topics().create("log/dead").unwrap();
    let mut dead = dead.subscribe(Overflow::Block);
    let with = |dead: &str| {
        format!("(call $subscribe_with {ORDERS} {WORK} (i32.const 3) (i64.const 600000) {dead} (i32.const 1))")
    };
    let keeps_order = |topic: &str| {
        format!(
            r"(call $expect (call $publish {ORDERS} {KEY} {TEA}) (i32.const 0))
            (call $expect (call $publish {ORDERS} {KEY} {TEA}) (i32.const 0))
            (local.set $s (call $due {with}))
            (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
            (global.set $lease_id (call $lease))
            (call $expect (call $next (local.get $s) (i64.const 0)) (i32.const 0))
            (call $expect (call $extend (local.get $s) (global.get $lease_id) (i64.const 1000)) (i32.const 1))
            (call $expect (call $nack (local.get $s) (global.get $lease_id)) (i32.const 1))
            (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
            (call $expect (i32.wrap_i64 (call $position)) (i32.const 1))
            (call $expect (call $extend (local.get $s) (global.get $lease_id) (i64.const 1000)) (i32.const 1))",
            with = with(topic)
        )
    };

    // The first message was published before the subscription; the second message of the key waits; after one attempt
    // the first is a dead letter.
    assert_eq!(end(&node, &keeps_order("(i32.const 48) (i32.const 8)"), "clerk"), "it was already returned");
    assert_eq!(dead.blocking_next().unwrap().payload(), "tea");
    orders.subscription("work").unwrap().delete();
    assert_eq!(
        end(&node, &keeps_order(OTHER), "clerk"),
        "denied: topic \"other\"",
        "dead letters are publications, too"
    );
}

#[test]
fn a_guest_listens_without_leases_and_loses_what_it_said_it_may() {
    let (node, _orders) = fixture();
    let publish = format!("(call $expect (call $try_publish {ORDERS} {KEY} {TEA}) (i32.const 0))");
    let run = format!(
        r"(local.set $s (call $due (call $listen {ORDERS} (i32.const 1) (i32.const 2))))
        {publish} {publish} {publish}
        (call $expect (call $hear (local.get $s) (i64.const -1)) (i32.const 1))
        (call $expect (call $key (i32.const 200) (i32.const 2)) (i32.const 3))
        (call $expect (call $hear (local.get $s) (i64.const 0)) (i32.const 1))
        (call $expect (call $hear (local.get $s) (i64.const 5)) (i32.const 0))
        (call $expect (call $next (local.get $s) (i64.const 0)) (i32.const -2))
        (call $expect (call $unsubscribe (local.get $s)) (i32.const 1))
        (call $expect (call $hear (local.get $s) (i64.const 0)) (i32.const 1))"
    );

    let said = end(&node, &run, "clerk");

    assert!(said.ends_with("does not exist"), "{said}");
    assert_eq!(
        end(&node, &format!("(drop (call $due (call $listen {ORDERS} (i32.const 4) (i32.const 2))))"), "clerk"),
        "overflow 4 is not between 0 and 3"
    );
    let many = format!("(drop (call $due (call $listen {ORDERS} (i32.const 0) (i32.const 0))))").repeat(65);
    assert_eq!(end(&node, &many, "clerk"), "a process may have at most 64 shares in subscriptions: give some up");
}

#[test]
fn the_end_of_a_guest_gives_its_leases_back_at_once_and_giving_up_a_share_too() {
    let (node, orders) = fixture();
    let work = orders.create_subscription("work", SubscriptionConfig::default()).unwrap();
    orders.try_publish(Message::new("tea")).unwrap();
    let run = format!(
        r"(local.set $s (call $subscribe {ORDERS} {WORK}))
        (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
        (call $expect (call $unsubscribe (local.get $s)) (i32.const 1))
        (call $expect (call $unsubscribe (local.get $s)) (i32.const 0))
        (local.set $s (call $subscribe {ORDERS} {WORK}))
        (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
        unreachable"
    );

    assert!(end(&node, &run, "clerk").contains("unreachable"));

    let lease = work.consumer().blocking_next().unwrap();
    assert_eq!((lease.attempt, work.account().published), (3, 1));
}

#[test]
fn a_guest_cannot_settle_what_another_has() {
    let (node, orders) = fixture();
    let work = orders.create_subscription("work", SubscriptionConfig::default()).unwrap();
    orders.try_publish(Message::new("tea")).unwrap();
    let mut consumer = work.consumer();
    let lease = consumer.blocking_next().unwrap();
    let run = format!(
        r"(local.set $s (call $subscribe {ORDERS} {WORK}))
        (call $expect (call $ack (local.get $s) (i64.const {id})) (i32.const 1))",
        id = lease.id.to_u64()
    );

    assert_eq!(end(&node, &run, "clerk"), "the lease does not exist");
    assert_eq!(consumer.ack(lease.id), AckStatus::Done);
}

#[test]
fn a_message_of_a_guest_that_is_refused_pauses_nobody() {
    let (node, orders) = fixture();
    // A payload may take at most half of the topic's capacity.
    let run = format!(
        "(drop (memory.grow (i32.const 16))) (call $expect (call $publish {ORDERS} {KEY} (i32.const 100) (i32.const 600000)) (i32.const 0))"
    );

    let refused = end(&node, &run, "clerk");

    assert!(refused.contains("600000"), "{refused}");
    orders.try_publish(Message::new("tea").with_key("key")).unwrap();
}

#[test]
fn a_guest_is_refused_topics_and_each_that_it_was_not_granted() {
    let (node, _orders) = fixture();
    let orders = format!("(call $expect (call $try_publish {ORDERS} {NO_KEY} {TEA}) (i32.const 0))");
    let other = format!("(call $expect (call $try_publish {OTHER} {NO_KEY} {TEA}) (i32.const 0))");

    assert_eq!(end(&node, &orders, "sandboxed"), "denied: topics");
    assert_eq!(end(&node, &orders, "topicless"), "denied: topic \"orders\"");
    assert_eq!(end(&node, &other, "clerk"), "denied: topic \"other\"");
    assert_eq!(end(&node, &other, "trusted"), "topic \"other\" does not exist");
    assert_eq!(end(&node, &orders, "clerk"), "normal");

    let is_refusal = |kind: &EventKind| matches!(kind, EventKind::Refused { capability: "topics", .. });
    assert_eq!(events(&node.runtime, 0, 100).iter().filter(|event| is_refusal(&event.kind)).count(), 3);
}

#[test]
fn what_makes_no_sense_or_finds_no_room_is_said_in_words() {
    let (node, orders) = fixture();
    let publish = format!("(call $expect (call $try_publish {ORDERS} {NO_KEY} {TEA}) (i32.const 0))");

    assert_eq!(end(&node, &publish.repeat(4), "clerk"), "normal");
    assert_eq!(
        end(&node, &publish, "clerk"),
        "topic \"orders\" is full: it has 4 of 4 messages and 12 of 1048576 bytes"
    );
    assert_eq!(
        end(&node, "(call $expect (call $next (i64.const 7) (i64.const 0)) (i32.const 0))", "clerk"),
        "subscription share 7 does not exist"
    );
    let outside =
        format!("(call $expect (call $publish {ORDERS} {NO_KEY} (i32.const 0) (i32.const 70000)) (i32.const 0))");
    assert!(end(&node, &outside, "clerk").contains("70000 bytes at 0 lie outside"));
    let mut late = orders.subscribe_oldest(Overflow::Block);
    late.blocking_next().unwrap();
    orders.close();
    assert_eq!(end(&node, &publish, "clerk"), "topic \"orders\" does not exist");
}

#[test]
fn what_is_settled_twice_or_too_late_changes_nothing_and_is_said_in_words() {
    let (node, orders) = fixture();
    let settled = |first: &str, second: &str| {
        orders.try_publish(Message::new("tea")).unwrap();
        let run = format!(
            r"(local.set $s (call $subscribe {ORDERS} {WORK}))
            (call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))
            (global.set $lease_id (call $lease))
            {first}
            {second}"
        );
        end(&node, &run, "clerk")
    };
    let again = "(call $expect (call $next (local.get $s) (i64.const -1)) (i32.const 1))";
    let now = "(call $ack (local.get $s) (call $lease))";
    let late = "(call $expect (call $ack (local.get $s) (global.get $lease_id)) (i32.const 1))";

    let short = || SubscriptionConfig { ack_deadline: Duration::from_millis(20), ..SubscriptionConfig::default() };
    loop {
        let work = orders.create_subscription("work", short()).unwrap();
        let said = settled(again, late);
        work.delete();
        if said == "its deadline has passed" {
            break;
        }
        assert_eq!(said, "the lease does not exist", "the second lease has expired, too, and the first is forgotten");
    }
    orders.create_subscription("work", SubscriptionConfig::default()).unwrap();
    assert_eq!(settled(&format!("(drop {now})"), late), "it was already acknowledged");
    let nacked = "(drop (call $nack (local.get $s) (global.get $lease_id)))";
    assert_eq!(settled(nacked, late), "it was already returned");
}

#[test]
fn a_message_or_a_name_that_is_too_long_is_refused_with_its_number() {
    let mut profiles = Profiles::default();
    profiles.set("clerk", [Capability::Topics].into_iter().collect());
    profiles.set_topics("clerk", ["orders"]);
    let config =
        WasmConfig { capacity: 2, profiles, topics: true, memory_max_bytes: 64 << 20, ..WasmConfig::default() };
    let most = config.message_max_bytes;
    let node = Node::start(config);
    node.runtime.topics().create("orders").unwrap();
    let grown = |run: String| end(&node, &format!("(drop (memory.grow (i32.const 400))) {run}"), "clerk");
    let publish = |key: &str, bytes: u32| {
        grown(format!("(call $expect (call $publish {ORDERS} {key} (i32.const 0) (i32.const {bytes})) (i32.const 0))"))
    };

    let refused = publish(NO_KEY, 20_000_000);
    assert!(refused.contains("20000000") && refused.contains(&most.to_string()), "{refused}");
    assert_eq!(
        publish("(i32.const 65536) (i32.const 65536)", 3),
        "ordering key of 65536 bytes is longer than 1024 bytes"
    );
    let subscribe = |name: &str| grown(format!("(drop (call $due (call $subscribe {ORDERS} {name})))"));
    assert_eq!(subscribe("(i32.const 0) (i32.const 0)"), "the name of a subscription has 1 to 255 bytes, not 0");
    assert_eq!(
        subscribe("(i32.const 65536) (i32.const 256)"),
        "the name of a subscription has 1 to 255 bytes, not 256"
    );
    let many = format!("(drop (call $due (call $subscribe {ORDERS} {WORK})))").repeat(65);
    assert_eq!(grown(many), "a process may have at most 64 shares in subscriptions: give some up");
}

/// Publishes `tea` to `orders`, and ends with an error if that is refused.
fn component() -> Vec<u8> {
    wat::parse_str(
        r#"(component
        (import "rusm:runtime/types@0.1.0" (instance $types
            (type $pid' (record (field "node" u32) (field "slot" u32) (field "generation" u32)))
            (export "pid" (type $pid (eq $pid')))))
        (import "rusm:runtime/topics@0.1.0" (instance $topics
            (type $message' (record (field "payload" (list u8)) (field "key" (option string)) (field "attributes" (list (tuple string string)))))
            (export "message" (type $message (eq $message')))
            (export "unsubscribe" (func (param "subscription" u64) (result bool)))))
        (core module $memory
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core module $m
            (import "topics" "unsubscribe" (func $unsubscribe (param i64) (result i32)))
            (func (export "run") (param $args i32) (param $count i32) (result i32)
                (if (call $unsubscribe (i64.const 7)) (then unreachable))
                (i32.const 16)))
        (alias export $topics "unsubscribe" (func $unsubscribe))
        (core func $unsubscribe' (canon lower (func $unsubscribe)))
        (core instance $i (instantiate $m (with "topics" (instance (export "unsubscribe" (func $unsubscribe'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#,
    )
    .unwrap()
}

#[test]
fn a_component_uses_topics_by_their_interface() {
    let (node, _orders) = fixture();

    assert_eq!(node.end_of(&component(), &GuestOptions::default()).to_string(), "normal");
}

#[test]
fn where_the_node_gives_none_what_imports_topics_is_not_loaded() {
    let node = Node::small();
    let refused = |bytes: &[u8]| node.wasm.load("guest", bytes).map(|_| ()).unwrap_err().to_string();

    assert!(refused(&clerk("")).contains("topic_"), "{}", refused(&clerk("")));
    assert!(refused(&component()).contains("rusm:runtime/topics"), "{}", refused(&component()));
}
