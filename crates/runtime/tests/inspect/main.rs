//! What observers read about one process in depth, and what is remembered of processes that have ended: each figure
//! against an own count.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

#[path = "../common/ask.rs"]
mod ask;
#[path = "../common/eventually.rs"]
mod eventually;

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ask::{ask, runtime};
use crate::eventually::eventually;
use rusm_runtime::observe::{self, Bond, CauseKind, EndedBy, ProcessState};
use rusm_runtime::{Config, Context, Exit, ExitReason, Pid, Runtime};

/// Spawns a process that waits forever.
fn idle(runtime: &Runtime) -> Pid {
    runtime.spawn(|_| async { pending::<()>().await }).unwrap()
}

fn has_ended(runtime: &Runtime, pid: Pid) {
    eventually("the process has ended", || !runtime.is_alive(pid));
}

#[test]
fn bonds_are_read_by_page_and_counted_in_full() {
    let runtime = runtime();
    let (hub, others) = ask(&runtime, |ctx: Context| async move {
        let others: Vec<Pid> = (0..50).map(|_| ctx.spawn(|_| async { pending::<()>().await })).collect();
        let linked = others.clone();
        let hub = ctx.spawn(move |ctx: Context| async move {
            for other in &linked {
                ctx.link(*other);
            }
            ctx.monitor(linked[0]);
            pending::<()>().await;
        });
        (hub, others)
    });
    eventually("all are linked", || observe::bonds(&runtime, hub, Bond::Monitors, 0, 9).unwrap().0 == 1);

    let (total, first) = observe::bonds(&runtime, hub, Bond::Links, 0, 30).unwrap();
    let (_, second) = observe::bonds(&runtime, hub, Bond::Links, 30, 30).unwrap();

    assert_eq!((total, first.len(), second.len()), (50, 30, 20));
    let mut all: Vec<Pid> = first.into_iter().chain(second).collect();
    all.sort();
    assert_eq!(all, others);
    assert_eq!(observe::bonds(&runtime, others[0], Bond::MonitoredBy, 0, 9), Some((1, vec![hub])));
    assert_eq!(observe::end_reach(&runtime, hub, 1_000).ends, 50);
    let limited = observe::end_reach(&runtime, hub, 10);
    assert!(limited.is_more && limited.ends >= 40, "{limited:?}");
}

#[test]
fn the_reach_of_an_end_follows_links_and_stops_at_those_that_trap_exits() {
    let runtime = runtime();
    let (first, guard) = ask(&runtime, |ctx: Context| async move {
        let far = ctx.spawn(|_| async { pending::<()>().await });
        let guard = ctx.spawn(move |ctx: Context| async move {
            ctx.trap_exits(true);
            ctx.link(far);
            pending::<()>().await;
        });
        let middle = ctx.spawn(move |ctx: Context| async move {
            ctx.link(guard);
            pending::<()>().await;
        });
        let first = ctx.spawn(move |ctx: Context| async move {
            ctx.link(middle);
            // It ends itself, so it is not told.
            ctx.monitor(middle);
            pending::<()>().await;
        });
        (first, guard)
    });
    eventually("the links exist", || {
        observe::bonds(&runtime, first, Bond::Links, 0, 9).unwrap().0 == 1
            && observe::bonds(&runtime, guard, Bond::Links, 0, 9).unwrap().0 == 2
    });

    let reach = observe::end_reach(&runtime, first, 100);

    assert_eq!((reach.ends, reach.told, reach.is_more), (1, 1, false));
}

#[test]
fn a_pid_of_another_node_is_not_that_of_a_local_process() {
    let runtime = runtime();
    let local = runtime.spawn(|_| async { pending::<()>().await }).unwrap();
    let remote: Pid = local.to_string().replace("<0.", "<1.").parse().unwrap();

    assert_eq!(observe::process_ref(&runtime, local).map(|seen| seen.pid()), Some(local));
    assert!(observe::process_ref(&runtime, remote).is_none());
}

