//! Waits and traces as observers see them.

use std::time::Duration;

use crate::support::{Node, node, node_with};
use rusm_runtime::{Context, Pid, Request};
use serde_json::{Value, json};

/// Spawns a process that calls the process that it receives, without a timeout.
fn caller(node: &Node) -> Pid {
    let body = |ctx: Context| async move {
        let callee = ctx.receive_of::<Pid>().await;
        drop(ctx.call::<u64, u64>(callee, 1, Duration::MAX).await);
    };
    node.runtime.spawn(body).unwrap()
}

#[tokio::test]
async fn the_root_cause_is_listed_with_those_that_wait_for_it() {
    let node = node();
    let server = node.parked();
    let (middle, client) = (caller(&node), caller(&node));
    node.runtime.try_send(middle, server).unwrap();
    node.runtime.try_send(client, middle).unwrap();
    let mut observer = node.attach().await;
    observer
        .send(&json!({"type": "waits", "view": {"id": 3, "window": {"offset": 0, "len": 10}, "hz": 10.0}}).to_string())
        .await;

    let rows = observer
        .pick(|message| {
            let is_listed = message["type"] == "waits" && message["total"] == 3;
            is_listed.then(|| message["rows"].clone())
        })
        .await;

    let brief = |row: &Value| (row["depth"].clone(), row["pid"].clone(), row["wait"].clone(), row["waiters"].clone());
    let expected = [(0, server, Value::Null, 2), (1, middle, "call".into(), 1), (2, client, "call".into(), 0)];
    for (row, (depth, pid, wait, waiters)) in rows.as_array().unwrap().iter().zip(expected) {
        assert_eq!(brief(row), (depth.into(), pid.to_string().into(), wait, waiters.into()));
    }
    assert_eq!(rows[1]["state"], format!("call→{server}"));
}

#[tokio::test]
async fn rows_and_details_say_what_a_process_waits_for() {
    let node = node();
    let server = node.parked();
    let client = caller(&node);
    node.runtime.try_send(client, server).unwrap();
    let mut observer = node.attach().await;
    let view = |id: u32, waits: bool| {
        json!({"type": "view", "id": id, "columns": ["pid", "state"], "sort": {"key": "pid", "desc": false}, "hz": 10.0,
            "waits": waits})
    };

    observer.send(&view(1, true).to_string()).await;
    let calls = format!("call {server}");
    let state = |message: &Value, pid: Pid| {
        let rows = message["rows"].as_array()?;
        rows.iter().find(|row| row[0] == pid.to_string()).map(|row| row[1].clone())
    };
    let idle = observer
        .pick(|message| {
            let waits = message["id"] == 1 && state(message, client).is_some_and(|state| state == calls.as_str());
            waits.then(|| state(message, server).unwrap())
        })
        .await;
    assert_eq!(idle, "receive");
    observer.send(&view(2, false).to_string()).await;
    let plain = observer.pick(|message| (message["id"] == 2).then(|| state(message, client)).flatten()).await;
    assert_eq!(plain, "waiting", "older observers know this word");

    observer.send(&json!({"type": "inspect", "view": {"id": 3, "pid": client.to_string()}}).to_string()).await;
    let waits = observer
        .pick(|message| {
            let found = message["type"] == "inspection" && !message["waits"].is_null();
            found.then(|| message["waits"].clone())
        })
        .await;
    assert_eq!((&waits["on"], &waits["process"]["pid"]), (&"reply".into(), &server.to_string().into()));
}

