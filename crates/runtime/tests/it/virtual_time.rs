//! Virtual time and seeded schedules: `rusm_runtime::test`.

use std::collections::BTreeSet;
use std::future::pending;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusm_runtime::observe::WaitTarget;
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::test::{self, Cause, Simulation};
use rusm_runtime::{Context, Down, ExitReason, Joined, Pid};

const HOUR: Duration = Duration::from_hours(1);

/// Returns the virtual time since the start of the run.
fn now(start: tokio::time::Instant) -> Duration {
    start.elapsed()
}

/// Several processes send messages to this one; returns sender, message and time of each.
async fn gossip(ctx: Context) -> Vec<(u32, u32, Duration)> {
    let (me, start) = (ctx.pid(), tokio::time::Instant::now());
    for name in 0..5_u32 {
        ctx.spawn(move |ctx| async move {
            for word in 0..4_u32 {
                if word == 2 {
                    ctx.sleep(Duration::from_millis(u64::from(name % 2))).await;
                }
                ctx.send(me, (name, word)).await;
            }
        });
    }
    let mut log = Vec::new();
    for _ in 0..20 {
        let (name, word) = ctx.receive_of::<(u32, u32)>().await;
        log.push((name, word, now(start)));
    }
    log
}

#[test]
fn a_seed_gives_the_same_course_of_events_every_time() {
    for seed in 0..20 {
        let course = test::run(seed, gossip);
        for _ in 0..10 {
            assert_eq!(test::run(seed, gossip), course, "seed {seed}");
        }
    }
}

#[test]
fn other_seeds_give_other_courses() {
    let courses: BTreeSet<_> = (0..50).map(|seed| test::run(seed, gossip)).collect();
    assert!(courses.len() > 45, "{} courses of 50 seeds", courses.len());
}

