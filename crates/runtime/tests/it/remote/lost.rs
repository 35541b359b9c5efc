//! A node that is lost, that comes back, or that was started again.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::observe::{self, process_ref};
use rusm_runtime::remote::{Identity, NodeDown, NodeUp};
use rusm_runtime::{CallError, Context, Down, Exit, ExitReason, Request, TrySendError};

use super::{exports, two};
use crate::ask::ask;
use crate::eventually::eventually;
use crate::network::{CREDIT, Node};

const SOON: Duration = Duration::from_secs(30);

async fn forever(_: Context) {
    std::future::pending::<()>().await;
}

#[test]
fn s25_a_lost_node_yields_one_noconnection_for_each_link_and_each_monitor() {
    let (a, b) = two();
    let trapping = b.runtime.spawn(|ctx| async move {
        ctx.trap_exits(true);
        std::future::pending::<()>().await;
    });
    let target = trapping.unwrap();
    let to = a.pid_on(&b, target);
    let (ready, is_ready) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    a.runtime
        .spawn(move |ctx| async move {
            ctx.trap_exits(true);
            let mut monitors = vec![ctx.monitor(to), ctx.monitor(to)];
            ctx.link(to);
            ready.send(()).unwrap();
            let mut seen = Vec::new();
            for _ in 0..2 {
                let down = ctx.receive_of::<Down>().await;
                seen.push(down.reference);
                assert_eq!((down.pid, down.reason), (to, ExitReason::NoConnection));
            }
            let exit = ctx.receive_of::<Exit>().await;
            assert_eq!(exit, Exit { from: to, reason: ExitReason::NoConnection });
            monitors.sort();
            seen.sort();
            assert_eq!(seen, monitors);
            tell.send(()).unwrap();
            while ctx.runtime().nodes().is_empty() {
                ctx.yield_now().await;
            }
            // Nothing else comes, also not after the connection is there again.
            ctx.send(to, 1_u64).await;
            assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());
            tell.send(()).unwrap();
        })
        .unwrap();
    is_ready.recv_timeout(SOON).unwrap();
    let before = observe::peers(&a.runtime).remove(0);

    a.cut(&b);

    let after = observe::peers(&a.runtime).remove(0);
    assert_eq!((&*before.name, before.phase, before.links, before.monitors), ("b", observe::Phase::Up, 1, 2));
    assert_eq!((after.phase, after.links, after.monitors, after.losses), (observe::Phase::Down, 0, 0, 1));
    told.recv_timeout(SOON).unwrap();
    assert!(b.runtime.is_alive(target), "a process that traps lives on");
    a.connect(&b);
    told.recv_timeout(SOON).unwrap();
}

