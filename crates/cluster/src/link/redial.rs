//! Nodes to dial: those that this node knows of, and has no connection to.
//!
//! The transport dials a node once, when it hears of it. If that fails, or if the connection ends later, it dials only
//! the nodes to join again. Two nodes that met through a third one would stay apart.
//!
//! ```text
//!   rusm/v1/node/NAME/LIFE   a node with a connection to this one; after it: dial for 10 minutes
//!   rusm/v1/sees/NAME/LIFE   a life that the node NAME has a connection to: dial as long as there is one such node
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use super::life::LinkLife;
use crate::identity::NodeName;

/// Time for which a node is dialled that no other node sees.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// Time after the end of a connection until the first try.
const AFTER_LOSS: Duration = Duration::from_millis(500);
/// Time after another node told of a node until the first try: the transport hears of it as well.
const AFTER_TOLD: Duration = Duration::from_secs(3);
/// Maximum time between two tries.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Maximum number of nodes that are dialled at once.
const DIALS_AT_ONCE: usize = 8;
/// Maximum number of lives that are known.
const LIVES_MAX: usize = 1_024;
/// Maximum number of nodes that see a life.
const SEEN_BY_MAX: usize = 256;

/// Lives that this node knows of. Times are those since the start of the link.
pub(super) struct Redial {
    own: LinkLife,
    known: Mutex<BTreeMap<LinkLife, Known>>,
}

#[derive(Default)]
struct Known {
    is_connected: bool,
    /// Other nodes that have a connection to it.
    seen_by: BTreeSet<NodeName>,
    kept_until: Duration,
    dial_at: Duration,
    tries: u32,
}

impl Known {
    fn is_wanted(&self, now: Duration) -> bool {
        self.is_connected || !self.seen_by.is_empty() || now < self.kept_until
    }
}

impl Redial {
    pub(super) fn new(own: LinkLife) -> Self {
        Self { own, known: Mutex::default() }
    }

    /// Notes that a connection began or ended.
    pub(super) fn on_connection(&self, life: &LinkLife, is_present: bool, now: Duration) {
        let mut known = self.known.lock();
        if is_present {
            // A life at an address of an earlier one has replaced it.
            let is_replaced = |old: &LinkLife| old.addresses.iter().any(|address| life.addresses.contains(address));
            known.retain(|old, entry| old == life || entry.is_connected || !is_replaced(old));
        }
        let Some(entry) = entry_of(&mut known, life, is_present) else { return };
        entry.is_connected = is_present;
        entry.kept_until = now + KEPT_FOR;
        (entry.tries, entry.dial_at) = (0, now + AFTER_LOSS);
    }

    /// Notes that another node has a connection to a life, or no longer.
    pub(super) fn on_told(&self, by: NodeName, life: &LinkLife, is_present: bool, now: Duration) {
        if *life == self.own {
            return;
        }
        let mut known = self.known.lock();
        let is_new = !known.contains_key(life);
        let Some(entry) = entry_of(&mut known, life, is_present) else { return };
        if is_new {
            entry.dial_at = now + AFTER_TOLD;
        }
        if !is_present {
            entry.seen_by.remove(&by);
        } else if entry.seen_by.len() < SEEN_BY_MAX {
            entry.seen_by.insert(by);
        }
    }

    /// Returns the lives that this node has a connection to.
    pub(super) fn connected(&self) -> BTreeSet<LinkLife> {
        let known = self.known.lock();
        known.iter().filter(|(_, entry)| entry.is_connected).map(|(life, _)| life.clone()).collect()
    }

    /// Returns the lives to dial now. Of two nodes, the one with the greater id dials, as in the transport.
    pub(super) fn due(&self, now: Duration) -> Vec<LinkLife> {
        let mut known = self.known.lock();
        known.retain(|_, entry| entry.is_wanted(now));
        let is_due = |life: &LinkLife, entry: &Known| {
            !life.addresses.is_empty() && self.own.id > life.id && !entry.is_connected && now >= entry.dial_at
        };
        let due = known.iter_mut().filter(|(life, entry)| is_due(life, entry)).take(DIALS_AT_ONCE);
        due.map(|(life, entry)| {
            entry.dial_at = now + (AFTER_LOSS * 2_u32.pow(entry.tries.min(8))).min(WAIT_MAX);
            entry.tries += 1;
            life.clone()
        })
        .collect()
    }
}

