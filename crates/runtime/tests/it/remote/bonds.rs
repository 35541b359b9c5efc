//! Links, monitors and exit signals between two nodes.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::{Context, Down, Exit, ExitReason, Pid};

use super::{Numbered, exports, two};
use crate::ask::ask;
use crate::eventually::eventually;
use crate::network::Node;

const SOON: Duration = Duration::from_secs(30);

async fn forever(_: Context) {
    std::future::pending::<()>().await;
}

/// A process that ends with a reason when it is told to.
async fn ends(ctx: Context) -> ExitReason {
    ExitReason::other(ctx.receive_of::<String>().await)
}

#[test]
fn s12_a_monitor_of_a_process_on_another_node_yields_exactly_one_down() {
    let (a, b) = two();
    let target = b.runtime.spawn(ends).unwrap();
    let dead = b.runtime.spawn(|_| async {}).unwrap();
    b.runtime.wait(dead);
    let (target, dead) = (a.pid_on(&b, target), a.pid_on(&b, dead));

    let downs = ask(&a.runtime, move |ctx| async move {
        let (first, second, third) = (ctx.monitor(target), ctx.monitor(target), ctx.monitor(target));
        assert!(ctx.demonitor_flush(third));
        let none = ctx.monitor(dead);
        let noproc = ctx.receive_of::<Down>().await;
        assert_eq!((noproc.reference, noproc.pid, noproc.reason), (none, dead, ExitReason::NoProcess));
        ctx.send(target, "disk full".to_owned()).await;
        let one = ctx.receive_of::<Down>().await;
        let two = ctx.receive_of::<Down>().await;
        let mut references = [one.reference, two.reference];
        references.sort();
        assert_eq!(references, [first, second]);
        // The end of a second process comes after everything about the first one.
        let late = ctx.monitor(dead);
        let next = ctx.receive_of::<Down>().await;
        assert_eq!(next.reference, late);
        [one, two].map(|down| (down.pid, down.reason))
    });

    assert_eq!(downs, [(target, ExitReason::other("disk full")), (target, ExitReason::other("disk full"))]);
}

#[test]
fn s03_what_was_sent_before_an_exit_arrives_on_the_other_node_before_its_signal() {
    let (a, b) = two();
    let (tell, told) = mpsc::channel();
    let watching = b.runtime.spawn(move |ctx| async move {
        let Numbered { from, .. } = ctx.receive_of::<Numbered>().await;
        ctx.monitor(from);
        ctx.send(from, ()).await;
        let mut numbers = Vec::new();
        loop {
            match ctx.receive().await.downcast::<Numbered>() {
                Ok(numbered) => numbers.push(numbered.number),
                Err(message) => break tell.send((numbers, message.downcast::<Down>().unwrap().reason)).unwrap(),
            }
        }
    });
    let to = a.pid_on(&b, watching.unwrap());

    a.runtime
        .spawn(move |ctx| async move {
            ctx.send(to, Numbered { from: ctx.pid(), number: 0 }).await;
            ctx.receive_of::<()>().await;
            for number in 0..500 {
                ctx.send(to, Numbered { from: ctx.pid(), number }).await;
            }
            ExitReason::other("done")
        })
        .unwrap();

    assert_eq!(told.recv_timeout(SOON).unwrap(), ((0..500).collect(), ExitReason::other("done")));
}

#[test]
fn s07_s08_a_link_over_nodes_takes_the_other_side_along_whichever_side_ends() {
    let (a, b) = two();
    for from_there in [true, false] {
        let there = b.runtime.spawn(ends).unwrap();
        let to = a.pid_on(&b, there);
        let (here, end) = a
            .runtime
            .spawn_monitored(move |ctx| async move {
                ctx.link(to);
                ctx.link(to);
                if from_there {
                    ctx.send(to, "broken".to_owned()).await;
                    std::future::pending::<()>().await;
                }
                ExitReason::other("broken")
            })
            .unwrap();

        assert_eq!(end.wait(), ExitReason::other("broken"));
        eventually("the end of both", || !a.runtime.is_alive(here) && !b.runtime.is_alive(there));
    }
}

#[test]
fn s08_a_normal_end_on_another_node_is_a_message_to_one_that_traps_and_ends_nobody() {
    let (a, b) = two();
    let there = b.runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap();
    let to = a.pid_on(&b, there);

    let exit = ask(&a.runtime, move |ctx| async move {
        ctx.trap_exits(true);
        ctx.link(to);
        ctx.send(to, ()).await;
        ctx.receive_of::<Exit>().await
    });

    assert_eq!(exit, Exit { from: to, reason: ExitReason::Normal });
}

#[test]
fn s09_a_kill_reaches_another_node_and_its_links_see_killed() {
    let (a, b) = two();
    let there = b.runtime.spawn(|ctx| async move {
        ctx.trap_exits(true);
        std::future::pending::<()>().await;
    });
    let to = a.pid_on(&b, there.unwrap());

    let exit = ask(&a.runtime, move |ctx| async move {
        ctx.trap_exits(true);
        ctx.link(to);
        ctx.exit(to, ExitReason::Killed);
        ctx.receive_of::<Exit>().await
    });

    assert_eq!(exit, Exit { from: to, reason: ExitReason::Killed });
}