#[test]
fn s25_a_link_to_a_lost_node_ends_processes_on_both_sides() {
    let (a, b) = two();
    let there = b.runtime.spawn(forever).unwrap();
    let to = a.pid_on(&b, there);
    let (ready, is_ready) = mpsc::channel();
    let (_, end) = a
        .runtime
        .spawn_monitored(move |ctx| async move {
            ctx.link(to);
            ready.send(()).unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    is_ready.recv_timeout(SOON).unwrap();
    eventually("the link", || {
        rusm_runtime::observe::links(&b.runtime, there, 1).is_some_and(|links| links.link_count == 1)
    });
    let end_there = b.runtime.watch(there);

    a.cut(&b);

    assert_eq!((end.wait(), end_there.wait()), (ExitReason::NoConnection, ExitReason::NoConnection));
}

#[test]
fn s25_an_open_call_fails_and_a_waiting_sender_goes_on_when_the_node_is_lost() {
    let (a, b) = two();
    let (arrived, has_arrived) = mpsc::channel();
    let silent = b.runtime.spawn(move |ctx| async move {
        let request = ctx.receive_of::<Request<u64, u64>>().await;
        arrived.send(()).unwrap();
        std::future::pending::<()>().await;
        drop(request);
    });
    let full = b.runtime.spawn(forever);
    let full_pid = full.unwrap();
    let (silent, full) = (a.pid_on(&b, silent.unwrap()), a.pid_on(&b, full_pid));
    let (tell, told) = mpsc::channel();
    let call = move |ctx: Context| async move {
        tell.send(ctx.call::<u64, u64>(silent, 1, Duration::MAX).await).unwrap();
    };
    a.runtime.spawn(call).unwrap();
    let (_, end) = a
        .runtime
        .spawn_monitored(move |ctx| async move {
            for number in 0..10_000_u64 {
                ctx.send(full, number).await;
            }
        })
        .unwrap();
    has_arrived.recv_timeout(SOON).unwrap();
    let held = u64::from(b.runtime.config().mailbox_capacity + CREDIT);
    eventually("a full mailbox", || process_ref(&b.runtime, full_pid).is_some_and(|seen| seen.mailbox_len() == held));

    a.cut(&b);

    assert_eq!(told.recv_timeout(SOON).unwrap(), Err(CallError::NoConnection { to: silent }));
    assert_eq!(end.wait(), ExitReason::Normal);
}

#[test]
fn s25_without_a_connection_everything_says_noconnection_at_once() {
    let (a, b) = two();
    let there = b.runtime.spawn(forever).unwrap();
    let to = a.pid_on(&b, there);
    a.cut(&b);

    let (sent, called, down, exit) = ask(&a.runtime, move |ctx| async move {
        ctx.trap_exits(true);
        ctx.send(to, 1_u64).await;
        let sent = ctx.try_send(to, 1_u64).unwrap_err();
        let called = ctx.call::<u64, u64>(to, 1, SOON).await;
        ctx.monitor(to);
        let down = ctx.receive_of::<Down>().await;
        ctx.link(to);
        (sent, called, down, ctx.receive_of::<Exit>().await)
    });

    assert!(matches!(sent, TrySendError::NoConnection { .. }), "{sent:?}");
    assert_eq!(called, Err(CallError::NoConnection { to }));
    assert_eq!((down.pid, down.reason), (to, ExitReason::NoConnection));
    assert_eq!(exit, Exit { from: to, reason: ExitReason::NoConnection });
    assert_eq!(a.runtime.wait(to), ExitReason::NoConnection);
}

#[test]
fn s25_after_the_connection_is_there_again_pids_of_the_same_life_are_those_of_before() {
    let (a, b) = two();
    let (tell, told) = mpsc::channel();
    let there = b.runtime.spawn(move |ctx| async move { tell.send(ctx.receive_of::<u64>().await).unwrap() });
    let to = a.pid_on(&b, there.unwrap());
    a.cut(&b);
    a.connect(&b);

    ask(&a.runtime, move |ctx| async move { ctx.send(to, 7_u64).await });

    assert_eq!(told.recv_timeout(SOON).unwrap(), 7);
}

#[test]
fn s25_a_node_that_was_started_again_is_another_one_and_old_pids_stay_dead() {
    let (a, b) = two();
    let old = b.runtime.spawn(forever).unwrap();
    let old_pid = a.pid_on(&b, old);
    a.cut(&b);
    drop(b.runtime);
    let again = Node::start("b", 2, exports());
    a.connect(&again);
    let (tell, told) = mpsc::channel();
    let new = again.runtime.spawn(move |ctx| async move { tell.send(ctx.receive_of::<u64>().await).unwrap() });
    let new_pid = a.pid_on(&again, new.unwrap());

    let (refused, called, down) = ask(&a.runtime, move |ctx| async move {
        let refused = ctx.try_send(old_pid, 1_u64).unwrap_err();
        let called = ctx.call::<u64, u64>(old_pid, 1, SOON).await;
        ctx.monitor(old_pid);
        let down = ctx.receive_of::<Down>().await;
        ctx.send(new_pid, 7_u64).await;
        (refused, called, down.reason)
    });

    assert_eq!((old_pid.slot(), old_pid.generation()), (new_pid.slot(), new_pid.generation()), "the same place");
    assert_ne!(old_pid, new_pid);
    assert!(matches!(refused, TrySendError::NoProcess { .. }), "{refused:?}");
    assert_eq!((called, down), (Err(CallError::NoProcess { to: old_pid }), ExitReason::NoProcess));
    assert_eq!(told.recv_timeout(SOON).unwrap(), 7);
}

#[test]
fn s25_nothing_of_the_old_connection_arrives_after_its_loss() {
    let (a, b) = (Node::start("a", 1, exports()), Node::start("b", 1, exports()));
    a.connect_stepwise(&b, true);
    while a.step_to(&b) || b.step_to(&a) {}
    let receiver = b.runtime.spawn(forever).unwrap();
    let to = a.pid_on(&b, receiver);
    ask(&a.runtime, move |ctx| async move {
        ctx.send(to, 1_u64).await;
        ctx.send(to, 2_u64).await;
    });
    assert!(a.step_to(&b));

    a.cut(&b);
    a.connect(&b);
    ask(&a.runtime, move |ctx| async move { ctx.send(to, 3_u64).await });

    eventually("the third message", || process_ref(&b.runtime, receiver).is_some_and(|seen| seen.mailbox_len() == 2));
}

#[test]
fn s25_watchers_are_told_once_of_each_node_that_comes_and_goes() {
    let (a, b) = two();
    let b_identity = Identity { name: "b".into(), boot_id: 1 };
    let node = a.index_of(&b);
    let up = NodeUp { node, identity: b_identity.clone() };
    let (ready, is_ready) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let expected = up.clone();
    a.runtime
        .spawn(move |ctx| async move {
            let nodes = ctx.watch_nodes();
            assert_eq!(nodes, [expected]);
            ready.send(()).unwrap();
            let down = ctx.receive().await.downcast::<NodeDown>().unwrap();
            let up = ctx.receive().await.downcast::<NodeUp>().unwrap();
            tell.send((down, up)).unwrap();
        })
        .unwrap();
    is_ready.recv_timeout(SOON).unwrap();

    a.cut(&b);
    a.cut(&b);
    a.connect(&b);

    let down = NodeDown { node, identity: b_identity };
    assert_eq!(told.recv_timeout(SOON).unwrap(), (down, up));
}

#[test]
fn s25_cut_under_load_each_bond_ends_once_and_messages_stay_in_order() {
    const PAIRS: usize = 20;
    const ROUNDS: usize = 30;
    let (a, b) = two();
    for round in 0..ROUNDS {
        let (tell, told) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        for _ in 0..PAIRS {
            let (arrived, ready) = (tell.clone(), ready.clone());
            let there = b.runtime.spawn(move |ctx| async move {
                let mut last = None;
                loop {
                    let number = ctx.receive_of::<u64>().await;
                    // A prefix in order: nothing is missing before the loss.
                    if number != last.map_or(0, |last| last + 1) {
                        arrived.send(Err(format!("{number} after {last:?}"))).unwrap();
                    }
                    last = Some(number);
                }
            });
            let (to, tell) = (a.pid_on(&b, there.unwrap()), tell.clone());
            a.runtime
                .spawn(move |ctx| async move {
                    ctx.trap_exits(true);
                    let monitor = ctx.monitor(to);
                    ctx.link(to);
                    ready.send(()).unwrap();
                    let mut number = 0_u64;
                    let (mut downs, mut exits) = (0, 0);
                    while downs + exits < 2 {
                        ctx.send(to, number).await;
                        number += 1;
                        while let Some(message) = ctx.receive_timeout(Duration::ZERO).await {
                            match message.downcast::<Down>() {
                                Ok(down) => {
                                    assert_eq!((down.reference, down.reason), (monitor, ExitReason::NoConnection));
                                    downs += 1;
                                }
                                Err(message) => {
                                    assert_eq!(message.downcast::<Exit>().unwrap().reason, ExitReason::NoConnection);
                                    exits += 1;
                                }
                            }
                        }
                    }
                    tell.send(if (downs, exits) == (1, 1) { Ok(()) } else { Err(format!("{downs} {exits}")) }).unwrap();
                })
                .unwrap();
        }
        for _ in 0..PAIRS {
            is_ready.recv_timeout(SOON).unwrap();
        }

        a.cut(&b);

        for _ in 0..PAIRS {
            assert_eq!(told.recv_timeout(SOON).unwrap(), Ok(()), "round {round}");
        }
        a.connect(&b);
    }
}