/// Returns the entry of a life, a new one only where it is `wanted` and there is room.
fn entry_of<'a>(known: &'a mut BTreeMap<LinkLife, Known>, life: &LinkLife, is_wanted: bool) -> Option<&'a mut Known> {
    if !known.contains_key(life) {
        if !is_wanted || known.len() >= LIVES_MAX {
            return None;
        }
        known.insert(life.clone(), Known::default());
    }
    known.get_mut(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(id: &str, port: u16) -> LinkLife {
        LinkLife::new(1, id.to_owned(), vec![([127, 0, 0, 1], port).into()])
    }

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_whose_connection_ended_is_dialled_with_growing_pauses_for_ten_minutes() {
        let redial = Redial::new(life("b", 2));
        redial.on_connection(&life("a", 1), true, s(0));
        assert_eq!((redial.due(s(100)), redial.connected().len()), (vec![], 1));

        redial.on_connection(&life("a", 1), false, s(100));
        assert_eq!((redial.due(s(100)), redial.connected().len()), (vec![], 0));
        let tries: Vec<u32> = (0..1_500).filter(|half| !redial.due(s(100) + *half * AFTER_LOSS).is_empty()).collect();
        assert_eq!(tries[..8], [1, 2, 4, 8, 16, 32, 62, 92]);
        assert!(tries.last().is_some_and(|last| (1_170..1_200).contains(last)), "{tries:?}");
        assert_eq!(redial.known.lock().len(), 0);
    }

    #[test]
    fn a_node_that_another_one_sees_is_dialled_until_none_sees_it() {
        let redial = Redial::new(life("b", 2));
        redial.on_told(name("x"), &life("a", 1), true, s(0));
        redial.on_told(name("x"), &life("a", 1), true, s(1));
        redial.on_told(name("y"), &life("a", 1), true, s(2));
        assert_eq!(redial.due(s(2)), [], "the transport may dial as well");
        assert_eq!(redial.due(s(3)), [life("a", 1)]);

        redial.on_told(name("x"), &life("a", 1), false, s(3));
        assert_eq!(redial.due(s(2_000)), [life("a", 1)]);
        redial.on_told(name("y"), &life("a", 1), false, s(2_000));
        assert_eq!(redial.due(s(4_000)), []);
        redial.on_told(name("y"), &life("a", 1), false, s(4_000));
        redial.on_told(name("y"), &life("b", 2), true, s(4_000));
        assert_eq!(redial.known.lock().len(), 0, "this node itself");
    }

    #[test]
    fn of_two_nodes_one_dials_and_a_node_without_an_address_is_not_dialled() {
        let (older, both) = (LinkLife::new(1, "a".to_owned(), vec![]), [life("a", 1), life("c", 3)]);
        let redial = Redial::new(life("b", 2));
        for life in both.iter().chain([&older]) {
            redial.on_connection(life, true, s(0));
            redial.on_connection(life, false, s(0));
        }
        assert_eq!(redial.due(s(1)), [life("a", 1)]);
    }

    #[test]
    fn a_node_that_started_again_at_its_address_replaces_its_earlier_life() {
        let redial = Redial::new(life("z", 2));
        redial.on_connection(&life("a", 1), true, s(0));
        redial.on_connection(&life("a", 1), false, s(0));
        redial.on_connection(&life("b", 1), true, s(0));
        assert_eq!((redial.due(s(9)), redial.connected()), (vec![], BTreeSet::from([life("b", 1)])));
    }

    #[test]
    fn so_many_lives_are_known_and_so_many_are_dialled_at_once() {
        let redial = Redial::new(life("z", 2));
        for port in 0..LIVES_MAX as u16 + 100 {
            redial.on_told(name("x"), &life(&format!("a{port}"), port), true, s(0));
        }
        for by in 0..SEEN_BY_MAX + 100 {
            redial.on_told(name(&format!("x{by}")), &life("a0", 0), true, s(0));
        }
        assert_eq!(redial.known.lock().len(), LIVES_MAX);
        assert_eq!(redial.known.lock()[&life("a0", 0)].seen_by.len(), SEEN_BY_MAX);
        let dialled: BTreeSet<LinkLife> = (0..200).flat_map(|_| redial.due(s(4))).collect();
        assert_eq!((redial.due(s(3)).len(), dialled.len()), (0, LIVES_MAX));
        assert_eq!(redial.due(s(5)).len(), DIALS_AT_ONCE);
    }
}
