//! Limits on what other nodes make a node keep.

use super::*;
use crate::link::{Link, LinkEvents, MemoryLink};

/// A node that says nothing.
struct Silent;

impl LinkEvents for Silent {
    fn up(&self, _peer: NodeName) {}

    fn down(&self, _peer: &NodeName) {}

    fn packet(&self, _from: &NodeName, _packet: Bytes) {}
}

#[test]
fn a_node_knows_so_many_peers_and_one_that_speaks_takes_the_place_of_one_that_is_gone() {
    let network = MemoryNetwork::new();
    let a = start(&network, "a", 1, 16);
    let silent = |number: usize| {
        let link = network.join(name(&format!("x{number}")));
        link.start(Arc::new(Silent)).unwrap();
        link
    };
    let links: Vec<MemoryLink> = (0..300).map(silent).collect();
    assert_eq!(a.node.peers().len(), 256);

    drop(links);
    let b = start(&network, "b", 2, 16);

    connected(&[&a, &b]);
    assert_eq!(a.node.peers().len(), 256);
}

#[test]
fn a_session_that_begins_after_its_peer_was_forgotten_has_a_later_number() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 16), start(&network, "b", 2, 16));
    connected(&[&a, &b]);
    let epoch = |member: &Member| member.node.peers().iter().find_map(|peer| Some(peer.stats.peer.as_ref()?.epoch));
    let before = epoch(&a).unwrap();
    network.cut(&name("a"), &name("b"));
    let links: Vec<MemoryLink> = (0..300)
        .map(|number| {
            let link = network.join(name(&format!("x{number}")));
            link.start(Arc::new(Silent)).unwrap();
            link
        })
        .collect();
    assert!(a.node.peers().iter().all(|peer| peer.name != name("b")), "it was forgotten");

    drop(links);
    network.heal(&name("a"), &name("b"));

    connected(&[&a, &b]);
    assert!(epoch(&a).unwrap() > before);
}