#[test]
fn names_groups_and_children_are_those_of_the_process() {
    let runtime = runtime();
    let parent = runtime
        .spawn(|ctx: Context| async move {
            ctx.register("warehouse").unwrap();
            ctx.join("stock").unwrap();
            ctx.join("stock").unwrap();
            ctx.join("audit").unwrap();
            for _ in 0..7 {
                ctx.spawn(|_| async { pending::<()>().await });
            }
            pending::<()>().await;
        })
        .unwrap();
    eventually("the children exist", || observe::children_of(&runtime, parent, 0, 99).0 == 7);

    let holds = observe::process_belongings(&runtime, parent, 16).unwrap();

    assert_eq!(holds.names.iter().map(|name| &**name).collect::<Vec<_>>(), ["warehouse"]);
    assert_eq!(holds.groups.iter().map(|group| &**group).collect::<Vec<_>>(), ["audit", "stock"]);
    assert_eq!(holds.group_count, 2);
    assert_eq!(observe::children_of(&runtime, parent, 5, 99).1.len(), 2);
}

#[test]
fn a_process_that_has_ended_says_why_when_by_whom_and_with_which_figures() {
    let runtime = runtime();
    let crashed = runtime
        .spawn(|ctx: Context| async move {
            ctx.register("courier").unwrap();
            let _: u32 = ctx.receive_of().await;
            panic!("no street {}", 7)
        })
        .unwrap();
    eventually("it has its name", || runtime.whereis("courier") == Some(crashed));
    for _ in 0..2 {
        runtime.try_send(crashed, "left behind").unwrap();
    }
    runtime.try_send(crashed, 1_u32).unwrap();
    has_ended(&runtime, crashed);

    eventually("it is remembered", || observe::ended(&runtime, crashed).is_some());
    let ended = observe::ended(&runtime, crashed).unwrap();

    assert_eq!((ended.name.as_deref(), ended.by, ended.parent), (Some("courier"), EndedBy::Itself, None));
    assert!(ended.reason.to_string().ends_with("no street 7"), "{}", ended.reason);
    assert_eq!((ended.figures.messages, ended.figures.mailbox_len), (1, 2));
    assert!(observe::ended(&runtime, Pid::local(crashed.slot(), 77)).is_none());
}

#[test]
fn the_origin_of_an_end_is_the_killer_the_link_or_the_observer() {
    let runtime = runtime();
    let (killer, victim, linked) = ask(&runtime, |ctx: Context| async move {
        let linked = ctx.spawn(|_| async { pending::<()>().await });
        let victim = ctx.spawn(move |ctx: Context| async move {
            ctx.link(linked);
            pending::<()>().await;
        });
        (
            ctx.spawn(move |ctx: Context| async move {
                let () = ctx.receive_of().await;
                ctx.exit(victim, ExitReason::Killed);
            }),
            victim,
            linked,
        )
    });
    eventually("the link exists", || observe::bonds(&runtime, victim, Bond::Links, 0, 1).unwrap().0 == 1);
    runtime.try_send(killer, ()).unwrap();
    has_ended(&runtime, linked);

    let observed = idle(&runtime);
    observe::note_end_by(&runtime, observed, EndedBy::Observer("observer 3".into()));
    runtime.exit(observed, ExitReason::Shutdown);
    has_ended(&runtime, observed);
    let outside = idle(&runtime);
    runtime.exit(outside, ExitReason::other("outside"));
    has_ended(&runtime, outside);

    let by = |pid| observe::ended(&runtime, pid).map(|ended| ended.by);
    eventually("all are remembered", || [victim, linked, observed, outside].iter().all(|pid| by(*pid).is_some()));
    assert_eq!(by(victim), Some(EndedBy::Process(killer)));
    assert_eq!(by(linked), Some(EndedBy::Link(victim)));
    assert_eq!(by(observed), Some(EndedBy::Observer("observer 3".into())));
    assert_eq!(by(outside), Some(EndedBy::Outside));
}

#[test]
fn a_process_that_has_trapped_an_observers_signal_fails_by_itself_later() {
    let runtime = runtime();
    let stubborn = runtime
        .spawn(|ctx: Context| async move {
            ctx.trap_exits(true);
            ctx.register("stubborn").unwrap();
            let _trapped = ctx.receive_of::<Exit>().await;
            let () = ctx.receive_of().await;
            panic!("no stock");
        })
        .unwrap();
    eventually("it traps exits", || runtime.whereis("stubborn") == Some(stubborn));
    observe::note_end_by(&runtime, stubborn, EndedBy::Observer("observer 3".into()));
    runtime.exit(stubborn, ExitReason::Shutdown);
    runtime.try_send(stubborn, ()).unwrap();
    has_ended(&runtime, stubborn);

    eventually("it is remembered", || observe::ended(&runtime, stubborn).is_some());
    assert_eq!(observe::ended(&runtime, stubborn).unwrap().by, EndedBy::Itself);
}

