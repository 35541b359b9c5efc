//! Limiters on virtual time: even if waiters give up, no period admits more than the burst and the rate allow.

use std::time::Duration;

use rusm_runtime::counter::{AcquireError, KeyedLimiter, Limiter, Quota};
use rusm_runtime::test;
use tokio::time::{Instant, timeout};

const MS: Duration = Duration::from_millis(1);

#[test]
fn waiters_that_give_up_let_nobody_through_faster_than_the_rate() {
    test::explore(0..5, |ctx| async move {
        let (limiter, me, start) =
            (Limiter::new(Quota::per_sec(50.0, 1).expect("the quota is valid")), ctx.pid(), Instant::now());
        for _ in 0..200 {
            let limiter = limiter.clone();
            // Twice as many waiters as the rate admits; the queue becomes longer than their timeout.
            ctx.spawn(move |ctx| async move {
                let admitted = timeout(200 * MS, limiter.acquire(1)).await.is_ok();
                ctx.send(me, admitted.then(|| start.elapsed())).await;
            });
            ctx.sleep(10 * MS).await;
        }

        let mut admitted = Vec::new();
        for _ in 0..200 {
            admitted.extend(ctx.receive_of::<Option<Duration>>().await);
        }

        admitted.sort_unstable();
        assert!(admitted.len() > 50, "{}", admitted.len());
        // Sleepers may wake up to a millisecond off their instant, which does not admit more of them.
        let too_near = admitted.windows(3).filter(|three| three[2] < three[0] + 38 * MS).count();
        assert_eq!(too_near, 0, "{admitted:?}");
    });
}

#[test]
fn what_was_given_back_is_there_only_as_fast_as_the_rate() {
    test::run(1, |ctx| async move {
        let limiter = Limiter::new(Quota::per_sec(10.0, 1).expect("the quota is valid"));
        limiter.acquire(1).await.expect("the burst");
        let mut second = Box::pin(limiter.acquire(1));
        assert!(timeout(50 * MS, &mut second).await.is_err(), "due after 100 ms");

        drop(second);
        ctx.sleep(60 * MS).await;
        limiter.try_acquire(1).expect("the turn of the one that gave up");

        assert!(matches!(limiter.try_acquire(1), Err(AcquireError::Later { after }) if after > 50 * MS));
    });
}

#[test]
fn keys_fall_into_parts_of_which_each_may_be_full() {
    let limiter = KeyedLimiter::<u64>::new(Quota::per_sec(0.001, 1).expect("the quota is valid"), 64);

    let admitted = (0..1000).filter(|key| limiter.try_acquire(key, 1).is_ok()).count();

    assert_eq!((admitted, limiter.keys()), (64, 64));
    assert_eq!(
        limiter.try_acquire(&5000, 1).expect_err("all parts are full").to_string(),
        "no room for another key: all keys in its shard are in use (64 keys in 32 shards)"
    );
}
