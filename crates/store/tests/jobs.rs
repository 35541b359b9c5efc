//! Jobs: done once, retried, delayed, unique, and acknowledged with their writes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusm_runtime::{Config, Context, Down, ExitReason, Pid, Runtime};
use rusm_store::jobs::{
    DeadJob, DeadJobId, DeadJobIdError, Done, Enqueued, Job, JobCounts, Jobs, NewJob, PendingJob, Retry,
};
use rusm_store::{Clock, Durability, Store, StoreConfig, StoreError};
use tempfile::TempDir;

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, log_crashes: false, ..Config::default() }).unwrap()
}

fn store(home: &TempDir, clock: &Clock) -> Store {
    let config = StoreConfig { clock: clock.clone(), ..StoreConfig::default() };
    Store::open(home.path().join("jobs.redb"), config).unwrap()
}

const fn counts(pending: u64, dead: u64) -> JobCounts {
    JobCounts { pending, dead }
}

const AT_ONCE: Retry = Retry { attempts: 3, first: Duration::ZERO, longest: Duration::ZERO };

async fn until(ctx: &Context, mut condition: impl FnMut() -> bool + Send) {
    while !condition() {
        ctx.sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_job_is_done_once_and_its_writes_are_there_when_it_is_gone() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let (jobs, log) = (Jobs::open(&store, "mails").unwrap(), store.bucket("log").unwrap());
    for number in 0..50_u8 {
        assert_eq!(jobs.blocking_enqueue(NewJob::new(vec![number])), Ok(Enqueued::New));
    }
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    runtime.block_on(move |ctx| async move {
        let bucket = log.clone();
        let worker = jobs.worker(move |_, job: Job| {
            count.fetch_add(1, Ordering::Relaxed);
            let bucket = bucket.clone();
            async move { Ok::<_, String>(Done::with(move |tx| tx.put(&bucket, job.payload(), "done"))) }
        });
        worker.concurrency(4).start_link(&ctx).await.unwrap();
        until(&ctx, || jobs.counts() == counts(0, 0)).await;
        for number in 0..50_u8 {
            assert!(log.get([number]).await.unwrap().is_some());
        }
    });
    assert_eq!(runs.load(Ordering::Relaxed), 50);
}

#[test]
fn a_job_that_fails_or_crashes_runs_again_until_it_is_dead_and_can_be_revived() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "hard").unwrap();
    runtime.block_on(move |ctx| async move {
        let healed = Arc::new(AtomicU32::new(0));
        let (seen, health) = (ctx.pid(), Arc::clone(&healed));
        let worker = jobs.worker(move |ctx, job: Job| {
            let health = health.load(Ordering::Relaxed);
            async move {
                ctx.send(seen, job.attempt()).await;
                match job.attempt() {
                    _ if health > 0 => Ok(Done::new()),
                    1 => Err("no luck"),
                    2 => panic!("worse"),
                    _ => Ok(Done::with(|_| Err(StoreError::Closed))),
                }
            }
        });
        worker.retry(AT_ONCE).start_link(&ctx).await.unwrap();
        jobs.enqueue(NewJob::new("job")).await.unwrap();
        for attempt in 1..=3_u32 {
            assert_eq!(ctx.receive_of::<u32>().await, attempt);
        }
        until(&ctx, || jobs.counts() == counts(0, 1)).await;
        let error = StoreError::Closed.to_string();
        let dead = jobs.dead(10).await.unwrap();
        assert_eq!(dead, [DeadJob { id: dead[0].id, payload: "job".into(), attempts: 3, error }]);
        let outside = jobs.clone();
        assert_eq!(ctx.spawn_blocking(move || outside.blocking_dead(10)).await, Ok(dead));
        healed.store(1, Ordering::Relaxed);
        let outside = jobs.clone();
        assert_eq!(ctx.spawn_blocking(move || outside.blocking_revive(10)).await, Ok(1));
        assert_eq!(ctx.receive_of::<u32>().await, 1);
        until(&ctx, || jobs.counts() == counts(0, 0)).await;
    });
}

