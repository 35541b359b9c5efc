//! One client's view of the results of scenarios. The host keeps and encodes them; a result that has not changed is not
//! sent again.

use rusm_protocol::{Results, ResultsView, ServerMessage};

use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};

/// A client's view of the results.
pub(crate) struct ResultsSource {
    view: ResultsView,
    /// Revision of the results that were sent last.
    sent: Option<u64>,
}

impl ResultsSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: ResultsView) -> Result<Self, HostError> {
        check_rows(view.rows)?;
        check_rows(view.history)?;
        check_hz(view.hz)?;
        Ok(Self { view, sent: None })
    }
}

impl ViewSource for ResultsSource {
    type Data = Results;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn has_changed(&mut self, node: &Node) -> bool {
        let revision = node.host.results_revision();
        self.sent.replace(revision) != Some(revision)
    }

    fn read(&mut self, node: &Node) -> Results {
        node.host.results(&self.view)
    }

    fn message(&self, found: Results, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Results(Box::new(Results { id: self.view.id, seq, at_ms, cost_us, ..found }))
    }
}
