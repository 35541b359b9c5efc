//! Links, monitors and exit signals: sentences 1, 3 and 5 to 13 of `docs/semantics.md`; the test names have their
//! numbers.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use crate::ask::{ask, runtime};
use crate::eventually::eventually;
use rusm_runtime::observe;
use rusm_runtime::{Config, Context, Detail, Down, Exit, ExitReason, Pid, Runtime};

/// Spawns a process that ends with the reason that it receives as a message.
fn obedient(ctx: &Context) -> Pid {
    ctx.spawn(|ctx| async move { ctx.receive_of::<ExitReason>().await })
}

/// Receives the next exit signal; the process must trap exits.
async fn exit_of(ctx: &Context) -> Exit {
    ctx.receive_of::<Exit>().await
}

/// Returns true if no message arrives within `time`.
async fn is_quiet(ctx: &Context, time: Duration) -> bool {
    ctx.receive_timeout(time).await.is_none()
}

/// Spawns a chain of linked processes; the last one ends abnormally.
fn line(ctx: &Context, left: u32) {
    let body = move |ctx: Context| async move {
        if left == 0 {
            return ExitReason::other("domino");
        }
        line(&ctx, left - 1);
        pending().await
    };
    ctx.spawn_link(body).expect("there is room");
}

#[test]
fn s01_signals_of_one_process_arrive_in_the_order_they_were_sent() {
    let runtime = runtime();
    let kinds = ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let me = ctx.pid();
        for _ in 0..500 {
            let sender = ctx
                .spawn_link(move |ctx| async move {
                    for number in 0..3_u32 {
                        ctx.send(me, number).await;
                        ctx.exit(me, ExitReason::other(number));
                    }
                })
                .unwrap();
            for number in 0..3_u32 {
                assert_eq!(ctx.receive().await.downcast::<u32>().unwrap(), number);
                let exit = Exit { from: sender, reason: ExitReason::other(number) };
                assert_eq!(ctx.receive().await.downcast::<Exit>().unwrap(), exit);
            }
            assert_eq!(ctx.receive().await.downcast::<Exit>().unwrap().reason, ExitReason::Normal);
        }
        true
    });
    assert!(kinds);
}

#[test]
fn s03_what_was_sent_before_an_exit_arrives_before_its_signal() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        for _ in 0..500 {
            let (sender, reference) = ctx
                .spawn_monitor(move |ctx| async move {
                    for number in 0..10_u32 {
                        ctx.send(me, number).await;
                    }
                })
                .unwrap();
            for number in 0..10_u32 {
                assert_eq!(ctx.receive().await.downcast::<u32>().unwrap(), number);
            }
            let down = Down { reference, pid: sender, reason: ExitReason::Normal };
            assert_eq!(ctx.receive().await.downcast::<Down>().unwrap(), down);
        }
    });
}

#[test]
fn s05_a_process_with_a_full_mailbox_dies_at_once_when_killed() {
    let runtime = Runtime::start(Config { mailbox_capacity: 60_000, ..Config::default() }).unwrap();
    let deaf = runtime.spawn(|ctx| async move { ctx.sleep(Duration::from_hours(1)).await }).unwrap();
    while runtime.try_send(deaf, 1_u8).is_ok() {}

    let watch = runtime.watch(deaf);
    runtime.exit(deaf, ExitReason::Killed);

    assert_eq!(watch.wait(), ExitReason::Killed);
}

#[test]
fn s06_a_process_ends_with_a_reason_that_may_carry_data() {
    let runtime = runtime();
    let reason = ask(&runtime, |ctx| async move {
        let (_, reference) =
            ctx.spawn_monitor(|_| async { ExitReason::ShutdownWith(Detail::with("disk full", 28_i32)) }).unwrap();
        let down = ctx.receive_of::<Down>().await;
        assert_eq!(down.reference, reference);
        down.reason
    });

    let ExitReason::ShutdownWith(detail) = reason else { panic!("{reason}") };
    assert_eq!((detail.text(), detail.value::<i32>()), ("disk full", Some(&28)));
}

