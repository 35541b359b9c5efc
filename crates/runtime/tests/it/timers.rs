//! Timers: sentence 16 of `docs/semantics.md`, and the end of timers together with their process.

use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::ask::{ask, runtime};
use crate::eventually::eventually;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rusm_runtime::observe;
use rusm_runtime::{Config, Context, Down, Exit, ExitReason, Pid, Runtime};

const MS: Duration = Duration::from_millis(1);
/// Longer than any test runs.
const NEVER: Duration = Duration::from_hours(10);

/// Returns a process that has ended.
async fn dead(ctx: &Context) -> Pid {
    let (dead, reference) = ctx.spawn_monitor(|_| async {}).expect("there is room");
    assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
    dead
}

#[test]
fn s16_a_timer_fires_not_before_its_time_and_once() {
    let runtime = runtime();
    let observed = runtime.clone();
    ask(&runtime, |ctx| async move {
        let start = Instant::now();
        for delay_ms in [30, 10, 20, 0] {
            ctx.send_after(ctx.pid(), MS * delay_ms, delay_ms);
        }
        // Their order depends on how long setting them took; `virtual_time.rs` tests the order with a virtual clock.
        let mut fired = Vec::new();
        for _ in 0..4 {
            let delay_ms = ctx.receive_of::<u32>().await;
            assert!(start.elapsed() >= MS * delay_ms, "{delay_ms} ms after {:?}", start.elapsed());
            fired.push(delay_ms);
        }
        fired.sort_unstable();
        assert_eq!(fired, [0, 10, 20, 30]);
        assert!(ctx.receive_timeout(20 * MS).await.is_none(), "each fires once");
    });
    let counters = observe::timers(&observed);
    assert_eq!((counters.pending, counters.fired_total), (0, 4));
}

#[test]
fn s16_cancel_gives_the_time_left_and_the_message_never_comes() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let timer = ctx.send_after(ctx.pid(), NEVER, ());
        let left = ctx.read_timer(timer).expect("it has not fired");
        assert!(left <= NEVER && left + Duration::from_mins(1) > NEVER, "{left:?}");
        let cancelled = ctx.cancel(timer).expect("it has not fired");
        assert!(cancelled <= left && cancelled + Duration::from_mins(1) > NEVER, "{cancelled:?}");
        assert_eq!((ctx.cancel(timer), ctx.read_timer(timer)), (None, None));

        let kept = ctx.send_after(ctx.pid(), Duration::MAX, ());
        assert!(ctx.read_timer(kept).is_some_and(|left| left > NEVER));
        assert!(ctx.receive_timeout(5 * MS).await.is_none());
    });
}

#[test]
fn s16_cancel_says_that_it_had_fired_and_then_the_message_is_there() {
    let runtime = runtime();
    let fired = ask(&runtime, |ctx| async move {
        let mut fired = 0;
        for round in 0..3_000_u64 {
            let timer = ctx.send_after(ctx.pid(), Duration::from_nanos(round % 300 * 200), round);
            if round % 3 == 0 {
                ctx.yield_now().await;
            }
            let cancelled = ctx.cancel(timer).is_some();
            let message = ctx.receive_timeout(Duration::ZERO).await.map(|message| message.downcast::<u64>().unwrap());
            assert_eq!(message, (!cancelled).then_some(round), "either cancelled or delivered");
            fired += u64::from(!cancelled);
        }
        // A timer that is set after all of these must still fire.
        let timer = ctx.send_after(ctx.pid(), MS, 0_u64);
        ctx.receive_of::<u64>().await;
        assert_eq!(ctx.cancel(timer), None);
        fired + 1
    });
    assert_eq!(observe::timers(&runtime), observe::TimerCounters { pending: 0, fired_total: fired, skipped_total: 0 });
}

#[test]
fn s16_a_timer_for_a_dead_process_does_nothing() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let dead = dead(&ctx).await;
        let timers = [
            ctx.send_after(dead, Duration::ZERO, ()),
            ctx.send_interval(dead, MS, ()),
            ctx.exit_after(dead, Duration::ZERO, ExitReason::Shutdown),
            ctx.kill_after(dead, Duration::ZERO),
        ];
        for timer in timers {
            assert_eq!((ctx.read_timer(timer), ctx.cancel(timer)), (None, None));
        }
    });
    assert_eq!(observe::timers(&runtime), observe::TimerCounters::default());
}

