//! Topics of the simulated node.

use rusm_protocol::{ReceiverInfo, TopicInfo, Topics, TopicsView};

type TopicSpec = (&'static str, u64, u64, &'static [(&'static str, u64)], bool);

/// Topics: name, messages per second, bytes per message, backlog per subscription, and true if subscribers lose some.
const TOPICS: [TopicSpec; 4] = [
    ("audit", 40, 900, &[("archive", 3)], false),
    ("clicks", 182_000, 220, &[("counts", 1_912), ("sessions", 240)], true),
    ("orders", 1_240, 1_400, &[("billing", 64), ("shipping", 38_000), ("mail", 5)], false),
    ("ticks", 9_000, 64, &[], true),
];
const MESSAGES_MAX: u64 = 65_536;

/// Answers a request for topics.
pub(crate) fn topics(view: &TopicsView, seq: u64, now_ms: u64) -> Topics {
    let total = TOPICS.len() as u64;
    let first = view.window.offset.min(total);
    let mut all: Vec<TopicInfo> = (0..TOPICS.len()).map(|at| topic(at, now_ms)).collect();
    view.sort.sort(&mut all);
    let shown = all.into_iter().skip(first as usize).take(view.window.len as usize);
    Topics { id: view.id, seq, at_ms: now_ms, cost_us: 14.0, total, offset: first, topics: shown.collect() }
}

fn topic(at: usize, now_ms: u64) -> TopicInfo {
    let (name, per_sec, bytes, subscriptions, loses) = TOPICS[at];
    let published_total = per_sec * now_ms / 1000;
    let wave = 70 + (now_ms / 1000 * 7 + at as u64 * 3) % 41;
    let mut receivers: Vec<ReceiverInfo> = subscriptions
        .iter()
        .enumerate()
        .map(|(position, (name, behind))| {
            receiver(name, behind * wave / 100, published_total, per_sec, at * 8 + position)
        })
        .collect();
    let messages = receivers.iter().map(|receiver| receiver.backlog).max().unwrap_or(12);
    let dropped_total = if loses { published_total / 31 } else { 0 };
    if loses {
        receivers.push(ReceiverInfo {
            policy: "drop oldest".to_owned(),
            consumers: 1,
            backlog: 12,
            oldest_ms: 8,
            delivered_total: published_total - dropped_total,
            dropped_total,
            slowest: Some(format!("<0.{}.1>", 3_051 + at)),
            ..ReceiverInfo::default()
        });
    }
    TopicInfo {
        name: name.to_owned(),
        messages,
        messages_max: MESSAGES_MAX,
        bytes: messages * bytes,
        bytes_max: 64 << 20,
        published_total,
        full_total: 0,
        publishers_waiting: u64::from(messages > MESSAGES_MAX / 2),
        dropped_total,
        evicted_total: 0,
        subscribers: u64::from(loses),
        subscriptions: subscriptions.len() as u64,
        receivers,
    }
}

fn receiver(name: &str, backlog: u64, published: u64, per_sec: u64, position: usize) -> ReceiverInfo {
    let has_trouble = name == "shipping";
    let outstanding = (per_sec / 400).clamp(1, 64);
    let acked_total = published.saturating_sub(backlog + outstanding);
    ReceiverInfo {
        name: Some(name.to_owned()),
        policy: "ack".to_owned(),
        consumers: 1 + position as u64 % 4,
        backlog,
        outstanding,
        resting: if has_trouble { 12 } else { 0 },
        keys: 0,
        oldest_ms: backlog * 1000 / per_sec.max(1) + 2,
        delivered_total: acked_total + outstanding,
        acked_total,
        redelivered_total: if has_trouble { published / 90 } else { 0 },
        expired_total: if has_trouble { published / 200 } else { 0 },
        dead_lettered_total: if has_trouble { published / 4_000 } else { 0 },
        dropped_total: 0,
        slowest: Some(format!("<0.{}.2>", 2_048 + position * 13)),
    }
}
