//! Messages: order, exactly once, full mailboxes, selective receive, timeouts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::{Config, Down, ExitReason, Message, Pid, Runtime, TrySendError, observe};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Waits for the end of a process, and fails if any process has crashed.
fn ends_well(runtime: &Runtime, pid: Pid) {
    assert!(matches!(runtime.wait(pid), ExitReason::Normal | ExitReason::NoProcess));
    assert_eq!(observe::totals(runtime).crashed, 0, "a process's assertion failed");
}

fn small_mailboxes(mailbox_capacity: u32) -> Runtime {
    Runtime::start(Config { schedulers: 2, mailbox_capacity, ..Config::default() }).expect("two schedulers start")
}

#[test]
fn s02_messages_of_one_sender_arrive_in_order_and_once_while_many_send() {
    const SENDERS: u64 = 8;
    const EACH: u64 = 20_000;
    let runtime = runtime();
    let receiver = runtime
        .spawn(|ctx| async move {
            let mut next = [0; SENDERS as usize];
            for _ in 0..SENDERS * EACH {
                let (sender, number) = ctx.receive_of::<(u64, u64)>().await;
                assert_eq!(next[sender as usize], number, "sender {sender}");
                next[sender as usize] += 1;
            }
        })
        .unwrap();
    for sender in 0..SENDERS {
        runtime
            .spawn(move |ctx| async move {
                for number in 0..EACH {
                    ctx.send(receiver, (sender, number)).await;
                    if number % 97 == 0 {
                        ctx.yield_now().await;
                    }
                }
            })
            .unwrap();
    }

    ends_well(&runtime, receiver);
}

#[test]
fn a_message_larger_than_a_mailbox_is_the_last_one_that_it_takes() {
    let config = Config { schedulers: 1, mailbox_bytes: 1_024, ..Config::default() };
    let runtime = Runtime::start(config).expect("one scheduler starts");
    let sizes = [2_048, 500, 700, 1_025, 10, 5_000];
    let receiver = runtime
        .spawn(move |ctx| async move {
            // Let every message that fits arrive before the first is received.
            ctx.yield_now().await;
            for size in sizes {
                assert_eq!(ctx.receive_of::<Vec<u8>>().await.len(), size);
            }
        })
        .unwrap();
    let sender = runtime
        .spawn(move |ctx| async move {
            for size in sizes {
                ctx.send(receiver, vec![0_u8; size]).await;
            }
        })
        .unwrap();

    ends_well(&runtime, sender);
    ends_well(&runtime, receiver);
    let full = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    runtime.try_send(full, vec![0_u8; 5_000]).expect("the mailbox is empty");
    assert!(matches!(runtime.try_send(full, 1_u8), Err(TrySendError::Full { .. })));
}

#[test]
fn s02_a_full_mailbox_hands_the_message_back_and_loses_nothing() {
    let runtime = small_mailboxes(4);
    let (go, gate) = mpsc::channel::<()>();
    let receiver = runtime
        .spawn(move |ctx| async move {
            ctx.spawn_blocking(move || gate.recv().unwrap()).await;
            let mut sum = 0;
            while let Some(message) = ctx.receive_timeout(Duration::ZERO).await {
                sum += message.downcast::<u32>().unwrap();
            }
            assert_eq!(sum, 1 + 2 + 3 + 4);
        })
        .unwrap();

    for number in 1..=4_u32 {
        runtime.try_send(receiver, number).unwrap();
    }
    let refused = runtime.try_send(receiver, 5_u32).unwrap_err();

    assert_eq!(refused.to_string(), format!("mailbox of {receiver} is full (4 messages)"));
    assert_eq!(refused.into_message().downcast::<u32>().unwrap(), 5);
    go.send(()).unwrap();
    ends_well(&runtime, receiver);
}

#[test]
fn s02_senders_that_wait_for_room_are_not_overtaken_for_ever() {
    const SENDERS: usize = 32;
    const LEAST: usize = 200;
    let runtime = Runtime::start(Config { schedulers: 2, mailbox_capacity: 16, ..Config::default() }).unwrap();
    let (give, take) = mpsc::channel();
    runtime
        .spawn(move |ctx| async move {
            for index in 0..SENDERS {
                let receiver = ctx.pid();
                ctx.spawn(move |ctx| async move {
                    loop {
                        ctx.send(receiver, index).await;
                    }
                });
            }
            let mut counts = [0_usize; SENDERS];
            while counts.iter().any(|count| *count < LEAST) {
                counts[ctx.receive_of::<usize>().await] += 1;
            }
            give.send(counts).unwrap();
        })
        .unwrap();

    let counts = take.recv_timeout(Duration::from_mins(1)).unwrap();
    assert!(counts.iter().sum::<usize>() < SENDERS * LEAST * 100, "{counts:?}");
}

