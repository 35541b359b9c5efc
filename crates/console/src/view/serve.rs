//! One client's view of the servers: rates and percentiles of the last seconds, and a page of the live requests.
//!
//! ```text
//!   report ──▶ compared with one that is 4 to 8 s old ──▶ servers, routes
//!   live requests ──▶ filter ──▶ the first ones in the order ──▶ page
//! ```
//!
//! Servers count whether or not a client watches. The cost of a look depends on the number of routes and of live
//! requests, and the budget of all views applies to it.

use std::time::{Duration, Instant};

use rusm_protocol::{RequestFilter, Serve, ServeView, ServerMessage};

use crate::encode::serve as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, ServerReport};

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
        let mut found = encode::servers(&reports, earlier, elapsed, &self.view);
        encode::requests(&mut found, &servers, &self.filter, &self.view);
        if self.baselines[1].as_ref().is_none_or(|newer| now - newer.at >= BASELINE_EVERY) {
            self.baselines.rotate_left(1);
            self.baselines[1] = Some(Baseline { at: now, reports });
        }
        found
    }

    fn message(&self, found: Serve, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Serve(Box::new(Serve { id: self.view.id, seq, at_ms, cost_us, ..found }))
    }
}