#[test]
fn a_process_that_ends_while_it_is_read_has_not_run_for_years() {
    let runtime = runtime();
    let is_over = AtomicBool::new(false);
    let longest_ns = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut longest_ns = 0;
            while !is_over.load(Ordering::Relaxed) {
                for part in 0..observe::table_parts(&runtime) {
                    observe::for_each_process(&runtime, part, |seen| longest_ns = longest_ns.max(seen.busy_ns()));
                }
            }
            longest_ns
        });
        ask(&runtime, |ctx: Context| async move {
            for n in 0..500_000 {
                ctx.spawn(|_| async {});
                if n % 100 == 0 {
                    ctx.yield_now().await;
                }
            }
        });
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });

    assert!(longest_ns < 3_600_000_000_000, "{longest_ns} ns");
}

#[test]
fn every_failure_of_a_storm_is_counted_by_its_cause() {
    const CRASHES: u32 = 20_000;
    let runtime = runtime();
    ask(&runtime, |ctx: Context| async move {
        for n in 0..CRASHES {
            ctx.spawn(move |_| async move { Err::<(), _>(format!("no row {n}")) });
            if n % 1_000 == 0 {
                ctx.yield_now().await;
            }
        }
    });

    eventually("all have ended", || {
        observe::causes(&runtime).0.iter().map(|cause| cause.count).sum::<u64>() == u64::from(CRASHES)
    });
    let (causes, others) = observe::causes(&runtime);

    assert_eq!((causes.len(), others, causes[0].kind), (1, 0, CauseKind::Crash));
    assert_eq!((&*causes[0].why, causes[0].count), ("no row *", u64::from(CRASHES)));
    assert_eq!(causes[0].intervals.iter().sum::<u32>(), CRASHES);
}

#[inline(never)]
fn breaks_down() {
    panic!("broken")
}

#[test]
fn the_cause_of_a_panic_has_the_backtrace_of_its_first_one() {
    let runtime = runtime();
    let pid = runtime.spawn(|_| async { breaks_down() }).unwrap();
    has_ended(&runtime, pid);
    eventually("it is counted", || !observe::causes(&runtime).0.is_empty());

    let cause = observe::causes(&runtime).0.remove(0);
    let functions = observe::cause_backtrace(&runtime, &cause.last.reason, 32);

    assert!(cause.why.starts_with("panic at ") && cause.why.ends_with(": broken"), "{}", cause.why);
    assert!(functions.first().is_some_and(|name| name.contains("breaks_down")), "{functions:?}");
}

#[test]
fn a_watched_mailbox_knows_its_senders_its_oldest_message_and_its_first_ones() {
    let runtime = runtime();
    let reader = idle(&runtime);
    let watching = observe::watch(&runtime, reader).unwrap();
    let senders: Vec<Pid> = (1..=4_u32)
        .map(|weight| {
            let (give, done) = std::sync::mpsc::channel();
            let pid = runtime
                .spawn(move |ctx: Context| async move {
                    for n in 0..weight {
                        ctx.send(reader, format!("order {n}")).await;
                    }
                    give.send(()).unwrap();
                })
                .unwrap();
            done.recv().unwrap();
            pid
        })
        .collect();
    runtime.try_send(reader, 7_u32).unwrap();

    watching.request_preview(true);
    eventually("the process shows its messages", || watching.report().is_some_and(|report| report.preview.is_some()));
    let report = watching.report().unwrap();

    assert_eq!((report.seen, report.sampled, report.senders_total), (11, 11, 5));
    assert_eq!(report.senders[0], (Some(senders[3]), 4));
    assert!(report.senders.contains(&(None, 1)), "{:?}", report.senders);
    let (age, is_minimum) = report.oldest.unwrap();
    assert!(!is_minimum && age <= report.watched_for, "{age:?}");
    let preview = report.preview.unwrap();
    assert_eq!(preview.messages.len(), 11);
    assert_eq!(preview.messages[0].value.as_deref(), Some("\"order 0\""));
    assert_eq!((preview.messages[10].type_name, preview.messages[10].value.as_deref()), ("u32", Some("7")));
    watching.request_preview(false);
    eventually("the values are gone", || {
        watching.report().is_some_and(|report| report.preview.unwrap().messages[0].value.is_none())
    });
}