#[test]
fn a_dead_job_is_revived_once_and_not_beside_another_one_with_its_key() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "unique").unwrap();
    runtime.block_on(move |ctx| async move {
        let worker = jobs.worker(|_, _| async { Err::<Done, _>("no luck") });
        let worker = worker.retry(AT_ONCE).start_link(&ctx).await.unwrap();
        let job = |payload: &'static str| NewJob::new(payload).unique("key");
        jobs.enqueue(job("first")).await.unwrap();
        jobs.enqueue(NewJob::new("other")).await.unwrap();
        until(&ctx, || jobs.counts() == counts(0, 2)).await;
        ctx.unlink(worker);
        ctx.exit(worker, ExitReason::Killed);
        assert_eq!(jobs.enqueue(job("second")).await, Ok(Enqueued::New));

        let (other, me) = (jobs.clone(), ctx.pid());
        let beside = move |ctx: Context| async move {
            ctx.send(me, other.revive(10).await.unwrap()).await;
        };
        ctx.spawn(beside);
        let revived = jobs.revive(10).await.unwrap();

        assert_eq!(revived + ctx.receive_of::<usize>().await, 1, "only the other one, and once");
        assert_eq!(jobs.counts(), counts(2, 1));
        assert_eq!(jobs.enqueue(job("third")).await, Ok(Enqueued::Exists));
    });
}

#[test]
fn an_attempt_counts_from_its_start_and_the_last_one_is_not_made_again() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "poison").unwrap();
    jobs.blocking_enqueue(NewJob::new("job").every(Duration::from_hours(1))).unwrap();
    runtime.block_on(move |ctx| async move {
        for attempt in 1..=AT_ONCE.attempts {
            let seen = ctx.pid();
            let worker = jobs.worker(move |ctx, job: Job| async move {
                ctx.send(seen, job.attempt()).await;
                std::future::pending::<Result<Done, String>>().await
            });
            let worker = worker.retry(AT_ONCE).start_link(&ctx).await.unwrap();
            assert_eq!(ctx.receive_of::<u32>().await, attempt);
            // As at the end of a node: the attempt cannot be counted afterwards.
            ctx.unlink(worker);
            ctx.monitor(worker);
            ctx.exit(worker, ExitReason::Killed);
            // Its queue is free for the next worker.
            ctx.receive_of::<Down>().await;
        }
        let worker = jobs.worker(|_, _| async { Ok::<_, String>(Done::new()) });

        worker.retry(AT_ONCE).start_link(&ctx).await.unwrap();

        // Its next run is another job.
        until(&ctx, || jobs.counts() == counts(1, 1)).await;
        let error = "the worker or the node ended during the last attempt".to_owned();
        let dead = jobs.dead(10).await.unwrap();
        assert_eq!(dead, [DeadJob { id: dead[0].id, payload: "job".into(), attempts: AT_ONCE.attempts, error }]);
    });
}

#[test]
fn an_orderly_stop_waits_for_the_jobs_that_run_and_starts_no_more() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "slow").unwrap();
    for name in ["a", "b"] {
        jobs.blocking_enqueue(NewJob::new(name)).unwrap();
    }
    runtime.block_on(move |ctx| async move {
        let test = ctx.pid();
        let worker = jobs.worker(move |ctx, _job| async move {
            ctx.send(test, ctx.pid()).await;
            ctx.receive_of::<()>().await;
            Ok::<_, String>(Done::new())
        });
        let worker = worker.concurrency(1).start_link(&ctx).await.unwrap();
        let job = ctx.receive_of::<Pid>().await;
        ctx.unlink(worker);
        let end = ctx.monitor(worker);

        ctx.exit(worker, ExitReason::Shutdown);
        ctx.sleep(Duration::from_millis(20)).await;
        assert!(ctx.runtime().is_alive(worker) && ctx.runtime().is_alive(job));
        ctx.send(job, ()).await;

        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (end, ExitReason::Shutdown));
        assert_eq!(jobs.counts(), counts(1, 0));
    });
}

