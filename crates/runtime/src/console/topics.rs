//! What one client sees of the topics.
//!
//! A topic counts nothing for observers that it would not count anyway.

use rusm_protocol::{ServerMessage, Topics, TopicsView};

use super::encode::topics as encode;
use super::host::HostError;
use super::node::Node;
use super::window::{Scene, Stamp, check_hz, check_rows};
use crate::observe;

/// Subscriptions and subscribers that one page tells of, so that it is never larger than what a session may hold.
const RECEIVERS_SHOWN: usize = 500;
/// Of one topic.
const RECEIVERS_OF_ONE: usize = 24;

/// See the module.
pub(super) struct TopicsScene(TopicsView);

impl TopicsScene {
    /// What a client wants to see.
    ///
    /// # Errors
    /// When the view is out of its limits, with a line for the client.
    pub(super) fn new(view: TopicsView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self(view))
    }
}

impl Scene for TopicsScene {
    type Found = Topics;

    fn hz(&self) -> f64 {
        self.0.hz
    }

    fn look(&mut self, node: &Node) -> Topics {
        let window = self.0.window;
        let (total, views) =
            observe::topics(&node.runtime, window.offset as usize, window.len as usize, RECEIVERS_OF_ONE);
        let most = (RECEIVERS_SHOWN / views.len().max(1)).min(RECEIVERS_OF_ONE);
        let topics = views.iter().map(|view| encode::topic(view, most)).collect();
        Topics { total: total as u64, offset: window.offset.min(total as u64), topics, ..Topics::default() }
    }

    fn tell(&self, found: Topics, stamp: Stamp) -> ServerMessage {
        let Stamp { seq, at_ms, cost_us, .. } = stamp;
        ServerMessage::Topics(Topics { id: self.0.id, seq, at_ms, cost_us, ..found })
    }
}
