//! Keyed processes on several nodes.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::*;
use crate::node::{Deactivate, KeyCount, Keyed, KeyedConfig, KeyedError};

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
            *census.starts.lock().entry(key.clone()).or_default() += 1;
            {
                let mut live = census.live.lock();
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
            *census.live.lock().get_mut(&key).unwrap() -= 1;
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
    eventually("the end of processes", || census.live.lock().values().sum::<u32>() == staying);
    let third = add(&members[0], &keyed[0], KEYS);
    for ((before, _), (after, sum)) in second.iter().zip(&third) {
        assert_ne!(after, "c");
        assert_eq!(*sum, if before == "c" { 1 } else { 3 }, "only processes of the draining node have moved");
    }
    assert!(census.starts.lock().values().all(|starts| *starts <= 2));
}

#[test]
fn an_idle_key_ends_and_the_next_message_starts_it_again() {
    let network = MemoryNetwork::new();
    let census = Arc::new(Census::default());
    let a = start_keyed(&network, "a", 1);
    let keyed = serve(&a, Duration::from_millis(1), &census);
    served(&[&keyed], 1);

    assert_eq!(add(&a, &keyed, 1)[0].1, 1);
    eventually("the end of the process", || census.live.lock().get("0") == Some(&0));
    assert_eq!(add(&a, &keyed, 1)[0].1, 1);
    assert_eq!(census.starts.lock().get("0"), Some(&2));
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

/// Serves counters whose sum moves with them: each call adds a number, and the reply is the sum and the name of the node.
fn serve_with_state(member: &Member, idle: Duration) -> Keyed {
    let own = member.node.identity().name.to_string();
    let body = move |ctx: Context, _: String, sum: Option<u64>| {
        let own = own.clone();
        async move {
            let mut sum = sum.unwrap_or_default();
            loop {
                match ctx.receive().await.downcast::<Request<u64, String>>() {
                    Ok(Request { request, reply }) => {
                        sum += request;
                        reply.send(&ctx, format!("{own} {sum}"));
                    }
                    Err(other) if other.is::<Deactivate>() => return Some(sum),
                    Err(_) => {}
                }
            }
        }
    };
    let suspend = |sum: u64| Bytes::copy_from_slice(&sum.to_le_bytes());
    let resume = |bytes: Bytes| bytes.as_ref().try_into().ok().map(u64::from_le_bytes);
    let config = KeyedConfig { idle, ..KeyedConfig::default() };
    member.node.keyed_with_state("sum", config, (suspend, resume), body).unwrap()
}

#[test]
fn the_state_of_a_key_outlives_its_process() {
    let network = MemoryNetwork::new();
    let a = start_keyed(&network, "a", 1);
    let keyed = serve_with_state(&a, Duration::from_millis(1));
    served(&[&keyed], 1);

    for sum in 1..5 {
        assert_eq!(add(&a, &keyed, 1), [("a".to_owned(), sum)]);
        eventually("the end of the process", || keyed.count() == KeyCount { live: 0, suspended: 1 });
    }
}

#[test]
fn the_states_of_a_draining_node_move_and_no_call_fails_or_is_lost() {
    const KEYS: u32 = 300;
    let network = MemoryNetwork::new();
    let members = [("a", 1), ("b", 2), ("c", 3)].map(|(name, boot)| start_keyed(&network, name, boot));
    connected(&members.each_ref());
    let keyed = members.each_ref().map(|member| serve_with_state(member, Duration::from_mins(9)));
    served(&keyed.each_ref(), 3);
    add(&members[0], &keyed[0], KEYS);
    let on_c = keyed[2].count();
    assert!(on_c.live > KEYS as usize / 5, "{on_c:?}");

    // Calls go on while the states move.
    members[2].node.drain();
    let mut rounds = 1;
    while keyed[2].count() != KeyCount::default() || rounds < 3 {
        let caller = rounds as usize % 2;
        rounds += 1;
        for (_, sum) in add(&members[caller], &keyed[caller], KEYS) {
            assert_eq!(sum, rounds, "each call is counted once");
        }
    }

    served(&[&keyed[0], &keyed[1]], 2);
    for (node, sum) in add(&members[0], &keyed[0], KEYS) {
        assert!(node != "c" && sum == rounds + 1, "{node} {sum}");
    }
    assert_eq!(keyed[0].count().live + keyed[1].count().live, KEYS as usize);
}

#[test]
fn a_suspended_state_moves_to_a_node_that_joins_when_its_key_is_used() {
    const KEYS: u32 = 60;
    let network = MemoryNetwork::new();
    let a = start_keyed(&network, "a", 1);
    let keyed = serve_with_state(&a, Duration::from_millis(1));
    served(&[&keyed], 1);
    add(&a, &keyed, KEYS);
    eventually("the end of the processes", || keyed.count() == KeyCount { live: 0, suspended: KEYS as usize });

    let b = start_keyed(&network, "b", 2);
    connected(&[&a, &b]);
    let of_b = serve_with_state(&b, Duration::from_mins(9));
    served(&[&keyed, &of_b], 2);

    let replies = add(&a, &keyed, KEYS);
    assert!(replies.iter().all(|(_, sum)| *sum == 2), "{replies:?}");
    assert!(replies.iter().any(|(node, _)| node == "b"), "{replies:?}");
}

#[test]
fn a_state_that_cannot_be_resumed_is_kept_and_its_key_refused() {
    let network = MemoryNetwork::new();
    let a = start_keyed(&network, "a", 1);
    let body = |ctx: Context, _: String, _: Option<()>| async move {
        loop {
            match ctx.receive().await.downcast::<Request<u64, String>>() {
                Ok(Request { reply, .. }) => drop(reply.send(&ctx, "a 1".to_owned())),
                Err(other) if other.is::<Deactivate>() => return Some(()),
                Err(_) => {}
            }
        }
    };
    let config = KeyedConfig { idle: Duration::from_millis(1), ..KeyedConfig::default() };
    let codec = (|()| Bytes::from_static(b"of another version"), |_: Bytes| None);
    let keyed = a.node.keyed_with_state("sum", config, codec, body).unwrap();
    served(&[&keyed], 1);
    add(&a, &keyed, 1);
    eventually("the end of the process", || keyed.count() == KeyCount { live: 0, suspended: 1 });

    let refused = ask(&a, move |ctx| async move { keyed.entity("0").call::<u64, String>(&ctx, 1, SOON).await });
    assert!(matches!(refused, Err(KeyedError::Refused { .. })), "{refused:?}");
}

#[test]
fn no_call_is_lost_or_repeated_while_one_node_after_the_other_is_drained_and_replaced() {
    const KEYS: u32 = 60;
    const ROUNDS: u128 = 12;
    let network = MemoryNetwork::new();
    let serve = |text: &str, boot: u128| {
        let member = start_keyed(&network, text, boot);
        let keyed = serve_with_state(&member, Duration::from_mins(9));
        (member, keyed)
    };
    let mut nodes: Vec<_> = [("a", 1), ("b", 2), ("c", 3)].map(|(text, boot)| serve(text, boot)).into();
    let mut calls: u64 = 0;
    for round in 0..ROUNDS {
        connected(&nodes.iter().map(|(member, _)| member).collect::<Vec<_>>());
        served(&nodes.iter().map(|(_, keyed)| keyed).collect::<Vec<_>>(), 3);
        let (leaving, of_leaving) = nodes.remove(0);
        leaving.node.drain();
        // Calls go on from the other two nodes while the states move.
        let (caller, of_caller) = &nodes[round as usize % 2];
        while of_leaving.count() != KeyCount::default() || u128::from(calls) <= 2 * round {
            calls += 1;
            for (key, (_, sum)) in add(caller, of_caller, KEYS).into_iter().enumerate() {
                assert_eq!(sum, calls, "key {key} in round {round}: each call is counted once");
            }
        }
        let name = leaving.node.identity().name.to_string();
        drop(of_leaving);
        drop(leaving);
        nodes.push(serve(&name, round + 10));
    }
}

/// Offers states of keys to the host of a node, and returns its answer.
fn offer(member: &Member, keys: &[&str], state: &[u8]) -> Bytes {
    let mut question = vec![3];
    for key in keys {
        question.extend_from_slice(&1_u64.to_le_bytes());
        question.extend_from_slice(&(key.len() as u16).to_le_bytes());
        question.extend_from_slice(key.as_bytes());
        question.extend_from_slice(&(state.len() as u32).to_le_bytes());
        question.extend_from_slice(state);
    }
    ask(member, |ctx| async move {
        let host = ctx.members("~keyed/counter")[0];
        ctx.call::<Bytes, Bytes>(host, Bytes::from(question), SOON).await.unwrap()
    })
}

#[test]
fn a_host_keeps_no_more_states_of_others_than_it_has_room_for() {
    let network = MemoryNetwork::new();
    let body = |_: Context, _: String| async {};
    let serve = |member: &Member, keys_max, state_bytes_max| {
        let config = KeyedConfig { keys_max, state_bytes_max, ..KeyedConfig::default() };
        let keyed = member.node.keyed("counter", config, body).unwrap();
        served(&[&keyed], 1);
        keyed
    };
    let (few_bytes, few_keys) = (start_keyed(&network, "a", 1), start_keyed(&MemoryNetwork::new(), "a", 1));
    let keyed = [serve(&few_bytes, 1_000, 10), serve(&few_keys, 2, 1_000)];

    // The answer has a 1 for each state that was taken.
    assert_eq!(offer(&few_bytes, &["k", "l", "k"], b"8 bytes "), [5, 1, 0, 0].as_slice());
    assert_eq!(offer(&few_keys, &["k", "l", "m", "l"], b"8 bytes "), [5, 1, 1, 0, 1].as_slice());
    drop(keyed);
}