#[test]
fn s10_exit_normal_from_another_node_is_ignored_and_another_reason_is_not() {
    let (a, b) = two();
    let there = b.runtime.spawn(forever).unwrap();
    let (to, end) = (a.pid_on(&b, there), b.runtime.watch(there));

    ask(&a.runtime, move |ctx| async move {
        ctx.exit(to, ExitReason::Normal);
        ctx.exit(to, ExitReason::other("told"));
    });

    assert_eq!(end.wait(), ExitReason::other("told"));
}

#[test]
fn s11_linking_to_a_dead_process_of_another_node_yields_noproc() {
    let (a, b) = two();
    let dead = b.runtime.spawn(|_| async {}).unwrap();
    b.runtime.wait(dead);
    let to = a.pid_on(&b, dead);

    let exit = ask(&a.runtime, move |ctx| async move {
        ctx.trap_exits(true);
        ctx.link(to);
        ctx.receive_of::<Exit>().await
    });

    assert_eq!(exit, Exit { from: to, reason: ExitReason::NoProcess });
}

#[test]
fn s07_after_unlink_no_exit_signal_of_the_link_comes_from_another_node() {
    let (a, b) = two();
    for _ in 0..200 {
        let there = b.runtime.spawn(ends).unwrap();
        let to = a.pid_on(&b, there);
        let (_, end) = a
            .runtime
            .spawn_monitored(move |ctx| async move {
                ctx.link(to);
                ctx.send(to, "broken".to_owned()).await;
                ctx.unlink(to);
                // Whatever was on the way has arrived when the monitor ends.
                ctx.monitor(to);
                ctx.receive_of::<Down>().await;
            })
            .unwrap();

        let reason = end.wait();
        // The signal may have come before the unlink.
        assert!([ExitReason::Normal, ExitReason::other("broken")].contains(&reason), "{reason}");
        b.runtime.wait(there);
    }
}

/// Processes that obey: 0 unlinks, 1 links, anything else ends it.
async fn obeys(ctx: Context, done: mpsc::Sender<()>) -> ExitReason {
    loop {
        let (order, peer) = ctx.receive_of::<(u64, Pid)>().await;
        match order {
            0 => ctx.unlink(peer),
            1 => ctx.link(peer),
            _ => return ExitReason::other("ended"),
        }
        done.send(()).unwrap();
    }
}

#[test]
fn s07_a_link_stands_on_both_nodes_or_on_none_whatever_crosses_on_the_way() {
    // Every sequence of six steps, each an operation on one node or a delivery to the other.
    for script in 0..4_u32.pow(6) {
        let exports = || exports().message::<(u64, Pid)>("order");
        let (a, b) = nodes(exports);
        let (done, is_done) = mpsc::channel();
        let tell = done.clone();
        let here = a.runtime.spawn(move |ctx| obeys(ctx, tell)).unwrap();
        let there = b.runtime.spawn(move |ctx| obeys(ctx, done)).unwrap();
        let (from_a, from_b) = (a.pid_on(&b, there), b.pid_on(&a, here));
        let order = |node: &Node, pid: Pid, order: u64, peer: Pid| {
            node.runtime.try_send(pid, (order, peer)).unwrap();
            is_done.recv_timeout(SOON).unwrap();
        };
        order(&a, here, 1, from_a);
        while a.step_to(&b) || b.step_to(&a) {}

        for step in 0..6 {
            match script >> (2 * step) & 3 {
                0 => order(&a, here, u64::from(step % 3 == 1), from_a),
                1 => order(&b, there, u64::from(step % 3 == 2), from_b),
                2 => drop(a.step_to(&b)),
                _ => drop(b.step_to(&a)),
            }
        }
        while a.step_to(&b) || b.step_to(&a) {}

        let links = |node: &Node, pid| rusm_runtime::observe::links(&node.runtime, pid, 8).unwrap().links;
        let (near, far) = (links(&a, here), links(&b, there));
        assert_eq!(near.len(), far.len(), "script {script}: {near:?} {far:?}");
        if script % 16 != 0 {
            // A new pair of runtimes for each script would take minutes.
            REUSED.with(|reused| reused.set(Some((a, b))));
        }
    }
}

thread_local! {
    static REUSED: std::cell::Cell<Option<(Node, Node)>> = const { std::cell::Cell::new(None) };
}

fn nodes(exports: impl Fn() -> rusm_runtime::remote::Exports) -> (Node, Node) {
    REUSED.with(std::cell::Cell::take).unwrap_or_else(|| {
        let (a, b) = (Node::start("a", 1, exports()), Node::start("b", 1, exports()));
        a.connect_stepwise(&b, true);
        while a.step_to(&b) || b.step_to(&a) {}
        (a, b)
    })
}
