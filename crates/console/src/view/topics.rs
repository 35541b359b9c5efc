//! One client's view of the topics.
//!
//! Topics keep no extra counters for observers.

use rusm_protocol::{ServerMessage, TopicSort, Topics, TopicsView, ViewWindow};

use crate::encode::topics as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe;

/// Maximum number of receivers in one page, so that a message stays within a session's buffer.
const RECEIVERS_SHOWN: usize = 500;
/// Maximum number of receivers of one topic.
const RECEIVERS_OF_ONE: usize = 24;

/// A client's view of the topics.
pub(crate) struct TopicsSource(TopicsView);

impl TopicsSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: TopicsView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self(view))
    }
}

/// Maximum number of topics that are sorted by a figure; those after them by name are left out.
const SORTED_MAX: usize = 4096;

/// Returns a window of the topics in the order of a figure. Receivers are read only for the topics in it.
fn sorted(node: &Node, sort: TopicSort, window: ViewWindow) -> Topics {
    let (total, views) = observe::topics(&node.runtime, 0, SORTED_MAX, 0);
    let mut topics: Vec<_> = views.iter().map(|view| encode::topic(view, 0)).collect();
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    sort.sort(&mut topics);
    let page: Vec<_> = topics.into_iter().skip(window.offset as usize).take(window.len as usize).collect();
    let most = (RECEIVERS_SHOWN / page.len().max(1)).min(RECEIVERS_OF_ONE);
    let with_receivers = |topic: rusm_protocol::TopicInfo| {
        let at = names.iter().position(|name| *name == topic.name)?;
        let (_, views) = observe::topics(&node.runtime, at, 1, RECEIVERS_OF_ONE);
        // Topics may have come or gone since they were sorted.
        let found = views.first().map(|view| encode::topic(view, most)).filter(|found| found.name == topic.name);
        Some(found.unwrap_or(topic))
    };
    let topics = page.into_iter().filter_map(with_receivers).collect();
    Topics { total: total as u64, offset: window.offset.min(total as u64), topics, ..Topics::default() }
}

impl ViewSource for TopicsSource {
    type Data = Topics;

    fn hz(&self) -> f64 {
        self.0.hz
    }

    fn read(&mut self, node: &Node) -> Topics {
        let window = self.0.window;
        if self.0.sort != TopicSort::Name {
            return sorted(node, self.0.sort, window);
        }
        let (total, views) =
            observe::topics(&node.runtime, window.offset as usize, window.len as usize, RECEIVERS_OF_ONE);
        let most = (RECEIVERS_SHOWN / views.len().max(1)).min(RECEIVERS_OF_ONE);
        let topics = views.iter().map(|view| encode::topic(view, most)).collect();
        Topics { total: total as u64, offset: window.offset.min(total as u64), topics, ..Topics::default() }
    }

    fn message(&self, found: Topics, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Topics(Topics { id: self.0.id, seq, at_ms, cost_us, ..found })
    }
}
