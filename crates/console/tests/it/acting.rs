//! Commands that act on a node: an end with words, the filter of the log, and a node that observers cannot change.

use std::sync::Arc;

use crate::support::{Client, node, node_with};
use parking_lot::Mutex;
use rusm_runtime::Pid;
use serde_json::{Value, json};

/// Sends a command and returns its answer.
async fn ask(client: &mut Client, command: &Value) -> Value {
    client.send(&command.to_string()).await;
    client.pick(|message| (message["id"] == command["id"] && message["type"] != "view").then(|| message.clone())).await
}

#[tokio::test]
async fn a_process_ends_with_the_words_of_the_observer() {
    let node = node();
    let mut client = node.attach().await;
    let kill = |pid: Pid, reason: &str, text: Value| json!({"type": "kill", "pid": pid.to_string(), "reason": reason, "text": text, "id": 1});

    for (reason, text, said) in [
        ("error", json!("leaks memory"), "leaks memory"),
        ("shutdown", json!(" for an update "), "shutdown: for an update"),
        ("shutdown", Value::Null, "shutdown"),
    ] {
        let pid = node.parked();
        assert_eq!(ask(&mut client, &kill(pid, reason, text)).await["type"], "ack");
        client.send(&json!({"type": "inspect", "view": {"id": 2, "pid": pid.to_string(), "hz": 10}}).to_string()).await;
        let ended = client.pick(|message| message["ended"].is_object().then(|| message["ended"].clone())).await;
        assert_eq!((&ended["reason"], &ended["by"]), (&said.into(), &"observer".into()));
        client.send(&json!({"type": "inspect", "view": null}).to_string()).await;
    }
    let pid = node.parked();
    for (reason, text, why) in [
        ("error", Value::Null, "the reason error needs a text, and kill_all has none"),
        ("kill", json!("x"), "kill has no text: use the reason error or shutdown"),
        ("error", json!("x".repeat(256)), "a text of 256 bytes: at most 255"),
    ] {
        let answer = ask(&mut client, &kill(pid, reason, text)).await;
        assert_eq!((&answer["code"], &answer["message"]), (&"out_of_range".into(), &why.into()));
    }
    let all = json!({"type": "kill_all", "filter": "name=x", "reason": "error", "id": 3});
    assert_eq!(ask(&mut client, &all).await["code"], "out_of_range");
    assert!(node.runtime.is_alive(pid));
}

#[tokio::test]
async fn the_filter_of_the_log_is_replaced_by_a_client_in_control() {
    let set = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&set);
    let node = node_with(|config| {
        config.log_filter = Some(Arc::new(move |filter: &str| {
            if filter == "loud" {
                return Err("\"loud\" is not a level".to_owned());
            }
            sink.lock().push(filter.to_owned());
            Ok(())
        }));
    });
    let mut client = node.attach().await;
    let command = |filter: &str| json!({"type": "set_log_filter", "filter": filter, "id": 7});

    assert_eq!(ask(&mut client, &command("info,rusm_store=trace")).await["type"], "ack");
    assert_eq!(ask(&mut client, &command("loud")).await["message"], "\"loud\" is not a level");
    assert_eq!(ask(&mut client, &command(&"x".repeat(257))).await["code"], "out_of_range");
    let mut observer = node.attach_tcp(&node.observe_token()).await;
    assert_eq!(ask(&mut observer, &command("off")).await["code"], "forbidden");

    assert_eq!(*set.lock(), ["info,rusm_store=trace"]);
}

#[tokio::test]
async fn nobody_changes_a_read_only_node() {
    let node = node_with(|config| config.read_only = true);
    let pid = node.parked();
    let mut client = node.attach().await;

    let hello = client.next_of("hello").await;
    assert_eq!(hello["role"], "observe");
    assert!(hello["node"]["features"].as_array().unwrap().contains(&json!("read_only")), "{hello}");
    let answer = ask(&mut client, &json!({"type": "kill", "pid": pid.to_string(), "id": 1})).await;

    assert_eq!(answer["message"], "this node is read-only: observers cannot change it");
    assert!(node.runtime.is_alive(pid));
}

#[tokio::test]
async fn a_run_is_paused_by_a_client_in_control_only() {
    let node = node();
    let mut client = node.attach().await;
    let pause = |paused: bool, id: u64| json!({"type": "pause", "paused": paused, "id": id});

    assert_eq!(ask(&mut client, &pause(true, 1)).await["message"], "no scenario runs");
    let run = json!({"type": "run", "scenario": "spawn-storm", "id": 2});
    assert_eq!(ask(&mut client, &run).await["type"], "ack");
    let mut observer = node.attach_tcp(&node.observe_token()).await;
    assert_eq!(ask(&mut observer, &pause(true, 3)).await["code"], "forbidden");

    assert_eq!(ask(&mut client, &pause(true, 4)).await["type"], "ack");
    client.pick(|message| (message["frame"]["paused"] == true).then_some(())).await;
    assert_eq!(ask(&mut client, &pause(false, 5)).await["type"], "ack");
    // The field is absent again.
    client.pick(|message| (message["type"] == "tick" && message["frame"]["paused"].is_null()).then_some(())).await;
}
