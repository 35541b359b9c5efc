//! One client's view of the engines and of the modules that they run.
//!
//! Its cost depends on the number of loaded modules, not on the number of their instances.

use rusm_protocol::{Engines, EnginesView, ServerMessage};

use crate::encode::engines as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe;

/// A client's view of the engines, refreshed at its rate.
pub(crate) struct EnginesSource(EnginesView);

impl EnginesSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: EnginesView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self(view))
    }
}

impl ViewSource for EnginesSource {
    type Data = Engines;

    fn hz(&self) -> f64 {
        self.0.hz
    }

    fn read(&mut self, node: &Node) -> Engines {
        encode::engines(&observe::engines(&node.runtime), self.0.window, self.0.fault)
    }

    fn message(&self, found: Engines, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Engines(Engines { id: self.0.id, seq, at_ms, cost_us, ..found })
    }
}
