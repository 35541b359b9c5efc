//! A trace has what its processes send, receive and do, within its rate and its time.

use std::time::Duration;

use crate::ask::runtime;
use crate::eventually::eventually;
use rusm_runtime::observe::{self, TraceEnd, TraceEvent, TraceHandle, TraceKind, TraceLimits, TraceReport, TraceScope};
use rusm_runtime::{Context, Pid, Request, Runtime, observe::TraceKind as Kind};

const LIMITS: TraceLimits = TraceLimits { per_sec: 1_000, duration: Duration::from_mins(5) };

fn report(runtime: &Runtime, trace: TraceHandle) -> TraceReport {
    observe::trace_report(runtime, trace, 0, 100_000)
}

/// Spawns a process that sends the number that it receives to the process that it was given, plus one.
fn relay(runtime: &Runtime, to: Pid) -> Pid {
    let body = move |ctx: Context| async move {
        loop {
            let number = ctx.receive_of::<u64>().await;
            ctx.send(to, (number + 1, "a text of its own".to_owned())).await;
        }
    };
    runtime.spawn(body).unwrap()
}

fn sink(runtime: &Runtime) -> Pid {
    let body = |ctx: Context| async move {
        loop {
            drop(ctx.receive().await);
        }
    };
    runtime.spawn(body).unwrap()
}

/// Waits until a trace has an event that `wanted` accepts, and returns all of its events.
fn events(runtime: &Runtime, trace: TraceHandle, wanted: impl Fn(&TraceEvent) -> bool) -> Vec<TraceEvent> {
    let mut found = Vec::new();
    eventually("the event", || {
        found = report(runtime, trace).events;
        found.iter().any(&wanted)
    });
    found
}

#[test]
fn a_message_is_seen_to_arrive_to_be_received_and_answered_with_its_type_and_peers() {
    let runtime = runtime();
    let sink = sink(&runtime);
    let relay = relay(&runtime, sink);
    let asker = runtime.spawn(move |ctx| async move {
        ctx.receive_of::<()>().await;
        ctx.send(relay, 7_u64).await;
        ctx.receive_of::<()>().await;
    });
    let asker = asker.unwrap();
    eventually("both wait", || observe::idle_progress(&runtime).is_some());
    let trace = observe::start_trace(&runtime, relay, TraceScope::Process, LIMITS).unwrap();
    runtime.try_send(asker, ()).unwrap();

    // The poll that sends; an earlier one may be recorded, too.
    let is_send = |event: &TraceEvent| event.kind == Kind::Send;
    let seq = events(&runtime, trace, is_send).iter().find(|event| is_send(event)).unwrap().seq;
    let all = events(&runtime, trace, |event| event.seq > seq && matches!(event.kind, Kind::Poll { .. }));

    let of = |kind: &TraceKind| all.iter().find(|event| event.kind == *kind).cloned().unwrap();
    let (arrived, received, sent) = (of(&Kind::Arrive), of(&Kind::Receive), of(&Kind::Send));
    assert!(all.iter().all(|event| event.pid == relay), "{all:?}");
    assert_eq!((arrived.peer, received.peer, sent.peer), (Some(asker), Some(asker), Some(sink)));
    assert_eq!((arrived.message, received.message), (Some(("u64", 0)), Some(("u64", 0))));
    let (name, bytes) = sent.message.unwrap();
    assert!(name.contains("String") && bytes == 0 || bytes > 0, "{name} {bytes}");
    assert!(arrived.seq < received.seq && received.seq < sent.seq);
    let polled = all.iter().rfind(|event| matches!(event.kind, Kind::Poll { .. })).unwrap();
    assert!(matches!(polled.kind, Kind::Poll { state: "receive", .. }), "{polled:?}");
}

#[test]
fn calls_and_their_replies_are_traced_at_the_caller() {
    let runtime = runtime();
    let server = runtime.spawn(|ctx| async move {
        loop {
            let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
            reply.send(&ctx, request);
        }
    });
    let server = server.unwrap();
    let client = runtime.spawn(move |ctx| async move {
        loop {
            ctx.receive_of::<()>().await;
            ctx.call::<u64, u64>(server, 1, Duration::MAX).await.unwrap();
        }
    });
    let client = client.unwrap();
    eventually("both wait", || observe::idle_progress(&runtime).is_some());
    let trace = observe::start_trace(&runtime, client, TraceScope::Process, LIMITS).unwrap();

    let is_reply = |event: &TraceEvent| event.kind == Kind::Receive && event.peer == Some(server);
    // A scheduler sees a new trace when its next slice begins, which the first calls may precede.
    eventually("a traced call", || {
        runtime.try_send(client, ()).unwrap();
        let all = events(&runtime, trace, is_reply);
        all.iter().any(|event| event.kind == Kind::Send && event.peer == Some(server))
    });
    eventually("a wait for the reply", || {
        report(&runtime, trace).events.iter().any(|event| matches!(event.kind, Kind::Poll { state: "call", .. }))
    });
}