#[test]
fn s07_links_are_bidirectional_and_idempotent_and_one_unlink_ends_them() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let other = obedient(&ctx);
        ctx.link(other);
        ctx.link(other);
        let bonds = |pid| observe::links(&ctx.runtime(), pid, 10).unwrap();
        assert_eq!((bonds(ctx.pid()).links, bonds(other).links), (vec![other], vec![ctx.pid()]));

        ctx.send(other, ExitReason::other("once")).await;
        assert_eq!(exit_of(&ctx).await, Exit { from: other, reason: ExitReason::other("once") });
        assert!(is_quiet(&ctx, Duration::from_millis(20)).await, "one signal for one link");

        let other = obedient(&ctx);
        ctx.link(other);
        ctx.unlink(other);
        assert_eq!((bonds(ctx.pid()).link_count, bonds(other).link_count), (0, 0));
        let reference = ctx.monitor(other);
        ctx.send(other, ExitReason::other("unlinked")).await;
        assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
        assert!(is_quiet(&ctx, Duration::ZERO).await);
    });
}

#[test]
fn s07_after_unlink_returns_no_exit_signal_of_that_link_takes_effect() {
    let runtime = runtime();
    for _ in 0..300 {
        let survived = ask(&runtime, |ctx| async move {
            let other = ctx.spawn_link(|_| async { ExitReason::other("race") }).unwrap();
            // The linked process may already run on the other scheduler. Its exit signal takes effect at the next
            // await of this process, not before.
            ctx.unlink(other);
            ctx.yield_now().await;
            true
        });
        assert!(survived);
    }
}

#[test]
fn s08_an_abnormal_exit_takes_linked_processes_along_and_a_normal_one_does_not() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let me = ctx.pid();
        for (reason, follows) in [
            (ExitReason::other("bad"), true),
            (ExitReason::Normal, false),
            (ExitReason::Shutdown, true),
            (ExitReason::Killed, true),
        ] {
            let wanted = reason.clone();
            let middle = ctx
                .spawn_link(move |ctx| async move {
                    let other = obedient(&ctx);
                    ctx.link(other);
                    ctx.send(me, other).await;
                    pending::<()>().await;
                })
                .unwrap();
            let end = ctx.receive_of::<Pid>().await;
            let reference = ctx.monitor(end);
            ctx.send(end, reason).await;
            let down = ctx.receive_of::<Down>().await;
            assert_eq!((down.reference, down.reason), (reference, wanted.clone()));
            if follows {
                assert_eq!(exit_of(&ctx).await, Exit { from: middle, reason: wanted });
            } else {
                assert!(is_quiet(&ctx, Duration::from_millis(20)).await);
                assert!(ctx.runtime().is_alive(middle));
            }
        }
    });
}

#[test]
fn s09_kill_cannot_be_trapped_and_its_links_see_killed() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let trapping = ctx
            .spawn_link(|ctx| async move {
                ctx.trap_exits(true);
                pending::<()>().await;
            })
            .unwrap();
        ctx.exit(trapping, ExitReason::other("trapped"));
        ctx.exit(trapping, ExitReason::Killed);
        // Through a link, `Killed` is an ordinary reason, which this process traps.
        assert_eq!(exit_of(&ctx).await, Exit { from: trapping, reason: ExitReason::Killed });
    });
}

#[test]
fn s10_exit_normal_from_another_process_is_ignored_and_from_itself_is_not() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (other, _) = ctx.spawn_monitor(|_| pending::<()>()).unwrap();
        ctx.exit(other, ExitReason::Normal);
        ctx.yield_now().await;
        assert!(ctx.runtime().is_alive(other));

        let (_, own) = ctx
            .spawn_monitor(|ctx| async move {
                ctx.exit(ctx.pid(), ExitReason::Normal);
                pending::<()>().await;
            })
            .unwrap();
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (own, ExitReason::Normal));
        ctx.exit(other, ExitReason::Killed);
    });
}

