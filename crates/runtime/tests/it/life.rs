//! Life and death: exit reasons, kill, names, limits, shutdown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::observe::{self, CauseKind, EventKind, ProcessState};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{
    Config, Context, Exit, ExitReason, Handle, NameError, Pid, RegisterError, Runtime, SpawnError, StartError, Starting,
};

fn runtime() -> Runtime {
    // A short stall of the machine must not make a process count as stuck.
    let stuck_after = Duration::from_mins(10);
    Runtime::start(Config { schedulers: 2, stuck_after, ..Config::default() }).expect("two schedulers start")
}

fn state(runtime: &Handle, pid: Pid) -> Option<ProcessState> {
    observe::process(runtime, pid).map(|seen| seen.state)
}

#[test]
fn a_process_ends_with_the_reason_that_its_body_returns() {
    let runtime = runtime();
    let normal = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    let failed = runtime
        .spawn(|ctx| async move {
            ctx.receive().await;
            Err::<(), _>("disk full")
        })
        .unwrap();
    let own = runtime
        .spawn(|ctx| async move {
            ctx.receive().await;
            ExitReason::ShutdownWith("idle".into())
        })
        .unwrap();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();

    outside.block_on(async {
        let exits = async { tokio::join!(runtime.watch(normal), runtime.watch(failed), runtime.watch(own)) };
        let tell = async {
            for pid in [normal, failed, own] {
                runtime.send(pid, ()).await;
            }
        };
        let (exits, ()) = tokio::join!(exits, tell);
        assert_eq!(
            exits,
            (ExitReason::Normal, ExitReason::other("disk full"), ExitReason::ShutdownWith("idle".into()))
        );
    });
    assert_eq!(runtime.wait(normal), ExitReason::NoProcess);
}

#[test]
fn a_panic_is_an_exit_reason_with_message_and_place() {
    let runtime = runtime();
    let (go, gate) = mpsc::channel::<()>();
    let pid = runtime
        .spawn(move |ctx| async move {
            ctx.spawn_blocking(move || gate.recv()).await.unwrap();
            panic!("number {}", 7);
        })
        .unwrap();
    let watch = runtime.watch(pid);
    go.send(()).unwrap();

    let reason = watch.wait();

    let ExitReason::Panic(info) = &reason else { panic!("{reason}") };
    assert_eq!(info.message, "number 7");
    assert!(info.location.as_ref().unwrap().contains("life.rs:"), "{info:?}");
    assert!(!reason.is_normal());
}

#[test]
fn a_panic_in_a_drop_and_a_panic_with_no_text_are_exit_reasons_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a drop");
        }
    }
    let runtime = runtime();
    let bomb = runtime
        .spawn(|ctx| async move {
            let _bomb = Bomb;
            ctx.receive().await;
        })
        .unwrap();
    let mute = runtime
        .spawn(|ctx| async move {
            ctx.receive().await;
            std::panic::panic_any(7_u8);
        })
        .unwrap();
    eventually("both wait", || [bomb, mute].iter().all(|pid| state(&runtime, *pid) == Some(ProcessState::Waiting)));
    let watches = [bomb, mute].map(|pid| runtime.watch(pid));

    runtime.exit(bomb, ExitReason::Killed);
    runtime.try_send(mute, ()).unwrap();

    let reasons = watches.map(rusm_runtime::Watch::wait);
    assert!(reasons.iter().all(|reason| matches!(reason, ExitReason::Panic(_))), "{reasons:?}");
    let after = runtime.spawn(|_| async {}).unwrap();
    runtime.wait(after);
    eventually("everything ends", || runtime.process_count() == 0);
}

#[test]
fn a_message_that_panics_in_its_drop_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a message");
        }
    }
    let runtime = runtime();
    let pid = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    runtime.try_send(pid, Bomb).unwrap();
    runtime.try_send(pid, Bomb).unwrap();

    runtime.exit(pid, ExitReason::Killed);

    eventually("it ends", || runtime.process_count() == 0);
    let after = runtime.spawn(|_| async {}).unwrap();
    runtime.wait(after);
}

#[test]
fn a_killed_process_dies_though_a_million_messages_wait() {
    let runtime = Runtime::start(Config { schedulers: 2, mailbox_capacity: 2_000_000, ..Config::default() }).unwrap();
    let victim = runtime
        .spawn(|ctx| async move {
            ctx.receive_of::<&'static str>().await;
        })
        .unwrap();
    let sender = runtime
        .spawn(move |ctx| async move {
            for number in 0..1_000_000_u32 {
                ctx.send(victim, number).await;
            }
        })
        .unwrap();
    runtime.wait(sender);

    runtime.exit(victim, ExitReason::Killed);

    eventually("it dies", || !runtime.is_alive(victim));
    // Dropping the runtime would not wait long enough to drop a million messages on a slow machine.
    assert_eq!(runtime.shutdown(Duration::from_mins(1)).stuck, []);
}

