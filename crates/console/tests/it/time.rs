//! Tickers and streams as an observer sees them: their figures, and the reader that each blocked writer waits for.

use std::ops::ControlFlow;

use crate::support::{Client, node};
use rusm_runtime::Context;
use rusm_runtime::ring::Builder;
use rusm_runtime::ticker::{Frequency, Measure, Ticker, TickerOptions};
use serde_json::{Value, json};

async fn watch(client: &mut Client, id: u64) {
    client.send(&json!({"type": "time", "view": {"id": id, "hz": 10.0}}).to_string()).await;
}

/// Returns the first answer to view `id` that satisfies `wanted`.
async fn seen(client: &mut Client, id: u64, wanted: impl Fn(&Value) -> bool) -> Value {
    client
        .pick(|message| (message["type"] == "time" && message["id"] == id && wanted(message)).then(|| message.clone()))
        .await
}

#[tokio::test]
async fn a_ticker_is_shown_with_its_owner_its_account_and_how_late_it_is() {
    let node = node();
    let body = |ctx: Context| async move {
        ctx.set_label("metronome");
        let options = TickerOptions {
            tick_rate: Some(Frequency::hz(100).unwrap()),
            measure: Measure::Lateness,
            ..TickerOptions::default()
        };
        let each = |_| ControlFlow::<()>::Continue(());
        ctx.every(Frequency::hz(1_000).unwrap(), options, each).await.unwrap();
    };
    let pid = node.runtime.spawn(body).unwrap();
    let mut client = node.attach().await;

    watch(&mut client, 1).await;
    let time = seen(&mut client, 1, |time| {
        let ticker = &time["tickers"][0];
        ticker["fired_total"].as_u64() >= Some(20) && ticker["fired_per_sec"].as_f64() > Some(0.0)
    })
    .await;

    let ticker = &time["tickers"][0];
    assert_eq!((&time["tickers_total"], &ticker["name"]), (&json!(1), &json!("metronome")));
    assert_eq!((&ticker["pid"], &ticker["batch"]), (&json!(pid.to_string()), &json!(10)));
    assert_eq!((&ticker["rate_hz"], &ticker["overrun"]), (&json!(1000.0), &json!("drop")));
    assert!(ticker["late_ns_p99"].as_u64() >= ticker["late_ns_p50"].as_u64(), "{ticker}");
    assert!(ticker["late_ns_p50"].is_u64(), "{ticker}");
}

#[tokio::test]
async fn the_ticker_of_a_thread_is_shown_by_what_the_thread_calls_it() {
    let node = node();
    let ticker = Ticker::new(Frequency::hz(1_000).unwrap(), TickerOptions::default()).unwrap();
    let _ticker = ticker.observed_by(&node.runtime, "sampler");
    let mut client = node.attach().await;

    watch(&mut client, 1).await;
    let time = seen(&mut client, 1, |time| time["tickers_total"] == json!(1)).await;

    let ticker = &time["tickers"][0];
    assert_eq!((&ticker["name"], ticker.get("pid"), &ticker["rate_hz"]), (&json!("sampler"), None, &json!(1000.0)));
}

#[tokio::test]
async fn a_writer_that_is_held_up_is_shown_with_the_reader_that_does_it() {
    let node = node();
    let (mut writer, subscriber) = Builder::new(64).label("samples").observed_by(&node.runtime).build::<u32>().unwrap();
    let (mut swift, mut slow) = (subscriber.join().unwrap(), subscriber.join().unwrap());
    let laggard = |ctx: Context| async move {
        ctx.set_label("archive");
        // Reads one item, and then one more for each message.
        while slow.next().await.is_ok() {
            ctx.receive_of::<()>().await;
        }
    };
    let laggard = node.runtime.spawn(laggard).unwrap();
    node.runtime.spawn(|_| async move { while swift.next().await.is_ok() {} }).unwrap();
    let source = move |_: Context| async move {
        for number in 0..200 {
            writer.push(number).await;
        }
        writer.close();
    };
    let source = node.runtime.spawn(source).unwrap();
    let mut client = node.attach().await;

    watch(&mut client, 7).await;
    let time = seen(&mut client, 7, |time| {
        let blocker = &time["streams"][0]["waits_for"];
        blocker["pid"] == json!(laggard.to_string()) && blocker["lag"].as_u64() >= Some(63)
    })
    .await;
    let stream = &time["streams"][0];
    assert_eq!((&stream["label"], &stream["writer"]), (&json!("samples"), &json!(source.to_string())));
    assert_eq!((&stream["readers"], &stream["capacity"], &stream["item_bytes"]), (&json!(2), &json!(64), &json!(4)));
    let blocker = &stream["waits_for"];
    assert_eq!((&blocker["pid"], &blocker["name"]), (&json!(laggard.to_string()), &json!("archive")));
    assert!(blocker["lag"].as_u64() >= Some(63) && stream["waits_total"].as_u64() >= Some(1), "{stream}");

    // Once the laggard reads on, the writer finishes. When all handles of the ring are dropped, so is the ring.
    drop(subscriber);
    for _ in 0..200 {
        node.runtime.try_send(laggard, ()).unwrap();
    }
    let time = seen(&mut client, 7, |time| time["streams_total"] == 0).await;
    assert_eq!(time["streams"], json!([]));
}

#[tokio::test]
async fn nobody_is_told_who_does_not_ask_or_asks_no_longer() {
    let node = node();
    let mut client = node.attach().await;

    watch(&mut client, 1).await;
    seen(&mut client, 1, |_| true).await;
    client.send(&json!({"type": "time", "view": null}).to_string()).await;
    watch(&mut client, 2).await;
    let time = seen(&mut client, 2, |_| true).await;

    assert_eq!((&time["seq"], &time["tickers"], &time["streams"]), (&json!(1), &json!([]), &json!([])));
}
