//! One process in depth, its end, and the causes of failures, as a client receives them.

use std::future::pending;

use crate::support::{Client, Node, generous, node, node_with};
use rusm_runtime::{Context, ExitReason, Pid, SpawnOptions, observe};
use serde_json::{Value, json};

async fn attached() -> (Node, Client) {
    let node = node_with(|config| config.limits = generous());
    let client = node.attach().await;
    (node, client)
}

fn inspect(id: u32, pid: Pid, more: &Value) -> String {
    let mut view = json!({"id": id, "pid": pid.to_string(), "hz": 10});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        view[name] = value;
    }
    json!({"type": "inspect", "view": view}).to_string()
}

/// Returns the first answer to the view `id` that `wanted` accepts.
async fn answer(client: &mut Client, id: u32, wanted: impl Fn(&Value) -> bool) -> Value {
    client
        .pick(|message| {
            (message["type"] == "inspection" && message["id"] == id && wanted(message)).then(|| message.clone())
        })
        .await
}

#[tokio::test]
async fn links_are_sent_in_full_number_by_page_and_with_their_names() {
    let (node, mut client) = attached().await;
    let hub = node
        .runtime
        .spawn(|ctx: Context| async move {
            ctx.set_label("hub");
            for _ in 0..40 {
                let other = ctx.spawn(|_| async { pending::<()>().await });
                ctx.link(other);
            }
            pending::<()>().await;
        })
        .unwrap();

    client.send(&inspect(1, hub, &json!({"reach": true}))).await;
    let first = answer(&mut client, 1, |message| message["bonds"][0]["total"] == 40).await;
    client.send(&inspect(2, hub, &json!({"page": {"bond": "links", "window": {"offset": 30, "len": 100}}}))).await;
    let page = answer(&mut client, 2, |_| true).await;
    client.send(&inspect(3, hub, &json!({"page": {"bond": "children", "window": {"offset": 0, "len": 5}}}))).await;
    let children = answer(&mut client, 3, |_| true).await;

    assert_eq!(first["bonds"][0]["processes"].as_array().unwrap().len(), 8);
    assert_eq!(first["reach"], json!({"ends": 40, "told": 0}));
    assert_eq!(
        (&page["bonds"][0]["offset"], page["bonds"][0]["processes"].as_array().unwrap().len()),
        (&json!(30), 10)
    );
    assert_eq!(children["bonds"][1]["total"], 40);
    let child: Pid = children["bonds"][1]["processes"][0]["pid"].as_str().unwrap().parse().unwrap();
    client.send(&inspect(4, child, &json!({}))).await;
    let child = answer(&mut client, 4, |_| true).await;
    assert_eq!(child["ancestors"], json!([{"pid": hub.to_string(), "name": "hub"}]));
}

#[tokio::test]
async fn the_mailbox_has_its_length_its_bytes_and_its_rates() {
    let (node, mut client) = attached().await;
    let reader = node.runtime.spawn(|_| async { pending::<()>().await }).unwrap();
    for n in 0..25_u32 {
        node.runtime.try_send(reader, n).unwrap();
    }

    client.send(&inspect(1, reader, &json!({}))).await;
    let answer = answer(&mut client, 1, |message| message["mailbox"]["in_per_sec"].is_number()).await;

    let mailbox = &answer["mailbox"];
    assert_eq!(
        (&mailbox["len"], &mailbox["in_per_sec"], &mailbox["waiting_senders"]),
        (&json!(25), &json!(0.0), &json!(0))
    );
    let process = observe::process_ref(&node.runtime, reader).unwrap();
    assert_eq!(mailbox["bytes"], process.mailbox_bytes());
    assert_eq!(mailbox["capacity"], process.mailbox_capacity());
}

#[tokio::test]
async fn a_process_that_an_observer_has_ended_says_so() {
    let (node, mut client) = attached().await;
    let victim =
        node.runtime.spawn_with(&SpawnOptions::default().label("victim"), |_| async { pending::<()>().await }).unwrap();
    client.send(&inspect(1, victim, &json!({}))).await;
    answer(&mut client, 1, |message| message["is_alive"] == true).await;

    client.send(&json!({"type": "kill", "pid": victim.to_string(), "id": 7}).to_string()).await;
    let answer = answer(&mut client, 1, |message| message["ended"].is_object()).await;

    let ended = &answer["ended"];
    assert_eq!(
        (&ended["name"], &ended["reason"], &ended["by"]),
        (&json!("victim"), &json!("killed"), &json!("observer"))
    );
    assert!(ended["by_observer"].as_str().is_some_and(|by| !by.is_empty()), "{ended}");
    client.send(&inspect(2, Pid::local(victim.slot(), 1 << 20), &json!({}))).await;
    let never = self::answer(&mut client, 2, |_| true).await;
    assert_eq!((&never["is_alive"], &never["ended"]), (&json!(false), &json!(null)));
}