#[test]
fn exit_with_normal_from_outside_is_ignored() {
    let runtime = runtime();
    let pid = runtime.spawn(|ctx| async move { ctx.receive_of::<()>().await }).unwrap();

    runtime.exit(pid, ExitReason::Normal);
    runtime.try_send(pid, 1).unwrap();
    eventually("the message is taken in", || state(&runtime, pid) == Some(ProcessState::Waiting));

    assert!(runtime.is_alive(pid));
    runtime.exit(pid, ExitReason::Shutdown);
    eventually("it ends", || !runtime.is_alive(pid));
}

#[test]
fn a_name_belongs_to_one_live_process_and_is_free_when_its_death_is_told() {
    let runtime = runtime();
    let first = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    let second = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();

    runtime.register(first, "kv").unwrap();

    assert_eq!(runtime.whereis("kv"), Some(first));
    assert_eq!(runtime.register(second, "kv"), Err(RegisterError::Taken { name: "kv".to_owned(), holder: first }));
    assert_eq!(runtime.register(second, ""), Err(RegisterError::Name(NameError { what: "process", bytes: 0 })));
    assert_eq!(
        runtime.register(second, &"x".repeat(256)),
        Err(RegisterError::Name(NameError { what: "process", bytes: 256 }))
    );
    runtime.try_send(first, ()).unwrap();
    runtime.wait(first);
    assert_eq!(runtime.whereis("kv"), None);
    assert_eq!(runtime.register(first, "kv"), Err(RegisterError::NoProcess { pid: first }));
    runtime.register(second, "kv").unwrap();
    assert!(runtime.unregister("kv") && !runtime.unregister("kv"));
}

#[test]
fn the_process_limit_is_an_error_and_ends_free_their_places() {
    let runtime = Runtime::start(Config { schedulers: 1, process_limit: 1, ..Config::default() }).unwrap();
    let mut pids = Vec::new();
    let error = loop {
        match runtime.spawn(|_| std::future::pending::<()>()) {
            Ok(pid) => pids.push(pid),
            Err(error) => break error,
        }
    };

    assert_eq!(error, SpawnError::Limit { limit: 1 });
    assert!(!pids.is_empty() && pids.len() < 10_000, "{}", pids.len());
    for pid in pids {
        runtime.exit(pid, ExitReason::Killed);
    }
    eventually("all end", || runtime.process_count() == 0);
    for _ in 0..20_000 {
        runtime.wait(runtime.spawn(|_| async {}).unwrap());
    }
}

#[test]
fn values_out_of_range_are_named() {
    let start = |config| Runtime::start(config).unwrap_err().to_string();

    assert_eq!(start(Config { schedulers: 0, ..Config::default() }), "schedulers of 0 is not between 1 and 64");
    assert_eq!(start(Config { schedulers: 65, ..Config::default() }), "schedulers of 65 is not between 1 and 64");
    assert!(matches!(
        Runtime::start(Config { mailbox_capacity: 0, ..Config::default() }),
        Err(StartError::OutOfRange { name: "mailbox_capacity", .. })
    ));
}

