//! One client's view of the list of waits.
//!
//! The list is read once for all clients, see `lints/waits.rs`; a view only encodes its window of it.

use rusm_protocol::{ServerMessage, WaitRow, Waits, WaitsView};
use rusm_runtime::observe::{self, WaitTarget};
use rusm_runtime::{Handle, NAME_MAX_BYTES};

use crate::encode::text::cut;
use crate::host::HostError;
use crate::lints::waits::WaitGraph;
use crate::lints::waits::graph::{GraphRow, Subject, resource};
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};

/// A client's view of the list of waits.
pub(crate) struct WaitsSource(WaitsView);

impl WaitsSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: WaitsView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self(view))
    }
}

impl ViewSource for WaitsSource {
    type Data = Waits;

    fn hz(&self) -> f64 {
        self.0.hz
    }

    fn read(&mut self, node: &Node) -> Waits {
        let sample = node.newest();
        let (graph, window) = (&sample.waits, self.0.window);
        let total = graph.rows.len() as u64;
        let offset = window.offset.min(total.saturating_sub(u64::from(window.len)));
        let rows = graph.rows.iter().skip(offset as usize).take(window.len as usize);
        let now_ms = sample.uptime.as_millis() as u64;
        Waits {
            waiting: graph.total,
            cycles: graph.cycles,
            total,
            offset,
            rows: rows.map(|row| encode(&node.runtime, graph, row, now_ms)).collect(),
            ..Waits::default()
        }
    }

    fn message(&self, found: Waits, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Waits(Waits { id: self.0.id, seq, at_ms, cost_us, ..found })
    }
}

fn encode(runtime: &Handle, graph: &WaitGraph, row: &GraphRow, now_ms: u64) -> WaitRow {
    let (pid, name, state) = match &row.subject {
        Subject::Process(pid) => {
            let seen = observe::process_ref(runtime, *pid);
            let name = seen.as_ref().and_then(|seen| observe::display_name(runtime, seen));
            let name = name.map(|name| cut(&name, NAME_MAX_BYTES));
            let state = seen.map_or_else(
                || if pid.node() == 0 { "exited" } else { "remote" }.to_owned(),
                |seen| match graph.target(*pid) {
                    Some(target) => word(target),
                    None => seen.state().word().to_owned(),
                },
            );
            (Some(pid.to_string()), name, state)
        }
        Subject::Resource(name) => (None, Some(cut(name, NAME_MAX_BYTES)), String::new()),
    };
    let through = row.wait.as_ref().map(resource).filter(|through| !through.is_empty() && row.depth > 0);
    WaitRow {
        depth: row.depth,
        pid,
        name,
        state,
        wait: row.wait.as_ref().map(|wait| wait.word().to_owned()),
        through: through.map(|through| cut(&through, NAME_MAX_BYTES)),
        age_ms: row.since.map(|since| now_ms.saturating_sub(since.as_millis() as u64)),
        waiters: row.waiters,
        cycle: row.cycle,
    }
}

/// Returns the word for the state of a process that waits: `call→<0.51.1>`, `store`.
pub(crate) fn word(target: &WaitTarget) -> String {
    match target.pid() {
        Some(pid) => format!("{}→{pid}", target.word()),
        None => target.word().to_owned(),
    }
}