#[test]
fn s11_linking_to_a_dead_process_yields_noproc() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (dead, _) = ctx.spawn_monitor(|_| async {}).unwrap();
        ctx.receive_of::<Down>().await;
        let (_, linker) = ctx
            .spawn_monitor(move |ctx| async move {
                ctx.link(dead);
                pending::<()>().await;
            })
            .unwrap();
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (linker, ExitReason::NoProcess));

        ctx.trap_exits(true);
        ctx.link(dead);
        assert_eq!(exit_of(&ctx).await, Exit { from: dead, reason: ExitReason::NoProcess });
    });
}

#[test]
fn s12_a_monitor_yields_exactly_one_down() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let target = obedient(&ctx);
        let (one, two, three) = (ctx.monitor(target), ctx.monitor(target), ctx.monitor(target));
        assert!(one != two && ctx.demonitor(three));
        ctx.send(target, ExitReason::other("x")).await;
        let mut references = [ctx.receive_of::<Down>().await.reference, ctx.receive_of::<Down>().await.reference];
        references.sort();
        assert_eq!(references, [one.min(two), one.max(two)]);

        let dead = ctx.monitor(target);
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (dead, ExitReason::NoProcess));
        assert!(!ctx.demonitor(dead));
        assert!(is_quiet(&ctx, Duration::from_millis(20)).await);

        let late = ctx.monitor(target);
        assert!(!ctx.demonitor_flush(late), "its message was in the mailbox");
        assert!(is_quiet(&ctx, Duration::ZERO).await, "and was removed from it");
        assert!(!ctx.demonitor_flush(late), "a monitor ends once");
    });
}

#[test]
fn s12_a_monitor_on_oneself_is_none() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let reference = ctx.monitor(ctx.pid());
        assert_eq!(observe::links(&ctx.runtime(), ctx.pid(), 1), Some(observe::ProcessLinks::default()));
        assert!(!ctx.demonitor(reference));
        assert!(!ctx.demonitor_flush(reference));
    });
}

#[test]
fn s13_bonds_of_the_dead_leave_nothing_on_the_living() {
    let runtime = runtime();
    let (give, take) = mpsc::channel();
    let hub = runtime
        .spawn(move |ctx| async move {
            ctx.trap_exits(true);
            give.send(()).unwrap();
            loop {
                ctx.receive().await;
            }
        })
        .unwrap();
    take.recv().unwrap();
    for _ in 0..200 {
        runtime
            .spawn(move |ctx| async move {
                ctx.link(hub);
                ctx.monitor(hub);
                ctx.yield_now().await;
                panic!("dies with its bonds")
            })
            .unwrap();
    }

    eventually("all but the hub end", || runtime.process_count() == 1);
    eventually("nothing is left", || observe::links(&runtime, hub, 1) == Some(observe::ProcessLinks::default()));
}

#[test]
fn links_of_a_long_line_all_see_the_reason_of_the_first() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        line(&ctx, 10);
        assert_eq!(exit_of(&ctx).await.reason, ExitReason::other("domino"));
    });
    eventually("all of the line have ended", || runtime.process_count() == 0);
}

#[test]
fn a_hundred_thousand_linked_children_that_die_at_once_are_all_heard_of() {
    let runtime = runtime();
    let heard = ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let children: Vec<Pid> = (0..100_000).map(|_| ctx.spawn_link(|_| pending::<()>()).unwrap()).collect();
        for child in &children {
            ctx.exit(*child, ExitReason::Killed);
        }
        let mut heard = std::collections::HashSet::new();
        for _ in 0..children.len() {
            heard.insert(exit_of(&ctx).await.from);
        }
        heard.len()
    });
    assert_eq!(heard, 100_000);
}
