//! Messages and calls between two nodes.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::remote::Exports;
use rusm_runtime::{CallError, Context, Exit, ExitReason, MailboxBound, Pid, Request, TaggedBytes, TrySendError};

use super::{Numbered, exports, two};
use crate::ask::ask;
use crate::network::{CREDIT, Node};

const SOON: Duration = Duration::from_secs(30);

/// A process that doubles what it is asked.
async fn doubler(ctx: Context) {
    loop {
        let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
        reply.send(&ctx, request * 2);
    }
}

#[test]
fn s02_messages_of_every_portable_type_arrive_once_and_whole() {
    let (a, b) = two();
    let (tell, told) = mpsc::channel();
    let receiver = b.runtime.spawn(move |ctx| async move {
        let bytes = ctx.receive_of::<Bytes>().await;
        let tagged = ctx.receive_of::<TaggedBytes>().await;
        let text = ctx.receive_of::<String>().await;
        let numbered = ctx.receive_of::<Numbered>().await;
        // The pid in the message is that of the sender, on its node.
        ctx.send(numbered.from, 7_u64).await;
        tell.send((bytes, tagged, text, numbered.number)).unwrap();
    });
    let to = a.pid_on(&b, receiver.unwrap());

    let answer = ask(&a.runtime, move |ctx| async move {
        ctx.send(to, Bytes::from(vec![7; 100_000])).await;
        ctx.send(to, TaggedBytes { tag: 9, body: Bytes::from_static(b"nine") }).await;
        ctx.send(to, "text".to_owned()).await;
        ctx.send(to, Numbered { from: ctx.pid(), number: 3 }).await;
        ctx.receive_of::<u64>().await
    });

    let (bytes, tagged, text, number) = told.recv_timeout(SOON).unwrap();
    assert_eq!((bytes.len(), tagged.tag, &tagged.body[..]), (100_000, 9, &b"nine"[..]));
    assert_eq!((text.as_str(), number, answer), ("text", 3, 7));
}

#[test]
fn s01_signals_of_one_process_arrive_on_another_node_in_the_order_they_were_sent() {
    const COUNT: u64 = 2_000;
    let (a, b) = two();
    let (tell, told) = mpsc::channel();
    let (trap, traps) = mpsc::channel();
    let receiver = b.runtime.spawn(move |ctx| async move {
        ctx.trap_exits(true);
        trap.send(()).unwrap();
        let mut seen = Vec::new();
        for _ in 0..COUNT + COUNT / 100 {
            let message = match ctx.receive().await.downcast::<Numbered>() {
                Ok(numbered) => numbered.number,
                Err(message) => match message.downcast::<Exit>().unwrap().reason {
                    ExitReason::Other(detail) => detail.text().parse().unwrap(),
                    other => panic!("{other}"),
                },
            };
            seen.push(message);
        }
        tell.send(seen).unwrap();
    });
    let to = a.pid_on(&b, receiver.unwrap());
    traps.recv_timeout(SOON).unwrap();

    a.runtime
        .spawn(move |ctx| async move {
            for number in 0..COUNT {
                ctx.send(to, Numbered { from: ctx.pid(), number }).await;
                if number % 100 == 0 {
                    ctx.exit(to, ExitReason::other(number));
                }
            }
        })
        .unwrap();

    let seen = told.recv_timeout(SOON).unwrap();
    let expected: Vec<u64> =
        (0..COUNT).flat_map(|number| if number % 100 == 0 { vec![number, number] } else { vec![number] }).collect();
    assert_eq!(seen, expected);
}

#[test]
fn s02_to_a_dead_process_of_another_node_send_vanishes_and_a_call_says_noproc() {
    let (a, b) = two();
    let dead = b.runtime.spawn(|_| async {}).unwrap();
    b.runtime.wait(dead);
    let to = a.pid_on(&b, dead);

    let called = ask(&a.runtime, move |ctx| async move {
        ctx.send(to, 1_u64).await;
        ctx.call::<u64, u64>(to, 1, SOON).await
    });

    assert_eq!(called, Err(CallError::NoProcess { to }));
}

