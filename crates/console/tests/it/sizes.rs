//! The size of messages from a node: it depends on the request, never on the load.

use std::time::Duration;

use crate::support::{Client, Node, node, node_with};
use rusm_console::TickRate;
use rusm_runtime::topic::{Overflow, SubscriptionConfig};
use serde_json::{Value, json};

/// Returns the paths of all values of a message. Messages with equal paths differ in size only by their digits.
fn places(value: &Value) -> Vec<String> {
    let below = |name: &str, value: &Value| -> Vec<String> {
        places(value).into_iter().map(|place| format!("{name}/{place}")).collect()
    };
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| below(name, value)).collect(),
        Value::Array(values) => values.iter().flat_map(|value| below("", value)).collect(),
        _ => vec![String::new()],
    }
}

/// Waits for a frame with a full throughput window, and returns it.
async fn full_frame(client: &mut Client) -> Value {
    client
        .pick(|message| {
            let points = message["frame"]["throughput"]["points"].as_array()?;
            (points.len() == 120).then(|| message["frame"].clone())
        })
        .await
}

/// Starts `parked` processes that wait, and one that keeps spawning 100 short-lived processes each millisecond.
async fn load(node: &Node, parked: u64) {
    let spawner = node.runtime.spawn(move |ctx| async move {
        for _ in 0..parked {
            ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
        }
        loop {
            for _ in 0..100 {
                ctx.spawn(|_| async {});
            }
            ctx.sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(spawner.is_ok());
    node.settles("the load", |runtime| runtime.process_count() > parked).await;
}

#[tokio::test]
async fn a_frame_has_as_many_values_under_load_as_without() {
    let node = node_with(|config| config.tick = TickRate::from_hz(60).unwrap());
    let mut client = node.attach().await;

    let idle = full_frame(&mut client).await;
    client.send(r#"{"type":"run","scenario":"spawn-storm"}"#).await;
    load(&node, 50_000).await;
    let loaded = client
        .pick(|message| {
            let frame = &message["frame"];
            let busy = frame["running"].as_bool()? && frame["observer"]["process_count"].as_u64()? > 50_000;
            (busy && frame["ops_per_sec"].as_f64()? > 0.0).then(|| frame.clone())
        })
        .await;

    // Warnings have limits of their own, and other load on the machine may cause some: leave them out. So is that load,
    // which is known after the first measurement only.
    let left_out = ["observer/lints/", "observer/stuck/", "observer/others_pct/"];
    let of_load = |frame: &Value| -> Vec<String> {
        let is_left_out = |place: &String| left_out.iter().any(|at| place.starts_with(at));
        places(frame).into_iter().filter(|place| !is_left_out(place)).collect()
    };
    assert_eq!(of_load(&idle), of_load(&loaded));
    let bytes = loaded.to_string().len();
    assert!(bytes < 4096, "a frame of {bytes} bytes");
}

#[tokio::test]
async fn a_page_has_as_many_values_whatever_the_table_holds() {
    let view = json!({"type": "view", "id": 1, "sort": {"key": "pid"}, "window": {"offset": 0, "len": 50}});
    let mut pages = Vec::new();

    for parked in [100, 50_000] {
        let node = node_with(|_| {});
        load(&node, parked).await;
        let mut client = node.attach().await;
        pages.push(client.rows(&view).await);
    }

    assert_eq!(places(&pages[0]), places(&pages[1]));
    for page in pages {
        let bytes = page.to_string().len();
        assert!(bytes <= 20_000, "a page of {bytes} bytes");
    }
}

#[tokio::test]
async fn a_page_of_many_topics_with_many_receivers_and_long_names_is_not_too_large_to_be_sent() {
    const TOPICS: usize = 200;
    let node = node();
    let mut subscribers = Vec::new();
    for at in 0..TOPICS {
        // The worst name: each of its control characters takes six bytes on the wire.
        let topic = node.runtime.topics().create(&format!("{at:03}{}", "\u{1}".repeat(200))).unwrap();
        for at in 0..30 {
            let name = format!("{at:02}{}", "\u{1}".repeat(200));
            topic.create_subscription(&name, SubscriptionConfig::default()).unwrap();
            subscribers.push(topic.subscribe(Overflow::Block));
        }
    }
    let mut client = node.attach().await;

    client
        .send(&json!({"type": "topics", "view": {"id": 1, "window": {"offset": 0, "len": TOPICS}}}).to_string())
        .await;
    let page = client.next_of("topics").await;
    client.send(r#"{"type": "topics", "view": {"id": 2, "window": {"offset": 0, "len": 1}}}"#).await;
    let one = client.pick(|message| (message["id"] == 2).then(|| message["topics"][0].clone())).await;

    let bytes = page.to_string().len();
    assert!(bytes < 512 * 1024, "a page of {bytes} bytes");
    let topics = page["topics"].as_array().unwrap();
    assert_eq!(
        (topics.len(), &topics[0]["subscriptions"], &topics[0]["subscribers"]),
        (TOPICS, &json!(30), &json!(30))
    );
    assert!(topics.iter().all(|topic| !topic["receivers"].as_array().unwrap().is_empty()));
    let kinds = one["receivers"].as_array().unwrap().iter().filter(|receiver| receiver["name"].is_string());
    assert_eq!((kinds.count(), one["receivers"].as_array().unwrap().len()), (16, 24));
}