#[test]
fn a_dead_job_is_enqueued_again_or_discarded_by_its_id() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "queue").unwrap();
    runtime.block_on(move |ctx| async move {
        let worker = jobs.worker(|_, _| async { Err::<Done, _>("no") });
        let worker = worker.retry(Retry { attempts: 1, ..AT_ONCE }).start_link(&ctx).await.unwrap();
        for name in ["a", "b", "c"] {
            jobs.enqueue(NewJob::new(name)).await.unwrap();
        }
        until(&ctx, || jobs.counts() == counts(0, 3)).await;
        ctx.unlink(worker);
        ctx.exit(worker, ExitReason::Killed);

        let dead = jobs.dead(10).await.unwrap();
        let id = |name: &str| dead.iter().find(|job| job.payload == name).unwrap().id;
        let (a, b, c) = (id("a"), id("b").to_string().parse().unwrap(), id("c"));
        let outside = jobs.clone();
        let ids = (a, c);
        let blocking = move || (outside.blocking_discard(ids.0), outside.blocking_revive_one(ids.1));
        assert_eq!(jobs.revive_one(b).await, Ok(true));
        assert_eq!(ctx.spawn_blocking(blocking).await, (Ok(true), Ok(true)));

        assert_eq!(jobs.counts(), counts(2, 0));
        assert_eq!((jobs.discard(a).await, jobs.revive_one(b).await), (Ok(false), Ok(false)));
        for text in ["", "7", "-7", "7-", "a-b", "1-2-3"] {
            assert_eq!(text.parse::<DeadJobId>(), Err(DeadJobIdError), "{text}");
        }
    });
}

#[test]
fn a_job_that_can_never_succeed_is_dead_at_the_first_attempt() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "letters").unwrap();
    runtime.block_on(move |ctx| async move {
        let worker = jobs.worker(|_, _| async { Ok::<_, String>(Done::dead("no address")) }).retry(AT_ONCE);
        worker.start_link(&ctx).await.unwrap();
        jobs.enqueue(NewJob::new("letter").unique("a")).await.unwrap();
        until(&ctx, || jobs.counts() == counts(0, 1)).await;
        let dead = jobs.dead(2).await.unwrap();
        let error = "no address".to_owned();
        assert_eq!(dead, [DeadJob { id: dead[0].id, payload: "letter".into(), attempts: 1, error }]);
        assert_eq!(jobs.enqueue(NewJob::new("again").unique("a")).await, Ok(Enqueued::New));
    });
}

#[test]
fn a_repeated_job_that_can_never_succeed_runs_again_only_once_revived() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "letters").unwrap();
    runtime.block_on(move |ctx| async move {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let worker = jobs.worker(move |_, _| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            async move { Ok::<_, String>(if is_first { Done::dead("no address") } else { Done::new() }) }
        });
        worker.start_link(&ctx).await.unwrap();
        jobs.enqueue(NewJob::new("letter").every(Duration::from_mins(1)).unique("a")).await.unwrap();
        until(&ctx, || jobs.counts() == counts(0, 1)).await;

        assert_eq!(jobs.revive(1).await, Ok(1));
        // It has run, and waits for its next run.
        until(&ctx, || runs.load(Ordering::Relaxed) == 2 && jobs.counts() == counts(1, 0)).await;
    });
}