#[test]
fn a_message_from_before_the_watch_is_at_least_as_old_as_the_watch() {
    let runtime = runtime();
    let reader = idle(&runtime);
    runtime.try_send(reader, 1_u32).unwrap();
    eventually("it is parked", || observe::process(&runtime, reader).unwrap().state == ProcessState::Io);

    let watching = observe::watch(&runtime, reader).unwrap();

    assert!(watching.report().unwrap().oldest.is_some_and(|(_, is_minimum)| is_minimum));
    assert!(watching.report().unwrap().parked_for.is_some_and(|(_, is_minimum)| is_minimum));
}

#[test]
fn the_delays_of_a_watched_process_are_those_of_each_of_its_turns() {
    const ROUNDS: u64 = 200;
    // On a second scheduler the next message could come before the turn ends, which would then handle both.
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let echo = runtime
        .spawn(|ctx: Context| async move {
            loop {
                let from: Pid = ctx.receive_of().await;
                ctx.send(from, ()).await;
            }
        })
        .unwrap();
    let watching = observe::watch(&runtime, echo).unwrap();
    ask(&runtime, move |ctx: Context| async move {
        for _ in 0..ROUNDS {
            ctx.send(echo, ctx.pid()).await;
            let () = ctx.receive_of().await;
        }
    });

    eventually("the last turn is recorded", || watching.report().unwrap().delays.poll.count() >= ROUNDS);
    let delays = watching.report().unwrap().delays;

    assert!((ROUNDS..=ROUNDS + 5).contains(&delays.poll.count()), "{}", delays.poll.count());
    assert!((ROUNDS..=ROUNDS + 5).contains(&delays.scheduling.count()), "{}", delays.scheduling.count());
    assert!((16..=ROUNDS + 5).contains(&delays.handling.count()), "{}", delays.handling.count());
    assert!(delays.handling.percentile_ns(0.5) >= delays.poll.percentile_ns(0.0), "a message is handled within a poll");
    let idle_now = || watching.report().unwrap().parked_for.is_some_and(|(_, is_minimum)| !is_minimum);
    eventually("it waits since its last turn", idle_now);
}

#[test]
fn a_watched_process_is_remembered_even_if_it_ends_normally_and_an_unwatched_one_costs_nothing() {
    let runtime = runtime();
    let spawn = || runtime.spawn(|ctx: Context| async move { drop(ctx.receive().await) }).unwrap();
    let (watched, other) = (spawn(), spawn());
    let watching = observe::watch(&runtime, watched).unwrap();
    for pid in [watched, other] {
        runtime.try_send(pid, ()).unwrap();
        has_ended(&runtime, pid);
    }

    eventually("the watched one is remembered", || observe::ended(&runtime, watched).is_some());
    let ended = observe::ended(&runtime, watched).unwrap();

    assert_eq!((ended.reason, ended.by, ended.figures.messages), (ExitReason::Normal, EndedBy::Itself, 1));
    assert!(observe::ended(&runtime, other).is_none() && watching.report().is_none());
}

#[test]
fn the_node_samples_delays_only_while_somebody_observes() {
    let runtime = runtime();
    let pairs = || {
        ask(&runtime, |ctx: Context| async move {
            let echo = ctx.spawn(|ctx: Context| async move {
                loop {
                    let from: Pid = ctx.receive_of().await;
                    ctx.send(from, ()).await;
                }
            });
            for _ in 0..20_000 {
                ctx.send(echo, ctx.pid()).await;
                let () = ctx.receive_of().await;
            }
        });
    };
    pairs();
    let unobserved = observe::delays(&runtime);

    observe::set_sampling(&runtime, true);
    pairs();
    let observed = observe::delays(&runtime);

    assert_eq!((unobserved.scheduling.count(), unobserved.poll.count()), (0, 0));
    assert!(observed.scheduling.count() > 50 && observed.handling.count() > 20, "{}", observed.scheduling.count());
    assert!(observed.poll.count() >= observed.scheduling.count());
}