#[test]
fn s16_a_timer_is_gone_when_its_target_ends_and_stays_when_its_setter_does() {
    let runtime = runtime();
    let observed = runtime.clone();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        let (target, _) = ctx.spawn_monitor(|_| pending::<()>()).unwrap();
        let timer = ctx.send_after(target, NEVER, ());
        ctx.send_interval(target, NEVER, ());
        ctx.kill_after(target, NEVER);
        assert_eq!(observe::timers(&observed).pending, 3);
        ctx.exit(target, ExitReason::Shutdown);
        ctx.receive_of::<Down>().await;
        assert_eq!(observe::timers(&observed).pending, 0, "the timers are removed before the end is signalled");
        assert_eq!(ctx.cancel(timer), None);

        ctx.spawn_monitor(move |ctx| async move {
            ctx.send_after(me, 5 * MS, "from the dead");
        })
        .unwrap();
        ctx.receive_of::<Down>().await;
        assert_eq!(ctx.receive_of::<&str>().await, "from the dead");
    });
}

#[test]
fn s16_anybody_may_cancel_a_timer_and_set_one_from_outside() {
    let runtime = runtime();
    let target = runtime.spawn(|_| pending::<()>()).unwrap();

    let timer = runtime.send_after(target, NEVER, ());
    assert!(runtime.read_timer(timer).is_some_and(|left| left + Duration::from_mins(1) > NEVER));
    assert!(ask(&runtime, move |ctx| async move { ctx.cancel(timer).is_some() }));
    assert_eq!(runtime.cancel(timer), None);

    runtime.exit_after(target, MS, ExitReason::other("from outside"));
    assert_eq!(runtime.wait(target), ExitReason::other("from outside"));
}

#[test]
fn an_earlier_timer_does_not_wait_for_a_later_one() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        for delay in [NEVER, Duration::from_mins(1), 5 * MS] {
            ctx.send_after(ctx.pid(), delay, delay);
            // The timer service may have gone to sleep for the earlier timers, or not: both cases must work.
            ctx.sleep(MS).await;
        }
        assert_eq!(ctx.receive_of::<Duration>().await, 5 * MS);
    });
}

#[test]
fn a_message_of_a_timer_comes_even_into_a_full_mailbox_and_a_tick_does_not() {
    let runtime = Runtime::start(Config { schedulers: 1, mailbox_capacity: 2, ..Config::default() }).unwrap();
    let observed = runtime.clone();
    let (go, gate) = mpsc::channel::<()>();
    let (give, take) = mpsc::channel();
    let target = runtime
        .spawn(move |ctx| async move {
            // Blocks the scheduler on purpose, so that the process receives nothing.
            gate.recv().expect("the test goes on");
            while let Some(message) = ctx.receive_timeout(Duration::ZERO).await {
                give.send(message.type_name()).expect("the test waits");
            }
        })
        .unwrap();
    runtime.try_send(target, 1_u8).unwrap();
    runtime.try_send(target, 2_u8).unwrap();

    runtime.send_after(target, Duration::ZERO, "once");
    runtime.send_interval(target, MS, 'i');
    eventually("ticks are left out", || observe::timers(&observed).skipped_total >= 2);
    assert_eq!(observe::timers(&observed).fired_total, 1);
    go.send(()).unwrap();

    let received: Vec<&str> = take.iter().take(3).collect();
    assert_eq!(received, ["u8", "u8", "&str"]);
}

#[test]
fn an_interval_ticks_until_it_is_cancelled() {
    let runtime = runtime();
    let observed = runtime.clone();
    ask(&runtime, |ctx| async move {
        let start = Instant::now();
        let timer = ctx.send_interval(ctx.pid(), 2 * MS, "tick".to_owned());
        for tick in 1..=5 {
            assert_eq!(ctx.receive_of::<String>().await, "tick");
            assert!(start.elapsed() >= 2 * MS * tick, "tick {tick} after {:?}", start.elapsed());
        }
        assert!(ctx.cancel(timer).is_some_and(|left| left <= 2 * MS));
        while ctx.receive_timeout(Duration::ZERO).await.is_some() {}
        assert!(ctx.receive_timeout(10 * MS).await.is_none());
        assert_eq!(observe::timers(&observed).pending, 0);
    });
}

#[test]
fn an_interval_whose_copies_panic_ends() {
    struct Fragile;
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            panic!("cannot be copied")
        }
    }
    let runtime = runtime();
    let observed = runtime.clone();
    ask(&runtime, |ctx| async move {
        let broken = ctx.send_interval(ctx.pid(), MS, Fragile);
        ctx.send_after(ctx.pid(), 5 * MS, "the service lives");
        assert_eq!(ctx.receive_of::<&str>().await, "the service lives");
        assert_eq!((ctx.cancel(broken), observe::timers(&observed).pending), (None, 0));
    });
}

#[test]
fn exit_after_is_an_exit_signal_and_kill_after_cannot_be_trapped() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let me = ctx.pid();
        ctx.exit_after(me, MS, ExitReason::other("later"));
        assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: me, reason: ExitReason::other("later") });

        let trapping = |ctx: Context| async move {
            ctx.trap_exits(true);
            pending::<()>().await;
        };
        let victim = ctx.spawn_link(trapping).unwrap();
        ctx.kill_after(victim, MS);
        assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: victim, reason: ExitReason::Killed });

        let deadline = ctx.exit_after(me, NEVER, ExitReason::Killed);
        assert!(ctx.cancel(deadline).is_some(), "in time");
    });
}

