//! Keyed processes on several nodes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::node::{Deactivate, Keyed, KeyedConfig};

/// Number of live processes by key, and how often each was started, over all nodes.
#[derive(Default)]
struct Census {
    live: Mutex<BTreeMap<String, u32>>,
    starts: Mutex<BTreeMap<String, u32>>,
}

/// Serves counters: each call adds a number, and the reply is the sum so far and the name of the node.
fn serve(member: &Member, idle: Duration, census: &Arc<Census>) -> Keyed {
    let (census, own) = (Arc::clone(census), member.node.identity().name.to_string());
    let body = move |ctx: Context, key: String| {
        let (census, own) = (Arc::clone(&census), own.clone());
        async move {
            *census.starts.lock().unwrap().entry(key.clone()).or_default() += 1;
            {
                let mut live = census.live.lock().unwrap();
                let count = live.entry(key.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "{key} is live twice");
            }
            let mut sum = 0_u64;
            loop {
                match ctx.receive().await.downcast::<Request<u64, String>>() {
                    Ok(Request { request, reply }) => {
                        sum += request;
                        reply.send(&ctx, format!("{own} {sum}"));
                    }
                    Err(other) if other.is::<Deactivate>() => break,
                    Err(_) => {}
                }
            }
            *census.live.lock().unwrap().get_mut(&key).unwrap() -= 1;
        }
    };
    member.node.keyed("counter", KeyedConfig { idle, ..KeyedConfig::default() }, body).unwrap()
}

fn start_keyed(network: &MemoryNetwork, text: &str, boot: u128) -> Member {
    let exports = Exports::default().call::<u64, String>("add");
    let runtime = Runtime::start(RuntimeConfig { schedulers: 2, exports, ..RuntimeConfig::default() }).unwrap();
    let node = Node::start(&runtime, Arc::new(network.join(name(text))), BootId(boot), Config::default()).unwrap();
    Member { runtime, node }
}

/// Adds one to each of the keys, and returns the replies.
fn add(member: &Member, keyed: &Keyed, keys: u32) -> Vec<(String, u64)> {
    let keyed = keyed.clone();
    ask(member, move |ctx| async move {
        let mut replies = Vec::new();
        for key in 0..keys {
            let reply: String = keyed.entity(&key.to_string()).call(&ctx, 1_u64, SOON).await.unwrap();
            let (node, sum) = reply.split_once(' ').unwrap();
            replies.push((node.to_owned(), sum.parse().unwrap()));
        }
        replies
    })
}

fn served(keyed: &[&Keyed], nodes: usize) {
    let seen = |keyed: &Keyed| {
        let places: std::collections::BTreeSet<_> = (0..200).map(|key| keyed.place(&key.to_string())).collect();
        places.len() == nodes && !places.contains(&None)
    };
    eventually("the hosts", || keyed.iter().all(|keyed| seen(keyed)));
}

#[test]
fn a_key_has_one_process_in_the_cluster_and_it_moves_with_the_drain_of_its_node() {
    const KEYS: u32 = 200;
    let network = MemoryNetwork::new();
    let census = Arc::new(Census::default());
    let members = [("a", 1), ("b", 2), ("c", 3)].map(|(name, boot)| start_keyed(&network, name, boot));
    connected(&members.each_ref());
    let keyed = members.each_ref().map(|member| serve(member, Duration::from_mins(9), &census));
    served(&keyed.each_ref(), 3);

    let first = add(&members[0], &keyed[0], KEYS);
    let second = add(&members[1], &keyed[1], KEYS);
    let places: std::collections::BTreeSet<_> = first.iter().map(|(node, _)| node.clone()).collect();
    assert_eq!(places.len(), 3);
    for (first, second) in first.iter().zip(&second) {
        assert_eq!((&first.0, first.1 + 1), (&second.0, second.1), "the same process");
    }

    members[2].node.drain();
    served(&[&keyed[0], &keyed[1]], 2);
    let staying = second.iter().filter(|(node, _)| node != "c").count() as u32;
    eventually("the end of processes", || census.live.lock().unwrap().values().sum::<u32>() == staying);
    let third = add(&members[0], &keyed[0], KEYS);
    for ((before, _), (after, sum)) in second.iter().zip(&third) {
        assert_ne!(after, "c");
        assert_eq!(*sum, if before == "c" { 1 } else { 3 }, "only processes of the draining node have moved");
    }
    assert!(census.starts.lock().unwrap().values().all(|starts| *starts <= 2));
}

#[test]
fn an_idle_key_ends_and_the_next_message_starts_it_again() {
    let network = MemoryNetwork::new();
    let census = Arc::new(Census::default());
    let a = start_keyed(&network, "a", 1);
    let keyed = serve(&a, Duration::from_millis(1), &census);
    served(&[&keyed], 1);

    assert_eq!(add(&a, &keyed, 1)[0].1, 1);
    eventually("the end of the process", || census.live.lock().unwrap().get("0") == Some(&0));
    assert_eq!(add(&a, &keyed, 1)[0].1, 1);
    assert_eq!(census.starts.lock().unwrap().get("0"), Some(&2));
}

#[test]
fn the_keys_of_a_lost_node_start_elsewhere_and_a_node_that_joins_takes_new_ones() {
    const KEYS: u32 = 60;
    let network = MemoryNetwork::new();
    let (ours, theirs) = (Arc::new(Census::default()), Arc::new(Census::default()));
    let (a, b) = (start_keyed(&network, "a", 1), start_keyed(&network, "b", 2));
    connected(&[&a, &b]);
    let (keyed, of_b) = (serve(&a, Duration::from_mins(9), &ours), serve(&b, Duration::from_mins(9), &theirs));
    served(&[&keyed, &of_b], 2);
    assert!(add(&a, &keyed, KEYS).iter().any(|(node, _)| node == "b"));

    drop(of_b);
    drop(b);
    served(&[&keyed], 1);
    for (node, sum) in add(&a, &keyed, KEYS) {
        assert!(node == "a" && (1..=2).contains(&sum));
    }

    let c = start_keyed(&network, "c", 3);
    connected(&[&a, &c]);
    let of_c = serve(&c, Duration::from_mins(9), &theirs);
    served(&[&keyed, &of_c], 2);
    // Live keys stay; new ones go to their place.
    assert!(add(&c, &of_c, KEYS).iter().all(|(node, sum)| node == "a" && *sum >= 2));
    assert!(add(&a, &keyed, 2 * KEYS).iter().any(|(node, _)| node == "c"));
}
