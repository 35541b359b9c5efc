//! Spawns and names on another node, groups over nodes, and supervisors with children on other nodes.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::remote::{AskError, Exports};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Context, Down, Exit, ExitReason, Joined, Left, Pid};

use super::{Numbered, exports};
use crate::ask::ask;
use crate::eventually::eventually;
use crate::network::Node;

const SOON: Duration = Duration::from_secs(30);

fn spawnable() -> Exports {
    exports()
        .spawnable("ends", |_, argument: Bytes| async move {
            ExitReason::other(String::from_utf8(argument.to_vec()).unwrap())
        })
        .spawnable("numbers", |ctx: Context, _| async move {
            let Numbered { from, number } = ctx.receive_of::<Numbered>().await;
            ctx.send(from, number + 1).await;
            std::future::pending::<()>().await;
        })
}

fn two() -> (Node, Node) {
    let (a, b) = (Node::start("a", 1, spawnable()), Node::start("b", 1, spawnable()));
    a.connect(&b);
    (a, b)
}

#[test]
fn a_process_is_spawned_on_another_node_by_its_name() {
    let (a, _b) = two();

    let (answer, unknown, no_node, too_large) = ask(&a.runtime, |ctx| async move {
        let there = ctx.spawn_on("b", "numbers", Bytes::new()).await.unwrap();
        ctx.send(there, Numbered { from: ctx.pid(), number: 6 }).await;
        let answer = ctx.receive_of::<u64>().await;
        let unknown = ctx.spawn_on("b", "nothing", Bytes::new()).await;
        let too_large = ctx.spawn_on("b", "numbers", Bytes::from(vec![0; 1 << 20])).await;
        (answer, unknown, ctx.spawn_on("c", "numbers", Bytes::new()).await, too_large)
    });

    assert_eq!(answer, 7);
    assert_eq!(unknown, Err(AskError::NotFound { node: "b".into(), name: "nothing".into() }));
    assert_eq!(no_node, Err(AskError::NoConnection { node: "c".into() }));
    assert_eq!(too_large, Err(AskError::TooLarge { bytes: (1 << 20) + "numbers".len() }));
}

#[test]
fn s11_s12_a_process_spawned_on_another_node_has_its_link_or_monitor_from_its_start() {
    let (a, _b) = two();

    let (linked, monitored) = ask(&a.runtime, |ctx| async move {
        ctx.trap_exits(true);
        let child = ctx.spawn_link_on("b", "ends", Bytes::from_static(b"disk full")).await.unwrap();
        let exit = ctx.receive_of::<Exit>().await;
        assert_eq!(exit.from, child);
        let (child, monitor) = ctx.spawn_monitor_on("b", "ends", Bytes::from_static(b"other")).await.unwrap();
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.pid, down.reference), (child, monitor));
        (exit.reason, down.reason)
    });

    assert_eq!((linked, monitored), (ExitReason::other("disk full"), ExitReason::other("other")));
}

#[test]
fn a_spawned_process_ends_with_the_process_that_is_linked_to_it() {
    let (a, b) = two();
    let before = b.runtime.process_count();
    let (spawned, is_spawned) = mpsc::channel();
    let parent = a.runtime.spawn(move |ctx| async move {
        let child = ctx.spawn_link_on("b", "numbers", Bytes::new()).await.unwrap();
        spawned.send(child).unwrap();
        std::future::pending::<()>().await;
    });
    let child = is_spawned.recv_timeout(SOON).unwrap();
    let there = Pid::local(child.slot(), child.generation());
    assert!(b.runtime.is_alive(there));
    let end = b.runtime.watch(there);

    a.runtime.exit(parent.unwrap(), ExitReason::other("broken"));

    assert_eq!(end.wait(), ExitReason::other("broken"));
    eventually("nothing is left", || b.runtime.process_count() == before);
}

#[test]
fn a_process_whose_spawner_has_ended_before_the_answer_ends_too() {
    let (a, b) = (Node::start("a", 1, spawnable()), Node::start("b", 1, spawnable()));
    a.connect_stepwise(&b, true);
    while a.step_to(&b) || b.step_to(&a) {}
    let before = b.runtime.process_count();
    let spawner = a.runtime.spawn(|ctx| async move {
        drop(ctx.spawn_link_on("b", "numbers", Bytes::new()).await);
    });
    let spawner = spawner.unwrap();
    eventually("the request", || a.step_to(&b));
    assert_eq!(b.runtime.process_count(), before + 1);

    a.runtime.exit(spawner, ExitReason::Killed);
    a.runtime.wait(spawner);

    eventually("the end of the child", || {
        while a.step_to(&b) || b.step_to(&a) {}
        b.runtime.process_count() == before
    });
}

