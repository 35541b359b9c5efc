//! `/healthz` and `/metrics`: probes for monitoring systems, on the TCP port only.

use std::collections::BTreeMap;

use crate::support::{DEADLINE, Node, node, node_with};
use rusm_console::{Readiness, TickRate};
use rusm_runtime::ExitReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

pub(crate) async fn get(node: &Node, path: &str) -> (String, String) {
    let answer = node.ask(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", node.port())).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Parses a text by the rules of `OpenMetrics`, and returns the value of each series.
fn open_metrics(text: &str) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    let mut family = (String::new(), String::new());
    let lines = text.strip_suffix("# EOF\n").expect("the text ends with # EOF and nothing behind it");
    for line in lines.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => {
                assert!(name.starts_with("rusm_") || name.starts_with("shop_"), "{line}");
                assert!(!series.keys().any(|key: &String| key.starts_with(&format!("{name} "))), "{name} comes twice");
                name.clone_into(&mut family.0);
            }
            ["#", "TYPE", name, kind] => {
                assert_eq!(name, family.0, "{line}");
                assert!(["counter", "gauge"].contains(&kind), "{line}");
                kind.clone_into(&mut family.1);
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(unit) && name == family.0, "{line}"),
            [sample, value] => {
                let name = sample.split('{').next().unwrap();
                let suffix = if family.1 == "counter" { "_total" } else { "" };
                assert_eq!(name, format!("{}{suffix}", family.0), "{line}");
                assert!(series.insert(sample.to_owned(), value.parse().unwrap()).is_none(), "{line} comes twice");
            }
            _ => panic!("not an OpenMetrics line: {line:?}"),
        }
    }
    series
}

#[tokio::test]
async fn a_live_node_is_healthy() {
    let node = node();

    let (head, body) = get(&node, "/healthz").await;

    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "ok\n");
}

#[tokio::test]
async fn a_node_is_ready_while_its_application_says_so() {
    let readiness = Readiness::default();
    let node = node_with(|config| config.readiness = readiness.clone());
    let ready = async || {
        let (head, body) = get(&node, "/readyz").await;
        (head.split(' ').nth(1).map(str::to_owned), body)
    };

    assert_eq!(ready().await, (Some("200".to_owned()), "ready\n".to_owned()));
    readiness.set(false);
    assert_eq!(ready().await, (Some("503".to_owned()), "not ready\n".to_owned()));
    readiness.set(true);
    assert_eq!(ready().await.0.as_deref(), Some("200"));
}

#[tokio::test]
async fn the_metrics_of_the_application_are_beside_those_of_the_node() {
    let node = node();
    let metrics = node.runtime.metrics();
    metrics.counter_with("shop_orders", "Orders", ["payment"]).unwrap().with(["card \"x\"\n"]).add(3);
    metrics.gauge("shop_baskets", "Baskets").unwrap().set(1.5);
    let times = metrics.histogram("shop_checkout_seconds", "Times", &[0.1, 1.0]).unwrap();
    times.observe(0.05);
    times.observe(7.0);

    let (_, text) = get(&node, "/metrics").await;

    for line in [
        "# TYPE shop_orders counter",
        "shop_orders_total{payment=\"card \\\"x\\\"\\n\"} 3",
        "shop_baskets 1.5",
        "shop_checkout_seconds_sum 7.05",
        "shop_checkout_seconds_count 2",
        "shop_checkout_seconds_bucket{le=\"0.1\"} 1",
        "shop_checkout_seconds_bucket{le=\"1.0\"} 1",
        "shop_checkout_seconds_bucket{le=\"+Inf\"} 2",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("rusm_processes ") && text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn another_thread_reads_the_same_metrics_until_the_console_is_closed() {
    let node = node();
    node.parked();
    let reader = node.console.metrics();
    let names = |text: &str| open_metrics(text).into_keys().collect::<Vec<_>>();

    let text = tokio::task::spawn_blocking(move || (reader.text(DEADLINE), reader)).await.unwrap();
    let (Some(text), reader) = text else { panic!("no text") };
    assert_eq!(names(&text), names(&get(&node, "/metrics").await.1));
    assert!((open_metrics(&text)["rusm_processes"] - 1.0).abs() < 1e-9);

    drop(node);
    assert_eq!(reader.text(DEADLINE), None);
}

#[tokio::test]
async fn metrics_are_valid_and_say_what_is_true() {
    let node = node();
    for _ in 0..10 {
        node.parked();
    }
    let victim = node.parked();
    node.runtime.exit(victim, ExitReason::Killed);
    node.settles("its end", |runtime| !runtime.is_alive(victim) && runtime.process_count() == 10).await;
    let mut client = node.attach().await;
    client.pick(|message| (message["frame"]["observer"]["clients"] == 1).then_some(())).await;
    client.frame().await;

    let (head, text) = get(&node, "/metrics?name=x").await;
    let series = open_metrics(&text);

    assert!(
        head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{head}"
    );
    assert_eq!(
        head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next(),
        Some(text.len().to_string().as_str())
    );
    let value = |name: &str| *series.get(name).unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    for (name, expected) in [
        ("rusm_processes", 10.0),
        ("rusm_processes_spawned_total", 11.0),
        ("rusm_processes_exited_total", 1.0),
        ("rusm_processes_crashed_total", 1.0),
        ("rusm_process_limit", 16_000_000.0),
        ("rusm_observers", 1.0),
        ("rusm_scheduler_run_queue{scheduler=\"0\"}", 0.0),
        ("rusm_scheduler_run_queue{scheduler=\"1\"}", 0.0),
    ] {
        assert!((value(name) - expected).abs() < 1e-9, "{name} is {}", value(name));
    }
    assert!(value("rusm_uptime_seconds") > 0.0);
    assert!(value("rusm_resident_memory_bytes") > 1e6);
    assert!((0.0..1.0).contains(&value("rusm_console_duty_ratio")));
    for scheduler in 0..2 {
        assert!(value(&format!("rusm_scheduler_busy_seconds_total{{scheduler=\"{scheduler}\"}}")) >= 0.0);
    }
}

#[tokio::test]
async fn the_number_of_observers_is_that_of_now_and_not_of_the_last_sample() {
    // Samples are 100 ms apart: a client that attaches in between is not in a sample yet.
    let node = node_with(|config| config.tick = TickRate::from_hz(10).unwrap());
    let mut clients = Vec::new();

    for attached in 1..=32 {
        clients.push(node.attach().await);
        let (_, text) = get(&node, "/metrics").await;
        assert_eq!(open_metrics(&text).get("rusm_observers"), Some(&f64::from(attached)));
    }
}

#[tokio::test]
async fn probes_check_whom_they_talk_to() {
    let node = node();
    let port = node.port();

    for path in ["/healthz", "/readyz", "/metrics"] {
        for headers in
            ["", "Host: evil.example\r\n", &format!("Host: localhost:{port}\r\nOrigin: http://localhost\r\n")]
        {
            let answer = node.ask(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{path} {headers}: {answer}");
        }
        let mut unix = UnixStream::connect(node.console.socket()).await.unwrap();
        unix.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        unix.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    }
}
