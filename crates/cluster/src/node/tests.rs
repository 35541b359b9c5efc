//! Two and three nodes in one process, with real sessions over a network in memory.

mod bounds;
mod keyed;
mod topics;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::remote::Exports;
use rusm_runtime::{CallError, Config as RuntimeConfig, Context, Down, ExitReason, Pid, Request, Runtime};

use super::{NameChange, Names, Node, Ownership, RegisterNameError};
use crate::identity::{BootId, NodeName};
use crate::link::MemoryNetwork;
use crate::names::{Minority, NamesConfig, RegisterError, RegisterRefused};
use crate::session::Config;

const SOON: Duration = Duration::from_secs(30);

struct Member {
    runtime: Runtime,
    node: Node,
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn start(network: &MemoryNetwork, text: &str, boot: u128, mailbox_capacity: u32) -> Member {
    let exports = Exports::default().call::<u64, u64>("double").spawnable("double", |ctx, _| double(ctx));
    let config = RuntimeConfig { schedulers: 2, exports, mailbox_capacity, ..RuntimeConfig::default() };
    let runtime = Runtime::start(config).unwrap();
    let node = Node::start(&runtime, Arc::new(network.join(name(text))), BootId(boot), Config::default()).unwrap();
    Member { runtime, node }
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

fn connected(members: &[&Member]) {
    eventually("the connections", || members.iter().all(|member| member.runtime.nodes().len() == members.len() - 1));
}

/// Runs a process, and returns its result.
fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    member: &Member,
    body: impl FnOnce(Context) -> F + Send + 'static,
) -> T {
    let (give, take) = mpsc::channel();
    let run = move |ctx: Context| {
        let body = body(ctx);
        async move { give.send(body.await).unwrap() }
    };
    member.runtime.spawn(run).unwrap();
    take.recv_timeout(SOON).unwrap()
}

async fn double(ctx: Context) {
    loop {
        let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
        reply.send(&ctx, request * 2);
    }
}

#[test]
fn a_sender_of_long_messages_waits_without_its_scheduler_while_the_receiver_takes_none() {
    let network = MemoryNetwork::new();
    let b = start(&network, "b", 2, 1);
    let config = RuntimeConfig { schedulers: 1, ..RuntimeConfig::default() };
    let runtime = Runtime::start(config).unwrap();
    let node = Node::start(&runtime, Arc::new(network.join(name("a"))), BootId(1), Config::default()).unwrap();
    let a = Member { runtime, node };
    connected(&[&a, &b]);
    let silent = b.runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    let to = Pid::from_parts(a.runtime.node_named("b").unwrap(), silent.slot(), silent.generation());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    a.runtime
        .spawn(move |ctx| async move {
            loop {
                ctx.send(to, Bytes::from(vec![0; 1 << 20])).await;
                count.fetch_add(1, Relaxed);
            }
        })
        .unwrap();
    // One message is in the mailbox, and four use up the credit of 4 MiB.
    eventually("the last message", || sent.load(Relaxed) >= 5);

    for _ in 0..100 {
        ask(&a, |ctx| async move { ctx.yield_now().await });
    }
    assert_eq!(sent.load(Relaxed), 5);
}

#[test]
fn nodes_that_see_each_other_spawn_and_call_and_leave() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 1024));
    connected(&[&a, &b]);

    let answers = ask(&a, |ctx| async move {
        let there = ctx.spawn_on("b", "double", Bytes::new()).await.unwrap();
        let mut answers = Vec::new();
        for number in 0..1_000_u64 {
            answers.push(ctx.call::<u64, u64>(there, number, SOON).await);
        }
        answers
    });
    let peers = a.node.peers();
    let left = a.node.leave(SOON);

    assert_eq!(answers, (0..1_000).map(|number| Ok(number * 2)).collect::<Vec<_>>());
    assert_eq!((peers.len(), peers[0].name.as_str()), (1, "b"));
    assert!(peers[0].stats.totals.messages_out >= 1_000 && peers[0].node != 0, "{peers:?}");
    assert!(left);
    eventually("the end of the connection", || b.runtime.nodes().is_empty());
}

#[test]
fn a_cut_connection_ends_bonds_once_and_a_healed_one_reaches_the_same_processes() {
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 1024), start(&network, "b", 2, 1024));
    connected(&[&a, &b]);
    let there = b.runtime.spawn(double).unwrap();
    let to = Pid::from_parts(a.runtime.node_named("b").unwrap(), there.slot(), there.generation());
    let (ready, is_ready) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    a.runtime
        .spawn(move |ctx| async move {
            ctx.monitor(to);
            ready.send(()).unwrap();
            tell.send(ctx.receive_of::<Down>().await.reason).unwrap();
            while ctx.runtime().nodes().is_empty() {
                ctx.yield_now().await;
            }
            assert_eq!(ctx.call::<u64, u64>(to, 4, SOON).await, Ok(8));
            assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());
            tell.send(ExitReason::Normal).unwrap();
        })
        .unwrap();
    is_ready.recv_timeout(SOON).unwrap();

    network.cut(&name("a"), &name("b"));
    assert_eq!(told.recv_timeout(SOON).unwrap(), ExitReason::NoConnection);
    let called = ask(&a, move |ctx| async move { ctx.call::<u64, u64>(to, 1, SOON).await });
    network.heal(&name("a"), &name("b"));

    assert_eq!(called, Err(CallError::NoConnection { to }));
    assert_eq!(told.recv_timeout(SOON).unwrap(), ExitReason::Normal);
}