#[test]
fn a_sender_waits_while_the_mailbox_is_full_and_every_message_arrives() {
    let runtime = small_mailboxes(3);
    let receiver = runtime
        .spawn(|ctx| async move {
            for number in 0..50_000_u32 {
                assert_eq!(ctx.receive().await.downcast::<u32>().unwrap(), number);
            }
        })
        .unwrap();
    runtime
        .spawn(move |ctx| async move {
            for number in 0..50_000_u32 {
                ctx.send(receiver, number).await;
            }
        })
        .unwrap();

    ends_well(&runtime, receiver);
}

#[test]
fn a_sender_that_waits_for_a_process_that_dies_goes_on() {
    let runtime = small_mailboxes(1);
    let deaf = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    let sender = runtime
        .spawn(move |ctx| async move {
            for number in 0..10 {
                ctx.send(deaf, number).await;
            }
        })
        .unwrap();

    runtime.exit(deaf, ExitReason::Killed);

    assert!(matches!(runtime.wait(sender), ExitReason::Normal | ExitReason::NoProcess));
}

#[test]
fn a_thread_outside_waits_for_room_as_well() {
    let runtime = small_mailboxes(2);
    let receiver = runtime
        .spawn(|ctx| async move {
            for number in 0..1_000_u32 {
                assert_eq!(ctx.receive_of::<u32>().await, number);
            }
        })
        .unwrap();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();

    outside.block_on(async {
        for number in 0..1_000_u32 {
            runtime.send(receiver, number).await;
        }
    });

    ends_well(&runtime, receiver);
}

#[test]
fn s04_selective_receive_takes_the_first_match_and_leaves_the_others_in_order() {
    let runtime = runtime();
    let (result, seen) = mpsc::channel();
    let receiver = runtime
        .spawn(move |ctx| async move {
            let word = ctx.receive_of::<&'static str>().await;
            let even = ctx.receive_match(|message| message.downcast_ref::<u32>().is_some_and(|n| n % 2 == 0)).await;
            let mut rest = Vec::new();
            while let Some(message) = ctx.receive_timeout(Duration::ZERO).await {
                rest.push(message.downcast::<u32>().unwrap());
            }
            result.send((word, even.downcast::<u32>().unwrap(), rest)).unwrap();
        })
        .unwrap();
    for number in [1_u32, 3, 4, 5, 6] {
        runtime.try_send(receiver, number).unwrap();
    }

    runtime.try_send(receiver, "now").unwrap();

    assert_eq!(seen.recv().unwrap(), ("now", 4, vec![1, 3, 5, 6]));
}

#[test]
fn s04_a_receive_that_times_out_or_is_dropped_loses_nothing() {
    let runtime = runtime();
    let receiver = runtime
        .spawn(|ctx| async move {
            assert!(ctx.receive_match_timeout(Duration::from_millis(5), Message::is::<u8>).await.is_none());
            let parent = ctx.receive_of::<Pid>().await;
            ctx.send(parent, "ready").await;
            // Start, poll and drop receives repeatedly while messages arrive.
            let mut next = 0_u32;
            while next < 1_000 {
                if let Some(message) = ctx.receive_timeout(Duration::from_micros(1)).await {
                    assert_eq!(message.downcast::<u32>().unwrap(), next);
                    next += 1;
                }
            }
        })
        .unwrap();
    let sender = runtime
        .spawn(move |ctx| async move {
            ctx.send(receiver, ctx.pid()).await;
            assert_eq!(ctx.receive_of::<&'static str>().await, "ready");
            for number in 0..1_000_u32 {
                ctx.send(receiver, number).await;
                ctx.yield_now().await;
            }
        })
        .unwrap();

    ends_well(&runtime, sender);
    ends_well(&runtime, receiver);
}

#[test]
fn s02_sending_to_a_dead_pid_vanishes_and_try_send_says_so() {
    let runtime = runtime();
    let dead = runtime.spawn(|_| async {}).unwrap();
    runtime.wait(dead);
    let sender = runtime.spawn(move |ctx| async move { ctx.send(dead, 1).await }).unwrap();

    ends_well(&runtime, sender);
    assert!(matches!(runtime.try_send(dead, 1), Err(TrySendError::NoProcess { to, .. }) if to == dead));
    assert!(matches!(runtime.try_send("<0.99999999.1>".parse().unwrap(), 1), Err(TrySendError::NoProcess { .. })));
    assert!(matches!(runtime.try_send("<7.1.1>".parse().unwrap(), 1), Err(TrySendError::NoProcess { .. })));
}

#[test]
fn a_message_for_a_dead_process_never_reaches_the_next_tenant_of_its_slot() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let first = runtime
        .spawn(|ctx| async move {
            let old = ctx.spawn(|_| async {});
            ctx.yield_now().await;
            let new = ctx.spawn(|ctx| async move {
                assert_eq!(ctx.receive_of::<u32>().await, 2);
            });
            assert_eq!(old.slot(), new.slot());
            assert!(ctx.try_send(old, 1_u32).is_err());
            ctx.send(old, 1_u32).await;
            ctx.send(new, 2_u32).await;
        })
        .unwrap();

    ends_well(&runtime, first);
}

