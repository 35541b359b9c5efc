//! Each kind of wait is found with the right processes, and disappears when it is over.

use std::time::Duration;

use crate::ask::runtime;
use crate::eventually::eventually;
use rusm_runtime::observe::{self, Wait, WaitTarget};
use rusm_runtime::ring::Builder;
use rusm_runtime::topic::{Message, Overflow, Retention, TopicConfig};
use rusm_runtime::{Config, Context, Pid, Request, Runtime};

/// Returns all waits of a runtime.
fn waits(runtime: &Runtime) -> Vec<Wait> {
    let mut found = Vec::new();
    for part in 0..observe::table_parts(runtime) {
        observe::waits_of_part(runtime, part, 1_000, &mut found);
    }
    observe::waits_on_buffers(runtime, 1_000, &mut found);
    found
}

/// Waits until exactly these waits exist.
fn settle(runtime: &Runtime, expected: &[(Pid, WaitTarget)]) {
    let sorted = |mut all: Vec<(Pid, WaitTarget)>| {
        all.sort_by_key(|(waiter, target)| (*waiter, target.pid()));
        all
    };
    let expected = sorted(expected.to_vec());
    let mut seen = Vec::new();
    eventually("the waits", || {
        seen = sorted(waits(runtime).into_iter().map(|wait| (wait.waiter, wait.target)).collect());
        seen == expected
    });
}

/// Spawns a process that calls the process that it receives, without a timeout.
fn caller(runtime: &Runtime) -> Pid {
    let body = |ctx: Context| async move {
        let callee = ctx.receive_of::<Pid>().await;
        drop(ctx.call::<u64, u64>(callee, 1, Duration::MAX).await);
    };
    runtime.spawn(body).unwrap()
}

/// Spawns a process that receives nothing but `()`, and then ends.
fn deaf(runtime: &Runtime) -> Pid {
    runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap()
}

#[test]
fn a_caller_waits_for_its_callee_until_that_replies() {
    let runtime = runtime();
    let server = runtime.spawn(|ctx| async move {
        ctx.receive_of::<()>().await;
        let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
        reply.send(&ctx, request);
        ctx.receive_of::<()>().await;
    });
    let server = server.unwrap();
    let clients = [caller(&runtime), caller(&runtime)];
    for client in &clients {
        runtime.try_send(*client, server).unwrap();
    }

    settle(&runtime, &clients.map(|client| (client, WaitTarget::Reply(server))));
    assert_eq!(observe::waits_of(&runtime, clients[0]), [waits(&runtime)[0].clone()]);

    runtime.try_send(server, ()).unwrap();
    eventually("one reply", || waits(&runtime).len() == 1);
    runtime.try_send(server, ()).unwrap();
    settle(&runtime, &[]);
}

#[test]
fn a_call_with_a_timeout_and_monitors_beside_it_name_only_the_callee() {
    let runtime = runtime();
    let (callee, other) = (deaf(&runtime), deaf(&runtime));
    let client = runtime.spawn(move |ctx| async move {
        ctx.monitor(other);
        drop(ctx.call::<u64, u64>(callee, 1, Duration::from_hours(1)).await);
        ctx.receive_of::<u8>().await;
    });
    let client = client.unwrap();

    settle(&runtime, &[(client, WaitTarget::Reply(callee))]);

    runtime.try_send(callee, ()).unwrap();
    settle(&runtime, &[]);
}

#[test]
fn a_caller_that_also_receives_may_continue_and_one_that_only_calls_may_not() {
    let runtime = runtime();
    let callee = deaf(&runtime);
    let both = runtime.spawn(move |ctx| async move {
        tokio::select! {
            _ = ctx.call::<u64, u64>(callee, 1, Duration::MAX) => {}
            () = ctx.receive_of::<()>() => {}
        }
    });
    let both = both.unwrap();
    let only = caller(&runtime);
    runtime.try_send(only, callee).unwrap();

    settle(&runtime, &[(both, WaitTarget::Reply(callee)), (only, WaitTarget::Reply(callee))]);
    let may_continue = |pid| observe::waits_of(&runtime, pid)[0].may_continue;
    assert_eq!((may_continue(both), may_continue(only)), (true, false));
}

#[test]
fn senders_wait_for_the_process_whose_mailbox_is_full() {
    let runtime = Runtime::start(Config { schedulers: 2, mailbox_capacity: 4, ..Config::default() }).unwrap();
    let receiver = deaf(&runtime);
    while runtime.try_send(receiver, 1_u8).is_ok() {}
    let senders = [0, 1, 2].map(|_| runtime.spawn(move |ctx| async move { ctx.send(receiver, 2_u8).await }).unwrap());

    settle(&runtime, &senders.map(|sender| (sender, WaitTarget::Room(receiver))));

    runtime.exit(senders[0], rusm_runtime::ExitReason::Killed);
    settle(&runtime, &[1, 2].map(|at| (senders[at], WaitTarget::Room(receiver))));
    runtime.exit(receiver, rusm_runtime::ExitReason::Killed);
    settle(&runtime, &[]);
}

