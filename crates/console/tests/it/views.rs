//! The process table through a view: the rows are those of a full sort, for every key, filter and window.

use std::time::{Duration, Instant};

use crate::population::{FILTERS, KEYS, Population};
use crate::support::{Client, Node, generous, node, node_with};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as Cases, TestRunner};
use rusm_runtime::observe::{self, ProcessState};
use rusm_runtime::{Context, ExitReason, Pid, Runtime, SpawnOptions};
use serde_json::{Value, json};

/// Starts a node that accepts any rate of client requests, with processes that keep their figures constant.
fn crowded(processes: usize) -> (Node, Population) {
    let node = node_with(|config| config.limits = generous());
    let population = Population::settle(&node.runtime, processes);
    (node, population)
}

fn view(id: usize, key: &str, desc: bool, filter: &str, offset: u64, len: u32) -> Value {
    let (sort, window) = (json!({"key": key, "desc": desc}), json!({"offset": offset, "len": len}));
    json!({"type": "view", "id": id, "columns": ["pid"], "sort": sort, "filter": filter, "window": window, "hz": 10.0})
}

fn pids(rows: &Value) -> Vec<&str> {
    rows["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect()
}

/// Asks for a window and compares it with the sorted population.
async fn agrees(client: &mut Client, population: &Population, id: usize, asked: (&str, bool, usize, u64, u32)) {
    let (key, desc, filter, offset, len) = asked;
    let expected = population.sorted(key, desc, FILTERS[filter].1);
    let from = (offset as usize).min(expected.len().saturating_sub(len as usize));
    let window: Vec<String> = expected[from..].iter().take(len as usize).map(ToString::to_string).collect();

    let rows = client.rows(&view(id, key, desc, FILTERS[filter].0, offset, len)).await;

    assert_eq!(pids(&rows), window, "view {asked:?} with filter {:?}", FILTERS[filter].0);
    assert_eq!(rows["offset"], from, "{asked:?}");
    assert_eq!(rows["matched"], expected.len(), "{asked:?}");
    assert_eq!(rows["total"], population.len(), "{asked:?}");
}

fn windows(population: usize) -> impl Strategy<Value = (usize, bool, usize, u64, u32)> {
    let end = population as u64;
    let offset = proptest::prop_oneof![
        3 => 0..end + 100,
        1 => 0..200_u64,
        1 => end.saturating_sub(300)..end,
        1 => proptest::strategy::Just(u64::MAX),
    ];
    (0..KEYS.len(), proptest::bool::ANY, 0..FILTERS.len(), offset, 0..=200_u32)
}

async fn every_window_agrees(processes: usize, cases: u32) {
    let (node, population) = crowded(processes);
    let mut client = node.attach().await;
    let mut runner = TestRunner::new(Cases { cases, ..Cases::default() });

    for id in 0..cases as usize {
        let (key, desc, filter, offset, len) = windows(processes).new_tree(&mut runner).unwrap().current();
        agrees(&mut client, &population, id, (KEYS[key], desc, filter, offset, len)).await;
    }
}

#[tokio::test]
async fn every_window_of_a_small_table_is_what_sorting_everything_gives() {
    every_window_agrees(300, 400).await;
}

#[tokio::test]
async fn every_window_of_a_large_table_is_what_sorting_everything_gives() {
    every_window_agrees(6_000, 120).await;
}

#[tokio::test]
async fn every_key_both_ways_and_every_filter_agree() {
    let (node, population) = crowded(500);
    let mut client = node.attach().await;
    let mut id = 0;

    for key in KEYS {
        for desc in [false, true] {
            for filter in 0..FILTERS.len() {
                id += 1;
                agrees(&mut client, &population, id, (key, desc, filter, 3, 50)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_page_in_the_middle_of_a_hundred_thousand_idle_processes_keeps_their_order() {
    let node = node_with(|config| config.limits = generous());
    let starter = node.runtime.spawn(|ctx| async move {
        for _ in 0..100_000 {
            ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
        }
        drop(ctx.receive().await);
    });
    node.settles("the start of 100,000 processes", |runtime| runtime.process_count() == 100_001).await;
    let mut client = node.attach().await;

    let pages =
        [0, 50_000, 50_040, 99_960].map(|offset| (offset, view(offset as usize, "mailbox_len", true, "", offset, 50)));
    let mut shown = Vec::new();
    for (offset, page) in &pages {
        let rows = client.rows(page).await;
        let slots: Vec<u32> = pids(&rows).iter().map(|pid| pid.parse::<Pid>().unwrap().slot()).collect();
        assert_eq!((rows["total"].as_u64(), &rows["offset"]), (Some(100_001), &json!((*offset).min(99_951))));
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "equal keys keep the order of their slots");
        shown.push(slots);
    }

    assert_eq!(shown[1][40..], shown[2][..10], "pages that overlap agree");
    assert!(shown[0][49] < shown[1][0] && shown[2][49] < shown[3][0]);
    assert!(starter.is_ok());
}

#[tokio::test]
async fn an_order_by_rate_puts_those_on_top_that_work_now() {
    let node = node_with(|config| config.limits = generous());
    for _ in 0..20_000 {
        node.parked();
    }
    let busy_once = node
        .runtime
        .spawn(|ctx| async move {
            for _ in 0..5_000 {
                ctx.yield_now().await;
            }
            drop(ctx.receive().await);
        })
        .unwrap();
    let busy_now = node
        .runtime
        .spawn(|ctx| async move {
            loop {
                ctx.sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    let waits = |runtime: &Runtime| {
        observe::process(runtime, busy_once).is_some_and(|process| process.state == ProcessState::Waiting)
    };
    node.settles("the end of its work", waits).await;
    let mut client = node.attach().await;

    for (id, key) in ["reds_per_sec", "busy_pct"].into_iter().enumerate() {
        let mut view = view(id, key, true, "", 0, 5);
        view["columns"] = json!(["pid", "reds_per_sec"]);
        client.rows(&view).await;
        // Until the node has sampled each process twice, the order is by the totals.
        client
            .pick(|message| {
                let what_was_done_counts =
                    message["rows"].as_array()?.iter().any(|row| row[0] == busy_once.to_string());
                let top = &message["rows"][0];
                let works = top[0] == busy_now.to_string() && top[1].as_f64().is_some_and(|rate| rate > 0.0);
                (message["id"] == id && works && !what_was_done_counts).then_some(())
            })
            .await;
    }
}

#[tokio::test]
async fn a_process_that_receives_nothing_is_found_by_what_arrives_at_it() {
    let node = node();
    let deaf = node.parked();
    let feeder = move |ctx: rusm_runtime::Context| async move {
        loop {
            ctx.sleep(Duration::from_millis(50)).await;
            ctx.send(deaf, ()).await;
        }
    };
    node.runtime.spawn(feeder).unwrap();
    let mut client = node.attach().await;

    for (id, filter) in ["", "in/s>0"].into_iter().enumerate() {
        let mut view = view(id, "arrivals_per_sec", true, filter, 0, 5);
        view["columns"] = json!(["pid", "arrivals_per_sec", "msgs_per_sec"]);
        client.send(&view.to_string()).await;
        client
            .pick(|message| {
                let top = &message["rows"][0];
                let arrives = top[1].as_f64().is_some_and(|rate| rate > 0.0);
                (message["id"] == id && top[0] == deaf.to_string() && arrives && top[2] == 0.0).then_some(())
            })
            .await;
    }
}

#[tokio::test]
async fn a_row_that_has_ended_is_gone_from_a_small_table_at_its_next_order() {
    let node = node();
    let processes: Vec<Pid> = (0..10).map(|_| node.parked()).collect();
    let mut client = node.attach().await;
    let before = client.rows(&view(1, "pid", false, "", 0, 10)).await;

    node.runtime.exit(processes[4], ExitReason::Killed);
    node.settles("its end", |runtime| !runtime.is_alive(processes[4])).await;
    let later = client.pick(|message| (message["matched"] == 9).then(|| message.clone())).await;

    assert_eq!(pids(&before).len(), 10);
    assert_ne!(later["epoch"], before["epoch"]);
    assert!(!pids(&later).contains(&processes[4].to_string().as_str()));
}

#[tokio::test]
async fn scrolling_within_an_order_shows_the_same_order_further_down() {
    let (node, _population) = crowded(5_000);
    let mut client = node.attach().await;

    let first = client.rows(&view(1, "reds", true, "", 1_000, 50)).await;
    let second = client.rows(&view(2, "reds", true, "", 1_030, 50)).await;
    let far = client.rows(&view(3, "reds", true, "", 4_000, 50)).await;
    let mut again = view(4, "reds", true, "", 4_000, 50);
    again["reorder"] = json!(true);
    let reordered = client.rows(&again).await;

    assert_eq!(first["epoch"], second["epoch"]);
    assert_eq!(pids(&first)[30..], pids(&second)[..20]);
    assert_ne!(second["epoch"], far["epoch"], "too far from the rows that were kept");
    assert_ne!(far["epoch"], reordered["epoch"], "a new order was asked for");
    assert_eq!(pids(&far), pids(&reordered));
}

/// Watches a view for three seconds; returns the number of pages, the number of orders, and the age of the oldest order
/// in milliseconds, less the longest stall of the machine.
async fn watched(node: &Node) -> (u32, usize, u64) {
    let mut client = node.attach().await;
    let mut fast = view(1, "reds", true, "", 0, 20);
    fast["hz"] = json!(4.0);
    client.rows(&fast).await;
    let start = std::time::Instant::now();
    let (mut pages, mut orders, mut oldest) = (0, std::collections::BTreeSet::new(), 0);
    let (mut before, mut longest) = (start, Duration::ZERO);
    while start.elapsed() < Duration::from_secs(3) {
        let rows = client.next_of("rows").await;
        pages += 1;
        longest = longest.max(before.elapsed());
        before = std::time::Instant::now();
        orders.insert(rows["epoch"].as_u64());
        let age_ms = rows["order_age_ms"].as_u64().expect("an age");
        oldest = oldest.max(age_ms);
        assert!(rows["degraded"].is_null() || age_ms > 975, "{rows}");
    }
    // Pages normally come every 250 ms; anything longer counts as a stall.
    let still = longest.saturating_sub(Duration::from_millis(250));
    (pages, orders.len(), oldest.saturating_sub(still.as_millis() as u64))
}

#[tokio::test]
async fn values_come_at_their_rate_and_the_order_is_never_older_than_a_second() {
    let (node, _population) = crowded(2_000);
    node.runtime
        .spawn(|ctx| async move {
            loop {
                ctx.sleep(Duration::from_millis(20)).await;
            }
        })
        .unwrap();

    let (pages, orders, oldest) = watched(&node).await;

    assert!((2..=24).contains(&pages), "{pages} pages in 3 s");
    assert!((2..=pages as usize + 1).contains(&orders), "{orders} orders in {pages} pages");
    assert!(oldest < 1_000, "order of {oldest} ms");
}

#[tokio::test]
async fn the_order_of_a_node_that_stands_still_is_as_good_as_new() {
    let (node, _population) = crowded(2_000);

    let (pages, orders, oldest) = watched(&node).await;

    assert!((2..=24).contains(&pages), "{pages} pages in 3 s");
    assert!(orders <= 2, "{orders} orders in 3 s");
    assert!(oldest < 1_000, "order of {oldest} ms");
}

#[tokio::test]
async fn rows_are_given_in_the_columns_asked_for() {
    let node = node();
    let parent = node.runtime.spawn(|ctx| async move {
        ctx.register("parent").unwrap();
        let waits = |ctx: Context| async move { drop(ctx.receive_match(|_| false).await) };
        ctx.spawn_with(&SpawnOptions::default().label("child"), waits).unwrap();
        drop(ctx.receive_match(|_| false).await);
    });
    let parent = parent.unwrap();
    node.settles("the start of both", |runtime| runtime.process_count() == 2).await;
    node.runtime.send(parent, [7_u8; 100]).await;
    let mut client = node.attach().await;

    let mut some = view(1, "pid", false, "name=parent", 0, 10);
    some["columns"] = json!(["name", "mailbox_len", "kind", "parent", "state"]);
    let some = client.pick_rows(&some, |rows| rows["rows"][0][1] == 1 && rows["rows"][0][4] == "waiting").await;
    let mut all = view(2, "pid", false, "child", 0, 10);
    all["columns"] = json!([]);
    let all = client.rows(&all).await;

    assert_eq!(some["rows"], json!([["parent", 1, "native", null, "waiting"]]));
    assert_eq!(all["columns"].as_array().unwrap().len(), rusm_protocol::Column::ALL.len());
    assert_eq!((&all["rows"][0][1], &all["rows"][0][11]), (&json!("child"), &json!(parent.to_string())));
}

#[tokio::test]
async fn rates_of_a_process_that_is_not_young_are_unknown_until_it_was_looked_at_twice() {
    const RATES: [&str; 3] = ["reds_per_sec", "busy_pct", "msgs_per_sec"];
    let node = node();
    let busy = node
        .runtime
        .spawn(|ctx| async move {
            loop {
                ctx.sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    node.settles("an age of a second", |runtime| {
        let spawned_ms = observe::process_ref(runtime, busy).map_or(u64::MAX, |seen| seen.spawned_ms());
        observe::uptime(runtime).as_millis() > u128::from(spawned_ms) + 1_000
    })
    .await;
    let mut client = node.attach().await;

    let mut of_rates = view(1, "pid", false, "", 0, 10);
    of_rates["columns"] = json!(RATES);
    let first = client.rows(&of_rates).await;
    let second = client.next_of("rows").await;
    client.send(&json!({"type": "detail", "pid": busy.to_string()}).to_string()).await;
    let first_detail = client.next_of("process").await["process"].take();
    let second_detail = client.next_of("process").await["process"].take();

    assert_eq!(first["rows"], json!([[null, null, null]]));
    assert!(second["rows"][0].as_array().unwrap().iter().all(Value::is_number), "{second}");
    // The rates may be 0 in an interval during which the machine stalled.
    client.pick(|message| (message["rows"][0][0].as_f64()? > 0.0).then_some(())).await;
    for rate in RATES {
        assert!(first_detail.get(rate).is_none(), "{rate} is in {first_detail}");
        assert!(second_detail[rate].is_number(), "{rate} is not in {second_detail}");
    }
}

#[tokio::test]
async fn names_and_labels_without_end_make_no_larger_pages() {
    let node = node();
    for number in 0..200 {
        let endless = move |ctx: rusm_runtime::Context| async move {
            ctx.set_label(format!("x{}", "ä".repeat(if number == 7 { 1_000_000 } else { 1_000 })));
            drop(ctx.receive_match(|_| false).await);
        };
        node.runtime.spawn(endless).unwrap();
    }
    let labelled = |runtime: &Runtime| {
        let mut labels = 0;
        observe::for_each_process(runtime, 0, |seen| labels += u32::from(observe::names(&seen).1.is_some()));
        labels == 200
    };
    node.settles("200 labels", labelled).await;
    let mut client = node.attach().await;

    let page = client.rows(&json!({"type": "view", "id": 1})).await;
    let pid = page["rows"][0][0].clone();
    client.send(&json!({"type": "detail", "pid": pid}).to_string()).await;
    let detail = client.next_of("process").await;

    let kept = format!("x{}", "ä".repeat(127));
    assert_eq!(page["rows"].as_array().unwrap().len(), 50);
    assert_eq!((&page["rows"][0][1], &detail["process"]["label"]), (&json!(kept), &json!(kept)));
    let bytes = page.to_string().len();
    assert!(bytes <= 20_000, "a page of {bytes} bytes");
}

#[tokio::test]
async fn a_process_in_detail_is_followed_until_it_ends() {
    let node = node();
    let pid = node.parked();
    node.runtime.register(pid, "watched").unwrap();
    let mut client = node.attach().await;

    client.send(&json!({"type": "detail", "pid": pid.to_string()}).to_string()).await;
    let waits = |message: &Value| (message["process"]["state"] == "waiting").then(|| message.clone());
    let seen = client.pick(waits).await;
    node.runtime.send(pid, "hello").await;
    let mailbox = |message: &Value| (message["process"]["mailbox_len"] == 1).then_some(());
    client.pick(mailbox).await;
    client.send(&json!({"type": "kill", "pid": pid.to_string(), "id": 9}).to_string()).await;
    let gone = client
        .pick(|message| (message["type"] == "process" && message["process"].is_null()).then(|| message.clone()))
        .await;

    assert_eq!(seen["process"]["name"], "watched");
    assert_eq!(seen["process"]["mailbox_capacity"], 1024);
    assert_eq!(gone["pid"], pid.to_string());
}

impl Client {
    /// Requests a view, and returns its first rows that satisfy `wanted`.
    async fn pick_rows(&mut self, view: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
        self.send(&view.to_string()).await;
        self.pick(|message| {
            (message["type"] == "rows" && message["id"] == view["id"] && wanted(message)).then(|| message.clone())
        })
        .await
    }
}

#[tokio::test]
async fn links_monitors_and_the_size_of_a_mailbox_are_columns() {
    let node = node();
    let parked = node.parked();
    node.runtime.send(parked, [0_u64; 100]).await;
    let bound = node.runtime.spawn(move |ctx| async move {
        ctx.link(parked);
        ctx.monitor(parked);
        ctx.monitor(parked);
        std::future::pending::<()>().await;
    });
    let bound = bound.unwrap();
    node.settles("the monitors are there", |runtime| {
        observe::links(runtime, parked, 1).is_some_and(|bonds| bonds.monitored_by_count == 2)
    })
    .await;
    let mut client = node.attach().await;
    let columns = ["pid", "links", "monitors", "mailbox_bytes"];

    let mut asked = view(1, "monitors", true, "", 0, 9);
    asked["columns"] = json!(columns);
    let all = client.rows(&asked).await;
    let filtered = client.rows(&view(2, "mailbox_bytes", true, "links=1 and mailbox_bytes>500B", 0, 9)).await;

    assert_eq!(all["columns"], json!(columns));
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows[0], json!([bound.to_string(), 1, 2, 0]));
    assert_eq!((&rows[1][0], &rows[1][1], &rows[1][2]), (&json!(parked.to_string()), &json!(1), &json!(0)));
    assert!(rows[1][3].as_u64().is_some_and(|bytes| bytes >= 800), "{rows:?}");
    assert_eq!(pids(&filtered), [parked.to_string()]);
}

#[tokio::test]
async fn a_filter_by_a_rate_finds_processes_while_another_observer_has_another_filter() {
    let node = node_with(|config| config.limits = generous());
    node.runtime
        .spawn(|ctx| async move {
            loop {
                ctx.sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    let (mut first, mut second) = (node.attach().await, node.attach().await);
    let start = Instant::now();
    // Each of the two computes an order of its own in turn.
    for id in (0..).step_by(2) {
        let rows = first.rows(&view(id, "pid", false, "reds/s>1", 0, 10)).await;
        if rows["matched"] == 1 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{rows}");
        second.rows(&view(id + 1, "pid", false, "mailq>1", 0, 10)).await;
    }
}
