//! What one client sees of the engines, and of the modules that they run.
//!
//! What it costs depends on how many modules are loaded, and not on how many instances of them there are.

use rusm_protocol::{Engines, EnginesView, ServerMessage};

use super::encode::engines as encode;
use super::host::HostError;
use super::node::Node;
use super::window::{Scene, Stamp, check_hz, check_rows};
use crate::observe;

/// See the module.
pub(super) struct EnginesScene(EnginesView);

impl EnginesScene {
    /// What a client wants to see.
    ///
    /// # Errors
    /// When the view is out of its limits, with a line for the client.
    pub(super) fn new(view: EnginesView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self(view))
    }
}

impl Scene for EnginesScene {
    type Found = Engines;

    fn hz(&self) -> f64 {
        self.0.hz
    }

    fn look(&mut self, node: &Node) -> Engines {
        encode::engines(&observe::engines(&node.runtime), self.0.window, self.0.fault)
    }

    fn tell(&self, found: Engines, stamp: Stamp) -> ServerMessage {
        let Stamp { seq, at_ms, cost_us, .. } = stamp;
        ServerMessage::Engines(Engines { id: self.0.id, seq, at_ms, cost_us, ..found })
    }
}
