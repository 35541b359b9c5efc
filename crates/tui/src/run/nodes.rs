//! The nodes on one screen. Each has its own connection and its own model; the one with the focus gets the keys, and the
//! others show the same view.
//!
//! ```text
//!   key ──▶ model with the focus ──▶ its view, order and filter ──▶ other models
//!   inbox of each node ──▶ model of that node
//! ```

use crate::cli::options::Source;
use crate::connection::{ConnectionHandle, Inbox};
use crate::model::Model;
use crate::model::input::key::{Mouse, MouseKind, Size};
use crate::model::layout::tiles::{Tile, tiles};
use crate::model::message::Msg;
use crate::view::tiles::ShownNode;

/// A node that is watched.
pub(super) struct Watched {
    pub(super) source: Source,
    pub(super) model: Model,
    pub(super) inbox: Inbox,
    pub(super) outgoing: ConnectionHandle,
}

/// All nodes of the screen; at least one.
pub(super) struct Nodes {
    all: Vec<Watched>,
    focus: usize,
    /// True if only the node with the focus is shown.
    is_one: bool,
    size: Size,
}

impl Nodes {
    pub(super) fn new(first: Watched, size: Size) -> Self {
        Self { all: vec![first], focus: 0, is_one: false, size }
    }

    /// Adds a node. Its inbox must be [`beside`](Inbox::beside) that of the first one.
    pub(super) fn push(&mut self, watched: Watched) {
        self.all.push(watched);
        for watched in &mut self.all {
            watched.model.beside = true;
        }
    }

    pub(super) fn get(&mut self, node: usize) -> &mut Watched {
        &mut self.all[node]
    }

    /// Returns the index of the node with the focus.
    pub(super) const fn focus(&self) -> usize {
        self.focus
    }

    /// Returns the node with the focus.
    pub(super) fn focused(&self) -> &Watched {
        &self.all[self.focus]
    }

