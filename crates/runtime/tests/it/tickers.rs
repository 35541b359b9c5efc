//! Tickers of processes and threads on the real clock: ticks, counters, and cleanup when the owner ends.

use std::num::NonZeroU8;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusm_runtime::ticker::{
    Epoch, Frequency, Measure, Overrun, Spin, Start, Ticker, TickerError, TickerOptions, sleep_precise,
};
use rusm_runtime::{Config, Context, ExitReason, Runtime, observe};

use crate::eventually::eventually;

fn runtime() -> Runtime {
    let config = Config { schedulers: 2, ..Config::default() };
    Runtime::start(config).expect("two schedulers start")
}

fn hz(hz: u64) -> Frequency {
    Frequency::hz(hz).expect("a frequency below a billion")
}

#[test]
fn a_process_fires_on_the_grid_and_every_firing_is_in_its_account() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    let start = Instant::now();

    let body = move |ctx: Context| async move {
        let options = TickerOptions { measure: Measure::Lateness, ..TickerOptions::default() };
        let mut ticker = ctx.ticker(hz(1_000), options).expect("compatible options");
        let (mut fired, mut next) = (0, 0);
        while next < 50 {
            let firings = ticker.next().await;
            assert_eq!((firings.first, firings.coalesced), (next + firings.dropped, 0));
            assert!(firings.late_ns.is_some());
            next = firings.first + firings.count;
            fired += firings.count;
        }
        tell.send((fired, next, ticker.report())).expect("the test waits");
    };
    let pid = runtime.spawn(body).expect("there is room");

    let (fired, next, report) = told.recv().expect("the process sends it");
    assert!(start.elapsed() >= Duration::from_millis(next), "{report:?}");
    assert_eq!(report.account.fired, fired);
    assert!(report.account.fired + report.account.dropped >= next, "{report:?}");
    assert_eq!(report.lateness.map(|lateness| lateness.count), Some(fired));
    assert_eq!((report.pid, report.batch), (Some(pid), 1));
    assert!(matches!(runtime.wait(pid), ExitReason::Normal | ExitReason::NoProcess));
}

#[test]
fn observers_see_the_tickers_that_there_are_and_their_state() {
    let runtime = runtime();
    let body = |ctx: Context| async move {
        let options = TickerOptions { tick_rate: Some(hz(100)), ..TickerOptions::default() };
        ctx.every(hz(1_000), options, |_| ControlFlow::<()>::Continue(())).await.expect("compatible options");
    };
    let pid = runtime.spawn(body).expect("there is room");

    eventually("firings are seen", || {
        observe::tickers(&runtime, 10).first().is_some_and(|seen| seen.account.fired >= 20)
    });
    eventually("it sleeps between ticks", || {
        observe::process(&runtime, pid).is_some_and(|seen| seen.state.word() == "sleeping")
    });
    let seen = observe::tickers(&runtime, 10).remove(0);
    assert_eq!((seen.pid, seen.batch, seen.frequency), (Some(pid), 10, hz(1_000)));
    assert_eq!((observe::ticker_driver(&runtime).tickers, observe::tickers(&runtime, 0)), (1, Vec::new()));

    runtime.exit(pid, ExitReason::Killed);
    eventually("its ticker is gone", || observe::tickers(&runtime, 10).is_empty());
}

#[test]
fn observers_see_the_ticker_of_a_thread_that_wants_it() {
    let runtime = runtime();
    let options = TickerOptions { tick_rate: Some(hz(1_000)), measure: Measure::Lateness, ..TickerOptions::default() };
    let unseen = Ticker::new(hz(10_000), options).expect("compatible options");
    let mut ticker = Ticker::new(hz(10_000), options).expect("compatible options").observed_by(&runtime, "sampler");

    let fired: u64 = (0..5).map(|_| ticker.wait().count).sum();

    let [seen] = &observe::tickers(&runtime, 10)[..] else { panic!("one is seen") };
    assert_eq!((seen.pid, seen.label.as_deref(), seen.batch), (None, Some("sampler"), 10));
    assert_eq!((seen.account, seen.lateness.map(|late| late.count)), (ticker.account(), Some(5)));
    assert_eq!((fired, unseen.report().id), (50, 0));
    assert_eq!((ticker.report().id, ticker.report().label), (seen.id, seen.label.clone()));
    drop(ticker);
    assert_eq!(observe::tickers(&runtime, 10), []);
}

#[test]
fn a_scheduler_sleeps_between_the_ticks_of_its_only_process() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("one scheduler starts");
    let body = |ctx: Context| async move {
        let each = |_| ControlFlow::<()>::Continue(());
        ctx.every(hz(10_000), TickerOptions::default(), each).await.expect("compatible options");
    };
    runtime.spawn(body).expect("there is room");
    let seen = || {
        let fired = observe::tickers(&runtime, 1).first().map_or(0, |ticker| ticker.account.fired);
        (fired, observe::schedulers(&runtime).iter().map(|scheduler| scheduler.parks).sum::<u64>())
    };

    // A scheduler that spins in case of outside events would sleep before only two ticks of three, however long the
    // test measures.
    eventually("it has slept before nearly all of a hundred ticks", || {
        let (fired, parks) = seen();
        eventually("a hundred ticks", || seen().0 >= fired + 100);
        let (fired_then, parks_then) = seen();
        (parks_then - parks) * 100 > (fired_then - fired) * 85
    });
}