#[test]
fn many_senders_and_a_slow_receiver_lose_nothing_and_hold_nobody_else_back() {
    const SENDERS: u64 = 16;
    const EACH: u64 = 500;
    let network = MemoryNetwork::new();
    let (a, b) = (start(&network, "a", 1, 16), start(&network, "b", 2, 16));
    connected(&[&a, &b]);
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = mpsc::channel();
    let slow = b.runtime.spawn(move |ctx| async move {
        gone.await.unwrap();
        let mut next = vec![0_u64; usize::try_from(SENDERS).unwrap()];
        for _ in 0..SENDERS * EACH {
            let number = ctx.receive_of::<u64>().await;
            let of_sender = &mut next[usize::try_from(number / EACH).unwrap()];
            assert_eq!(number % EACH, *of_sender, "in order, and once");
            *of_sender += 1;
        }
        tell.send(()).unwrap();
    });
    let free = b.runtime.spawn(double).unwrap();
    let node = a.runtime.node_named("b").unwrap();
    let there = |pid: Pid| Pid::from_parts(node, pid.slot(), pid.generation());
    let (slow, free) = (there(slow.unwrap()), there(free));
    for sender in 0..SENDERS {
        a.runtime
            .spawn(move |ctx| async move {
                for number in 0..EACH {
                    ctx.send(slow, sender * EACH + number).await;
                }
            })
            .unwrap();
    }
    // All credit of the slow process is used up.
    eventually("a stalled target", || a.node.peers()[0].stats.stalled_targets == 1);

    let answers = ask(&a, move |ctx| async move {
        let mut answers = 0;
        for number in 0..200_u64 {
            answers += u32::from(ctx.call::<u64, u64>(free, number, SOON).await == Ok(number * 2));
        }
        answers
    });
    go.send(()).unwrap();

    assert_eq!(answers, 200);
    told.recv_timeout(SOON).unwrap();
}

#[test]
fn a_node_that_starts_again_under_its_name_is_another_one() {
    let network = MemoryNetwork::new();
    let a = start(&network, "a", 1, 1024);
    let b = start(&network, "b", 2, 1024);
    connected(&[&a, &b]);
    let old = b.runtime.spawn(double).unwrap();
    let old_pid = Pid::from_parts(a.runtime.node_named("b").unwrap(), old.slot(), old.generation());
    drop(b);
    eventually("the loss", || a.runtime.nodes().is_empty());
    let again = start(&network, "b", 3, 1024);
    connected(&[&a, &again]);
    let new = again.runtime.spawn(double).unwrap();
    let new_pid = Pid::from_parts(a.runtime.node_named("b").unwrap(), new.slot(), new.generation());

    let (to_old, to_new) = ask(&a, move |ctx| async move {
        (ctx.call::<u64, u64>(old_pid, 1, SOON).await, ctx.call::<u64, u64>(new_pid, 1, SOON).await)
    });

    assert_eq!(to_old, Err(CallError::NoProcess { to: old_pid }));
    assert_eq!(to_new, Ok(2));
}

/// Registers until the cluster is ready for it: nodes grant no names just after they have started.
async fn register(names: &Names, name: &str, pid: Pid) -> Result<u64, RegisterNameError> {
    loop {
        match names.register(name, pid).await {
            Err(RegisterNameError::Refused(RegisterRefused::Timeout)) => {}
            result => return result,
        }
    }
}

/// Starts the three nodes of a cluster.
fn three(network: &MemoryNetwork) -> [Member; 3] {
    let members = [("a", 1), ("b", 2), ("c", 3)].map(|(text, boot)| {
        let runtime = Runtime::start(RuntimeConfig { schedulers: 1, ..RuntimeConfig::default() }).unwrap();
        let config = Config { lease: Duration::from_secs(1), ..Config::default() };
        let names = NamesConfig::new(config.patience(), Some(3), 0);
        let link = Arc::new(network.join(name(text)));
        let node = Node::start_with_names(&runtime, link, BootId(boot), config, names).unwrap();
        Member { runtime, node }
    });
    connected(&members.each_ref());
    members
}

