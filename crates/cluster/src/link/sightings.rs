//! Nodes that the link sees, and whether another node has the name of this one.
//!
//! ```text
//!   token NAME/LIFE ──▶ first life of a name: up        last life of a name is gone: down
//!                   └─▶ own name: before this node is visible, it is refused; later, the younger node leaves,
//!                                 and comes back when no other node has the name any more
//! ```
//!
//! A node sees only tokens of nodes to which it has a connection of its own, so the token of an ended process is not
//! among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::contract::LinkEvents;
use super::life::LinkLife;
use crate::identity::NodeName;

/// Maximum number of lives of other nodes that are seen. Others are not.
const LIVES_MAX: usize = 4_096;
/// Maximum number of other nodes with the name of this one that are remembered.
const NAMESAKES_MAX: usize = 64;

/// State of a link. Reports are sent under the lock, so they keep their order.
pub(super) struct Sightings {
    own: NodeName,
    own_life: LinkLife,
    events: Arc<dyn LinkEvents>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lives: BTreeMap<NodeName, BTreeSet<LinkLife>>,
    /// Number of all lives.
    lives_total: usize,
    /// Other nodes with the name of this one.
    namesakes: BTreeSet<LinkLife>,
    /// True from the moment at which this node is visible to others, until it leaves.
    is_visible: bool,
    /// This node was visible, and has left.
    has_left: bool,
}

/// Next step of the link after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Stay,
    /// Another node had the name before: leave.
    Leave,
    /// No other node has the name any more: come back.
    Return,
}

