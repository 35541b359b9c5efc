//! Thousands of seeds without a violation, and each planted bug found.

use std::num::NonZero;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::identity::{BootId, Identity, NodeName};
use crate::session::{Config, LinkChange, Session};

/// Number of seeds that each test run tries.
const SEEDS: u64 = 10_000;

/// Runs seeds on all cores. Returns the sum of their reports.
fn run_seeds(seeds: std::ops::Range<u64>) -> Report {
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let work = || {
        let mut sum = Report::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return sum;
            }
            sum = sum + check(seed, None).unwrap_or_else(|violation| panic!("{violation}"));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(Report::default(), Report::add)
    })
}

#[test]
fn messages_arrive_in_order_or_the_session_ends_under_ten_thousand_seeds() {
    let report = run_seeds(0..SEEDS);

    eprintln!("{report:?}");
    assert!(report.delivered > SEEDS * 50, "{report:?}");
    assert!(report.downs > SEEDS, "{report:?}");
    assert!(report.busy > SEEDS && report.stale_packets > SEEDS, "{report:?}");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in 0..20 {
        assert_eq!(check(seed, None), check(seed, None));
    }
}

#[test]
fn every_planted_bug_is_found() {
    for fault in Fault::ALL {
        let found = (0..SEEDS).find_map(|seed| check(seed, Some(fault)).err());

        let violation = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        eprintln!("{fault:?}: {violation}");
    }
}

#[test]
fn a_name_never_has_two_owners_in_hundreds_of_partitions() {
    let mut sum = NameReport::default();
    for seed in 0..300 {
        let report = check_names(seed, None).unwrap_or_else(|violation| panic!("{violation}"));
        sum.partitions += report.partitions;
        sum.registered += report.registered;
        sum.suspended += report.suspended;
        sum.resumed += report.resumed;
        sum.lost += report.lost;
    }

    eprintln!("{sum:?}");
    assert!(
        sum.partitions > 200 && sum.registered > 300 && sum.suspended > 100 && sum.resumed > 30 && sum.lost > 30,
        "{sum:?}"
    );
}

#[test]
fn grants_that_are_not_kept_for_long_enough_are_found() {
    let found = (0..300).find_map(|seed| check_names(seed, Some(Duration::from_millis(300))).err());

    eprintln!("{found:?}");
    assert!(found.is_some_and(|violation| violation.what.contains("owners")));
}

#[test]
fn two_hundred_nodes_have_sessions_with_each_other_at_a_small_cost() {
    const NODES: usize = 200;
    let names: Vec<_> = (0..NODES).map(|node| NodeName::new(&format!("node-{node}")).unwrap()).collect();
    let identity = |node: usize| Identity { name: names[node].clone(), boot: BootId(node as u128 + 1) };
    let session = |node: usize, peer: usize| Session::new(Config::default(), identity(node), names[peer].clone());
    let mut sessions: Vec<Vec<_>> =
        (0..NODES).map(|node| (0..NODES).map(|peer| session(node, peer)).collect()).collect();
    let (mut packets, mut bytes) = (0, 0);
    for step in 0..60 {
        let now = Duration::from_millis(step * 100);
        for (node, peer) in (0..NODES).flat_map(|node| (0..NODES).map(move |peer| (node, peer))) {
            if node == peer {
                continue;
            }
            if step == 0 {
                sessions[node][peer].on_link(now, LinkChange::Up);
            }
            sessions[node][peer].on_tick(now);
            while let Some(transmit) = sessions[node][peer].poll_transmit() {
                if step >= 20 {
                    packets += 1;
                    bytes += transmit.packet.len();
                }
                sessions[peer][node].on_packet(now, transmit.packet);
            }
        }
    }

    let is_up = |(node, peer): (usize, usize)| node == peer || sessions[node][peer].is_up();
    assert!((0..NODES * NODES).all(|index| is_up((index / NODES, index % NODES))));
    let (packets, bytes) = (packets / NODES / 4, bytes / NODES / 4);
    eprintln!("{packets} packets and {bytes} bytes a second from each node");
    assert!(packets < 1_000 && bytes < 32 << 10, "{packets} packets, {bytes} bytes");
}
