//! Tests of the requests that the collector receives for each signal.

use std::time::Duration;

use rusm_otlp::{Exporter, OtlpConfig, Signal};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::collector::{Collector, DEADLINE, OK, Received};

/// Returns the values of attributes by their keys.
fn attribute<'a>(record: &'a Value, key: &str) -> &'a Value {
    let attributes = record["attributes"].as_array().unwrap();
    attributes.iter().find(|attribute| attribute["key"] == key).map_or(&Value::Null, |attribute| &attribute["value"])
}

fn header<'a>(received: &'a Received, name: &str) -> Option<&'a str> {
    received.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[test]
fn metrics_arrive_with_their_resource_headers_and_the_counters_of_the_exporter() {
    let collector = Collector::start(|_, _| OK);
    let mut config = OtlpConfig { interval: Duration::from_millis(20), ..collector.config() };
    config.set("OTEL_SERVICE_NAME", "shop").unwrap();
    config.set("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%20test").unwrap();
    config.set("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret").unwrap();
    let exporter = Exporter::start(&config).unwrap();
    exporter.set_metrics(|| {
        Some("# HELP shop_orders Orders.\n# TYPE shop_orders counter\nshop_orders_total 3\n# EOF\n".to_owned())
    });

    let received = collector.wait(|received| received.len() >= 3);
    let request = &received[2];
    assert_eq!(request.path, "/v1/metrics");
    assert_eq!(header(request, "content-type"), Some("application/json"));
    assert_eq!(header(request, "api-key"), Some("secret"));
    assert_eq!(header(request, "host"), Some(collector.address.to_string().as_str()));

    let of_resource = &request.body["resourceMetrics"][0];
    let resource = &of_resource["resource"];
    assert_eq!(attribute(resource, "service.name"), &json!({ "stringValue": "shop" }), "the variable of its own wins");
    assert_eq!(attribute(resource, "deployment.environment.name"), &json!({ "stringValue": "a test" }));
    assert_eq!(attribute(resource, "telemetry.sdk.language"), &json!({ "stringValue": "rust" }));
    assert!(attribute(resource, "service.instance.id")["stringValue"].is_string());

    let metrics = of_resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let by_name = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let orders = &by_name("shop_orders")["sum"];
    assert_eq!((&orders["aggregationTemporality"], &orders["isMonotonic"]), (&json!(2), &json!(true)));
    let point = &orders["dataPoints"][0];
    assert_eq!(point["asInt"], "3");
    let ns = |key: &str| point[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(ns("startTimeUnixNano") < ns("timeUnixNano"));
    let records = by_name("rusm_otlp_records_exported")["sum"]["dataPoints"][0].clone();
    assert_eq!(attribute(&records, "signal"), &json!({ "stringValue": "metrics" }));
    assert!(records["asInt"].as_str().unwrap().parse::<u64>().unwrap() >= 2);
    assert!(exporter.stop(DEADLINE));
}

#[test]
fn events_arrive_with_their_fields_and_the_span_in_which_they_were_logged() {
    let collector = Collector::start(|_, _| OK);
    let exporter = Exporter::start(&collector.config()).unwrap();

    tracing::subscriber::with_default(registry().with(exporter.layer()), || {
        tracing::warn!(target: "shop", free_bytes = 9_u64, ratio = 0.5, is_open = true, reason = %"disk\nfull", "flush {} failed", 7);
        let outer = tracing::info_span!("order", number = 17, paid = tracing::field::Empty);
        let inside = outer.enter();
        outer.record("paid", true);
        tracing::info_span!("item").in_scope(|| tracing::error!("not in stock"));
        drop(inside);
    });
    assert!(exporter.stop(DEADLINE));

    let of = |path: &str, keys: [&str; 3]| -> Vec<Value> {
        let requests = collector.wait(|received| received.iter().any(|request| request.path == path));
        let bodies = requests.iter().filter(|request| request.path == path).map(|request| &request.body);
        bodies.flat_map(|body| body[keys[0]][0][keys[1]][0][keys[2]].as_array().unwrap().clone()).collect()
    };
    let logs = of("/v1/logs", ["resourceLogs", "scopeLogs", "logRecords"]);
    let [flush, stock] = &logs[..] else { panic!("{logs:#?}") };
    assert_eq!((&flush["severityNumber"], &flush["severityText"]), (&json!(13), &json!("WARN")));
    assert_eq!(flush["body"]["stringValue"], "flush 7 failed");
    assert_eq!(attribute(flush, "free_bytes"), &json!({ "intValue": "9" }));
    assert_eq!(attribute(flush, "ratio"), &json!({ "doubleValue": 0.5 }));
    assert_eq!(attribute(flush, "is_open"), &json!({ "boolValue": true }));
    assert_eq!(attribute(flush, "reason"), &json!({ "stringValue": "disk\nfull" }));
    assert_eq!(attribute(flush, "target"), &json!({ "stringValue": "shop" }));
    assert_eq!((&flush["traceId"], &stock["severityNumber"]), (&Value::Null, &json!(17)));

    let spans = of("/v1/traces", ["resourceSpans", "scopeSpans", "spans"]);
    let [item, order] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&item["name"], &order["name"]), (&json!("item"), &json!("order")));
    assert_eq!(order["parentSpanId"], Value::Null);
    assert_eq!((&item["parentSpanId"], &item["traceId"]), (&order["spanId"], &order["traceId"]));
    assert_eq!((&stock["spanId"], &stock["traceId"]), (&item["spanId"], &order["traceId"]));
    assert_eq!((order["traceId"].as_str().unwrap().len(), order["spanId"].as_str().unwrap().len()), (32, 16));
    assert_eq!(attribute(order, "number"), &json!({ "intValue": "17" }));
    assert_eq!(attribute(order, "paid"), &json!({ "boolValue": true }), "a field that is recorded later");
    assert_eq!(exporter.counters(Signal::Logs).exported, 2);
    assert_eq!(exporter.counters(Signal::Traces).exported, 2);
}

#[test]
fn records_are_sent_together_and_a_signal_that_is_off_is_not_sent() {
    let collector = Collector::start(|_, _| OK);
    let config = OtlpConfig { traces: false, delay: DEADLINE, ..collector.config() };
    let exporter = Exporter::start(&config).unwrap();
    tracing::subscriber::with_default(registry().with(exporter.layer()), || {
        for number in 0..513 {
            tracing::info_span!("work").in_scope(|| tracing::info!(number, "{}", "x".repeat(9_000)));
        }
    });

    // A full batch does not wait for the delay.
    let first = collector.first("/v1/logs");
    let records = first.body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().clone();
    assert!(records.len() >= 500, "{}", records.len());
    assert_eq!(records[0]["body"]["stringValue"].as_str().unwrap().len(), 4096, "a long text is cut off");
    assert!(exporter.stop(DEADLINE));
    let received = collector.wait(|_| true);
    assert!(received.iter().all(|request| request.path == "/v1/logs"), "{received:#?}");
    assert_eq!(exporter.counters(Signal::Logs).exported, 513);
}