#[test]
fn a_writer_waits_for_the_reader_that_holds_it_up() {
    let runtime = runtime();
    let (mut writer, subscriber) = Builder::new(8).label("samples").observed_by(&runtime).build::<u64>().unwrap();
    let mut slow = subscriber.join().unwrap();
    let reader = runtime.spawn(move |ctx| async move {
        slow.next().await.unwrap();
        ctx.receive_of::<()>().await;
        while slow.next().await.is_ok() {}
    });
    let reader = reader.unwrap();
    let writer = runtime.spawn(move |_| async move {
        for item in 0..20 {
            writer.push(item).await;
        }
        writer.close();
    });

    let target = WaitTarget::Reader { stream: 1, label: Some("samples".into()), reader: Some(reader) };
    settle(&runtime, &[(writer.unwrap(), target)]);

    runtime.try_send(reader, ()).unwrap();
    settle(&runtime, &[]);
}

#[test]
fn a_publisher_waits_for_the_slowest_subscriber() {
    let runtime = runtime();
    let config = TopicConfig { messages: 8, bytes: 1 << 20, retention: Retention::Forget };
    let topic = runtime.topics().create_with("orders", config).unwrap();
    let subscribe = || {
        let mut subscriber = topic.subscribe(Overflow::Block);
        topic.blocking_publish(Message::new("first")).unwrap();
        let body = |ctx: Context| async move {
            // It is there already: a slow reader never waits.
            subscriber.next().await.unwrap();
            ctx.receive_of::<()>().await;
            while subscriber.next().await.is_ok() {}
        };
        runtime.spawn(body).unwrap()
    };
    let (slow, fast) = (subscribe(), subscribe());
    let publishing = topic.clone();
    let publisher = runtime.spawn(move |_| async move {
        loop {
            publishing.publish(Message::new("x")).await.unwrap();
        }
    });
    let publisher = publisher.unwrap();
    eventually("a full topic", || topic.view(0).publishers_waiting == 1);
    runtime.try_send(fast, ()).unwrap();

    let target = WaitTarget::Subscriber { topic: "orders".into(), slowest: Some(slow) };
    settle(&runtime, &[(publisher, target)]);
    runtime.exit(publisher, rusm_runtime::ExitReason::Killed);
    settle(&runtime, &[]);
}

#[test]
fn cycles_of_two_and_of_three_calls_are_complete() {
    let runtime = runtime();
    for size in [2, 3] {
        let processes: Vec<Pid> = (0..size).map(|_| caller(&runtime)).collect();
        let next = |at: usize| processes[(at + 1) % size];
        processes.iter().enumerate().for_each(|(at, pid)| runtime.try_send(*pid, next(at)).unwrap());

        let expected: Vec<_> =
            processes.iter().enumerate().map(|(at, pid)| (*pid, WaitTarget::Reply(next(at)))).collect();
        settle(&runtime, &expected);

        for pid in &processes {
            runtime.exit(*pid, rusm_runtime::ExitReason::Killed);
        }
        settle(&runtime, &[]);
    }
}

#[test]
fn processes_that_receive_sleep_or_have_ended_wait_for_nobody() {
    let runtime = runtime();
    deaf(&runtime);
    let sleeper = runtime.spawn(|ctx| async move { ctx.sleep(Duration::from_hours(1)).await });
    let receiver = runtime.spawn(|ctx| async move { drop(ctx.receive().await) });

    eventually("all of them wait", || {
        let state = |pid| observe::process_ref(&runtime, pid).unwrap().state();
        state(sleeper.unwrap_or(Pid::NONE)) == observe::ProcessState::Sleeping
            && state(receiver.unwrap_or(Pid::NONE)) == observe::ProcessState::Waiting
    });

    assert_eq!((waits(&runtime), observe::waits_of(&runtime, Pid::NONE)), (vec![], vec![]));
}

#[test]
fn the_list_is_bounded_and_the_count_is_not() {
    let runtime = runtime();
    let callee = deaf(&runtime);
    let clients: Vec<Pid> = (0..20).map(|_| caller(&runtime)).collect();
    for client in &clients {
        runtime.try_send(*client, callee).unwrap();
    }
    eventually("all calls", || waits(&runtime).len() == 20);

    let mut found = Vec::new();
    let count: u64 =
        (0..observe::table_parts(&runtime)).map(|part| observe::waits_of_part(&runtime, part, 7, &mut found)).sum();

    assert_eq!((found.len(), count), (7, 20));
}
