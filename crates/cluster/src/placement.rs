//! The node of a process that is found by its key: rendezvous hashing.
//!
//! ```text
//!   kind, key ──▶ a weight for each node ──▶ the node with the largest
//! ```
//!
//! Every node that sees the same members computes the same place, without asking. When a node joins, only keys that it
//! gets move; when a node leaves, only its keys do, to all others alike.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::identity::NodeName;

/// The nodes that processes are placed on.
///
/// ```
/// # mod rusm { pub use rusm_cluster as cluster; }
/// use rusm::cluster::NodeName;
/// use rusm::cluster::placement::Placement;
///
/// let mut placement = Placement::new();
/// for name in ["north", "south"] {
///     placement.add(NodeName::new(name)?);
/// }
/// let place = placement.node_of("cart", "ada").expect("there are nodes").clone();
/// placement.remove(&place);
/// assert!(placement.has_moved("cart", "ada", &place));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    members: BTreeMap<NodeName, Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    seed: u64,
    is_draining: bool,
}

impl Placement {
    /// Creates a placement without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node. A node that is known takes new keys again.
    pub fn add(&mut self, node: NodeName) {
        let seed = xxh3_64(node.as_str().as_bytes());
        self.members.insert(node, Member { seed, is_draining: false });
    }

    /// Removes a node: its keys are placed elsewhere.
    pub fn remove(&mut self, node: &NodeName) {
        self.members.remove(node);
    }

    /// Lets a node take no new keys, since it is about to leave.
    pub fn drain(&mut self, node: &NodeName) {
        if let Some(member) = self.members.get_mut(node) {
            member.is_draining = true;
        }
    }

    /// Returns the node for a key of a kind. `None` if no node takes keys.
    pub fn node_of(&self, kind: &str, key: &str) -> Option<&NodeName> {
        // The kind is the seed, so the same key of two kinds has two places.
        let hash = xxh3_64_with_seed(key.as_bytes(), xxh3_64(kind.as_bytes()));
        let takers = self.members.iter().filter(|(_, member)| !member.is_draining);
        // The name decides between equal weights.
        takers.max_by_key(|(name, member)| (weight(hash, member.seed), *name)).map(|(name, _)| name)
    }

    /// Returns true if a key that is live on a node belongs to another one now.
    pub fn has_moved(&self, kind: &str, key: &str, node: &NodeName) -> bool {
        self.node_of(kind, key).is_some_and(|place| place != node)
    }
}

fn weight(key: u64, node: u64) -> u64 {
    xxh3_64_with_seed(&key.to_le_bytes(), node)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 20_000;

    fn placement(count: usize) -> Placement {
        let mut placement = Placement::new();
        for number in 0..count {
            placement.add(NodeName::new(&format!("node-{number}")).unwrap());
        }
        placement
    }

    fn places(placement: &Placement) -> Vec<String> {
        let place = |key: usize| placement.node_of("cart", &format!("customer {key}")).unwrap().to_string();
        (0..KEYS).map(place).collect()
    }

    #[test]
    fn keys_are_spread_evenly_over_200_nodes() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for place in places(&placement(200)) {
            *counts.entry(place).or_default() += 1;
        }

        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert_eq!(counts.len(), 200);
        assert!(*least > 60 && *most < 145, "{least} to {most} of 100");
    }

    #[test]
    fn a_node_that_joins_takes_only_its_own_share() {
        let (before, after) = (places(&placement(9)), places(&placement(10)));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();

        assert!(moved.iter().all(|(_, after)| *after == "node-9"));
        assert!((KEYS / 11..KEYS / 9).contains(&moved.len()), "{} moved", moved.len());
    }

    #[test]
    fn the_keys_of_a_node_that_leaves_or_drains_go_to_all_others() {
        let node = NodeName::new("node-3").unwrap();
        let (all, mut left, mut draining) = (placement(10), placement(10), placement(10));
        left.remove(&node);
        draining.drain(&node);

        let (before, after) = (places(&all), places(&left));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        let takers: std::collections::BTreeSet<_> = moved.iter().map(|(_, after)| *after).collect();
        assert!(moved.iter().all(|(before, _)| *before == "node-3") && takers.len() == 9);
        assert_eq!(after, places(&draining));
        assert!(draining.has_moved("cart", "customer 1", &node));
    }

    #[test]
    fn kinds_have_places_of_their_own_and_an_empty_cluster_has_none() {
        let placement = placement(10);
        let differs = |key: &str| placement.node_of("cart", key) != placement.node_of("order", key);

        assert!((0..100).filter(|key| differs(&key.to_string())).count() > 70);
        assert_eq!(Placement::new().node_of("cart", "1"), None);
    }
}