#[tokio::test]
async fn a_cycle_of_three_calls_is_a_lint_and_leads_the_list() {
    let node = node_with(|config| config.lint_thresholds.wait_cycle_after = Duration::from_millis(100));
    let all = [caller(&node), caller(&node), caller(&node)];
    for (at, pid) in all.iter().enumerate() {
        node.runtime.try_send(*pid, all[(at + 1) % 3]).unwrap();
    }
    let mut observer = node.attach().await;

    let lint = observer
        .pick(|message| {
            let lints = message["frame"]["observer"]["lints"].as_array()?;
            lints.iter().find(|lint| lint["id"] == "wait_cycle").cloned()
        })
        .await;

    assert_eq!(lint["pid"], all[0].to_string());
    let text = lint["text"].as_str().unwrap();
    assert!(text.starts_with("cycle of 3 for ") && all.iter().all(|pid| text.contains(&pid.to_string())), "{text}");
    observer.send(&json!({"type": "waits", "view": {"id": 1}}).to_string()).await;
    let waits = observer.pick(|message| (message["type"] == "waits").then(|| message.clone())).await;
    assert_eq!((&waits["cycles"], &waits["rows"][0]["cycle"]), (&1.into(), &3.into()));
}

#[tokio::test]
async fn a_trace_is_sent_until_it_is_stopped_and_a_bad_request_is_refused() {
    let node = node();
    let echo = node.runtime.spawn(|ctx| async move {
        loop {
            let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
            reply.send(&ctx, request);
        }
    });
    let echo = echo.unwrap();
    node.runtime
        .spawn(move |ctx| async move {
            while ctx.call::<u64, u64>(echo, 1, Duration::from_mins(1)).await.is_ok() {
                ctx.sleep(Duration::from_millis(5)).await;
            }
        })
        .unwrap();
    let mut observer = node.attach().await;

    observer.send(&json!({"type": "trace", "trace": {"pid": "<0.999.1>"}, "id": 1}).to_string()).await;
    let refused = observer.pick(|message| (message["id"] == 1).then(|| message.clone())).await;
    assert_eq!((&refused["type"], &refused["code"]), (&"error".into(), &"unknown".into()));
    observer
        .send(&json!({"type": "trace", "trace": {"pid": echo.to_string(), "per_sec": 5000}, "id": 2}).to_string())
        .await;
    let refused = observer.pick(|message| (message["id"] == 2).then(|| message.clone())).await;
    assert_eq!(refused["message"], "per_sec of 5000 is not between 1 and 1000");

    observer
        .send(&json!({"type": "trace", "trace": {"pid": echo.to_string(), "seconds": 10}, "id": 3}).to_string())
        .await;
    let mut seen = Vec::new();
    observer
        .pick(|message| {
            if message["type"] == "trace" {
                seen.extend(message["events"].as_array().unwrap().iter().cloned());
            }
            (seen.len() >= 30).then_some(())
        })
        .await;

    let seqs: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no gap");
    for kind in ["arrive", "receive", "poll", "send"] {
        assert!(seen.iter().any(|event| event["kind"] == kind), "{kind}");
    }
    assert!(seen.iter().all(|event| event["pid"] == echo.to_string()));
    let request = seen.iter().find(|event| event["kind"] == "receive").unwrap();
    assert!(request["message"].as_str().unwrap().contains("Request"), "{request}");

    observer.send(&json!({"type": "trace", "trace": null, "id": 4}).to_string()).await;
    observer.pick(|message| (message["id"] == 4 && message["type"] == "ack").then_some(())).await;
}

#[tokio::test]
async fn the_list_of_waits_is_in_the_past_although_no_observer_requested_it() {
    let node = node_with(|config| config.limits = crate::support::generous());
    let server = node.parked();
    let client = caller(&node);
    node.runtime.try_send(client, server).unwrap();
    let mut observer = node.attach().await;

    let mut id = 0;
    let row = loop {
        id += 1;
        observer.send(&json!({"type": "past", "id": id, "at_ms": u64::MAX}).to_string()).await;
        let past = observer.pick(|message| (message["id"] == id).then(|| message["messages"].clone())).await;
        let waits = past.as_array().into_iter().flatten().find(|message| message["type"] == "waits");
        let mut rows = waits.and_then(|waits| waits["rows"].as_array()).into_iter().flatten();
        if let Some(row) = rows.find(|row| row["pid"] == client.to_string()) {
            break row.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    assert_eq!((&row["wait"], &row["depth"]), (&json!("call"), &json!(1)));
}