/// Counts its drops.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn others_run_while_the_messages_of_an_ended_process_are_dropped() {
    const SENT: u64 = 20_000;
    let drops = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&drops);
    let runtime = Runtime::start(Config { schedulers: 1, mailbox_capacity: 32_000, ..Config::default() }).unwrap();
    let sender = runtime
        .spawn(move |ctx| async move {
            let receiver = ctx.spawn(|_| std::future::pending::<()>());
            for _ in 0..SENT {
                ctx.try_send(receiver, (Counted(Arc::clone(&counted)), vec![0_u8; 100])).unwrap();
            }
            ctx.monitor(receiver);
            ctx.exit(receiver, ExitReason::Killed);
            assert_eq!(ctx.receive_of::<Down>().await.reason, ExitReason::Killed);
            let at_end = counted.load(Ordering::Relaxed);
            while counted.load(Ordering::Relaxed) < SENT {
                ctx.yield_now().await;
            }
            assert!(at_end < SENT / 2, "{at_end} of {SENT} messages were dropped before another process ran");
        })
        .unwrap();

    assert_eq!(runtime.wait(sender), ExitReason::Normal);
    eventually("all is counted back", || observe::mailbox_bytes(&runtime).bytes == 0);
    drop(runtime);
    assert_eq!(drops.load(Ordering::Relaxed), SENT);
}

#[test]
fn every_message_is_dropped_exactly_once_whatever_becomes_of_its_receiver() {
    let drops = Arc::new(AtomicU64::new(0));
    let runtime = runtime();
    let message = || Counted(Arc::clone(&drops));
    let receivers: Vec<Pid> = (0..4)
        .map(|kind| {
            runtime
                .spawn(move |ctx| async move {
                    match kind {
                        0 => std::future::pending::<()>().await,
                        1 => drop(ctx.receive().await),
                        2 => panic!("at once"),
                        _ => drop(ctx.receive_of::<u8>().await),
                    }
                })
                .unwrap()
        })
        .collect();

    for receiver in &receivers {
        for _ in 0..100 {
            // A refused message is dropped here, with the error.
            let _: Option<rusm_runtime::TrySendError> = runtime.try_send(*receiver, message()).err();
        }
    }
    drop(runtime);

    assert_eq!(drops.load(Ordering::Relaxed), 400);
}

#[test]
fn a_receiver_with_a_never_empty_mailbox_lets_others_run() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let busy = runtime
        .spawn(|ctx| async move {
            let me = ctx.pid();
            ctx.send(me, 0_u64).await;
            loop {
                let number = ctx.receive_of::<u64>().await;
                ctx.send(me, number + 1).await;
            }
        })
        .unwrap();

    let other = runtime.spawn(|ctx| async move { ctx.yield_now().await }).unwrap();

    ends_well(&runtime, other);
    assert!(runtime.is_alive(busy));
}

#[test]
fn a_predicate_may_panic_without_losing_the_mailbox() {
    let runtime = runtime();
    let receiver = runtime
        .spawn(|ctx| async move {
            ctx.receive_of::<&'static str>().await;
            let broken = std::panic::AssertUnwindSafe(async {
                let _: Message = ctx.receive_match(|_| panic!("in a predicate")).await;
            });
            let caught = futures_util::FutureExt::catch_unwind(broken).await;
            assert!(caught.is_err());
            assert_eq!(ctx.receive_of::<u32>().await, 1);
            assert_eq!(ctx.receive_of::<u32>().await, 2);
        })
        .unwrap();
    runtime.try_send(receiver, 1_u32).unwrap();
    runtime.try_send(receiver, 2_u32).unwrap();

    runtime.try_send(receiver, "go").unwrap();

    ends_well(&runtime, receiver);
}

#[test]
fn s04_a_timeout_of_zero_finds_what_is_there_however_much_was_received_before() {
    let runtime = runtime();
    let (give, take) = std::sync::mpsc::channel();
    let body = |ctx: rusm_runtime::Context| async move {
        for number in 0..1_000_u32 {
            ctx.send(ctx.pid(), number).await;
        }
        let mut received = 0;
        while ctx.receive_timeout(Duration::ZERO).await.is_some() {
            received += 1;
        }
        give.send(received).unwrap();
    };
    runtime.spawn(body).unwrap();

    assert_eq!(take.recv_timeout(Duration::from_mins(2)), Ok(1_000));
}