impl Sightings {
    pub(super) fn new(own: NodeName, own_life: LinkLife, events: Arc<dyn LinkEvents>) -> Self {
        Self { own, own_life, events, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Notes a token. Returns what the link has to do.
    pub(super) fn on_token(&self, name: NodeName, life: LinkLife, is_present: bool) -> Step {
        let mut state = self.state.lock();
        if name == self.own {
            return self.on_namesake(&mut state, life, is_present);
        }
        if is_present && state.lives_total >= LIVES_MAX {
            return Step::Stay;
        }
        let lives = state.lives.entry(name.clone()).or_default();
        let was_seen = !lives.is_empty();
        let changes = if is_present { lives.insert(life) } else { lives.remove(&life) };
        let is_seen = !lives.is_empty();
        if !is_seen {
            state.lives.remove(&name);
        }
        match (changes, is_present) {
            (true, true) => state.lives_total += 1,
            (true, false) => state.lives_total -= 1,
            (false, _) => {}
        }
        self.changed.notify_all();
        if state.is_visible {
            match (was_seen, is_seen) {
                (false, true) => self.events.up(name),
                (true, false) => self.events.down(&name),
                _ => {}
            }
        }
        Step::Stay
    }

    /// Notes a token with the name of this node.
    fn on_namesake(&self, state: &mut State, life: LinkLife, is_present: bool) -> Step {
        if life == self.own_life {
            return Step::Stay;
        }
        let is_older = life < self.own_life;
        if !is_present {
            state.namesakes.remove(&life);
        } else if state.namesakes.len() < NAMESAKES_MAX {
            state.namesakes.insert(life);
        }
        self.changed.notify_all();
        if state.is_visible && is_present && is_older {
            (state.is_visible, state.has_left) = (false, true);
            self.events.name_taken();
            return Step::Leave;
        }
        if state.has_left && state.namesakes.is_empty() { Step::Return } else { Step::Stay }
    }

    /// Returns true if this node has left, and is not back.
    pub(super) fn has_left(&self) -> bool {
        self.state.lock().has_left
    }

    /// Returns true if this node has left, and no other node has its name any more.
    pub(super) fn may_return(&self) -> bool {
        let state = self.state.lock();
        state.has_left && !state.is_visible && state.namesakes.is_empty()
    }

    /// Waits up to `settle` until another node with the name of this one is seen. Returns false if that happened.
    pub(super) fn name_is_free(&self, settle: Duration) -> bool {
        let mut state = self.state.lock();
        // Before this node is visible, the other one is part of the cluster, whatever its clock says.
        self.changed.wait_while_for(&mut state, |state| state.namesakes.is_empty(), settle);
        state.namesakes.is_empty()
    }

    /// Reports the nodes seen until now, and then each change.
    pub(super) fn become_visible(&self) {
        let mut state = self.state.lock();
        (state.is_visible, state.has_left) = (true, false);
        for name in state.lives.keys() {
            self.events.up(name.clone());
        }
    }

    /// Returns the nodes that are seen.
    pub(super) fn peers(&self) -> Vec<NodeName> {
        self.state.lock().lives.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[derive(Default)]
    struct Reports(Mutex<Vec<String>>);

    impl LinkEvents for Reports {
        fn up(&self, peer: NodeName) {
            self.0.lock().push(format!("up {peer}"));
        }

        fn down(&self, peer: &NodeName) {
            self.0.lock().push(format!("down {peer}"));
        }

        fn name_taken(&self) {
            self.0.lock().push("taken".to_owned());
        }

        fn packet(&self, _from: &NodeName, _packet: Bytes) {}
    }

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn life(started_at_ms: u64, id: &str) -> LinkLife {
        LinkLife::new(started_at_ms, id.to_owned(), Vec::new())
    }

    fn sightings() -> (Sightings, Arc<Reports>) {
        let reports = Arc::new(Reports::default());
        (Sightings::new(name("b"), life(50, "own"), Arc::clone(&reports) as Arc<dyn LinkEvents>), reports)
    }

    #[test]
    fn a_restart_that_overlaps_its_predecessor_is_seen_all_the_time() {
        let (sightings, reports) = sightings();

        sightings.on_token(name("a"), life(1, "x"), true);
        assert_eq!(reports.0.lock().len(), 0, "this node is not visible yet");
        sightings.become_visible();
        sightings.on_token(name("a"), life(9, "y"), true);
        sightings.on_token(name("a"), life(1, "x"), false);
        assert_eq!((reports.0.lock().clone(), sightings.peers()), (vec!["up a".to_owned()], vec![name("a")]));

        sightings.on_token(name("a"), life(9, "y"), false);
        assert_eq!(*reports.0.lock(), ["up a", "down a"]);
    }

    #[test]
    fn a_name_that_is_taken_is_refused_at_the_start() {
        let (sightings, _reports) = sightings();
        assert!(sightings.name_is_free(Duration::ZERO));

        // The clock of the other node is ahead. It is part of the cluster all the same.
        sightings.on_token(name("b"), life(99, "other"), true);

        assert!(!sightings.name_is_free(Duration::from_mins(1)));
    }

    #[test]
    fn of_two_nodes_that_meet_later_the_younger_one_leaves() {
        let (older, reports) = sightings();
        older.become_visible();
        assert_eq!(older.on_token(name("b"), life(50, "own"), true), Step::Stay, "its own token");
        assert_eq!(older.on_token(name("b"), life(51, "younger"), true), Step::Stay);
        assert_eq!(reports.0.lock().len(), 0);

        assert_eq!(older.on_token(name("b"), life(49, "older"), true), Step::Leave);
        assert_eq!(older.on_token(name("b"), life(48, "older still"), true), Step::Stay, "it leaves once");
        assert_eq!(*reports.0.lock(), ["taken"]);
    }

    #[test]
    fn a_node_that_has_left_comes_back_when_no_other_node_has_its_name() {
        let (node, reports) = sightings();
        node.become_visible();
        node.on_token(name("a"), life(1, "x"), true);
        node.on_token(name("b"), life(0, "liar"), true);
        node.on_token(name("b"), life(60, "younger"), true);
        node.on_token(name("c"), life(2, "y"), true);
        assert_eq!(node.on_token(name("b"), life(0, "liar"), false), Step::Stay, "the younger one is there");
        assert!(!node.may_return());

        assert_eq!(node.on_token(name("b"), life(60, "younger"), false), Step::Return);
        assert!(node.may_return());
        node.become_visible();
        assert_eq!(*reports.0.lock(), ["up a", "taken", "up a", "up c"]);
        assert!(!node.may_return());
    }

    #[test]
    fn a_node_sees_so_many_lives_of_others_and_no_more() {
        let (node, _reports) = sightings();
        node.become_visible();
        for number in 0..LIVES_MAX as u64 + 100 {
            node.on_token(name(&format!("x{number}")), life(number, "x"), true);
            node.on_token(name("b"), life(1_000 + number, "younger"), true);
        }

        assert_eq!(node.peers().len(), LIVES_MAX);
        assert_eq!(node.state.lock().namesakes.len(), NAMESAKES_MAX);
        node.on_token(name("x0"), life(0, "x"), false);
        node.on_token(name("late"), life(1, "x"), true);
        assert!(node.peers().contains(&name("late")));
    }
}