#[test]
fn a_send_to_a_full_mailbox_is_seen_as_such() {
    let runtime =
        Runtime::start(rusm_runtime::Config { schedulers: 1, mailbox_capacity: 2, ..Default::default() }).unwrap();
    let deaf = runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap();
    while runtime.try_send(deaf, 1_u8).is_ok() {}
    let sender = runtime.spawn(move |ctx| async move {
        loop {
            ctx.receive_of::<()>().await;
            drop(ctx.try_send(deaf, 2_u8));
        }
    });
    let sender = sender.unwrap();
    let trace = observe::start_trace(&runtime, sender, TraceScope::Process, LIMITS).unwrap();

    // A scheduler notices a trace at its next slice, so the first sends may come too early.
    let mut all = Vec::new();
    eventually("the event", || {
        drop(runtime.try_send(sender, ()));
        all = report(&runtime, trace).events;
        all.iter().any(|event| event.kind == Kind::Full)
    });

    assert!(!all.iter().any(|event| event.kind == Kind::Send), "{all:?}");
}

#[test]
fn all_of_a_kind_and_the_children_of_a_process_are_traced_also_those_that_come_later() {
    let runtime = runtime();
    let other = sink(&runtime);
    let relays = [relay(&runtime, other), relay(&runtime, other)];
    let kind = observe::start_trace(&runtime, relays[0], TraceScope::Kind, LIMITS).unwrap();
    assert_eq!(report(&runtime, kind).processes, 2);
    let third = relay(&runtime, other);
    observe::extend_trace(&runtime, kind);
    assert_eq!(report(&runtime, kind).processes, 3);
    runtime.try_send(third, 1_u64).unwrap();
    events(&runtime, kind, |event| event.pid == third && event.kind == Kind::Receive);

    let parent = runtime.spawn(|ctx| async move {
        for _ in 0..3 {
            ctx.spawn(|ctx| async move { ctx.receive_of::<()>().await });
        }
        ctx.receive_of::<()>().await;
    });
    let parent = parent.unwrap();
    eventually("three children", || observe::totals(&runtime).live == 8);
    let children = observe::start_trace(&runtime, parent, TraceScope::Children, LIMITS).unwrap();
    assert_eq!(report(&runtime, children).processes, 4);
    assert_eq!(report(&runtime, kind).end, Some(TraceEnd::Replaced));
}

#[test]
fn nothing_is_recorded_of_other_processes_or_without_a_trace() {
    let runtime = runtime();
    let traced = sink(&runtime);
    let other = sink(&runtime);
    // Their first polls are over.
    let is_waiting = |pid| observe::process_ref(&runtime, pid).unwrap().state() == observe::ProcessState::Waiting;
    eventually("both wait", || is_waiting(traced) && is_waiting(other));
    assert!(observe::start_trace(&runtime, Pid::NONE, TraceScope::Process, LIMITS).is_none());
    let trace = observe::start_trace(&runtime, traced, TraceScope::Process, LIMITS).unwrap();
    for _ in 0..100 {
        runtime.try_send(other, 1_u8).unwrap();
    }
    eventually("all are received", || observe::process_ref(&runtime, other).unwrap().messages() == 100);

    assert_eq!(report(&runtime, trace).recorded, 0);
    observe::stop_trace(&runtime, trace);
    runtime.try_send(traced, 1_u8).unwrap();
    eventually("it is received", || observe::process_ref(&runtime, traced).unwrap().messages() == 1);
    assert_eq!((report(&runtime, trace).recorded, report(&runtime, trace).end), (0, Some(TraceEnd::Stopped)));
}

#[test]
fn each_second_has_its_cap_and_the_trace_ends_by_itself_in_virtual_time() {
    rusm_runtime::test::run(7, |ctx| async move {
        let runtime = ctx.runtime().clone();
        let sink = ctx.spawn(|ctx| async move {
            loop {
                drop(ctx.receive().await);
            }
        });
        let limits = TraceLimits { per_sec: 10, duration: Duration::from_secs(3) };
        let trace = observe::start_trace(&runtime, sink, TraceScope::Process, limits).unwrap();
        // Twenty messages a second, each with more than one event.
        for _ in 0..100 {
            ctx.sleep(Duration::from_millis(50)).await;
            ctx.send(sink, 1_u8).await;
        }

        let report = observe::trace_report(&runtime, trace, 0, 1_000);
        assert_eq!((report.end, report.recorded, report.events.len()), (Some(TraceEnd::Time), 30, 30));
        assert!((80..=170).contains(&report.left_out), "{} left out", report.left_out);
        let in_second = |second: u64| report.events.iter().filter(|event| event.at.as_secs() == second).count();
        assert_eq!([0, 1, 2, 3].map(in_second), [10, 10, 10, 0]);
        assert!(report.left.is_zero());
    });
}