#[test]
fn every_order_of_three_equals_comes_about() {
    let order = |seed| {
        test::run(seed, |ctx| async move {
            let me = ctx.pid();
            for name in ['a', 'b', 'c'] {
                ctx.spawn(move |ctx| async move { ctx.send(me, name).await });
            }
            [ctx.receive_of::<char>().await, ctx.receive_of::<char>().await, ctx.receive_of::<char>().await]
        })
    };
    assert_eq!((0..100).map(order).collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn time_jumps_to_the_next_timer_and_stands_still_while_anything_runs() {
    let real = Instant::now();
    test::run(7, |ctx| async move {
        let start = tokio::time::Instant::now();
        ctx.sleep(24 * HOUR).await;
        assert_eq!(now(start), 24 * HOUR);
        assert!(ctx.receive_timeout(HOUR).await.is_none());
        assert_eq!(now(start), 25 * HOUR);
        for _ in 0..10_000 {
            ctx.yield_now().await;
        }
        assert_eq!(now(start), 25 * HOUR);
    });
    assert!(real.elapsed() < HOUR);
}

#[test]
fn s16_timers_fire_at_their_virtual_instants_in_order() {
    for seed in 0..50 {
        test::run(seed, |ctx| async move {
            let start = tokio::time::Instant::now();
            let me = ctx.pid();
            ctx.send_after(me, 3 * HOUR, 3_u32);
            ctx.send_after(me, HOUR, 1_u32);
            let cancelled = ctx.send_after(me, 2 * HOUR, 9_u32);
            ctx.spawn(move |ctx| async move {
                ctx.sleep(HOUR / 2).await;
                assert_eq!(ctx.cancel(cancelled), Some(HOUR * 3 / 2));
                ctx.send_after(me, HOUR * 3 / 2, 2_u32);
            });
            for hour in [1, 2, 3] {
                assert_eq!((ctx.receive_of::<u32>().await, now(start)), (hour, hour * HOUR));
            }
            assert_eq!(ctx.read_timer(cancelled), None);
        });
    }
}

#[test]
fn s16_an_interval_ticks_in_virtual_time_for_as_long_as_its_target_lives() {
    test::run(3, |ctx| async move {
        let start = tokio::time::Instant::now();
        let me = ctx.pid();
        let ticked = ctx.spawn(move |ctx| async move {
            for tick in 1..=1_000 {
                let () = ctx.receive_of().await;
                assert_eq!(now(start), tick * Duration::from_secs(1));
            }
            ctx.send(me, "done").await;
        });
        let interval = ctx.send_interval(ticked, Duration::from_secs(1), ());
        ctx.monitor(ticked);
        assert_eq!(ctx.receive_of::<Down>().await.reason, ExitReason::Normal);
        assert_eq!(ctx.receive_of::<&str>().await, "done");
        assert_eq!(ctx.cancel(interval), None);
    });
}

#[test]
fn s16_at_the_very_instant_a_timer_is_either_cancelled_or_has_fired() {
    let fired: BTreeSet<bool> = (0..100)
        .map(|seed| {
            test::run(seed, |ctx| async move {
                let timer = ctx.send_after(ctx.pid(), HOUR, ());
                ctx.sleep(HOUR).await;
                let left = ctx.cancel(timer);
                assert!(left.is_none_or(|left| left.is_zero()), "{left:?}");
                let came = ctx.receive_timeout(HOUR).await.is_some();
                assert_eq!(came, left.is_none(), "cancelled or delivered");
                came
            })
        })
        .collect();
    assert_eq!(fired.len(), 2, "both outcomes occur");
}

#[test]
fn s07_under_every_schedule_no_exit_signal_of_a_link_comes_after_its_unlink() {
    test::explore(0..500, |ctx| async move {
        let me = ctx.pid();
        let other = ctx.spawn_link(|_| async { ExitReason::other("race") }).expect("there is room");
        let runner = ctx.spawn(move |ctx| async move {
            ctx.link(me);
            ctx.unlink(me);
            ExitReason::other("no longer linked")
        });
        ctx.unlink(other);
        ctx.monitor(runner);
        ctx.receive_of::<Down>().await;
        ctx.sleep(HOUR).await;
    });
}

#[test]
fn s15_under_every_schedule_a_name_is_free_when_its_death_is_heard_of() {
    test::explore(0..500, |ctx| async move {
        let body = |ctx: Context| async move {
            ctx.register("name").expect("the name is free");
            ctx.receive().await;
        };
        for _ in 0..3 {
            let (holder, _) = ctx.spawn_monitor(body).expect("there is room");
            ctx.send(holder, ()).await;
            ctx.receive_of::<Down>().await;
            assert_eq!(ctx.whereis("name"), None);
        }
    });
}

#[test]
fn exits_and_groups_follow_the_schedule_too() {
    test::explore(0..200, |ctx| async move {
        let (reference, members) = ctx.monitor_group("g").expect("the name is short");
        assert!(members.is_empty());
        let body = |ctx: Context| async move {
            ctx.join("g").expect("the name is short");
            pending::<()>().await;
        };
        let (member, monitor) = ctx.spawn_monitor(body).expect("there is room");
        assert_eq!(ctx.receive_of::<Joined>().await.reference, reference);
        ctx.kill_after(member, HOUR);
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (monitor, ExitReason::Killed));
        assert!(ctx.members("g").is_empty());
    });
}

/// Increments the value of a register in two steps: read, then write.
async fn increment(ctx: &Context, register: Pid) {
    ctx.send(register, ctx.pid()).await;
    let value = ctx.receive_of::<u64>().await;
    ctx.send(register, value + 1).await;
}

/// Two processes increment a register. Reading and writing are separate messages, so some schedules lose an increment.
async fn lost_update(ctx: Context) -> Result<(), String> {
    let register = ctx.spawn(|ctx| async move {
        let mut value = 0_u64;
        loop {
            match ctx.receive().await.downcast::<Pid>() {
                Ok(reader) => ctx.send(reader, value).await,
                Err(message) => value = message.downcast().expect("a pid or a value"),
            }
        }
    });
    for _ in 0..2 {
        ctx.spawn_monitor(move |ctx| async move { increment(&ctx, register).await }).expect("there is room");
    }
    for _ in 0..2 {
        ctx.receive_of::<Down>().await;
    }
    ctx.send(register, ctx.pid()).await;
    match ctx.receive_of::<u64>().await {
        2 => Ok(()),
        value => Err(format!("{value} instead of 2")),
    }
}

#[test]
fn a_race_is_found_and_its_seed_brings_it_back() {
    let failure = test::find(0..1_000, lost_update).expect("one of a thousand schedules loses an update");

    assert_eq!(failure.cause, Cause::Ended(ExitReason::other("1 instead of 2")));
    let text = failure.to_string();
    assert!(text.contains("1 instead of 2") && text.contains(&format!("RUSM_SEED={}", failure.seed)), "{text}");
    for _ in 0..3 {
        assert_eq!(test::find([failure.seed], lost_update).as_ref(), Some(&failure));
    }
    let panic = catch_unwind(|| test::explore(0..1_000, lost_update)).expect_err("explore finds it as well");
    assert_eq!(panic.downcast_ref::<String>(), Some(&text));
}

#[test]
fn some_schedules_are_free_of_the_race() {
    assert!((0..100).any(|seed| test::find([seed], lost_update).is_none()));
}

#[test]
fn a_panic_of_the_first_process_is_a_failure_with_its_place() {
    let world = Simulation::default();
    let failure = world.run(5, |_| async { assert_eq!(1 + 1, 3, "arithmetic") }).expect_err("it panics");

    assert_eq!(failure.seed, 5);
    let text = failure.to_string();
    assert!(text.contains("arithmetic") && text.contains("virtual_time.rs"), "{text}");
}

#[test]
fn processes_that_wait_for_each_other_are_a_failure() {
    let world = Simulation::default();
    let dead = world.run(1, |ctx| async move {
        ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
        ctx.receive().await;
    });

    let failure = dead.expect_err("it never ends");
    assert_eq!((failure.seed, &failure.cause), (1, &Cause::OutOfTime(world.time_max)));
}

#[test]
fn a_failing_seed_prints_its_schedule_and_who_waits_for_what() {
    let deadlock = |ctx: Context| async move {
        ctx.set_label("till");
        let first = ctx.pid();
        let stock = ctx.spawn(move |ctx: Context| async move {
            ctx.set_label("stock");
            // Each of both calls the other.
            drop(ctx.call::<_, u32>(first, "price", Duration::MAX).await);
        });
        drop(ctx.call::<_, u32>(stock, "amount", Duration::MAX).await);
    };
    let failure = test::find([3], deadlock).expect("both wait for ever");

    let report = &failure.report;
    let [till, stock] = &report.processes[..] else { panic!("{failure}") };
    assert_eq!(
        (till.waits.clone(), stock.waits.clone()),
        (vec![WaitTarget::Reply(stock.pid)], vec![WaitTarget::Reply(till.pid)],)
    );
    let text = failure.to_string();
    for line in [
        format!("{} till is waiting for the reply of {}, with 1 in its mailbox", till.pid, stock.pid),
        format!("{} stock is waiting for the reply of {}, with 1 in its mailbox", stock.pid, till.pid),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(text.contains("\n  last turns: ") && report.last_turns.iter().any(|(pid, _)| *pid == stock.pid), "{text}");
    assert_eq!(test::find([3], deadlock).as_ref(), Some(&failure), "the same seed gives the same report");
}

#[test]
fn a_failing_seed_tells_the_crashes_of_other_processes() {
    let waits_for_the_dead = |ctx: Context| async move {
        ctx.spawn(|ctx: Context| async move {
            ctx.set_label("fragile");
            panic!("no stock");
        });
        drop(ctx.receive().await);
    };

    let failure = test::find([3], waits_for_the_dead).expect("it waits for ever");

    let [crash] = &failure.report.crashes[..] else { panic!("{failure}") };
    assert!(crash.contains("fragile crashed: panic at ") && crash.contains("no stock"), "{crash}");
    assert!(failure.to_string().contains(&format!("\n  {crash}")), "{failure}");
}

#[test]
fn a_seed_fails_if_the_first_process_is_ended_before_it_returns() {
    let gives_up = |ctx: Context| async move {
        let child = ChildSpec::new("till", |_ctx| async { panic!("no paper") });
        let tree = Supervisor::new(Strategy::OneForOne).intensity(0, Duration::from_secs(5)).child(child);
        tree.start_link(&ctx).await.expect("it starts");
        ctx.sleep(HOUR).await;
    };
    let by_signal = |reason: ExitReason| {
        test::find([1], move |ctx: Context| {
            let reason = reason.clone();
            async move {
                ctx.exit(ctx.pid(), reason);
                ctx.sleep(HOUR).await;
            }
        })
    };

    let failure = test::find([1], gives_up).expect("the tree takes its parent along");
    let text = failure.to_string();
    assert!(text.contains("till") && text.contains("no paper"), "{text}");
    let run = Simulation::default().run(1, gives_up).expect_err("it returns nothing");
    assert_eq!(run, failure);
    for reason in [ExitReason::Normal, ExitReason::Shutdown] {
        assert_eq!(by_signal(reason.clone()).map(|failure| failure.cause), Some(Cause::Ended(reason)));
    }
    assert!(test::find([1], |_ctx| async { Err::<(), _>(ExitReason::Shutdown) }).is_some(), "an error fails");
}

#[test]
fn processes_that_never_end_are_a_failure() {
    let world = Simulation { polls_max: 10_000, ..Simulation::default() };
    let endless = world.run(1, |ctx| async move {
        ctx.spawn(|ctx| async move {
            loop {
                ctx.yield_now().await;
            }
        });
        pending::<()>().await;
    });

    let failure = endless.expect_err("it never ends");
    assert_eq!((failure.seed, &failure.cause), (1, &Cause::OutOfPolls(10_000)));
    let (_, turns) = failure.report.last_turns.last().expect("there is a schedule");
    assert!(*turns > 9_000, "{failure}");
}

#[test]
fn what_still_lives_at_the_end_is_ended_before_the_run_returns() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let living = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&living);
    test::run(11, |ctx| async move {
        for number in 0..1_000 {
            counter.fetch_add(1, Ordering::Relaxed);
            let guard = Counted(Arc::clone(&counter));
            ctx.spawn(move |ctx| async move {
                ctx.trap_exits(number % 2 == 0);
                let _guard = guard;
                pending::<()>().await;
            });
        }
        ctx.yield_now().await;
    });
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn a_timeout_of_zero_never_misses_what_is_there() {
    for seed in 0..100 {
        test::run(seed, |ctx| async move {
            ctx.try_send(ctx.pid(), 1_u8).expect("there is room");
            assert!(ctx.receive_timeout(Duration::ZERO).await.is_some());
            assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());
        });
    }
}