#[test]
fn pending_jobs_are_listed_in_the_order_of_their_times() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let jobs = Jobs::open(&store(&home, &clock), "mails").unwrap();
    jobs.blocking_enqueue(NewJob::new("later").after(Duration::from_mins(1)).unique("l")).unwrap();
    jobs.blocking_enqueue(NewJob::new("now")).unwrap();

    let pending = jobs.blocking_pending(9).unwrap();
    let now = pending[0].due;
    let of = |payload: &'static str, unique: &'static str, due| PendingJob {
        payload: payload.into(),
        unique: unique.into(),
        attempts: 0,
        due,
    };
    assert_eq!(pending, [of("now", "", now), of("later", "l", now + Duration::from_mins(1))]);
    assert_eq!(jobs.blocking_pending(1).unwrap(), pending[..1]);
    assert_eq!((jobs.blocking_pending(0), jobs.blocking_pending(usize::MAX)), (Ok(Vec::new()), Ok(pending)));
    assert_eq!((jobs.blocking_dead(0), jobs.blocking_dead(usize::MAX)), (Ok(Vec::new()), Ok(Vec::new())));
}

#[test]
fn a_unique_key_that_is_too_long_is_an_error() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let jobs = Jobs::open(&store(&home, &clock), "long").unwrap();

    let added = |bytes| jobs.blocking_enqueue(NewJob::new("job").unique("k".repeat(bytes)));

    assert_eq!(added(1_024), Ok(Enqueued::New));
    assert_eq!(added(1_025), Err(StoreError::Key { bytes: 1_025, max: 1_024 }));
}

#[test]
fn a_delayed_job_waits_for_its_time_and_an_interval_comes_again() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "later").unwrap();
    runtime.block_on(move |ctx| async move {
        let seen = ctx.pid();
        let worker = jobs.worker(move |ctx, job: Job| async move {
            ctx.send(seen, job.payload().clone()).await;
            Ok::<_, String>(Done::new())
        });
        worker.start_link(&ctx).await.unwrap();
        jobs.enqueue(NewJob::new("later").after(Duration::from_mins(1))).await.unwrap();
        let hourly = NewJob::new("hourly").every(Duration::from_hours(1)).unique("hourly");
        jobs.enqueue(hourly.clone()).await.unwrap();
        let next = async || ctx.receive_of::<bytes::Bytes>().await;
        assert_eq!(next().await, "hourly");
        clock.advance(Duration::from_mins(1));
        jobs.wake();
        assert_eq!(next().await, "later");
        until(&ctx, || jobs.counts() == counts(1, 0)).await;
        assert_eq!(jobs.enqueue(hourly).await, Ok(Enqueued::Exists));
        clock.advance(Duration::from_hours(1));
        jobs.wake();
        assert_eq!(next().await, "hourly");
    });
}

#[test]
fn a_crontab_is_followed_in_its_time_zone_and_missed_times_are_made_up_for_once() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "crontab").unwrap();
    let (failing, fails) = (Arc::new(AtomicU32::new(0)), AT_ONCE.attempts);
    // 1970-01-01 was a Thursday; nine o'clock in Paris was eight o'clock in UTC.
    let greeting = NewJob::new("greeting").crontab("0 9 * * MON-FRI Europe/Paris").unwrap().unique("greeting");
    runtime.block_on(move |ctx| async move {
        let (seen, failing) = (ctx.pid(), Arc::clone(&failing));
        let (tested, advanced) = (jobs.clone(), clock.clone());
        let worker = jobs.worker({
            let failing = Arc::clone(&failing);
            move |ctx, job: Job| {
                let fails = failing.load(Ordering::Relaxed) > 0;
                async move {
                    ctx.send(seen, job.attempt()).await;
                    if fails { Err("no luck") } else { Ok(Done::new()) }
                }
            }
        });
        worker.retry(AT_ONCE).start_link(&ctx).await.unwrap();
        jobs.enqueue(greeting.clone()).await.unwrap();
        let advance = |hours: u64| {
            advanced.advance(Duration::from_hours(hours));
            tested.wake();
        };
        let runs = async |attempts: u32| {
            for attempt in 1..=attempts {
                assert_eq!(ctx.receive_of::<u32>().await, attempt);
            }
            until(&ctx, || jobs.counts().pending == 1).await;
            assert!(ctx.receive_timeout(Duration::from_millis(20)).await.is_none());
        };

        advance(7);
        assert!(ctx.receive_timeout(Duration::from_millis(20)).await.is_none(), "seven o'clock in UTC");
        advance(1);
        runs(1).await;
        // Monday, noon: one run for Friday and Monday.
        advance(4 + 4 * 24);
        runs(1).await;
        assert_eq!(jobs.enqueue(greeting).await, Ok(Enqueued::Exists));
        // A run that fails for good is dead; the next one comes nevertheless.
        failing.store(1, Ordering::Relaxed);
        advance(24);
        runs(fails).await;
        failing.store(0, Ordering::Relaxed);
        advance(24);
        runs(1).await;
        assert_eq!(jobs.counts(), counts(1, 1));
        assert_eq!(jobs.revive(1).await, Ok(1));
        assert_eq!(ctx.receive_of::<u32>().await, 1);
        until(&ctx, || jobs.counts() == counts(1, 0)).await;
    });
}

