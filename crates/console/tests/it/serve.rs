//! The view of the servers: the console shows what a server reports, page by page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::probes::get;
use crate::support::{Client, node};
use rusm_runtime::observe::{
    DelayCounts, HttpServer, LimitBound, LimitReport, LiveKind, LiveRequest, RouteReport, ServerReport,
};
use rusm_runtime::{Pid, embed};
use serde_json::{Value, json};

/// A server with two routes, requests that take a millisecond each, and 300 live requests.
struct Simulated {
    responses: AtomicU64,
    latency: embed::Histogram,
}

impl HttpServer for Simulated {
    fn report(&self) -> ServerReport {
        // Each look sees ten more responses than the one before.
        let ok = self.responses.fetch_add(10, Relaxed);
        (0..10).for_each(|_| self.latency.add(1_000_000, 1));
        let route = |label: &str, responses, latency: DelayCounts| RouteReport {
            label: label.into(),
            responses,
            latency,
            bytes_out_total: 100 * ok,
            ..RouteReport::default()
        };
        let limit = |name, bound, status, hits_total| LimitReport { name, bound, status, hits_total };
        ServerReport {
            name: "web\u{1b}".into(),
            listen: ([127, 0, 0, 1], 8080).into(),
            is_tls: false,
            is_draining: false,
            connections: 7,
            connections_total: 9,
            tls_failures_total: 0,
            bytes_in_total: 0,
            bytes_out_total: 100 * ok,
            in_flight: 3,
            in_flight_max: 10,
            waiting: 1,
            websockets: 2,
            event_streams: 1,
            limits: vec![
                limit("queue", Some(LimitBound::Count(5)), Some(503), 4),
                limit("idle_timeout", Some(LimitBound::Time(Duration::from_secs(2))), None, 0),
            ],
            routes: vec![
                route("GET /idle", [0; 6], DelayCounts::default()),
                route("GET /busy", [0, 0, ok, 0, 2, 1], self.latency.counts()),
            ],
            live: Vec::new(),
            live_total: 300,
        }
    }

    fn for_each_live(&self, visit: &mut dyn FnMut(LiveRequest)) {
        for slot in 1..=300_u32 {
            visit(LiveRequest {
                pid: Pid::local(slot, 1),
                kind: if slot == 7 { LiveKind::WebSocket } else { LiveKind::Request },
                is_answered: slot == 300,
                method: "GET".into(),
                route: "GET /busy".into(),
                path: format!("/busy/{slot}/{}", "x".repeat(300)).into(),
                peer: ([10, 0, 0, 1], 5000).into(),
                age: Duration::from_millis(slot.into()),
                bytes_in: 10,
                bytes_out: u64::from(1000 - slot),
            });
        }
    }
}

fn simulated() -> Arc<dyn HttpServer> {
    Arc::new(Simulated { responses: AtomicU64::new(0), latency: embed::Histogram::default() })
}

async fn ask(client: &mut Client, view: Value) -> Value {
    client.send(&json!({"type": "serve", "view": view}).to_string()).await;
    loop {
        let found = client.next_of("serve").await;
        if found["id"] == view["id"] {
            return found;
        }
    }
}

#[tokio::test]
async fn a_server_is_shown_with_rates_of_the_last_seconds_and_its_busiest_route_first() {
    let node = node();
    let server = simulated();
    embed::show_server(&node.runtime, Arc::downgrade(&server));
    let mut client = node.attach().await;

    let first = ask(&mut client, json!({"id": 1, "hz": 10.0})).await;
    assert_eq!((first["window_ms"].as_u64(), first["routes"][0]["requests_per_sec"].as_f64()), (Some(0), Some(0.0)));
    let next = client.next_of("serve").await;

    assert!(next["window_ms"].as_u64() > Some(0));
    let of = &next["servers"][0];
    assert_eq!((of["listen"].as_str(), of["connections"].as_u64()), (Some("127.0.0.1:8080"), Some(9)));
    assert_eq!((of["in_flight"].as_u64(), of["waiting"].as_u64()), (Some(3), Some(1)));
    assert!(of["responses_per_sec"][2].as_f64() > Some(0.0));
    let p99_ms = of["p99_ns"].as_f64().unwrap() / 1e6;
    assert!((1.0..=1.125).contains(&p99_ms), "{p99_ms}");
    assert_eq!((next["total"].as_u64(), next["routes"][0]["route"].as_str()), (Some(2), Some("GET /busy")));
    assert_eq!(next["routes"][1]["p50_ns"], Value::Null);
    let queue = json!({"server": 0, "name": "queue", "count": 5, "status": 503, "hits_total": 4});
    let idle = json!({"server": 0, "name": "idle_timeout", "ms": 2000, "hits_total": 0});
    assert_eq!(next["limits"], json!([queue, idle]));
}