#[tokio::test]
async fn causes_are_counted_and_the_selected_one_is_sent_in_full() {
    let (node, mut client) = attached().await;
    for n in 0..30 {
        node.runtime.spawn(move |_| async move { Err::<(), _>(format!("no row {n}")) }).unwrap();
    }
    let killed = node.runtime.spawn(|_| async { pending::<()>().await }).unwrap();
    node.runtime.exit(killed, ExitReason::Killed);

    client.send(&json!({"type": "causes", "view": {"id": 1, "hz": 10}}).to_string()).await;
    let causes = client
        .pick(|message| (message["type"] == "causes" && message["failures_total"] == 31).then(|| message.clone()))
        .await;
    let failed = causes["causes"].as_array().unwrap().iter().find(|cause| cause["kind"] == "crash").unwrap();
    client.send(&json!({"type": "causes", "view": {"id": 2, "hz": 10, "selected": failed["cause"]}}).to_string()).await;
    let selected = client
        .pick(|message| (message["type"] == "causes" && message["id"] == 2).then(|| message["selected"].clone()))
        .await;

    assert_eq!((&failed["count"], &failed["why"]), (&json!(30), &json!("no row *")));
    assert_eq!(failed["history"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 30);
    assert_eq!((&selected["cause"]["count"], &selected["end"]["by"]), (&json!(30), &json!("itself")));
    assert!(selected["end"]["reason"].as_str().unwrap().starts_with("no row "), "{selected}");
}

#[tokio::test]
async fn what_is_wrong_with_a_view_is_said() {
    let node = node();
    let mut client = node.attach().await;
    for (view, code, text) in [
        (json!({"id": 1, "pid": "x"}), "malformed", "\"x\": a pid reads"),
        (json!({"id": 1, "pid": "<0.1.1>", "hz": 0}), "out_of_range", "hz of 0 is not between 1 and 10"),
        (
            json!({"id": 1, "pid": "<0.1.1>", "page": {"bond": "kin"}}),
            "unknown",
            "unknown bond \"kin\": expected links,",
        ),
        (
            json!({"id": 1, "pid": "<0.1.1>", "page": {"bond": "links", "window": {"len": 201}}}),
            "out_of_range",
            "a window of 201 rows is over the limit of 200",
        ),
    ] {
        let error = client.refused(&json!({"type": "inspect", "view": view}).to_string()).await;
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(text), "{error}");
    }
}

#[tokio::test]
async fn senders_and_types_are_sent_to_observers_and_values_only_to_control() {
    let node = node_with(|config| config.limits = generous());
    let reader = node.runtime.spawn(|_| async { pending::<()>().await }).unwrap();
    let mut control = node.attach().await;
    let mut observer = node.attach_tcp(&node.observe_token()).await;
    control.send(&inspect(1, reader, &json!({"values": true}))).await;
    answer(&mut control, 1, |message| message["mailbox"].is_object()).await;
    let sender = node
        .runtime
        .spawn(move |ctx: Context| async move {
            ctx.set_label("clerk");
            for _ in 0..3 {
                ctx.send(reader, "flush".to_owned()).await;
            }
            pending::<()>().await;
        })
        .unwrap();

    let mailbox =
        answer(&mut control, 1, |message| message["mailbox"]["preview"][2].is_object()).await["mailbox"].take();
    observer.send(&inspect(2, reader, &json!({}))).await;
    let seen = answer(&mut observer, 2, |message| message["mailbox"]["preview"][2].is_object()).await;
    let refused = observer.refused(&inspect(3, reader, &json!({"values": true}))).await;

    assert_eq!(mailbox["senders"], json!([{"pct": 100.0, "process": {"name": "clerk", "pid": sender.to_string()}}]));
    assert_eq!((&mailbox["seen"], &mailbox["preview"][0]["value"]), (&json!(3), &json!("\"flush\"")));
    assert!(mailbox["oldest_ms"].is_number() && mailbox["oldest_is_minimum"].is_null(), "{mailbox}");
    assert_eq!(seen["mailbox"]["preview"][0]["kind"], "alloc::string::String");
    assert_eq!((&refused["code"], &seen["waits"]["on"]), (&json!("forbidden"), &json!("io")));
}

#[tokio::test]
async fn a_poll_that_blocks_its_thread_shows_the_system_call_and_for_how_long() {
    let (node, mut client) = attached().await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let blocked = node
        .runtime
        .spawn(|_| async move {
            released.recv().ok();
            pending::<()>().await;
        })
        .unwrap();

    client.send(&inspect(1, blocked, &json!({}))).await;
    let inside = answer(&mut client, 1, |message| message["poll"]["at_most_ms"].as_f64() > Some(100.0)).await;
    release.send(()).unwrap();
    let after = answer(&mut client, 1, |message| message["poll"].is_null()).await;

    // A kernel may be built without this file; then nothing is claimed.
    if std::path::Path::new("/proc/self/syscall").exists() {
        assert_eq!(
            (&inside["poll"]["doing"], &inside["poll"]["system_call"]),
            (&json!("system_call"), &json!("futex"))
        );
    }
    assert!(after["backtrace"].is_null(), "a native process has none: {after}");
}