#[test]
fn a_thread_that_is_held_up_loses_what_its_policy_says() {
    let account = |overrun| {
        let mut ticker =
            Ticker::new(hz(1_000), TickerOptions { overrun, ..TickerOptions::default() }).expect("compatible options");
        ticker.wait();
        sleep_precise(Duration::from_millis(20));
        let firings = ticker.wait();
        (firings, ticker.report().account)
    };

    let (firings, seen) = account(Overrun::Drop);
    assert!(firings.count == 1 && firings.dropped >= 18 && seen.overruns >= 18, "{seen:?}");
    let (firings, seen) = account(Overrun::Burst { max: 5 });
    assert!(firings.count == 5 && firings.dropped >= 13 && seen.overruns >= 18, "{seen:?}");
    let (firings, seen) = account(Overrun::Skip);
    assert!(firings.count == 1 && firings.coalesced >= 17 && seen.dropped == 0, "{seen:?}");
    let (firings, seen) = account(Overrun::Slip);
    assert!(firings.count == 1 && firings.first == 1 && seen.slipped_ns >= 18_000_000, "{seen:?}");
}

#[test]
fn a_thread_never_fires_before_its_time_however_it_waits() {
    let fixed = Spin::Fixed(Duration::from_micros(50));
    for (spin, early_wake) in [(Spin::Off, true), (Spin::Off, false), (fixed, true), (Spin::Governed, true)] {
        for measure in [Measure::Off, Measure::Lateness] {
            let start = Instant::now();
            let epoch = Epoch::after(Duration::ZERO);
            let options =
                TickerOptions { spin, early_wake, measure, start: Start::At(epoch), ..TickerOptions::default() };
            let mut ticker = Ticker::new(hz(5_000), options).expect("compatible options");
            for _ in 0..20 {
                let firings = ticker.wait();

                let due = Duration::from_nanos((firings.first + 1) * 200_000);
                assert!(start.elapsed() >= due, "{spin:?} {firings:?}");
                assert_eq!(firings.late_ns.is_some(), measure == Measure::Lateness);
            }
        }
    }
}

#[test]
fn a_gigahertz_is_an_overrun_without_end_and_still_adds_up() {
    let options = TickerOptions { overrun: Overrun::Burst { max: u32::MAX }, ..TickerOptions::default() };
    let mut ticker = Ticker::new(hz(1_000_000_000), options).expect("compatible options");
    let mut next = 0;
    for _ in 0..1_000 {
        let firings = ticker.wait();

        assert_eq!(firings.first, next);
        next += firings.count;
    }
    let seen = ticker.report().account;
    assert_eq!((seen.fired, seen.dropped, seen.coalesced), (next, 0, 0));
}

#[test]
fn realtime_is_granted_or_the_report_says_why_not() {
    let options = TickerOptions { realtime: NonZeroU8::new(1), ..TickerOptions::default() };
    let mut ticker = Ticker::new(hz(1_000), options).expect("compatible options");
    ticker.wait();

    match ticker.report().realtime.expect("it was asked for") {
        Ok(()) => {}
        Err(why) => assert!(why.contains("ermitted"), "{why}"),
    }
}

#[test]
fn sleeps_below_a_millisecond_are_not_too_short_and_many_can_be_under_way() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    for index in 0..50 {
        let tell = tell.clone();
        let body = move |ctx: Context| async move {
            for _ in 0..10 {
                let (start, delay) = (Instant::now(), Duration::from_micros(20 + 10 * index));
                ctx.sleep_precise(delay).await;
                assert!(start.elapsed() >= delay);
            }
            ctx.sleep_precise(Duration::ZERO).await;
            tell.send(index).expect("the test waits");
        };
        runtime.spawn(body).expect("there is room");
    }
    drop(tell);

    assert_eq!(told.iter().count(), 50);
}

#[test]
fn a_sleep_that_nobody_waits_for_any_more_and_a_runtime_that_ends_leave_nothing() {
    let runtime = runtime();
    let body = |ctx: Context| async move {
        for _ in 0..1_000 {
            let long = ctx.sleep_precise(Duration::from_hours(24));
            let early = ctx.receive_timeout(Duration::ZERO);
            futures_util::future::select(std::pin::pin!(long), std::pin::pin!(early)).await;
        }
        let _ticker = ctx.ticker(Frequency::ratio(1, 3_600).expect("once in an hour"), TickerOptions::default());
        ctx.sleep_precise(Duration::from_hours(24)).await;
    };
    let pid = runtime.spawn(body).expect("there is room");
    eventually("it ticks", || observe::ticker_driver(&runtime).tickers == 1);

    let ended = runtime.shutdown(Duration::from_mins(1));

    assert_eq!((ended.stuck, ended.killed), (Vec::new(), 0), "{pid}");
}

#[test]
fn a_process_is_refused_what_cannot_be_in_one_line() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    let body = move |ctx: Context| async move {
        let refused = ctx.ticker(hz(48_000_000), TickerOptions::default()).err();
        tell.send(refused).expect("the test waits");
    };
    runtime.spawn(body).expect("there is room");

    let refused: TickerError = told.recv().expect("the process sends it").expect("it is refused");
    assert_eq!(refused.to_string(), "48 MHz in batches of 1 is over 1000000 ticks a second: set a lower tick rate");
}