#[tokio::test]
async fn live_requests_are_paged_sorted_and_filtered_on_the_node() {
    let node = node();
    let server = simulated();
    embed::show_server(&node.runtime, Arc::downgrade(&server));
    let mut client = node.attach().await;
    let pids = |found: &Value| -> Vec<String> {
        let rows = found["requests"].as_array().unwrap().iter();
        rows.map(|row| row["pid"].as_str().unwrap().to_owned()).collect()
    };

    let page = ask(&mut client, json!({"id": 1, "hz": 10.0, "requests": {"offset": 2, "len": 3}})).await;
    assert_eq!((page["live"].as_u64(), page["matched"].as_u64()), (Some(300), Some(300)));
    assert_eq!(
        (page["requests_offset"].as_u64(), pids(&page)),
        (Some(2), vec!["<0.298.1>".to_owned(), "<0.297.1>".to_owned(), "<0.296.1>".to_owned()])
    );
    assert!(page["requests"][0]["path"].as_str().unwrap().len() <= 131);

    let view = json!({"id": 2, "hz": 10.0, "request_sort": "bytes_out", "requests": {"offset": 0, "len": 2}});
    assert_eq!(pids(&ask(&mut client, view).await), ["<0.1.1>", "<0.2.1>"]);

    let sockets = ask(&mut client, json!({"id": 3, "hz": 10.0, "filter": "state=websocket or age>=300ms"})).await;
    assert_eq!(
        (sockets["matched"].as_u64(), pids(&sockets)),
        (Some(2), vec!["<0.300.1>".to_owned(), "<0.7.1>".to_owned()])
    );
    assert_eq!(sockets["requests"][0]["state"], "responding");

    let beyond = ask(&mut client, json!({"id": 4, "hz": 10.0, "requests": {"offset": 900, "len": 2}})).await;
    assert_eq!((beyond["requests_offset"].as_u64(), pids(&beyond).len()), (Some(300), 0));
}

#[tokio::test]
async fn a_server_that_has_stopped_is_no_longer_shown_and_a_wrong_filter_is_refused() {
    let node = node();
    let server = simulated();
    embed::show_server(&node.runtime, Arc::downgrade(&server));
    drop(server);
    let mut client = node.attach().await;

    let found = ask(&mut client, json!({"id": 1, "hz": 10.0})).await;
    assert_eq!(found["servers"], json!([]));

    client.send(&json!({"type": "serve", "view": {"id": 2, "filter": "rout=x"}}).to_string()).await;
    let error = client.next_of("error").await;
    assert_eq!(error["message"], "unknown field \"rout\": did you mean \"route\"?");
}

#[tokio::test]
async fn metrics_of_servers_have_the_names_of_opentelemetry() {
    let node = node();
    let (_, before) = get(&node, "/metrics").await;
    assert!(!before.contains("http_server"), "{before}");
    let server = simulated();
    embed::show_server(&node.runtime, Arc::downgrade(&server));
    server.report();

    let (_, text) = get(&node, "/metrics").await;

    let labels = r#"server_address="127.0.0.1",server_port="8080",url_scheme="http""#;
    let busy = format!(r#"{labels},http_request_method="GET",http_route="/busy""#);
    for line in [
        "# TYPE http_server_request_duration_seconds histogram".to_owned(),
        format!(r#"http_server_request_duration_seconds_bucket{{le="0.005",{busy}}} 20"#),
        format!(r#"http_server_request_duration_seconds_bucket{{le="+Inf",{busy}}} 20"#),
        format!("http_server_request_duration_seconds_sum{{{busy}}} 0.02"),
        format!("http_server_request_duration_seconds_count{{{busy}}} 20"),
        format!("http_server_active_requests{{{busy}}} 0"),
        format!(r#"rusm_http_server_responses_total{{{busy},status_class="2xx"}} 10"#),
        format!("rusm_http_server_sent_bytes_total{{{busy}}} 1000"),
        format!("rusm_http_server_websockets{{{labels}}} 2"),
        format!(r#"rusm_http_server_limit_hits_total{{{labels},limit="queue"}} 4"#),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
}
