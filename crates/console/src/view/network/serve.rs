//! One client's view of the servers: rates and percentiles of the last seconds, and a page of the live requests.
//!
//! ```text
//!   report, CPU time by label ──▶ compared with one that is 4 to 8 s old ──▶ servers, routes
//!   live requests ──▶ filter ──▶ the first ones in the order ──▶ page
//! ```
//!
//! Servers count whether or not a client watches. The cost of a look depends on the number of routes and of live
//! requests, and the budget of all views applies to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::{RequestFilter, Serve, ServeView, ServerMessage};

use crate::encode::{round, serve as encode};
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, ProcessKind, ServerReport};

/// Age at which the newer of the two baselines replaces the older one.
const BASELINE_EVERY: Duration = Duration::from_secs(4);

/// A client's view of the servers.
pub(crate) struct ServeSource {
    view: ServeView,
    filter: RequestFilter,
    /// Earlier reports, the older first.
    baselines: [Option<Baseline>; 2],
}

struct Baseline {
    at: Instant,
    reports: Vec<ServerReport>,
    cpu: CpuByLabel,
}

/// Number and CPU time of ended processes by their label, which is the route for those of requests.
struct CpuByLabel(HashMap<Arc<str>, (u64, u64)>);

impl CpuByLabel {
    fn read(runtime: &Handle) -> Self {
        let mut sums: HashMap<Arc<str>, (u64, u64)> = HashMap::new();
        for group in observe::ended_groups(runtime) {
            if let ProcessKind::Label(label) = group.kind {
                let (ended, busy_ns) = sums.entry(label).or_default();
                *ended += group.ended;
                *busy_ns += group.busy_ns;
            }
        }
        Self(sums)
    }

    /// Returns the mean CPU time of the processes with a label that have ended since an earlier look.
    fn mean_ns_since(&self, before: Option<&Self>, label: &str) -> Option<f64> {
        let (ended, busy_ns) = self.0.get(label)?;
        let (ended_before, busy_before) = before.and_then(|before| before.0.get(label)).copied().unwrap_or_default();
        let ended = ended.saturating_sub(ended_before);
        (ended > 0).then(|| round(busy_ns.saturating_sub(busy_before) as f64 / ended as f64))
    }
}

impl ServeSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits, or its filter is not valid; the error has a line for the client.
    pub(crate) fn new(view: ServeView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_rows(view.requests)?;
        check_hz(view.hz)?;
        let filter = RequestFilter::parse(&view.filter).map_err(|error| HostError::out_of_range(error.to_string()))?;
        Ok(Self { view, filter, baselines: [None, None] })
    }

    /// Takes the baselines of the client's previous view, so that its rates go on.
    pub(crate) fn continuing(mut self, before: &mut Self) -> Self {
        self.baselines = std::mem::take(&mut before.baselines);
        self
    }
}

impl ViewSource for ServeSource {
    type Data = Serve;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Serve {
        let now = Instant::now();
        let servers = observe::servers(&node.runtime);
        let reports: Vec<_> = servers.iter().take(encode::SERVERS_SHOWN).map(|server| server.report()).collect();
        let before = self.baselines.iter().flatten().next();
        let (elapsed, earlier) =
            before.map_or((Duration::ZERO, &[][..]), |before| (now - before.at, before.reports.as_slice()));
        let cpu = CpuByLabel::read(&node.runtime);
        let mut routes = encode::routes(&reports, earlier, elapsed);
        for route in &mut routes {
            route.cpu_ns_per_request = cpu.mean_ns_since(before.map(|before| &before.cpu), &route.route);
        }
        let mut found = encode::servers(&reports, earlier, elapsed, routes, &self.view);
        encode::requests(&mut found, &servers, &self.filter, &self.view);
        if self.baselines[1].as_ref().is_none_or(|newer| now - newer.at >= BASELINE_EVERY) {
            self.baselines.rotate_left(1);
            self.baselines[1] = Some(Baseline { at: now, reports, cpu });
        }
        found
    }

    fn message(&self, found: Serve, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Serve(Box::new(Serve { id: self.view.id, seq, at_ms, cost_us, ..found }))
    }
}
