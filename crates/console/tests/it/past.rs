//! The past of a node: instants that equal what a client saw live, figures for charts, and the limits of both.

use std::time::Duration;

use rusm_console::RecorderConfig;
use rusm_protocol::{Past, ServerMessage, decode_server};
use rusm_runtime::{ExitReason, Pid};
use serde_json::Value;

use crate::support::{Client, DEADLINE, Node, generous, node_with};

fn node() -> Node {
    node_with(|config| config.limits = generous())
}

/// Requests an instant, and returns the answer as it was sent.
async fn ask(client: &mut Client, id: u32, at_ms: u64) -> Value {
    client.send(&format!(r#"{{"type":"past","id":{id},"at_ms":{at_ms}}}"#)).await;
    client.pick(|message| (message["type"] == "past" && message["id"] == id).then(|| message.clone())).await
}

fn decoded(value: &Value) -> Past {
    match decode_server(&value.to_string()) {
        Ok(ServerMessage::Past(past)) => past,
        other => panic!("no instant: {other:?}"),
    }
}

/// Waits until the recorder has an instant that satisfies the condition.
async fn until(client: &mut Client, condition: impl Fn(&Past) -> bool) -> Past {
    let started = std::time::Instant::now();
    for id in 0.. {
        let past = decoded(&ask(client, id, u64::MAX).await);
        if past.refusal.is_none() && condition(&past) {
            return past;
        }
        assert!(started.elapsed() < DEADLINE, "waited too long: {past:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!()
}

fn shows(past: &Past, pid: Pid) -> bool {
    let pid = rusm_protocol::Cell::Text(pid.to_string());
    past.messages.iter().any(
        |message| matches!(message, ServerMessage::Rows(rows) if rows.rows.iter().any(|row| row.first() == Some(&pid))),
    )
}

fn reasons(past: &Past) -> Vec<String> {
    let events = past.messages.iter().filter_map(|message| match message {
        ServerMessage::Events(events) => Some(&events.events),
        _ => None,
    });
    events.flatten().filter_map(|event| event.reason.clone()).collect()
}

#[tokio::test]
async fn a_recorded_frame_equals_the_one_that_was_sent_live() {
    let node = node();
    let mut client = node.attach().await;
    let mut sent: Vec<Value> = Vec::new();
    client
        .pick(|message| {
            sent.extend((message["type"] == "tick").then(|| message.clone()));
            (sent.len() == 20).then_some(())
        })
        .await;
    let ms = |tick: &Value| tick["frame"]["captured_at_ns"].as_u64().unwrap() / 1_000_000;
    let newest = ms(&sent[19]);
    let past = until(&mut client, |past| past.newest_ms > newest).await;

    let mut equal = 0;
    for (id, tick) in (1_000_000..).zip(&mut sent) {
        let answer = ask(&mut client, id, ms(tick)).await;
        // Frames are recorded ten times a second, so the answer may have the frame before this one.
        if answer["messages"][0]["frame"]["seq"] == tick["frame"]["seq"] {
            // The only field that differs between clients.
            tick["frame"]["skipped"] = 0.into();
            assert_eq!(*tick, answer["messages"][0]);
            equal += 1;
        }
    }

    assert!(past.oldest_ms <= past.newest_ms && past.memory_bytes > 0, "{past:?}");
    assert!(equal >= 3, "{equal} of 20 frames are recorded");
}

#[tokio::test]
async fn a_process_that_has_ended_is_found_in_the_past_with_the_event_of_its_end() {
    let node = node();
    let mut client = node.attach().await;
    let pid = node.parked();
    let before = until(&mut client, |past| shows(past, pid)).await;

    node.runtime.exit(pid, ExitReason::other("the disk is full"));
    let after = until(&mut client, |past| !shows(past, pid) && reasons(past).len() == 1).await;
    let again = decoded(&ask(&mut client, 7_000_000, before.at_ms).await);

    assert!(after.at_ms > before.at_ms);
    assert!(reasons(&after)[0].contains("the disk is full"), "{after:?}");
    assert!(shows(&again, pid) && reasons(&again).is_empty(), "{again:?}");
}

#[tokio::test]
async fn a_time_before_the_first_instant_gives_the_oldest_one_and_each_kind_once() {
    let node = node();
    let mut client = node.attach().await;
    until(&mut client, |_| true).await;

    let past = decoded(&ask(&mut client, 9, 0).await);

    assert_eq!(past.at_ms, past.oldest_ms);
    let ticks = past.messages.iter().filter(|message| matches!(message, ServerMessage::Tick { .. })).count();
    assert_eq!(ticks, 1);
}

#[tokio::test]
async fn the_history_has_the_figures_of_the_frames() {
    let node = node();
    let mut client = node.attach().await;
    let started = std::time::Instant::now();
    let history = loop {
        client.send(r#"{"type":"history","id":3}"#).await;
        let history = client.next_of("history").await;
        // The first sample lacks rates.
        if history["at_ms"].as_array().unwrap().len() > 1 {
            break history;
        }
        assert!(started.elapsed() < DEADLINE, "waited too long: {history}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };

    let points = history["at_ms"].as_array().unwrap().len();
    assert!(points >= 1);
    let series = history["series"].as_array().unwrap();
    let names: Vec<&str> = series.iter().map(|series| series["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"cpu_pct") && names.contains(&"utilisation/1"), "{names:?}");
    assert!(series.iter().all(|series| series["points"].as_array().unwrap().len() == points));
}

#[tokio::test]
async fn a_recorder_that_is_off_says_so_in_one_line() {
    let node = node_with(|config| config.recorder = RecorderConfig { span: Duration::ZERO, ..config.recorder });
    let mut client = node.attach().await;

    let answer = ask(&mut client, 1, 0).await;

    assert_eq!(answer["refusal"], "this node records nothing: set recorder.span");
    assert_eq!(answer["messages"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn requests_about_the_past_are_limited_like_all_commands() {
    let node = node_with(|config| config.limits.commands_per_sec = 20);
    let mut client = node.attach().await;

    for id in 0..40 {
        client.send(&format!(r#"{{"type":"past","id":{id},"at_ms":0}}"#)).await;
    }

    let error = client.next_of("error").await;
    assert_eq!(error["code"], "rate_limited");
}

#[tokio::test]
async fn the_recorded_tree_has_the_sums_of_its_rows() {
    use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};

    let node = node();
    let mut client = node.attach().await;
    let child = ChildSpec::new("worker", |_| std::future::pending::<()>());
    let _supervisor = Supervisor::new(Strategy::OneForOne).child(child).start(&node.runtime).await.unwrap();

    let past = until(&mut client, |past| {
        past.messages.iter().any(|message| match message {
            // A share of CPU time needs two looks.
            ServerMessage::Tree(tree) => {
                tree.rows.iter().any(|row| row.sum.is_some_and(|sum| sum.processes == 2 && sum.cpu_pct.is_some()))
            }
            _ => false,
        })
    })
    .await;

    assert!(past.refusal.is_none());
}