#[test]
fn a_type_that_is_not_exported_is_an_error_at_the_send() {
    #[derive(Debug, PartialEq)]
    struct Private(u8);
    let (a, b) = two();
    let receiver = b.runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    let to = a.pid_on(&b, receiver);

    let refused = ask(&a.runtime, move |ctx| async move { ctx.try_send(to, Private(1)).unwrap_err() });
    let called = ask(&a.runtime, move |ctx| async move { ctx.call::<Private, u8>(to, Private(1), SOON).await });
    let (sender, end) = a.runtime.spawn_monitored(move |ctx| async move { ctx.send(to, Private(1)).await }).unwrap();

    let text = refused.to_string();
    assert!(text.contains("Private cannot be sent to") && text.contains("export the type on both nodes"), "{text}");
    let TrySendError::NotPortable { message, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(message.downcast::<Private>().unwrap(), Private(1));
    assert!(matches!(called, Err(CallError::NotPortable { .. })), "{called:?}");
    let ExitReason::Panic(info) = end.wait() else { panic!("{sender} must panic") };
    assert!(info.message.contains("export the type on both nodes"), "{}", info.message);
    assert!(b.runtime.is_alive(receiver), "nothing has arrived");
}

#[test]
fn a_type_that_only_the_sender_exports_is_an_error_at_the_send() {
    let (a, b) = (Node::start("a", 1, exports()), Node::start("b", 1, Exports::default()));
    a.connect(&b);
    let receiver = b.runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    let to = a.pid_on(&b, receiver);

    let refused =
        ask(
            &a.runtime,
            move |ctx| async move { ctx.try_send(to, Numbered { from: ctx.pid(), number: 1 }).unwrap_err() },
        );

    assert!(matches!(refused, TrySendError::NotPortable { .. }), "{refused:?}");
}

#[test]
fn s24_a_call_to_another_node_pairs_each_reply_with_its_request() {
    let (a, b) = two();
    let callee = b.runtime.spawn(doubler).unwrap();
    let to = a.pid_on(&b, callee);

    let doubled = ask(&a.runtime, move |ctx| async move {
        let mut doubled = Vec::new();
        for number in 0..100_u64 {
            doubled.push(ctx.call::<u64, u64>(to, number, SOON).await.unwrap());
        }
        doubled
    });
    let from_outside = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(a.runtime.call::<u64, u64>(to, 21, SOON));

    assert_eq!(doubled, (0..100).map(|number| number * 2).collect::<Vec<u64>>());
    assert_eq!(from_outside, Ok(42));
}

#[test]
fn s24_a_late_reply_from_another_node_is_never_taken_for_the_next_one() {
    let (a, b) = two();
    let callee = b.runtime.spawn(|ctx| async move {
        let first = ctx.receive_of::<Request<u64, u64>>().await;
        let second = ctx.receive_of::<Request<u64, u64>>().await;
        first.reply.send(&ctx, 1);
        second.reply.send(&ctx, 2);
        let third = ctx.receive_of::<Request<u64, u64>>().await;
        third.reply.send(&ctx, 3);
    });
    let to = a.pid_on(&b, callee.unwrap());

    let answers = ask(&a.runtime, move |ctx| async move {
        let late = ctx.call::<u64, u64>(to, 0, Duration::ZERO).await;
        let second = ctx.call::<u64, u64>(to, 0, SOON).await;
        let third = ctx.call::<u64, u64>(to, 0, SOON).await;
        (late, second, third)
    });

    assert_eq!(answers, (Err(CallError::Timeout { to, timeout: Duration::ZERO }), Ok(2), Ok(3)));
}

#[test]
fn s24_the_end_of_a_callee_on_another_node_ends_the_call_with_its_reason() {
    let (a, b) = two();
    let callee = b.runtime.spawn(|ctx| async move {
        let _request = ctx.receive_of::<Request<u64, u64>>().await;
        ExitReason::other("disk full")
    });
    let dropping = b.runtime.spawn(|ctx| async move {
        drop(ctx.receive_of::<Request<u64, u64>>().await);
        std::future::pending::<()>().await;
    });
    let (to, drops) = (a.pid_on(&b, callee.unwrap()), a.pid_on(&b, dropping.unwrap()));

    let ended = ask(&a.runtime, move |ctx| async move { ctx.call::<u64, u64>(to, 1, SOON).await });
    let dropped = ask(&a.runtime, move |ctx| async move { ctx.call::<u64, u64>(drops, 1, SOON).await });

    assert_eq!(ended, Err(CallError::Ended { to, reason: ExitReason::other("disk full") }));
    assert_eq!(dropped, Err(CallError::Dropped { to: drops }));
}

#[test]
fn s24_a_request_may_be_answered_by_a_process_of_a_third_node() {
    let (a, b) = two();
    let c = Node::start("c", 1, exports());
    c.connect(&a);
    c.connect(&b);
    let answering = c.runtime.spawn(doubler).unwrap();
    let far = b.pid_on(&c, answering);
    let passing = b.runtime.spawn(move |ctx| async move {
        let request = ctx.receive_of::<Request<u64, u64>>().await;
        ctx.send(far, request).await;
        std::future::pending::<()>().await;
    });
    let to = a.pid_on(&b, passing.unwrap());

    let answer = ask(&a.runtime, move |ctx| async move { ctx.call::<u64, u64>(to, 21, SOON).await });

    assert_eq!(answer, Ok(42));
}

#[test]
fn a_full_mailbox_on_another_node_holds_back_only_its_senders() {
    const CAPACITY: u32 = 4;
    let a = Node::start("a", 1, exports());
    let config = rusm_runtime::Config {
        schedulers: 2,
        mailbox_capacity: CAPACITY,
        exports: exports(),
        ..rusm_runtime::Config::default()
    };
    let b = Node::with("b", 1, config);
    a.connect(&b);
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = mpsc::channel();
    let slow = b.runtime.spawn(move |ctx| async move {
        gone.await.unwrap();
        for expected in 0..1_000_u64 {
            assert_eq!(ctx.receive_of::<u64>().await, expected);
        }
        tell.send(()).unwrap();
    });
    let free = b.runtime.spawn(doubler).unwrap();
    let (slow_pid, free_pid) = (slow.unwrap(), free);
    let (slow, free) = (a.pid_on(&b, slow_pid), a.pid_on(&b, free_pid));

    let sent = ask(&a.runtime, move |ctx| async move {
        let mut sent = 0_u64;
        // Wait until nothing more is accepted: what was sent, and credit that comes back, may take a moment.
        while sent < u64::from(CAPACITY + CREDIT) {
            match ctx.try_send(slow, sent) {
                Ok(()) => sent += 1,
                Err(TrySendError::Full { bound, .. }) => {
                    assert_eq!(bound, MailboxBound::Node);
                    ctx.yield_now().await;
                }
                Err(other) => panic!("{other}"),
            }
        }
        sent
    });
    // The mailbox is full and all credit is used: nothing more is accepted, however long one waits.
    crate::eventually::eventually("all arrived", || {
        rusm_runtime::observe::process_ref(&b.runtime, slow_pid)
            .is_some_and(|seen| seen.mailbox_len() == u64::from(CAPACITY + CREDIT))
    });
    let refused = ask(&a.runtime, move |ctx| async move { ctx.try_send(slow, sent).unwrap_err() });
    let waiting = a.runtime.spawn(move |ctx| async move {
        for number in sent..1_000 {
            ctx.send(slow, number).await;
        }
    });
    let answers = ask(&a.runtime, move |ctx| async move {
        let mut answers = 0;
        for number in 0..100_u64 {
            answers += u32::from(ctx.call::<u64, u64>(free, number, SOON).await == Ok(number * 2));
        }
        answers
    });
    let still_waits = a.runtime.is_alive(waiting.unwrap());
    go.send(()).unwrap();

    assert!(matches!(refused, TrySendError::Full { bound: MailboxBound::Node, .. }), "{refused:?}");
    assert_eq!((answers, still_waits), (100, true));
    told.recv_timeout(SOON).unwrap();
}

#[test]
fn a_pid_of_an_unknown_node_is_of_no_process() {
    let (a, _b) = two();
    let to = Pid::from_parts(77, 1, 1);

    let refused = ask(&a.runtime, move |ctx| async move { ctx.try_send(to, 1_u64).unwrap_err() });

    assert!(matches!(refused, TrySendError::NoProcess { .. }), "{refused:?}");
    assert_eq!(a.runtime.wait(to), ExitReason::NoProcess);
}
