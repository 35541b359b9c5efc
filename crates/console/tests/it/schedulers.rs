//! The view of the schedulers: each figure is compared with what the test has made the schedulers do.

use std::time::Duration;

use crate::support::{Client, node};
use rusm_runtime::Context;
use serde_json::{Value, json};

async fn schedulers(client: &mut Client) -> Value {
    client.next_of("schedulers").await
}

fn view(len: u32) -> String {
    json!({"type": "schedulers", "view": {"id": 3, "window": {"offset": 0, "len": len}, "hz": 10.0}}).to_string()
}

#[tokio::test]
async fn a_scheduler_shows_what_it_runs_and_what_waits_for_it() {
    let node = node();
    let (started, running) = std::sync::mpsc::channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    // A poll that does not return, and processes that only its scheduler may run.
    let holder = node
        .runtime
        .spawn_pinned(0, move |ctx| async move {
            ctx.set_label("holder");
            started.send(()).unwrap();
            held.recv().ok();
        })
        .unwrap();
    running.recv().unwrap();
    for _ in 0..46 {
        node.runtime.spawn_pinned(0, |_| async {}).unwrap();
    }
    let mut client = node.attach().await;
    client.send(&view(64)).await;

    let found = loop {
        let found = schedulers(&mut client).await;
        if found["idle"].is_object() {
            break found;
        }
    };

    let (busy, other) = (&found["schedulers"][0], &found["schedulers"][1]);
    assert_eq!((busy["ready"].as_u64(), busy["pinned"].as_u64()), (Some(46), Some(46)), "{found}");
    assert_eq!((&busy["running"], &busy["name"]), (&json!(holder.to_string()), &json!("holder")), "{found}");
    assert!(busy["slice_us"].as_u64().unwrap() > 0 && busy["asleep_us"].is_null(), "{found}");
    assert!(busy["awake"].as_f64().unwrap() > 0.9, "a blocked thread is awake: {found}");
    assert!(other["asleep_us"].as_u64().unwrap() >= 3_000, "{found}");
    assert_eq!(found["idle"]["busy"], 0, "{found}");
    assert_eq!((&found["idle"]["idle"], &found["idle"]["pinned"]), (&json!(1), &json!(46)), "{found}");
    drop(release);
}

#[tokio::test]
async fn the_rates_of_a_scheduler_are_the_growth_of_its_totals() {
    let node = node();
    let mut client = node.attach().await;
    client.send(&view(64)).await;
    let first = schedulers(&mut client).await;
    let total = |runtime| rusm_runtime::observe::schedulers(runtime).iter().map(|one| one.polls).sum::<u64>();
    let before = total(&node.runtime);
    for _ in 0..500 {
        node.runtime.spawn(|_| async {}).unwrap();
    }

    let mut polls = 0.0;
    let mut at_ms = first["at_ms"].as_u64().unwrap();
    while polls < 500.0 {
        let next = schedulers(&mut client).await;
        let seconds = (next["at_ms"].as_u64().unwrap() - at_ms) as f64 / 1000.0;
        at_ms = next["at_ms"].as_u64().unwrap();
        let rates = next["schedulers"].as_array().unwrap().iter();
        polls += rates.map(|one| one["polls_per_sec"].as_f64().unwrap()).sum::<f64>() * seconds;
        polls = polls.ceil() + 1.0;
    }

    assert!(total(&node.runtime) - before >= 500);
    assert!(polls < 1_000.0, "{polls}");
}

#[tokio::test]
async fn a_window_of_schedulers_has_a_limit() {
    let node = node();
    let mut client = node.attach().await;

    client.send(&view(1)).await;
    let one = schedulers(&mut client).await;
    client.send(&view(201)).await;
    let refused = client.next_of("error").await;

    assert_eq!((one["schedulers"].as_array().unwrap().len(), one["total"].as_u64()), (1, Some(2)));
    assert_eq!(refused["code"], "out_of_range");
}

#[tokio::test]
async fn the_cpu_view_shows_how_late_the_processes_of_a_kind_run() {
    let node = node();
    let ticking = |ctx: Context| async move {
        ctx.set_label("late one");
        loop {
            ctx.sleep(Duration::from_micros(200)).await;
        }
    };
    for _ in 0..8 {
        node.runtime.spawn(ticking).unwrap();
    }
    let mut client = node.attach().await;
    client.send(&json!({"type": "cpu", "view": {"id": 1, "group": "kind", "hz": 10.0}}).to_string()).await;

    let row = client
        .pick(|message| {
            let rows = message["rows"].as_array().filter(|_| message["type"] == "cpu")?;
            rows.iter().find(|row| row["name"] == "late one" && row["wait_samples"].as_u64() > Some(3)).cloned()
        })
        .await;

    // From ready to running takes some time, and not as long as the whole test may.
    let wait_ns = row["wait_p99_ns"].as_u64().unwrap();
    assert!((1..60_000_000_000).contains(&wait_ns), "{row}");
}