#[test]
fn a_crontab_that_is_not_valid_or_never_comes_is_refused_in_one_line() {
    let refused = |expression: &str| NewJob::new("").crontab(expression).unwrap_err().to_string();
    assert_eq!(refused("0 25 * * *"), "crontab \"0 25 * * *\": value must be in range 0..=23; found 25");
    assert_eq!(
        refused("0 9 * * 1 Mars/Olympus"),
        "crontab \"0 9 * * 1 Mars/Olympus\": failed to find timezone Mars/Olympus"
    );
    assert_eq!(refused("0 0 30 2 *"), "crontab \"0 0 30 2 *\": it matches no time of 48 years");
    assert_eq!(refused("* *\n\u{1b}"), "crontab \"* *\\n\\u{1b}\": malformed expression");
    assert!(refused(&"1,".repeat(200)).ends_with("it is longer than 255 bytes"));
}

#[test]
fn a_unique_job_is_there_once_and_a_transaction_adds_a_job_or_nothing() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let store = store(&home, &clock);
    let jobs = Jobs::open(&store, "unique").unwrap();
    assert_eq!(jobs.blocking_enqueue(NewJob::new("a").unique("key")), Ok(Enqueued::New));
    assert_eq!(jobs.blocking_enqueue(NewJob::new("b").unique("key")), Ok(Enqueued::Exists));
    let owner = jobs.clone();
    let refused = store.transaction(move |tx| {
        owner.enqueue_in(tx, &NewJob::new("c"))?;
        Err::<(), StoreError>(StoreError::Closed)
    });
    assert!(refused.wait().is_err());
    assert_eq!(jobs.counts(), counts(1, 0));
}

#[test]
fn a_job_that_runs_when_its_worker_ends_runs_again() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    let jobs = Jobs::open(&store, "again").unwrap();
    jobs.blocking_enqueue(NewJob::new("job")).unwrap();
    runtime.block_on(move |ctx| async move {
        ctx.trap_exits(true);
        let seen = ctx.pid();
        let worker = jobs.worker(move |ctx, _| async move {
            ctx.send(seen, ctx.pid()).await;
            ctx.receive_of::<()>().await;
            Ok::<_, String>(Done::new())
        });
        let first = worker.clone().start_link(&ctx).await.unwrap();
        let job = ctx.receive_of::<rusm_runtime::Pid>().await;
        let end = ctx.monitor(job);
        ctx.exit(first, ExitReason::Killed);
        assert_eq!(ctx.receive_of::<rusm_runtime::Down>().await.reference, end, "the job ends with its worker");
        worker.start_link(&ctx).await.unwrap();
        let job = ctx.receive_of::<rusm_runtime::Pid>().await;
        ctx.send(job, ()).await;
        until(&ctx, || jobs.counts() == counts(0, 0)).await;
    });
}

