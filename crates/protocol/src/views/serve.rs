//! HTTP servers on the wire: listeners, routes, limits, and the requests and sockets that are handled now.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Order of the routes.
    #[serde(default)]
    pub sort: RouteSort,
    /// Range of routes in that order.
    #[serde(default)]
    pub window: ViewWindow,
    /// Order of the live requests.
    #[serde(default)]
    pub request_sort: RequestSort,
    /// Filter for live requests, for example `route~users and age>1s`; empty matches all.
    #[serde(default)]
    pub filter: String,
    /// Range of live requests in their order, among those that match.
    #[serde(default)]
    pub requests: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_serve_hz")]
    pub hz: f64,
}

const fn default_serve_hz() -> f64 {
    2.0
}

impl Default for ServeView {
    fn default() -> Self {
        Self {
            id: 0,
            sort: RouteSort::default(),
            window: ViewWindow::default(),
            request_sort: RequestSort::default(),
            filter: String::new(),
            requests: ViewWindow::default(),
            hz: default_serve_hz(),
        }
    }
}

/// Order of routes: by name, or by a figure, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteSort {
    /// By the number of requests per second.
    #[default]
    Rate,
    /// By the number of responses with a status of 500 or more, per second.
    Errors,
    /// By the 99th percentile of the latency.
    P99,
    /// By the number of requests in flight.
    InFlight,
    /// By the number of bytes per second, in both directions.
    Bytes,
    /// By the order in which the routes were added.
    Route,
}

impl RouteSort {
    /// All orders.
    pub const ALL: [Self; 6] = [Self::Rate, Self::Errors, Self::P99, Self::InFlight, Self::Bytes, Self::Route];

    /// Returns the name of the order on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::P99 => "p99",
            Self::InFlight => "in_flight",
            Self::Bytes => "bytes",
            Self::Route => "route",
        }
    }

    /// Returns the name of the order in a sentence.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::P99 => "p99",
            Self::InFlight => "in flight",
            Self::Bytes => "bytes",
            Self::Route => "route",
        }
    }

    /// Sorts routes, which come in the order in which they were added.
    pub fn sort(self, routes: &mut [RouteInfo]) {
        let figure = |route: &RouteInfo| match self {
            Self::Rate => route.requests_per_sec,
            Self::Errors => route.errors_per_sec,
            Self::P99 => route.p99_ns.unwrap_or(0) as f64,
            Self::InFlight => route.in_flight as f64,
            Self::Bytes => route.bytes_in_per_sec + route.bytes_out_per_sec,
            Self::Route => 0.0,
        };
        routes.sort_by(|a, b| figure(b).total_cmp(&figure(a)));
    }
}

/// Order of live requests: by a figure, the largest first, or by a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSort {
    /// By age, with requests before sockets.
    #[default]
    Age,
    /// By the number of bytes received.
    BytesIn,
    /// By the number of bytes sent.
    BytesOut,
    /// By route, then by age.
    Route,
    /// By the address of the client, then by age.
    Client,
}

impl RequestSort {
    /// All orders.
    pub const ALL: [Self; 5] = [Self::Age, Self::BytesIn, Self::BytesOut, Self::Route, Self::Client];

    /// Returns the name of the order on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::BytesIn => "bytes_in",
            Self::BytesOut => "bytes_out",
            Self::Route => "route",
            Self::Client => "client",
        }
    }

    /// Returns the order in a phrase.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Age => "slowest first",
            Self::BytesIn => "by bytes received",
            Self::BytesOut => "by bytes sent",
            Self::Route => "by route",
            Self::Client => "by client",
        }
    }
}

/// State of the servers, a window of their routes, and a window of their live requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Serve {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Time that the rates and percentiles cover, in milliseconds; 0 for the first answer, which covers all time.
    pub window_ms: u64,
    /// Servers, up to eight, oldest first.
    pub servers: Vec<ServerInfo>,
    /// Number of routes of these servers.
    pub total: u64,
    /// Number of routes before the first one of this window.
    pub offset: u64,
    /// Routes of the window.
    pub routes: Vec<RouteInfo>,
    /// Number of requests and sockets that are handled now.
    pub live: u64,
    /// Number of those that the filter matches.
    pub matched: u64,
    /// Number of requests before the first one of this window.
    pub requests_offset: u64,
    /// Live requests of the window.
    pub requests: Vec<RequestInfo>,
    /// Limits of the servers.
    pub limits: Vec<LimitInfo>,
}