#[test]
fn s13_timers_whose_messages_panic_when_they_are_dropped_harm_nobody_else() {
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }
    let runtime = runtime();
    let observed = runtime.clone();
    ask(&runtime, |ctx| async move {
        let (target, monitor) = ctx.spawn_monitor(|_| pending::<()>()).unwrap();
        ctx.send_after(target, NEVER, Explosive);
        ctx.send_after(target, NEVER, Explosive);
        ctx.exit(target, ExitReason::Shutdown);
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (monitor, ExitReason::Shutdown));
        assert_eq!(observe::timers(&observed).pending, 0);

        ctx.send_after(ctx.pid(), MS, "the service lives");
        assert_eq!(ctx.receive_of::<&str>().await, "the service lives");
    });
}

#[test]
fn s13_very_many_timers_of_a_process_that_ends_are_dropped_later_and_delay_no_others() {
    let (runtime, message) = (runtime(), Arc::new(()));
    let observed = runtime.clone();
    let of_target = Arc::clone(&message);
    ask(&runtime, |ctx| async move {
        let (target, _) = ctx.spawn_monitor(|_| pending::<()>()).unwrap();
        for _ in 0..20_000 {
            ctx.send_after(target, NEVER, Arc::clone(&of_target));
        }
        ctx.exit(target, ExitReason::Shutdown);
        ctx.receive_of::<Down>().await;

        ctx.send_after(ctx.pid(), MS, "in between");
        assert_eq!(ctx.receive_of::<&str>().await, "in between");
    });
    eventually("no timer is left", || observe::timers(&observed).pending == 0);
    eventually("no message is left", || Arc::strong_count(&message) == 1);
}

#[test]
fn s13_timers_of_ten_thousand_deaths_leave_nothing() {
    let runtime = runtime();
    for _ in 0..10_000 {
        runtime
            .spawn(|ctx| async move {
                ctx.send_after(ctx.pid(), NEVER, vec![0_u8; 100]);
                ctx.send_interval(ctx.pid(), MS, ());
                panic!("dies with its timers")
            })
            .unwrap();
    }
    eventually("all end", || runtime.process_count() == 0);
    eventually("no timer is left", || observe::timers(&runtime).pending == 0);
}

#[test]
fn a_runtime_with_timers_ends_without_waiting_for_them() {
    let runtime = runtime();
    let target = runtime.spawn(|_| pending::<()>()).unwrap();
    for _ in 0..100 {
        runtime.send_after(target, NEVER, ());
        runtime.send_interval(target, MS, ());
    }
    let handle = runtime.clone();

    assert_eq!(runtime.shutdown(Duration::from_secs(10)).killed, 0);

    let late = handle.send_after(target, Duration::ZERO, ());
    assert_eq!(handle.cancel(late), None);
    assert_eq!(observe::timers(&handle).pending, 0);
}

#[test]
fn a_wait_ends_in_time_though_its_scheduler_always_has_something_to_run() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    ask(&runtime, |ctx| async move {
        ctx.spawn_link(|ctx| async move {
            loop {
                ctx.yield_now().await;
            }
        })
        .unwrap();
        for wait_ms in [1, 5, 20] {
            let start = Instant::now();
            assert!(ctx.receive_timeout(MS * wait_ms).await.is_none());
            assert!(start.elapsed() >= MS * wait_ms, "{wait_ms} ms after {:?}", start.elapsed());
        }
    });
}

#[test]
fn waits_end_in_time_side_by_side_and_where_nobody_polls_without_a_wake_up() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (one, other) = tokio::join!(ctx.receive_timeout(5 * MS), ctx.receive_timeout(10 * MS));
        assert!(one.is_none() && other.is_none());

        let mut waits: FuturesUnordered<_> = (1..4).map(|wait_ms| ctx.receive_timeout(MS * wait_ms)).collect();
        while let Some(message) = waits.next().await {
            assert!(message.is_none());
        }
    });
}

#[test]
fn a_message_that_comes_before_the_time_is_up_is_received_whether_there_is_a_timer_by_then_or_not() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        for delay_us in [0, 100, 300, 2_000] {
            ctx.spawn(move |ctx| async move {
                ctx.spawn_blocking(move || std::thread::park_timeout(Duration::from_micros(delay_us))).await;
                ctx.send(me, delay_us).await;
            });
            let message = ctx.receive_timeout(NEVER).await.expect("the message arrives");
            assert_eq!(message.downcast::<u64>().ok(), Some(delay_us));
        }
    });
}