#[test]
fn a_worker_may_run_any_number_of_jobs_and_any_number_of_dead_ones_is_revived() {
    const JOBS: u64 = 2_600;
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let config = StoreConfig { clock: clock.clone(), durability: Durability::None, ..StoreConfig::default() };
    let (store, runtime) = (Store::open(home.path().join("jobs.redb"), config).unwrap(), runtime());
    let jobs = Jobs::open(&store, "mails").unwrap();
    let queue = jobs.clone();
    let enqueued = store.transaction(move |tx| {
        for _ in 0..JOBS {
            queue.enqueue_in(tx, &NewJob::new("letter"))?;
        }
        Ok::<_, StoreError>(())
    });
    enqueued.wait().unwrap();
    runtime.block_on(move |ctx| async move {
        let failing = jobs.worker(|_, _| async { Err::<Done, _>("no stamp") }).retry(Retry { attempts: 1, ..AT_ONCE });
        let worker = failing.concurrency(usize::MAX).start_link(&ctx).await.unwrap();
        until(&ctx, || jobs.counts() == counts(0, JOBS)).await;
        ctx.unlink(worker);
        ctx.exit(worker, ExitReason::Shutdown);
        assert_eq!(jobs.revive(JOBS as usize + 9).await, Ok(JOBS as usize));
        assert_eq!(jobs.counts(), counts(JOBS, 0));
    });
}

#[test]
fn a_queue_has_one_worker_which_is_woken_by_all_that_have_opened_it() {
    let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
    let (store, runtime) = (store(&home, &clock), runtime());
    runtime.block_on(move |ctx| async move {
        // The end of the refused worker reaches this process through their link.
        ctx.trap_exits(true);
        let (jobs, other) = (Jobs::open(&store, "mails").unwrap(), Jobs::open(&store, "mails").unwrap());
        let worker = jobs.worker(|_, _| async { Ok::<_, String>(Done::new()) });
        let first = worker.clone().start_link(&ctx).await.unwrap();

        let refused = worker.clone().start_link(&ctx).await.unwrap_err();
        assert!(refused.to_string().contains("queue \"mails\" has a worker already"), "{refused}");

        // The worker looks by itself each second, so a hundred jobs one after the other would take long without a wake.
        for number in 0..100_u8 {
            other.enqueue(NewJob::new(vec![number])).await.unwrap();
            until(&ctx, || jobs.counts().pending == 0).await;
        }
        let end = ctx.monitor(first);
        ctx.exit(first, ExitReason::Shutdown);
        assert_eq!(ctx.receive_of::<Down>().await.reference, end);
        worker.start_link(&ctx).await.unwrap();
    });
}

#[test]
fn a_dead_job_has_a_line_without_a_subscriber() {
    const PROGRAM: &str = "RUSM_TEST_DEAD_JOB";
    if std::env::var_os(PROGRAM).is_some() {
        let (home, clock) = (TempDir::new().unwrap(), Clock::manual());
        let (store, runtime) = (store(&home, &clock), runtime());
        let jobs = Jobs::open(&store, "mail").unwrap();
        return runtime.block_on(move |ctx| async move {
            let worker = jobs.worker(|_, _| async { Ok::<_, String>(Done::dead("no\naddress")) }).retry(AT_ONCE);
            worker.start_link(&ctx).await.unwrap();
            jobs.enqueue(NewJob::new("job")).await.unwrap();
            until(&ctx, || jobs.counts() == counts(0, 1)).await;
        });
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_dead_job_has_a_line_without_a_subscriber", "--nocapture"]).env(PROGRAM, "1");
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("job ")).unwrap_or_default();
    assert!(
        output.status.success() && line.ends_with(r" of queue mail is dead after attempt 1: no\naddress"),
        "{text}"
    );
}
