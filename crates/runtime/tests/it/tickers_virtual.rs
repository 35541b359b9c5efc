//! Tickers in virtual time: exact instants, every overrun policy, and exact accounting of every firing.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use rusm_runtime::Context;
use rusm_runtime::test;
use rusm_runtime::ticker::{Frequency, Measure, Overrun, Start, TickerOptions};

fn ratio(num: u64, den: u64) -> Frequency {
    Frequency::ratio(num, den).expect("a frequency within its range")
}

/// Virtual nanoseconds since the start.
fn now_ns(start: tokio::time::Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).expect("a short test")
}

#[test]
fn ticks_come_at_their_exact_nanosecond() {
    for (num, den) in [(48_000, 1), (3, 1), (1, 3), (10_000, 1), (7_001, 13), (1_000, 1)] {
        test::run(1, move |ctx| async move {
            let start = tokio::time::Instant::now();
            let options = TickerOptions { measure: Measure::Lateness, ..TickerOptions::default() };
            let mut ticker = ctx.ticker(ratio(num, den), options).expect("compatible options");
            for tick in 1..=100_u64 {
                let firings = ticker.next().await;

                let due = (u128::from(tick) * u128::from(den) * 1_000_000_000).div_ceil(u128::from(num));
                assert_eq!(u128::from(now_ns(start)), due, "{num}/{den}, tick {tick}");
                assert_eq!((firings.first, firings.count, firings.late_ns), (tick - 1, 1, Some(0)));
            }
        });
    }
}

#[test]
fn tickers_and_sleeps_of_many_processes_come_in_the_order_of_their_instants() {
    test::explore(0..20, |ctx| async move {
        let me = ctx.pid();
        for micros in [1_500_u64, 20, 999, 1_000, 300, 301] {
            ctx.spawn(move |ctx| async move {
                ctx.sleep_precise(Duration::from_micros(micros)).await;
                ctx.send(me, micros).await;
            });
        }
        ctx.spawn(move |ctx| async move {
            ctx.sleep(Duration::from_millis(2)).await;
            ctx.send(me, 2_000_u64).await;
        });
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push(ctx.receive_of::<u64>().await);
        }
        assert_eq!(seen, [20, 300, 301, 999, 1_000, 1_500, 2_000]);
    });
}