#[test]
fn a_registration_ends_with_its_process_and_leaves_the_next_one_alone() {
    let network = MemoryNetwork::new();
    let [a, b, c] = three(&network);
    let names = a.node.names();
    ask(&a, move |ctx| async move { register(&names, "ready", ctx.pid()).await.unwrap() });
    let wait = |ctx: Context| async move { ctx.receive_of::<()>().await };
    let (ended, dying, next) = (a.runtime.spawn(wait), a.runtime.spawn(wait), a.runtime.spawn(wait).unwrap());
    let (ended, dying) = (ended.unwrap(), dying.unwrap());
    a.runtime.exit(ended, ExitReason::Killed);
    eventually("the end", || !a.runtime.is_alive(ended));

    let names = a.node.names();
    let of_ended = ask(&a, move |_| async move { names.register("leader", ended).await });
    assert!(matches!(of_ended, Err(RegisterNameError::Refused(RegisterRefused::Withdrawn))), "{of_ended:?}");

    // Nobody grants anything to this one.
    for other in ["b", "c"] {
        network.cut(&name("a"), &name(other));
    }
    let (names, (tell, told)) = (a.node.names(), mpsc::channel());
    a.runtime.spawn(move |_| async move { drop(tell.send(names.register("leader", dying).await)) }).unwrap();
    a.runtime.exit(dying, ExitReason::Killed);
    let of_dying = told.recv_timeout(SOON).unwrap();
    assert!(of_dying.is_err(), "{of_dying:?}");
    for other in ["b", "c"] {
        network.heal(&name("a"), &name(other));
    }
    connected(&[&a, &b, &c]);
    let names = a.node.names();
    ask(&a, move |_| async move {
        while register(&names, "leader", next).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    eventually(
        "the owner",
        || matches!(b.node.names().owner("leader"), Ok(Some(owner)) if owner.pid.slot() == next.slot()),
    );
}

#[test]
fn a_name_has_one_owner_in_the_cluster_and_moves_to_the_majority_when_its_node_is_cut_off() {
    let network = MemoryNetwork::new();
    let [a, b, _c] = three(&network);
    let (tell, told) = mpsc::channel();
    let names = a.node.names();
    let owner = a
        .runtime
        .spawn(move |ctx| async move {
            tell.send(register(&names, "leader", ctx.pid()).await.map(|epoch| Ownership::Resumed { epoch })).unwrap();
            loop {
                let change = ctx.receive_of::<NameChange>().await.change;
                tell.send(Ok(change)).unwrap();
            }
        })
        .unwrap();
    let registered = told.recv_timeout(SOON).unwrap();
    eventually("the announcement", || matches!(b.node.names().owner("leader"), Ok(Some(_))));
    let seen = b.node.names().owner("leader").unwrap().unwrap();
    let taken = ask(&b, {
        let names = b.node.names();
        move |ctx| async move { names.register("leader", ctx.pid()).await }
    });

    for other in ["b", "c"] {
        network.cut(&name("a"), &name(other));
    }
    // A machine that is slow may suspend an owner for a moment: wait for the change that is meant.
    let wait_for = |wanted| while told.recv_timeout(SOON).unwrap().unwrap() != wanted {};
    wait_for(Ownership::Suspended);
    eventually("the minority", || a.node.names().owner("leader").is_err());
    let minority = a.node.names().owner("leader");
    eventually("the loss of the owner", || b.node.names().owner("leader") == Ok(None));
    let (register_b, done) = (b.node.names(), mpsc::channel::<u64>());
    b.runtime
        .spawn(move |ctx| async move {
            let epoch = register(&register_b, "leader", ctx.pid()).await.unwrap();
            done.0.send(epoch).unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    let epoch = done.1.recv_timeout(SOON).unwrap();
    for other in ["b", "c"] {
        network.heal(&name("a"), &name(other));
    }
    wait_for(Ownership::Lost);

    let Ok(Ownership::Resumed { epoch: first }) = registered else { panic!("{registered:?}") };
    assert_eq!((seen.pid.slot(), seen.pid.generation()), (owner.slot(), owner.generation()));
    assert!(seen.epoch >= first);
    assert!(matches!(taken, Err(RegisterNameError::Register(RegisterError::Taken { .. }))), "{taken:?}");
    assert_eq!(minority, Err(Minority { seen: 1, size: 3 }));
    assert!(epoch > first);
    eventually("agreement", || {
        a.node.names().owner("leader").is_ok_and(|owner| owner.is_some_and(|owner| owner.epoch == epoch))
    });
}

#[test]
fn a_name_is_free_when_its_owner_ends() {
    let network = MemoryNetwork::new();
    let a = start(&network, "a", 1, 16);
    let names = a.node.names();
    let first = ask(&a, {
        let names = names.clone();
        move |ctx| async move { names.register("only", ctx.pid()).await.unwrap() }
    });

    eventually("the end of the owner", || names.owner("only") == Ok(None));
    let second = ask(&a, move |ctx| async move { names.register("only", ctx.pid()).await.unwrap() });

    assert!(second > first);
}
