//! Limits on what other nodes make a node keep.

use rusm_runtime::observe;

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

#[test]
fn what_waits_beyond_the_room_of_mailboxes_has_one_limit_for_all_lives_of_other_nodes() {
    const TOTAL: u64 = 4 << 20;
    const MESSAGE: usize = 256 << 10;
    let network = MemoryNetwork::new();
    let exports = || Exports::default().call::<u64, u64>("double");
    let config = RuntimeConfig { schedulers: 2, exports: exports(), mailbox_total_bytes: TOTAL, ..Default::default() };
    let runtime = Runtime::start(config).unwrap();
    let node = Node::start(&runtime, Arc::new(network.join(name("b"))), BootId(1), Config::default()).unwrap();
    let b = Member { runtime, node };
    let silent: Vec<Pid> = (0..32).map(|_| b.runtime.spawn(|_| std::future::pending::<()>()).unwrap()).collect();
    let there = |a: &Member, pid: Pid| {
        let node = a.runtime.node_named("b").unwrap();
        Pid::from_parts(node, pid.slot(), pid.generation())
    };

    for boot in 10..16 {
        let a = start(&network, "a", boot, 1024);
        eventually("the connection", || a.runtime.node_named("b").is_some() && !a.runtime.nodes().is_empty());
        let sent = Arc::new(AtomicUsize::new(0));
        for pid in &silent {
            let (to, sent) = (there(&a, *pid), Arc::clone(&sent));
            let flood = move |ctx: Context| async move {
                loop {
                    ctx.send(to, Bytes::from(vec![0; MESSAGE])).await;
                    sent.fetch_add(1, Relaxed);
                    ctx.yield_now().await;
                }
            };
            a.runtime.spawn(flood).unwrap();
        }
        // The first life fills the mailboxes; later ones lose their connection, or wait with what they may have there.
        eventually("the messages", || sent.load(Relaxed) >= 3 || a.runtime.nodes().is_empty());
        if boot == 10 {
            eventually("full mailboxes", || observe::mailbox_bytes(&b.runtime).bytes >= TOTAL);
        }
    }
    let waiting = observe::mailbox_bytes(&b.runtime).bytes;
    assert!(waiting <= TOTAL + TOTAL / 2 + 2 * MESSAGE as u64, "{waiting} bytes");

    for pid in silent {
        b.runtime.exit(pid, ExitReason::Killed);
    }
    eventually("empty mailboxes", || observe::mailbox_bytes(&b.runtime).bytes == 0);
    let server = b.runtime.spawn(double).unwrap();
    let a = start(&network, "a", 20, 1024);
    connected(&[&a, &b]);
    let to = there(&a, server);
    assert_eq!(ask(&a, move |ctx| async move { ctx.call::<u64, u64>(to, 4, SOON).await }), Ok(8));
}

#[test]
fn what_a_node_may_have_at_another_one_is_refused_by_itself_and_ends_no_session() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 1024));
    connected(&[&a, &b]);
    let silent = b.runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    let to = Pid::from_parts(a.runtime.node_named("b").unwrap(), silent.slot(), silent.generation());

    let (joined, refused) = ask(&a, |ctx| async move {
        let joined = (0..100_000).take_while(|_| ctx.join("group").is_ok()).count();
        (joined, ctx.join("group").unwrap_err().to_string())
    });
    assert_eq!((joined, &*refused), (65_536, "processes of one node may have 65536 memberships in groups"));

    let reason = ask(&a, move |ctx| async move {
        for _ in 0..262_144 {
            ctx.monitor(to);
        }
        let over = ctx.monitor(to);
        let down = ctx.receive_of::<Down>().await;
        assert_eq!(down.reference, over);
        down.reason
    });
    assert_eq!(reason, ExitReason::NoConnection);
    eventually("what is under way", || a.node.peers()[0].stats.in_doubt_frames == 0);
    assert_eq!((a.node.peers()[0].stats.totals.downs, b.node.peers()[0].stats.totals.downs), (0, 0));
}