#[test]
fn shutdown_ends_roots_in_reverse_order_and_then_the_rest() {
    struct Note(mpsc::Sender<u32>, u32);
    impl Drop for Note {
        fn drop(&mut self) {
            self.0.send(self.1).unwrap();
        }
    }
    let runtime = runtime();
    let (ended, order) = mpsc::channel();
    let started = Arc::new(AtomicU64::new(0));
    for number in 0..5 {
        let (note, started) = (Note(ended.clone(), number), Arc::clone(&started));
        runtime
            .spawn(|ctx| async move {
                let _note = note;
                ctx.spawn(|_| std::future::pending::<()>());
                started.fetch_add(1, Ordering::Relaxed);
                ctx.receive().await;
            })
            .unwrap();
    }
    eventually("all have started", || started.load(Ordering::Relaxed) == 5);

    let shutdown = runtime.shutdown(Duration::from_secs(10));

    assert_eq!(shutdown, rusm_runtime::ShutdownReport::default());
    drop(ended);
    assert_eq!(order.iter().collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
}

/// Starts a tree whose children need a moment to end, and tell when they have.
async fn slow_tree(ctx: &Context, ended: &mpsc::Sender<u32>) -> SupervisorRef {
    let child = |number: u32| {
        let ended = ended.clone();
        ChildSpec::acknowledged(format!("child {number}"), move |ctx: Context, starting: Starting| {
            let ended = ended.clone();
            async move {
                ctx.trap_exits(true);
                // Its own child must not be taken from it.
                ctx.spawn_link(|_| std::future::pending::<()>())?;
                starting.acknowledge();
                let exit = ctx.receive_of::<Exit>().await;
                assert_eq!(exit.reason, ExitReason::Shutdown);
                ctx.sleep(Duration::from_millis(5)).await;
                ended.send(number).map_err(ExitReason::other)
            }
        })
    };
    let tree = (0..3).map(child).fold(Supervisor::new(Strategy::OneForOne), Supervisor::child);
    tree.start_link(ctx).await.unwrap()
}

#[test]
fn a_tree_that_is_stopped_ends_in_order_and_its_starter_goes_on() {
    let runtime = runtime();
    let (ended, order) = mpsc::channel();
    let stopped = runtime.block_on(move |ctx| async move {
        let tree = slow_tree(&ctx, &ended).await;
        tree.stop(&ctx, Duration::from_secs(30)).await
    });

    assert_eq!(stopped, Ok(ExitReason::Normal));
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn shutdown_lets_a_tree_end_in_order_whether_its_starter_is_alive_or_not() {
    for is_alive in [true, false] {
        let runtime = runtime();
        let (ended, order) = mpsc::channel();
        let (tell, begun) = mpsc::channel();
        let starter = runtime
            .spawn(move |ctx| async move {
                slow_tree(&ctx, &ended).await;
                tell.send(()).unwrap();
                if is_alive {
                    ctx.receive().await;
                }
            })
            .unwrap();
        begun.recv().unwrap();
        if !is_alive {
            runtime.wait(starter);
        }

        let report = runtime.shutdown(Duration::from_secs(30));

        assert_eq!(report, rusm_runtime::ShutdownReport::default());
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 1, 0], "starter alive: {is_alive}");
    }
}

#[test]
fn after_shutdown_handles_and_wakers_are_harmless() {
    let runtime = runtime();
    let handle = Handle::clone(&runtime);
    let (give, take) = mpsc::channel();
    let pid = runtime
        .spawn(move |_| {
            std::future::poll_fn(move |cx| {
                give.send(cx.waker().clone()).unwrap();
                std::task::Poll::<()>::Pending
            })
        })
        .unwrap();
    let waker = take.recv().unwrap();
    runtime.shutdown(Duration::ZERO);

    waker.wake_by_ref();
    let again = waker.clone();
    drop(waker);
    again.wake();

    assert!(!handle.is_alive(pid));
    assert_eq!(handle.spawn(|_| async {}), Err(SpawnError::ShuttingDown));
    assert!(handle.try_send(pid, 1).is_err());
}

#[test]
fn a_kept_waker_is_known_as_the_one_that_a_poll_gets() {
    let runtime = runtime();
    let (give, take) = mpsc::channel();
    let pid = runtime.spawn(move |ctx| async move {
        let kept = std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
        ctx.yield_now().await;
        let known = std::future::poll_fn(|cx| std::task::Poll::Ready(kept.will_wake(cx.waker()))).await;
        give.send(known).unwrap();
    });

    pid.unwrap();
    assert_eq!(take.recv(), Ok(true));
}