#[test]
fn a_name_is_found_on_the_node_that_has_it() {
    let (a, b) = two();
    let named = b.runtime.spawn(|ctx| async move {
        let Numbered { from, number } = ctx.receive_of::<Numbered>().await;
        ctx.send(from, number).await;
    });
    b.runtime.register(named.unwrap(), "orders").unwrap();

    let (answer, unknown) = ask(&a.runtime, |ctx| async move {
        let orders = ctx.whereis_on("b", "orders").await.unwrap();
        ctx.send(orders, Numbered { from: ctx.pid(), number: 4 }).await;
        (ctx.receive_of::<u64>().await, ctx.whereis_on("b", "nobody").await)
    });

    assert_eq!(answer, 4);
    assert_eq!(unknown, Err(AskError::NotFound { node: "b".into(), name: "nobody".into() }));
}

#[test]
fn a_group_has_the_members_of_all_connected_nodes() {
    let a = Node::start("a", 1, spawnable());
    let b = Node::start("b", 1, spawnable());
    let early = b.runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap();
    b.runtime.join(early, "workers").unwrap();
    a.connect(&b);
    let early = a.pid_on(&b, early);
    eventually("the member from before", || a.runtime.members("workers") == [early]);
    let late = b.runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap();
    let late_here = a.pid_on(&b, late);
    let (tell, told) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    a.runtime
        .spawn(move |ctx| async move {
            let (_, members) = ctx.monitor_group("workers").unwrap();
            assert_eq!(members, [early]);
            ready.send(()).unwrap();
            let joined = ctx.receive_of::<Joined>().await;
            let left = ctx.receive_of::<Left>().await;
            tell.send((joined.pid, left.pid)).unwrap();
            tell.send((Pid::NONE, ctx.receive_of::<Left>().await.pid)).unwrap();
        })
        .unwrap();
    is_ready.recv_timeout(SOON).unwrap();

    b.runtime.join(late, "workers").unwrap();
    eventually("both", || a.runtime.members("workers") == [early, late_here]);
    b.runtime.try_send(late, ()).unwrap();

    assert_eq!(told.recv_timeout(SOON).unwrap(), (late_here, late_here));
    a.cut(&b);
    assert_eq!(told.recv_timeout(SOON).unwrap(), (Pid::NONE, early));
    assert!(a.runtime.members("workers").is_empty());
    a.connect(&b);
    eventually("the member is back", || a.runtime.members("workers") == [early]);
}

#[test]
fn a_supervisor_restarts_its_child_on_another_node_and_on_a_third_when_that_is_lost() {
    let a = Node::start("a", 1, spawnable());
    let (tell, told) = mpsc::channel();
    let exports = |name: &'static str| {
        let tell = tell.clone();
        spawnable().spawnable("worker", move |ctx: Context, _| {
            let tell = tell.clone();
            async move {
                tell.send((name, ctx.pid())).unwrap();
                std::future::pending::<()>().await;
            }
        })
    };
    let (b, c) = (Node::start("b", 1, exports("b")), Node::start("c", 1, exports("c")));
    a.connect(&b);
    a.connect(&c);
    let child = ChildSpec::remote("worker", ["b", "c"], "worker", Bytes::new());
    let supervisor = a.runtime.spawn(|ctx| async move {
        let supervisor = Supervisor::new(Strategy::OneForOne).intensity(5, SOON).child(child);
        supervisor.start_link(&ctx).await.unwrap();
        std::future::pending::<()>().await;
    });
    let (first, pid) = told.recv_timeout(SOON).unwrap();

    b.runtime.exit(pid, ExitReason::other("broken"));
    let (second, _) = told.recv_timeout(SOON).unwrap();
    a.cut(&b);
    let (third, last) = told.recv_timeout(SOON).unwrap();

    assert_eq!((first, second, third), ("b", "b", "c"));
    let end = c.runtime.watch(last);
    a.runtime.exit(supervisor.unwrap(), ExitReason::Shutdown);
    assert_eq!(end.wait(), ExitReason::Shutdown);
}
