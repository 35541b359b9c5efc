//! The server of a scenario: `crates/serve` on the schedulers under load, on a free port of loopback.
//!
//! ```text
//!   start ──▶ clients come and go ──▶ show: what the server itself has counted ──▶ drop: all its processes end
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rusm_serve::{Limits, Router, ServeConfig, Server, ServerReport};

use crate::context::RunContext;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenarios::serving::descriptors::{Descriptors, ENDS};

/// Detail of cards: what the figures of these scenarios cannot show.
pub(super) const CO_RESIDENT: &str = "Clients and server are processes of this node, so the CPU time is that of both. For the server alone, load a \
     server from outside with rusm loadtest.";

/// Time without traffic after which a server checks its clients: longer than any run, because a scenario with many
/// connections reaches each of them rarely.
const QUIET: Duration = Duration::from_hours(24);

/// A running server; its processes end when it is dropped.
#[derive(Debug)]
pub(super) struct Host(Server);

impl Host {
    /// Starts a server for at most this number of connections at a time.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if there are too few file descriptors, or if the server cannot listen.
    pub(super) fn start(
        context: &RunContext,
        name: &str,
        connections: u64,
        router: Result<Router, rusm_serve::RouteError>,
    ) -> Result<Self, RunError> {
        let lacks = |error: &dyn std::error::Error| RunError::Lacks(error.to_string());
        Descriptors::raise(ENDS).check(connections)?;
        let base = Limits::default();
        // Twice as many: connections of clients that have left may not have ended yet.
        let connections = u32::try_from(2 * connections).unwrap_or(u32::MAX).max(base.connections);
        let limits = Limits { connections, in_flight: connections, idle_timeout: QUIET, ws_ping: QUIET, ..base };
        let config =
            ServeConfig { name: Some(name.to_owned()), limits, ..ServeConfig::listen((Ipv4Addr::LOCALHOST, 0)) };
        let router = router.map_err(|error| lacks(&error))?;
        Server::start(context.runtime(), config, router).map(Self).map_err(|error| lacks(&error))
    }

    /// Returns the address that the server listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Shows what the server has counted, from the start of the warm-up to the end of the run.
    pub(super) fn show(&self, context: &RunContext) {
        context.tables().show(table(&self.0.report(0)));
    }
}

fn table(report: &ServerReport) -> Table {
    let columns = [
        ("route", ColumnUnit::Text),
        ("connections", ColumnUnit::Count),
        ("2xx", ColumnUnit::Count),
        ("other", ColumnUnit::Count),
        ("crashed", ColumnUnit::Count),
        ("p50", ColumnUnit::Ns),
        ("p99", ColumnUnit::Ns),
        ("bytes in", ColumnUnit::Bytes),
        ("bytes out", ColumnUnit::Bytes),
    ];
    let mut table = Table::new("The server's own account", &columns);
    for route in &report.routes {
        let good = route.responses[1] + route.responses[2];
        let percentile = |share| (good > 0).then(|| route.latency.percentile_ns(share));
        table.row([
            (&*route.label).into(),
            report.connections_total.into(),
            good.into(),
            (route.responses.iter().sum::<u64>() - good).into(),
            route.crashed_total.into(),
            percentile(0.5).into(),
            percentile(0.99).into(),
            report.bytes_in_total.into(),
            report.bytes_out_total.into(),
        ]);
    }
    table.note("with the warm-up; p50 and p99 are from the head of a request to the head of its response");
    let hit = report.limits.iter().filter(|limit| limit.hits_total > 0);
    let limits: Vec<String> = hit.map(|limit| format!("{} {}", limit.name, limit.hits_total)).collect();
    if !limits.is_empty() {
        table.note(format!("limits hit: {}", limits.join(", ")));
    }
    table
}
