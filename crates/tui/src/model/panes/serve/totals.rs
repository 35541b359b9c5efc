//! The figures of all servers together.

use rusm_protocol::{Serve, ServerInfo};

/// Sums over the servers of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) responses_per_sec: f64,
    /// Shares of the responses by the first digit of their status, from 0 to 5; `None` without recent responses.
    pub(crate) shares: Option<[f64; 6]>,
    pub(crate) in_flight: u64,
    pub(crate) in_flight_max: u64,
    pub(crate) waiting: u64,
    pub(crate) connections: u64,
    pub(crate) connections_per_sec: f64,
    pub(crate) websockets: u64,
    pub(crate) event_streams: u64,
    pub(crate) bytes_in_per_sec: f64,
    pub(crate) bytes_out_per_sec: f64,
    /// The highest percentiles of the servers, in nanoseconds: those of all together are not known.
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) crashed: u64,
    pub(crate) cancelled: u64,
    pub(crate) tls_failures: u64,
}

impl Totals {
    /// Adds up the servers.
    pub(crate) fn of(serve: &Serve) -> Self {
        let mut sums = Self::default();
        let mut classes = [0.0; 6];
        for server in &serve.servers {
            sums.add(server);
            for (sum, class) in classes.iter_mut().zip(server.responses_per_sec) {
                *sum += class;
            }
        }
        sums.responses_per_sec = classes.iter().sum();
        sums.shares = (sums.responses_per_sec > 0.0).then(|| classes.map(|class| class / sums.responses_per_sec));
        sums
    }

    fn add(&mut self, server: &ServerInfo) {
        self.in_flight += server.in_flight;
        self.in_flight_max += server.in_flight_max;
        self.waiting += server.waiting;
        self.connections += server.connections;
        self.connections_per_sec += server.connections_per_sec;
        self.websockets += server.websockets;
        self.event_streams += server.event_streams;
        self.bytes_in_per_sec += server.bytes_in_per_sec;
        self.bytes_out_per_sec += server.bytes_out_per_sec;
        self.p50_ns = self.p50_ns.max(server.p50_ns);
        self.p99_ns = self.p99_ns.max(server.p99_ns);
        self.crashed += server.crashed_total;
        self.cancelled += server.cancelled_total;
        self.tls_failures += server.tls_failures_total;
    }
}