#[test]
fn s14_a_kill_takes_effect_at_the_next_await() {
    let runtime = runtime();
    let (inside, is_inside) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let past = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&past);
    let pid = runtime
        .spawn(move |ctx| async move {
            inside.send(()).unwrap();
            may_go.recv().unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            ctx.receive().await;
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let watch = runtime.watch(pid);
    is_inside.recv().unwrap();

    runtime.exit(pid, ExitReason::Killed);
    assert!(runtime.is_alive(pid));
    go.send(()).unwrap();

    assert_eq!(watch.wait(), ExitReason::Killed);
    assert_eq!(past.load(Ordering::SeqCst), 1);
}

#[test]
fn a_pinned_process_runs_on_its_scheduler_and_on_no_other() {
    let runtime = runtime();
    let strays = Arc::new(AtomicU64::new(0));
    let count = |here: &str, strays: &AtomicU64| {
        if std::thread::current().name() != Some(here) {
            strays.fetch_add(1, Ordering::Relaxed);
        }
    };

    // Each process is woken by its partner on the other scheduler and by its own yield: that scheduler could steal it.
    let pids: Vec<Pid> = (0..64)
        .map(|index| {
            let strays = Arc::clone(&strays);
            let home = index % 2;
            let here = format!("rusm-sched-{home}");
            let body = move |ctx: rusm_runtime::Context| async move {
                for _ in 0..50 {
                    let next: Pid = ctx.receive_of().await;
                    count(&here, &strays);
                    ctx.yield_now().await;
                    count(&here, &strays);
                    ctx.send(next, ctx.pid()).await;
                }
            };
            runtime.spawn_pinned(home, body).unwrap()
        })
        .collect();
    for pair in pids.chunks(2) {
        runtime.try_send(pair[0], pair[1]).unwrap();
    }
    eventually("all turns are over", || runtime.process_count() == 0);

    assert_eq!(strays.load(Ordering::Relaxed), 0);
}

#[test]
fn a_pinned_process_waits_behind_a_stuck_one_and_is_refused_where_there_is_no_scheduler() {
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    runtime
        .spawn_pinned(1, move |_| async move {
            while !stopped.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        })
        .unwrap();
    let waiting = runtime.spawn_pinned(1, |_| async {}).unwrap();
    let free = runtime.spawn(|_| async {}).unwrap();

    eventually("what is not pinned runs", || !runtime.is_alive(free));
    assert!(runtime.is_alive(waiting));
    stop.store(true, Ordering::Release);
    eventually("the pinned one follows", || runtime.process_count() == 0);

    let refused = runtime.spawn_pinned(2, |_| async {}).unwrap_err();
    assert_eq!(refused.to_string(), "scheduler 2 does not exist: there are 2, counted from 0");
}

#[test]
fn crashes_are_events_with_name_and_reason_and_kills_are_not() {
    let runtime = runtime();
    let crashed = runtime
        .spawn(|ctx| async move {
            ctx.register("worker").unwrap();
            ctx.receive().await;
            Err::<(), _>("disk full")
        })
        .unwrap();
    let killed = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    runtime.exit(killed, ExitReason::Killed);
    runtime.wait(killed);
    runtime.try_send(crashed, ()).unwrap();
    eventually("the crash is noted", || observe::event_counts(&runtime) == (1, 0));

    let events = observe::events(&runtime, 0, 10);
    let (name, reason) = (Some("worker".into()), ExitReason::other("disk full"));
    let crash = EventKind::Failure { pid: crashed, name, reason, kind: CauseKind::Crash };
    assert_eq!(events.iter().map(|event| event.kind.clone()).collect::<Vec<_>>(), [crash]);
    assert_eq!(observe::events(&runtime, events[0].seq, 10), []);
}

#[test]
fn an_end_by_others_is_counted_apart_from_crashes_whatever_its_reason() {
    let runtime = runtime();
    let asked = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    runtime.exit(asked, ExitReason::other("not needed"));
    runtime.wait(asked);
    let linked = runtime
        .spawn(|ctx| async move {
            ctx.spawn_link(|_| async { Err::<(), _>("disk full") }).unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    runtime.wait(linked);
    eventually("all three are events", || observe::event_counts(&runtime) == (3, 0));

    let totals = observe::totals(&runtime);
    let kinds = observe::events(&runtime, 0, 10).into_iter().map(|event| match event.kind {
        EventKind::Failure { kind, .. } => Some(kind),
        _ => None,
    });
    let (causes, _) = observe::causes(&runtime);

    assert_eq!(kinds.collect::<Vec<_>>(), [CauseKind::Killed, CauseKind::Crash, CauseKind::Link].map(Some));
    assert_eq!((totals.crashed, totals.killed, totals.linked), (3, 1, 1));
    assert_eq!(causes.len(), 3, "{causes:?}");
}

#[test]
fn two_runtimes_live_side_by_side() {
    let (one, two) = (runtime(), runtime());
    one.register(one.spawn(|_| std::future::pending::<()>()).unwrap(), "same").unwrap();

    assert_eq!(two.whereis("same"), None);
    assert_eq!((one.process_count(), two.process_count()), (1, 0));
}

#[test]
fn a_context_outside_of_its_process_panics() {
    let runtime = runtime();
    let (give, take) = mpsc::channel();
    runtime.spawn(move |ctx| async move { give.send(ctx).unwrap() }).unwrap();
    let stray = take.recv().unwrap();

    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stray.try_send(stray.pid(), 1)));

    assert!(outcome.is_err());
}

#[test]
fn a_million_deaths_leave_the_table_where_it_was() {
    let runtime = runtime();
    let storm = |count: u32| {
        let parent = runtime
            .spawn(move |ctx| async move {
                for number in 0..count {
                    ctx.spawn(move |ctx| async move {
                        if number % 1_000 == 0 {
                            ctx.set_label("short-lived");
                            panic!("crash");
                        }
                    });
                    if number % 64 == 0 {
                        ctx.yield_now().await;
                    }
                }
            })
            .unwrap();
        runtime.wait(parent);
        eventually("all end", || runtime.process_count() == 0);
    };
    storm(100_000);
    let parts = observe::table_parts(&runtime);

    storm(1_000_000);

    assert!(observe::table_parts(&runtime) <= parts + 8, "{parts} -> {}", observe::table_parts(&runtime));
    assert!(observe::totals(&runtime).crashed >= 1_000);
}