/// State of a server; counters that end in `_total` only go up. Rates and percentiles are of the last seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Name of the server.
    pub name: String,
    /// Address that it listens on.
    pub listen: String,
    /// True if its connections are encrypted.
    pub is_tls: bool,
    /// True from the start of its drain on.
    pub is_draining: bool,
    /// Number of open connections, with the sockets.
    pub connections: u64,
    /// Number of accepted connections.
    pub connections_total: u64,
    /// Accepted connections per second.
    pub connections_per_sec: f64,
    /// Number of failed TLS handshakes.
    pub tls_failures_total: u64,
    /// Number of requests in flight.
    pub in_flight: u64,
    /// Number of requests that may be in flight.
    pub in_flight_max: u64,
    /// Number of requests that wait for one in flight to end.
    pub waiting: u64,
    /// Number of open WebSocket connections.
    pub websockets: u64,
    /// Number of open streams of events.
    pub event_streams: u64,
    /// Number of responses by the first digit of their status, from 0 to 5.
    pub responses_total: [u64; 6],
    /// Responses per second, by the first digit of their status.
    pub responses_per_sec: [f64; 6],
    /// Number of requests that were cancelled by their client before the response.
    pub cancelled_total: u64,
    /// Number of requests that ended by a crash of their process.
    pub crashed_total: u64,
    /// Number of bytes received, without encryption.
    pub bytes_in_total: u64,
    /// Number of bytes sent, without encryption.
    pub bytes_out_total: u64,
    /// Bytes received per second.
    pub bytes_in_per_sec: f64,
    /// Bytes sent per second.
    pub bytes_out_per_sec: f64,
    /// Median time to the head of the response, in nanoseconds; absent without recent responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
}

/// State of a route; counters that end in `_total` only go up. Rates and percentiles are of the last seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteInfo {
    /// Index of its server among the node's servers.
    pub server: u32,
    /// The route, as it was written; `(no route)` for requests that led to none.
    pub route: String,
    /// Number of requests that are handled now.
    pub in_flight: u64,
    /// Number of responses by the first digit of their status, from 0 to 5.
    pub responses_total: [u64; 6],
    /// Responses per second.
    pub requests_per_sec: f64,
    /// Responses per second with a status of 400 to 499.
    pub refusals_per_sec: f64,
    /// Responses per second with a status of 500 or more.
    pub errors_per_sec: f64,
    /// Number of requests that ended by a crash of their process.
    pub crashed_total: u64,
    /// Number of requests that were cancelled by their client before the response.
    pub cancelled_total: u64,
    /// Number of requests that a rate limit has refused.
    pub limited_total: u64,
    /// Number of bytes received for its requests; for HTTP/2, of bodies.
    pub bytes_in_total: u64,
    /// Number of bytes sent for its requests; for HTTP/2, of bodies.
    pub bytes_out_total: u64,
    /// Bytes received per second.
    pub bytes_in_per_sec: f64,
    /// Bytes sent per second.
    pub bytes_out_per_sec: f64,
    /// Median time to the head of the response, in nanoseconds; absent without recent responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 90th percentile of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<u64>,
    /// 99th percentile of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// CPU time of a process of this route, in nanoseconds: the mean of those that ended lately. Absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_request: Option<f64>,
}

/// A request or a socket that is handled now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestInfo {
    /// Index of its server among the node's servers.
    pub server: u32,
    /// Process that handles it.
    pub pid: String,
    /// `handling` before the head of the response, `responding` after it, `websocket`, or `events`.
    pub state: String,
    /// Its method.
    pub method: String,
    /// Its route.
    pub route: String,
    /// The first 128 bytes of the path of its target, without the query.
    pub path: String,
    /// Address of its client.
    pub client: String,
    /// Time since its head arrived, in milliseconds.
    pub age_ms: u64,
    /// Number of bytes received for it.
    pub bytes_in: u64,
    /// Number of bytes sent for it.
    pub bytes_out: u64,
}

/// A limit of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitInfo {
    /// Index of its server among the node's servers.
    pub server: u32,
    /// Name of the limit, as in the settings.
    pub name: String,
    /// The bound, if it is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The bound, if it is a number of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The bound, if it is a time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Status of the response; absent if the connection is closed or waits instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Number of times that the limit was hit.
    pub hits_total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_wire() {
        let on_wire = |value: serde_json::Value| value.as_str().map(str::to_owned);

        for sort in RouteSort::ALL {
            assert_eq!(on_wire(serde_json::to_value(sort).unwrap()).as_deref(), Some(sort.word()));
        }
        for sort in RequestSort::ALL {
            assert_eq!(on_wire(serde_json::to_value(sort).unwrap()).as_deref(), Some(sort.word()));
        }
    }
}