#[test]
fn blocking_code_and_other_threads_may_take_part_though_no_seed_decides_about_them() {
    let sum = test::run(1, |ctx| async move {
        let (me, runtime) = (ctx.pid(), ctx.runtime());
        ctx.spawn_blocking(move || runtime.try_send(me, 2_u32).is_ok()).await;
        ctx.receive_of::<u32>().await + ctx.spawn_blocking(|| 3).await
    });
    assert_eq!(sum, 5);
}

#[test]
fn runs_are_possible_side_by_side_and_one_after_the_other_on_a_thread() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| test::run(42, gossip))).collect();
    let here = test::run(42, gossip);
    for thread in threads {
        assert_eq!(thread.join().expect("it does not panic"), here);
    }
}

#[test]
fn a_body_that_panics_before_there_is_a_process_panics_as_it_is() {
    let panic = catch_unwind(|| test::run(1, |_| -> std::future::Ready<()> { panic!("no process") }));

    assert_eq!(panic.expect_err("it panics").downcast_ref::<&str>(), Some(&"no process"));
}

#[test]
fn inside_of_a_tokio_runtime_it_panics_and_harms_nothing() {
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = tokio.block_on(async { catch_unwind(|| test::run(1, |_| async {})).is_err() });

    assert!(refused);
    assert_eq!(test::run(1, |_| async { 5 }), 5);
}
