//! Many observers: each gets its own views, and an observer that is slow, does not read or exceeds the limit does not
//! affect the others.

use std::time::Duration;

use crate::resident_bytes;
use crate::support::{Client, Closed, Node, generous, node, node_with};
use rusm_console::{Limits, TickRate};
use rusm_runtime::Pid;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn one_clients_table_and_rate_never_change_anothers() {
    let _alone = crate::ALONE.lock().await;
    let node = node();
    let pids: Vec<Pid> = (0..5).map(|_| node.parked()).collect();
    let (mut one, mut two, mut three) = (node.attach().await, node.attach().await, node.attach().await);

    one.send(r#"{"type":"set_observer_detail","enabled":true}"#).await;
    two.send(r#"{"type":"watch","frame_hz":2}"#).await;
    let rows = two
        .rows(
            &json!({"type": "view", "id": 2, "sort": {"key": "pid", "desc": true}, "window": {"offset": 0, "len": 2}}),
        )
        .await;
    one.pick(|message| (message["frame"]["observer"]["processes"].as_array()?.len() == 5).then_some(())).await;
    two.send(r#"{"type":"set_observer_detail","enabled":false}"#).await;
    one.send(r#"{"type":"set_observer_detail","enabled":false}"#).await;
    one.pick(|message| message["frame"]["observer"]["processes"].as_array()?.is_empty().then_some(())).await;

    assert_eq!(rows["rows"].as_array().unwrap().len(), 2);
    assert_eq!(rows["rows"][0][0], pids[4].to_string());
    let mut last = None;
    for _ in 0..20 {
        let message = three.next().await.unwrap();
        assert_ne!(message["type"], "rows");
        let Some(seq) = message["frame"]["seq"].as_u64() else { continue };
        assert_eq!(message["frame"]["observer"]["processes"], json!([]));
        assert!(last.is_none_or(|last| seq == last + 1), "every frame, whatever another client asked for");
        last = Some(seq);
    }
}

#[tokio::test]
async fn each_observer_gets_frames_at_its_own_rate() {
    let _alone = crate::ALONE.lock().await;
    let node = node();
    let (mut all, mut few) = (node.attach().await, node.attach().await);
    few.send(r#"{"type":"watch","frame_hz":1}"#).await;
    few.frame().await;
    few.frame().await;

    let mut last = few.frame().await;
    for _ in 0..3 {
        let next = few.frame().await;
        assert_eq!(next["skipped"], last["skipped"], "frames not asked for are not skipped");
        let grown = |key: &str| next[key].as_u64().unwrap() - last[key].as_u64().unwrap();
        let (samples, ms) = (grown("seq"), grown("uptime_ms"));
        // A node that is slow samples less often than the observer asks for; each sample is a frame then.
        assert!(samples > 1 || ms > 500, "one frame a second, and {samples} samples in {ms} ms");
        last = next;
    }
    let first = all.frame().await;
    for number in 1..=40 {
        let frame = all.frame().await;
        assert_eq!(frame["seq"].as_u64(), first["seq"].as_u64().map(|seq| seq + number));
        assert_eq!(frame["skipped"], 0);
    }
}

#[tokio::test]
async fn a_late_observer_is_right_at_the_next_frame() {
    let _alone = crate::ALONE.lock().await;
    let node = node();
    let mut early = node.attach().await;
    early.send(r#"{"type":"run","scenario":"spawn-storm"}"#).await;
    early.pick(|message| (message["frame"]["seq"].as_u64()? > 5).then_some(())).await;
    for _ in 0..7 {
        node.parked();
    }
    early.pick(|message| (message["frame"]["observer"]["process_count"] == 7).then_some(())).await;

    let mut late = node.attach().await;
    assert_eq!(late.frame().await["observer"]["process_count"], 7);
    let late_frame = late.frame().await;
    let same =
        |message: &serde_json::Value| (message["frame"]["seq"] == late_frame["seq"]).then(|| message["frame"].clone());
    let early_frame = early.pick(same).await;

    assert_eq!(late_frame, early_frame);
    assert_eq!(late_frame["scenario"], "spawn-storm");
    assert!(late_frame["throughput"]["points"].as_array().unwrap().len() > 3, "the history is included");
}

#[tokio::test]
async fn a_crowd_at_the_handshake_keeps_no_observer_out() {
    let _alone = crate::ALONE.lock().await;
    let node = node();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(node.console.address().unwrap()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        crowd.push(stream);
    }

    let probe = node.ask(&format!("GET /healthz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", node.port())).await;
    let mut beside = node.attach_tcp(&node.control_token()).await;
    let mut client = node.attach().await;

    assert!(probe.starts_with("HTTP/1.1 200 OK"), "{probe}");
    assert_eq!(beside.next().await.unwrap()["type"], "hello");
    drop(beside);
    client.pick(|message| (message["frame"]["observer"]["clients"] == 1).then_some(())).await;
}

#[tokio::test]
async fn the_thirty_third_observer_is_told_that_there_is_no_room() {
    let _alone = crate::ALONE.lock().await;
    let node = node();
    let mut crowd = Vec::new();
    for _ in 0..32 {
        crowd.push(node.attach().await);
    }
    let headers = format!(
        "Host: localhost:{}\r\nSec-WebSocket-Protocol: rusm.v1\r\nAuthorization: Bearer {}\r\n",
        node.port(),
        node.control_token()
    );

    let refused = node.ask(&Node::upgrade(&headers)).await;
    let probe = node.ask(&format!("GET /healthz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", node.port())).await;
    drop(crowd.pop());
    crowd[0].pick(|message| (message["frame"]["observer"]["clients"] == 31).then_some(())).await;
    let mut late = node.attach_tcp(&node.control_token()).await;

    assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{refused}");
    assert!(refused.ends_with("\r\n\r\nthe limit of 32 attached observers is reached\n"), "{refused}");
    assert!(probe.starts_with("HTTP/1.1 200 OK"), "probes need no client slot: {probe}");
    assert_eq!(late.next().await.unwrap()["type"], "hello");
}

/// Attaches a client that asks for the highest rates and the largest view.
async fn glutton(node: &Node) -> Client {
    let mut client = node.attach().await;
    client.send(r#"{"type":"watch","frame_hz":60}"#).await;
    client.send(r#"{"type":"view","id":1,"window":{"offset":0,"len":200},"hz":10}"#).await;
    client
}

#[tokio::test]
async fn clients_that_never_read_are_given_up_and_disturb_nobody() {
    let _alone = crate::ALONE.lock().await;
    let node = node_with(|config| {
        config.limits.write = Duration::from_millis(300);
        config.tick = TickRate::from_hz(60).unwrap();
    });
    for _ in 0..300 {
        node.parked();
    }
    let mut reader = node.attach().await;
    let mut deaf = Vec::new();
    for _ in 0..20 {
        deaf.push(glutton(&node).await);
    }
    reader.pick(|message| (message["frame"]["observer"]["clients"].as_u64()? > 1).then_some(())).await;
    let before = resident_bytes();

    let mut frames = 0_u64;
    let skipped = loop {
        let frame = reader.frame().await;
        frames += 1;
        if frame["observer"]["clients"] == 1 {
            break frame["skipped"].as_u64().unwrap();
        }
    };

    assert!(skipped <= frames / 4, "{skipped} of {frames} frames skipped for a client that reads");
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown < 16 * 1024 * 1024, "{grown} bytes for 20 clients that do not read");
    }
    let mut end = deaf.pop().unwrap();
    assert_eq!(end.end().await, Closed(None));
}

#[tokio::test]
async fn a_client_that_stops_reading_for_a_while_skips_frames_and_is_right_again() {
    let _alone = crate::ALONE.lock().await;
    let node = node_with(|config| {
        config.tick = TickRate::from_hz(60).unwrap();
        // A slow machine sends fewer frames, so that they cost little: the others may take minutes.
        config.limits = Limits { write: Duration::from_mins(10), ..generous() };
    });
    for _ in 0..200 {
        node.parked();
    }
    let mut other = node.attach().await;
    let mut client = glutton(&node).await;
    let first = client.frame().await;

    // Do not read during 40 frames of the other client.
    for _ in 0..40 {
        other.frame().await;
    }
    node.parked();
    let mut expected = first["seq"].as_u64().unwrap() + 1;
    let mut skipped = first["skipped"].as_u64().unwrap();
    loop {
        let frame = client.frame().await;
        let seq = frame["seq"].as_u64().unwrap();
        skipped += seq - expected;
        expected = seq + 1;
        assert_eq!(frame["skipped"], skipped, "the frame after skipped ones says how many");
        if frame["observer"]["process_count"] == 201 {
            break;
        }
    }

    assert!(skipped > 0, "the kernel's buffers held everything");
}