    /// Returns the model of the first node.
    pub(super) fn first(&self) -> &Model {
        &self.all[0].model
    }

    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        0..self.all.len()
    }

    /// Waits for a message of any node.
    pub(super) async fn ready(&self) {
        self.all[0].inbox.ready().await;
    }

    /// Returns the bytes received from all nodes.
    pub(super) fn received_bytes(&self) -> u64 {
        let received = |watched: &Watched| watched.outgoing.received_bytes.load(std::sync::atomic::Ordering::Relaxed);
        self.all.iter().map(received).sum()
    }

    /// Returns true if something on the screen may have changed since the last call.
    pub(super) fn take_dirty(&mut self) -> bool {
        let shown: Vec<usize> = self.tiles().iter().map(|tile| tile.node).collect();
        let dirty = |(node, watched): (usize, &mut Watched)| watched.model.take_dirty() && shown.contains(&node);
        self.all.iter_mut().enumerate().fold(false, |any, watched| any | dirty(watched))
    }

    /// Gives the keys to the next node.
    pub(super) fn next(&mut self) {
        self.focus = (self.focus + 1) % self.all.len();
    }

    /// Shows only the node with the focus, or all again.
    pub(super) const fn toggle_one(&mut self) {
        self.is_one = !self.is_one;
    }

    /// Sets the size of the screen.
    pub(super) const fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Returns for each node the size of its part of the screen. A node on another page gets the size of one on this page.
    pub(super) fn sizes(&self) -> Vec<Size> {
        let tiles = self.tiles();
        let size = |tile: &Tile| Size::new(tile.screen.width, tile.screen.height);
        let of = |node| tiles.iter().find(|tile| tile.node == node).or_else(|| tiles.first()).map_or(self.size, size);
        self.indices().map(of).collect()
    }

    /// Shows on all other nodes what the node with the focus shows.
    pub(super) fn follow(&mut self) {
        let (before, rest) = self.all.split_at_mut(self.focus);
        let Some((focused, after)) = rest.split_first_mut() else { return };
        for other in before.iter_mut().chain(after) {
            other.model.show_like(&focused.model);
        }
    }

    /// Converts a mouse event on the screen to one on the node below it. A click moves the focus there; other events
    /// outside of the node with the focus have no effect.
    pub(super) fn mouse(&mut self, mouse: Mouse) -> Option<Msg> {
        let tile = self.tiles().into_iter().find(|tile| tile.screen.contains(mouse.x, mouse.y))?;
        if matches!(mouse.kind, MouseKind::Click) {
            self.focus = tile.node;
        }
        let mouse = Mouse { x: mouse.x - tile.screen.x, y: mouse.y - tile.screen.y, ..mouse };
        (tile.node == self.focus).then_some(Msg::Mouse(mouse))
    }

    /// Returns what to draw; `None` if one node has the whole screen.
    pub(super) fn shown(&self) -> Option<Vec<ShownNode<'_>>> {
        let shown =
            |tile: Tile| ShownNode { tile, model: &self.all[tile.node].model, has_focus: tile.node == self.focus };
        (!self.is_whole()).then(|| self.tiles().into_iter().map(shown).collect())
    }

    fn is_whole(&self) -> bool {
        self.all.len() == 1 || self.is_one
    }

    fn tiles(&self) -> Vec<Tile> {
        if self.is_whole() {
            return vec![Tile::whole(self.size, self.focus)];
        }
        tiles(self.size, self.all.len(), self.focus)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::model::Start;
    use crate::model::input::key::Key;
    use crate::model::tab::Tab;
    use crate::model::update::update;

    fn watched() -> Watched {
        let (commands, _) = tokio::sync::mpsc::channel(1);
        let outgoing =
            ConnectionHandle { commands, retry: Arc::default(), received_bytes: Arc::default(), over_ssh: false };
        Watched {
            source: Source::Demo { seed: 1 },
            model: Model::new(Start::default()),
            inbox: Inbox::default(),
            outgoing,
        }
    }

    fn three() -> Nodes {
        let mut nodes = Nodes::new(watched(), Size::new(140, 45));
        nodes.push(watched());
        nodes.push(watched());
        nodes
    }

    fn tabs(nodes: &Nodes) -> Vec<Tab> {
        nodes.all.iter().map(|watched| watched.model.tab).collect()
    }

    #[test]
    fn a_key_changes_the_view_of_all_nodes() {
        let mut nodes = three();
        nodes.next();

        update(&mut nodes.get(1).model, Msg::Key(Key::char('3')), Duration::ZERO);
        update(&mut nodes.get(1).model, Msg::Key(Key::char('M')), Duration::ZERO);
        nodes.follow();

        assert_eq!(tabs(&nodes), [Tab::Processes; 3]);
        let sort = nodes.all[1].model.table.sort;
        assert!(nodes.all.iter().all(|watched| watched.model.table.sort == sort));
    }

    #[test]
    fn a_click_moves_the_focus_and_means_the_node_below_it() {
        let mut nodes = three();
        let click = Mouse { kind: MouseKind::Click, x: 75, y: 3 };

        let msg = nodes.mouse(click);

        assert_eq!((msg, nodes.focus()), (Some(Msg::Mouse(Mouse { x: 5, y: 2, ..click })), 1));
        assert_eq!(nodes.mouse(Mouse { kind: MouseKind::Wheel(1), x: 3, y: 3 }), None);
    }

    #[test]
    fn one_node_takes_the_whole_screen_and_gives_it_back() {
        let mut nodes = three();
        let sizes = nodes.sizes();
        nodes.next();

        nodes.toggle_one();
        let alone = nodes.sizes();
        nodes.toggle_one();

        assert_eq!((alone[1], nodes.sizes()), (Size::new(140, 45), sizes.clone()));
        assert_eq!(sizes, [Size::new(69, 21), Size::new(70, 21), Size::new(140, 22)]);
        assert!(nodes.shown().is_some_and(|shown| shown.len() == 3));
    }
}
