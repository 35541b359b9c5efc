//! Metrics of the HTTP servers, with the names of OpenTelemetry where it has some.
//!
//! <https://opentelemetry.io/docs/specs/semconv/http/http-metrics/> defines `http.server.request.duration` and
//! `http.server.active_requests`; the text format writes a dot as `_`. The other names begin with `rusm_http_server`.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use rusm_runtime::Handle;
use rusm_runtime::observe::{self, RouteReport, ServerReport};

/// Upper bounds of the buckets of durations that OpenTelemetry recommends, in milliseconds.
const BOUNDS_MS: [u64; 14] = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000];
/// Number of servers, and of routes of each, that are exported.
const SERVERS_MAX: usize = 64;
const ROUTES_MAX: usize = 1_000;

/// The servers of a node.
#[derive(Debug)]
pub(super) struct Servers(pub(super) Handle);

type Labels = Vec<(&'static str, String)>;
/// Name, meaning, unit and value of a figure.
type Figure<T> = (&'static str, &'static str, Option<Unit>, fn(&T) -> u64);

const OF_ROUTES: [Figure<RouteReport>; 5] = [
    ("crashed", "Requests that ended by a crash of their process", None, |route| route.crashed_total),
    ("cancelled", "Requests cancelled by their client before the response", None, |route| route.cancelled_total),
    ("limited", "Requests that a rate limit has refused", None, |route| route.limited_total),
    ("received", "Bytes received for requests", Some(Unit::Bytes), |route| route.bytes_in_total),
    ("sent", "Bytes sent for requests", Some(Unit::Bytes), |route| route.bytes_out_total),
];
const GAUGES: [Figure<ServerReport>; 4] = [
    ("connections", "Open connections, without sockets", None, |report| report.connections),
    ("websockets", "Open WebSocket connections", None, |report| report.websockets),
    ("event_streams", "Open streams of events", None, |report| report.event_streams),
    ("waiting_requests", "Requests that wait for one in flight to end", None, |report| report.waiting),
];
const COUNTERS: [Figure<ServerReport>; 2] = [
    ("connections_accepted", "Accepted connections", None, |report| report.connections_total),
    ("tls_failures", "Failed TLS handshakes", None, |report| report.tls_failures_total),
];

impl Collector for Servers {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        let servers = observe::servers(&self.0);
        let reports: Vec<ServerReport> = servers.iter().take(SERVERS_MAX).map(|server| server.report()).collect();
        if reports.is_empty() {
            return Ok(());
        }
        of_routes(&mut to, &reports)?;
        of_servers(&mut to, &reports)
    }
}

/// Encodes the figures of routes.
fn of_routes(to: &mut DescriptorEncoder<'_>, reports: &[ServerReport]) -> Result<(), Error> {
    let help = "Time from the head of a request to the head of its response";
    let (name, seconds) = ("http_server_request_duration", Some(&Unit::Seconds));
    let mut metric = to.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
    for_each_route(reports, |labels, route| histogram(&mut metric.encode_family(labels)?, route))?;
    let (name, help) = ("http_server_active_requests", "Requests that are handled now");
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for_each_route(reports, |labels, route| metric.encode_family(labels)?.encode_gauge(&signed(route.in_flight)))?;
    let (name, help) = ("rusm_http_server_responses", "Responses by class of status");
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for_each_route(reports, |labels, route| {
        for (class, count) in route.responses.iter().enumerate().filter(|(_, count)| **count > 0) {
            let mut labels = labels.clone();
            labels.push(("status_class", format!("{class}xx")));
            counter(&mut metric.encode_family(&labels)?, *count)?;
        }
        Ok(())
    })?;
    for (name, help, unit, of) in &OF_ROUTES {
        let name = format!("rusm_http_server_{name}");
        let mut metric = to.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
        for_each_route(reports, |labels, route| counter(&mut metric.encode_family(labels)?, of(route)))?;
    }
    Ok(())
}

/// Encodes the figures of whole servers.
fn of_servers(to: &mut DescriptorEncoder<'_>, reports: &[ServerReport]) -> Result<(), Error> {
    for (name, help, unit, of) in &GAUGES {
        let name = format!("rusm_http_server_{name}");
        let mut metric = to.encode_descriptor(&name, help, unit.as_ref(), MetricType::Gauge)?;
        for report in reports {
            metric.encode_family(&server_labels(report))?.encode_gauge(&signed(of(report)))?;
        }
    }
    for (name, help, unit, of) in &COUNTERS {
        let name = format!("rusm_http_server_{name}");
        let mut metric = to.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
        for report in reports {
            counter(&mut metric.encode_family(&server_labels(report))?, of(report))?;
        }
    }
    let (name, help) = ("rusm_http_server_limit_hits", "Times that a client has hit a limit");
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for report in reports {
        for limit in &report.limits {
            let mut labels = server_labels(report);
            labels.push(("limit", limit.name.to_owned()));
            counter(&mut metric.encode_family(&labels)?, limit.hits_total)?;
        }
    }
    Ok(())
}

fn for_each_route(
    reports: &[ServerReport],
    mut encode: impl FnMut(&Labels, &RouteReport) -> Result<(), Error>,
) -> Result<(), Error> {
    for report in reports {
        for route in report.routes.iter().take(ROUTES_MAX) {
            let mut labels = server_labels(report);
            // A route begins with its method, if it has one.
            let parts = route.label.split_once(' ');
            match parts.filter(|(method, _)| method.bytes().all(|byte| byte.is_ascii_uppercase())) {
                Some((method, path)) => {
                    labels.push(("http_request_method", method.to_owned()));
                    labels.push(("http_route", path.to_owned()));
                }
                None => labels.push(("http_route", route.label.to_string())),
            }
            encode(&labels, route)?;
        }
    }
    Ok(())
}

fn server_labels(report: &ServerReport) -> Labels {
    vec![
        ("server_address", report.listen.ip().to_string()),
        ("server_port", report.listen.port().to_string()),
        ("url_scheme", if report.is_tls { "https" } else { "http" }.to_owned()),
    ]
}

fn histogram(to: &mut MetricEncoder<'_>, route: &RouteReport) -> Result<(), Error> {
    let (counts, total) = (&route.latency, route.latency.count());
    let mut before = 0;
    let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(BOUNDS_MS.len() + 1);
    for ms in BOUNDS_MS {
        let up_to = counts.count_up_to(ms * 1_000_000);
        buckets.push((ms as f64 / 1e3, up_to - before));
        before = up_to;
    }
    buckets.push((f64::INFINITY, total - before));
    to.encode_histogram::<NoLabelSet>(counts.sum_ns() as f64 / 1e9, total, &buckets, None)
}

fn counter(to: &mut MetricEncoder<'_>, count: u64) -> Result<(), Error> {
    to.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
