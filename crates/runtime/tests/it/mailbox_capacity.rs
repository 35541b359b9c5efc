//! The capacity of one mailbox: full is full, senders wait in order, and a greater capacity lets them continue.

use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{
    Config, Context, ExitReason, Handle, MailboxBound, Pid, Runtime, SpawnOptions, TrySendError, observe,
};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Waits for a message of type `()`, receives all numbers, and returns them to `to`.
async fn gather(ctx: Context, count: u32, to: Pid) {
    ctx.receive_of::<()>().await;
    let mut numbers = Vec::new();
    for _ in 0..count {
        numbers.push(ctx.receive_of::<u32>().await);
    }
    ctx.send(to, numbers).await;
}

/// Sends numbers until one is returned, and returns the number of those that were accepted and the bound.
fn fill(runtime: &Handle, to: Pid) -> (u32, MailboxBound) {
    for number in 0.. {
        match runtime.try_send(to, number) {
            Ok(()) => {}
            Err(TrySendError::Full { bound, .. }) => return (number, bound),
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("a mailbox is bounded")
}

fn shown_capacity(runtime: &Handle, pid: Pid) -> u64 {
    observe::process_ref(runtime, pid).expect("it runs").mailbox_capacity()
}

#[test]
fn a_process_has_the_mailbox_that_its_spawn_asks_for() {
    let runtime = runtime();
    let options = SpawnOptions::default().mailbox_capacity(3).label("small");
    let sleeper = |ctx: Context| async move { ctx.sleep(Duration::from_hours(1)).await };

    let outside = runtime.spawn_with(&options, sleeper).unwrap();
    let inside = runtime.block_on(move |ctx| async move { ctx.spawn_with(&options, sleeper).unwrap() });
    let usual = runtime.spawn(sleeper).unwrap();

    for pid in [outside, inside] {
        assert_eq!(fill(&runtime, pid), (3, MailboxBound::Messages(3)));
        let seen = observe::process_ref(&runtime, pid).unwrap();
        assert_eq!((seen.mailbox_capacity(), observe::names(&seen).1.as_deref()), (3, Some("small")));
    }
    assert_eq!(shown_capacity(&runtime, usual), u64::from(runtime.config().mailbox_capacity));
}

#[test]
fn a_linked_and_pinned_process_keeps_its_options() {
    let runtime = runtime();
    let (_, end) = runtime
        .spawn_monitored(|ctx: Context| async move {
            let options = SpawnOptions::default().link().pinned(1).mailbox_capacity(1);
            ctx.spawn_with(&options, |_| async { ExitReason::other("broken") }).unwrap();
            ctx.sleep(Duration::from_hours(1)).await;
        })
        .unwrap();
    assert_eq!(end.wait(), ExitReason::other("broken"));

    let missing = SpawnOptions::default().pinned(7);
    assert!(runtime.spawn_with(&missing, |_| async {}).is_err());
}

#[test]
fn a_sender_waits_for_room_in_a_small_mailbox_and_loses_nothing() {
    let runtime = runtime();
    let numbers = runtime.block_on(|ctx| async move {
        let me = ctx.pid();
        let options = SpawnOptions::default().mailbox_capacity(4);
        let receiver = ctx.spawn_with(&options, move |ctx| gather(ctx, 100, me)).unwrap();
        ctx.send(receiver, ()).await;
        for number in 0..100_u32 {
            ctx.send(receiver, number).await;
        }
        ctx.receive_of::<Vec<u32>>().await
    });
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_greater_capacity_lets_waiting_senders_continue() {
    let runtime = runtime();
    let accepted = runtime.block_on(|ctx| async move {
        let me = ctx.pid();
        let options = SpawnOptions::default().mailbox_capacity(1);
        let receiver = ctx
            .spawn_with(&options, move |ctx| async move {
                // It receives nothing, so its mailbox stays full.
                ctx.sleep(Duration::from_millis(20)).await;
                ctx.set_mailbox_capacity(10);
                ctx.sleep(Duration::from_hours(1)).await;
            })
            .unwrap();
        ctx.spawn(move |ctx| async move {
            for number in 0..10_u32 {
                ctx.send(receiver, number).await;
            }
            ctx.send(me, "all accepted").await;
        });
        ctx.receive_of::<&str>().await
    });
    assert_eq!(accepted, "all accepted");
}

#[test]
fn children_keep_their_capacity_across_restarts() {
    let runtime = runtime();
    let child = ChildSpec::new("worker", |ctx: Context| async move {
        ctx.register("worker").unwrap();
        ctx.receive_of::<&str>().await;
        ExitReason::other("asked to")
    });
    let supervisor = Supervisor::new(Strategy::OneForOne).child(child.mailbox_capacity(5));
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(supervisor.start(&runtime)).unwrap();
    let find = |not: Option<Pid>| loop {
        match runtime.whereis("worker") {
            Some(pid) if Some(pid) != not => return pid,
            _ => std::thread::yield_now(),
        }
    };

    let first = find(None);
    assert_eq!(shown_capacity(&runtime, first), 5);
    runtime.try_send(first, "end").unwrap();
    runtime.wait(first);
    assert_eq!(shown_capacity(&runtime, find(Some(first))), 5);
}

#[test]
fn a_process_that_waits_for_room_in_its_own_mailbox_waits_and_goes_on_when_it_receives() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
    let options = SpawnOptions::default().mailbox_capacity(2);
    let by_handle = runtime.clone();
    let fills = |ctx: Context| async move {
        loop {
            ctx.send(ctx.pid(), 1_u32).await;
        }
    };
    let fills_by_handle = |ctx: Context| async move {
        loop {
            by_handle.send(ctx.pid(), 1_u32).await;
        }
    };
    let waiting = [runtime.spawn_with(&options, fills), runtime.spawn_with(&options, fills_by_handle)]
        .map(|pid| pid.expect("there is room"));
    let state = |pid: Pid| observe::process_ref(&runtime, pid).map(|seen| seen.state());
    // The runtime does not know what a handle waits for.
    let expected = [observe::ProcessState::Waiting, observe::ProcessState::Io].map(Some);
    eventually("both are parked", || waiting.map(state) == expected);

    let (tell, told) = std::sync::mpsc::channel();
    let both = |ctx: Context| async move {
        let send = async {
            for number in 0..10_u32 {
                ctx.send(ctx.pid(), number).await;
            }
        };
        let receive = async {
            for number in 0..10 {
                assert_eq!(ctx.receive_of::<u32>().await, number);
            }
        };
        tokio::join!(send, receive);
        tell.send(()).expect("the test waits");
    };
    runtime.spawn_with(&options, both).expect("there is room");
    assert_eq!(told.recv(), Ok(()));
}