#[test]
fn an_hour_of_ticks_by_the_millisecond_takes_moments() {
    let fired = test::run(3, |ctx| async move {
        let mut fired = 0;
        let options = TickerOptions { tick_rate: Some(ratio(1, 1)), ..TickerOptions::default() };
        let hour = ctx.every(ratio(1_000_000, 1), options, |firings| {
            fired += firings.count;
            if fired < 3_600 * 1_000_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        hour.await.expect("compatible options");
        fired
    });

    assert_eq!(fired, 3_600 * 1_000_000);
}

#[test]
fn processes_of_one_epoch_tick_in_the_same_instant() {
    test::run(5, |ctx| async move {
        let (me, start) = (ctx.pid(), tokio::time::Instant::now());
        let epoch = ctx.runtime().epoch_after(Duration::from_micros(700));
        for late in [0_u64, 100, 650, 1_234, 5_000] {
            ctx.spawn(move |ctx| async move {
                ctx.sleep_precise(Duration::from_micros(late)).await;
                let options = TickerOptions { start: Start::At(epoch), ..TickerOptions::default() };
                let mut ticker = ctx.ticker(ratio(1_000, 3), options).expect("compatible options");
                let firings = ticker.next().await;
                ctx.send(me, (firings.first, now_ns(start))).await;
            });
        }
        for _ in 0..5 {
            let (first, now) = ctx.receive_of::<(u64, u64)>().await;
            assert_eq!(now, 700_000 + (first + 1) * 3_000_000);
        }
    });
}

#[test]
fn a_machine_that_stood_still_for_a_day_is_one_overrun_by_the_policy() {
    const DAY: u64 = 86_400 * 1_000;
    for overrun in [Overrun::Drop, Overrun::Burst { max: 3 }, Overrun::Skip, Overrun::Slip] {
        let (batch, account) = test::run(7, move |ctx| async move {
            let options = TickerOptions { overrun, ..TickerOptions::default() };
            let mut ticker = ctx.ticker(ratio(1_000, 1), options).expect("compatible options");
            ticker.next().await;
            tokio::time::advance(Duration::from_millis(DAY)).await;
            let batch = ticker.next().await;
            (batch, ticker.account())
        });

        let told = (batch.count, batch.dropped, batch.coalesced);
        match overrun {
            Overrun::Drop => assert_eq!((batch.count, account.dropped), (1, DAY), "{account:?}"),
            Overrun::Burst { max } => assert_eq!(told, (max.into(), DAY - u64::from(max), 0), "{account:?}"),
            Overrun::Skip => assert_eq!(told, (1, 0, DAY - 1), "{account:?}"),
            Overrun::Slip => assert_eq!((told, account.slipped_ns), ((1, 0, 0), (DAY - 1) * 1_000_000), "{account:?}"),
        }
    }
}

#[test]
fn a_tick_that_nobody_waits_for_any_more_is_an_overrun_and_one_that_has_come_is_not() {
    let millis = Duration::from_millis;
    test::run(3, move |ctx| async move {
        let options = TickerOptions { overrun: Overrun::Drop, ..TickerOptions::default() };
        let mut ticker = ctx.ticker(ratio(1_000, 1), options).expect("compatible options");

        // The wait is dropped after half a millisecond; then three ticks pass.
        let given_up = tokio::time::timeout(Duration::from_micros(500), ticker.next()).await;
        assert!(given_up.is_err(), "{given_up:?}");
        ctx.sleep(millis(3)).await;
        let firings = ticker.next().await;
        assert_eq!((firings.first, firings.dropped, ticker.account().overruns), (3, 3, 3));

        // The wait is dropped after the next tick has fired.
        let mut next = Box::pin(ticker.next());
        let begun = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
        ctx.sleep_precise(Duration::from_micros(1_100)).await;
        drop(next);
        assert!(begun);
        let firings = ticker.next().await;
        assert_eq!((firings.first, firings.dropped, ticker.account().overruns), (4, 0, 3));
    });
}

fn policies() -> impl Strategy<Value = Overrun> {
    prop_oneof![
        Just(Overrun::Drop),
        (1_u32..5).prop_map(|max| Overrun::Burst { max }),
        Just(Overrun::Skip),
        Just(Overrun::Slip)
    ]
}

/// Ticks, works for the given number of milliseconds after each batch, and checks the counters.
async fn work(ctx: Context, num: u64, den: u64, tick_rate: u64, overrun: Overrun, work: Vec<u64>) {
    let start = tokio::time::Instant::now();
    let options = TickerOptions {
        overrun,
        tick_rate: Some(ratio(tick_rate, 1)),
        measure: Measure::Lateness,
        ..TickerOptions::default()
    };
    let mut ticker = ctx.ticker(ratio(num, den), options).expect("compatible options");
    let (mut fired, mut lost) = (0, 0);
    for millis in work {
        let firings = ticker.next().await;
        fired += firings.count;
        lost += firings.dropped + firings.coalesced;

        let report = ticker.report();
        let (account, batch) = (report.account, u128::from(report.batch));
        let elapsed = u128::from(now_ns(start) - account.slipped_ns);
        let due = elapsed * u128::from(num) / (u128::from(den) * 1_000_000_000);
        assert_eq!(u128::from(account.fired + account.dropped + account.coalesced), due / batch * batch, "{report:?}");
        assert!(account.fired == fired && account.dropped + account.coalesced >= lost, "{report:?}");
        // Work that does not yield: the clock advances while the process runs.
        tokio::time::advance(Duration::from_millis(millis)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fired_and_dropped_and_coalesced_are_what_was_due(
        overrun in policies(), num in 1_u64..=20_000, den in 1_u64..=7, tick_rate in 100_u64..=5_000, seed: u64,
        busy in prop::collection::vec(prop_oneof![3 => Just(0_u64), 1 => 0_u64..30], 1..60),
    ) {
        test::run(seed, move |ctx| work(ctx, num, den, tick_rate, overrun, busy));
    }
}
