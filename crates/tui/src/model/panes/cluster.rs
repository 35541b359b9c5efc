//! The cluster, requested only while it is shown.
//!
//! ```text
//!   focus: nodes ◀──▶ names      each list has a cursor that follows what is selected
//! ```

use std::time::Duration;

use rusm_protocol::{ClientMessage, Cluster, ClusterNode, ClusterView, NameInfo};

use crate::model::message::REQUEST_PACE;
use crate::model::selection::ListCursor;

/// List that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClusterFocus {
    /// The other nodes.
    #[default]
    Nodes,
    /// The unique names.
    Names,
}

/// State of the Cluster view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClusterPane {
    /// The last request.
    sent: Option<ClusterView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Cluster>,
    pub(crate) focus: ClusterFocus,
    pub(crate) nodes: ListCursor,
    pub(crate) names: ListCursor,
}

impl ClusterPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets the answer, because it is from another node.
    pub(crate) fn forget(&mut self) {
        self.newest = None;
        (self.nodes, self.names) = (ListCursor::default(), ListCursor::default());
    }

    /// Returns the message that requests the visible numbers of nodes and names, or ends the subscription, if a change is
    /// needed.
    pub(crate) fn requests(&mut self, visible: Option<(u16, u16)>, now: Duration) -> Option<ClientMessage> {
        let Some((nodes, names)) = visible else {
            return self.sent.take().map(|_| ClientMessage::Cluster { view: None });
        };
        let (window, names) = (self.nodes.window(nodes), self.names.window(names));
        let query = ClusterView { id: self.ids, window, names, ..ClusterView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = ClusterView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Cluster { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request.
    pub(crate) fn take(&mut self, cluster: Cluster, visible: (u16, u16)) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != cluster.id) {
            return false;
        }
        self.show(cluster, visible);
        true
    }

    /// Shows a state of the cluster. The cursors follow what is selected.
    pub(crate) fn show(&mut self, cluster: Cluster, visible: (u16, u16)) {
        let node = cluster.nodes.iter().position(|node| Some(&node.name) == self.nodes.selected.as_ref());
        if let Some(at) = node {
            self.nodes.at = cluster.offset + at as u64;
        }
        let name = cluster.names.iter().position(|name| Some(&name.name) == self.names.selected.as_ref());
        if let Some(at) = name {
            self.names.at = cluster.names_offset + at as u64;
        }
        self.newest = Some(cluster);
        self.clamp(visible);
    }

    /// Keeps both cursors inside their lists and their visible rows.
    pub(crate) fn clamp(&mut self, (nodes, names): (u16, u16)) {
        let Some(newest) = &self.newest else { return };
        self.nodes.clamp(newest.total, nodes);
        self.names.clamp(newest.names_total, names);
    }

    /// Moves the cursor of the focused list.
    pub(crate) fn move_by(&mut self, lines: i64, visible: (u16, u16)) {
        let at = match self.focus {
            ClusterFocus::Nodes => self.nodes.at,
            ClusterFocus::Names => self.names.at,
        };
        self.go_to(at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor of the focused list to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: (u16, u16)) {
        match self.focus {
            ClusterFocus::Nodes => self.nodes.at = position,
            ClusterFocus::Names => self.names.at = position,
        }
        self.clamp(visible);
        match self.focus {
            ClusterFocus::Nodes => self.nodes.selected = self.node().map(|node| node.name.clone()),
            ClusterFocus::Names => self.names.selected = self.name_at(self.names.at).map(|name| name.name.clone()),
        }
    }

    /// Returns the other node at an index, if it was sent.
    pub(crate) fn node_at(&self, position: u64) -> Option<&ClusterNode> {
        let newest = self.newest.as_ref()?;
        newest.nodes.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Returns the name at an index, if it was sent.
    pub(crate) fn name_at(&self, position: u64) -> Option<&NameInfo> {
        let newest = self.newest.as_ref()?;
        newest.names.get(usize::try_from(position.checked_sub(newest.names_offset)?).ok()?)
    }

    /// Returns the node under the cursor.
    pub(crate) fn node(&self) -> Option<&ClusterNode> {
        self.node_at(self.nodes.at)
    }

    /// Returns the process that owns the name under the cursor, while the names have the focus.
    pub(crate) fn owner(&self) -> Option<&str> {
        let name = self.name_at(self.names.at).filter(|_| self.focus == ClusterFocus::Names)?;
        name.pid.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(id: u32, names: &[&str]) -> Cluster {
        let node = |name: &&str| ClusterNode { name: (*name).to_owned(), ..ClusterNode::default() };
        let nodes: Vec<_> = names.iter().map(node).collect();
        Cluster { id, total: nodes.len() as u64, nodes, ..Cluster::default() }
    }

    #[test]
    fn it_asks_once_while_it_is_shown_and_takes_only_what_it_asked_for() {
        let mut pane = ClusterPane::default();
        let requested = pane.requests(Some((4, 4)), Duration::ZERO);
        let Some(ClientMessage::Cluster { view: Some(view) }) = requested else { panic!("{requested:?}") };

        assert_eq!(pane.requests(Some((4, 4)), Duration::from_secs(1)), None);
        assert!(!pane.take(cluster(view.id + 1, &[]), (4, 4)));
        assert!(pane.take(cluster(view.id, &["b"]), (4, 4)));
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Cluster { view: None }));
        assert_eq!(pane.requests(None, Duration::from_secs(3)), None);
    }

    #[test]
    fn the_cursor_stays_on_its_node_when_others_join() {
        let mut pane = ClusterPane::default();
        pane.show(cluster(0, &["b", "d"]), (4, 4));
        pane.go_to(1, (4, 4));

        pane.show(cluster(0, &["b", "c", "d"]), (4, 4));

        assert_eq!(pane.node().map(|node| node.name.as_str()), Some("d"));
    }
}
