//! Pipelines: every message is acknowledged at the end or comes again, and demand bounds what is on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream;
use parking_lot::Mutex;
use rusm_runtime::pipeline::{Pipeline, Stage};
use rusm_runtime::supervisor::{ChildState, SupervisorRef};
use rusm_runtime::topic::{DeadLetter, Lease, Message, Overflow, Subscription, SubscriptionConfig, Topic};
use rusm_runtime::{CallError, Config, ExitReason, Runtime, test};

use super::eventually::eventually;

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, log_crashes: false, ..Config::default() }).expect("two schedulers start")
}

fn number(lease: &Lease) -> u64 {
    std::str::from_utf8(lease.message.payload()).unwrap().parse().unwrap()
}

fn work_of(topic: &Topic) -> Subscription {
    topic.create_subscription("work", SubscriptionConfig::default()).unwrap()
}

fn publish(topic: &Topic, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        topic.blocking_publish(Message::new(number.to_string())).unwrap();
    }
}

fn start<T: Send + 'static>(runtime: &Runtime, pipeline: Pipeline<T>) -> SupervisorRef {
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(pipeline.start(runtime)).unwrap()
}

#[test]
fn each_message_passes_all_stages_and_is_acknowledged_at_the_end() {
    let runtime = runtime();
    let topic = runtime.topics().create("numbers").unwrap();
    let work = work_of(&topic);
    let (sum, batches) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (total, sizes) = (Arc::clone(&sum), Arc::clone(&batches));
    let pipeline = Pipeline::from_subscription("source", &work)
        .stage("double", Stage::workers(4), |lease| async move { Ok::<_, ExitReason>(number(&lease) * 2) })
        .batches("collect", 100, Duration::from_hours(1))
        .stage("add", Stage::workers(2), move |numbers: Vec<u64>| {
            total.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
            sizes.lock().push(numbers.len());
            async { Ok::<_, ExitReason>(()) }
        });
    start(&runtime, pipeline);

    publish(&topic, 0..5_000);

    eventually("all are acknowledged", || work.account().acked == 5_000);
    assert_eq!(sum.load(Ordering::Relaxed), 2 * (0..5_000).sum::<u64>());
    assert_eq!(*batches.lock(), [100; 50]);
    assert!(work.account().is_exact());
}

#[test]
fn a_batch_that_does_not_fill_up_is_passed_on_after_its_delay() {
    let runtime = runtime();
    let topic = runtime.topics().create("numbers").unwrap();
    let work = work_of(&topic);
    let pipeline = Pipeline::from_subscription("source", &work)
        .stage("number", Stage::workers(1), |lease| async move { Ok::<_, ExitReason>(number(&lease)) })
        .batches("collect", 100, Duration::from_millis(2))
        .stage("check", Stage::workers(1), |numbers: Vec<u64>| async move {
            if numbers == [7] { Ok(()) } else { Err(ExitReason::other(format_args!("{numbers:?}"))) }
        });
    start(&runtime, pipeline);

    publish(&topic, [7]);

    eventually("it is acknowledged", || work.account().acked == 1);
}

#[test]
fn an_item_that_fails_comes_again_and_becomes_a_dead_letter() {
    let runtime = runtime();
    let topics = runtime.topics();
    let (topic, failed) = (topics.create("numbers").unwrap(), topics.create("failed").unwrap());
    let mut failures = failed.subscribe(Overflow::Block);
    let dead_letter = Some(DeadLetter { topic: "failed".to_owned(), attempts_max: 3 });
    let work =
        topic.create_subscription("work", SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() }).unwrap();
    let pipeline = Pipeline::from_subscription("source", &work).stage("check", Stage::workers(2), |lease| async move {
        match number(&lease) {
            // Fails once.
            5 if lease.attempt == 1 => Err(ExitReason::other("not yet")),
            6 => Err(ExitReason::other("never")),
            _ => Ok(()),
        }
    });
    start(&runtime, pipeline);
    publish(&topic, 0..10);

    eventually("nine are acknowledged", || work.account().acked == 9);
    eventually("one is a dead letter", || work.account().dead_lettered == 1);
    let dead = failures.blocking_next().unwrap();
    assert_eq!((dead.payload().as_ref(), dead.attribute("dead-letter-attempts")), (&b"6"[..], Some("3")));
}

#[test]
fn the_end_of_a_pipeline_counts_an_attempt_only_of_what_was_handled() {
    let runtime = runtime();
    let topics = runtime.topics();
    let (topic, _failed) = (topics.create("numbers").unwrap(), topics.create("failed").unwrap());
    let dead_letter = Some(DeadLetter { topic: "failed".to_owned(), attempts_max: 1 });
    let work =
        topic.create_subscription("work", SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() }).unwrap();
    let (passed, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (passing, beginning) = (Arc::clone(&passed), Arc::clone(&begun));
    let pipeline = Pipeline::from_subscription("source", &work)
        .stage("pass", Stage::workers(1), move |lease| {
            passing.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, ExitReason>(lease) }
        })
        .stage("hold", Stage::workers(1), move |_lease| {
            beginning.store(true, Ordering::Relaxed);
            std::future::pending::<Result<(), ExitReason>>()
        });
    let tree = start(&runtime, pipeline);
    publish(&topic, 0..3);
    eventually("one is handled, and the others wait", || {
        begun.load(Ordering::Relaxed) && passed.load(Ordering::Relaxed) == 3
    });

    let end = runtime.watch(tree.pid());
    runtime.exit(tree.pid(), ExitReason::Shutdown);
    end.wait();

    eventually("the one that was handled is a dead letter", || work.account().dead_lettered == 1);
    let mut consumer = work.consumer();
    let again: Vec<_> = (0..2).map(|_| consumer.blocking_next().unwrap()).collect();
    assert_eq!(again.iter().map(|lease| (number(lease), lease.attempt)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    assert_eq!(work.account().dead_lettered, 1);
}

#[test]
fn the_crash_of_a_worker_loses_nothing_and_counts_no_attempt_of_the_items_that_waited() {
    let runtime = runtime();
    let topics = runtime.topics();
    let (topic, _failed) = (topics.create("numbers").unwrap(), topics.create("failed").unwrap());
    let dead_letter = Some(DeadLetter { topic: "failed".to_owned(), attempts_max: 4 });
    let work =
        topic.create_subscription("work", SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() }).unwrap();
    let attempts = Arc::new(Mutex::new(vec![0; 200]));
    let seen = Arc::clone(&attempts);
    let pipeline = Pipeline::from_subscription("source", &work).stage("check", Stage::default(), move |lease| {
        let number = number(&lease);
        seen.lock()[number as usize] = lease.attempt;
        async move {
            assert!(number != 50, "a poisonous item");
            Ok::<(), ExitReason>(())
        }
    });
    start(&runtime, pipeline);
    publish(&topic, 0..200);

    eventually("the others are acknowledged", || work.account().acked == 199);
    eventually("the poisonous one is a dead letter", || work.account().dead_lettered == 1);
    let attempts = attempts.lock();
    let expected: Vec<u32> = (0..200).map(|number| if number == 50 { 4 } else { 1 }).collect();
    assert_eq!(*attempts, expected);
}

#[test]
fn demand_bounds_what_is_on_its_way() {
    const WORKERS: usize = 3;
    const DEMAND: u32 = 5;
    let runtime = runtime();
    let topic = runtime.topics().create("numbers").unwrap();
    let work = work_of(&topic);
    let (open, at_once) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (gate, inside) = (Arc::clone(&open), Arc::clone(&at_once));
    let stage = Stage { workers: WORKERS, demand: DEMAND };
    let pipeline = Pipeline::from_subscription("source", &work).stage("wait", stage, move |_| {
        let gate = Arc::clone(&gate);
        inside.fetch_add(1, Ordering::SeqCst);
        async move {
            while !gate.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok::<(), ExitReason>(())
        }
    });
    start(&runtime, pipeline);
    publish(&topic, 0..1_000);

    // Each worker handles one item and has asked for five more; the source holds one that is not asked for.
    let bound = WORKERS as u64 * u64::from(DEMAND + 1) + 1;
    eventually("the stage is full", || work.account().outstanding == bound);
    assert_eq!(at_once.load(Ordering::SeqCst), WORKERS);
    assert_eq!(work.account().backlog, 1_000 - bound);

    open.store(true, Ordering::SeqCst);
    eventually("all are acknowledged", || work.account().acked == 1_000);
}

#[test]
fn a_stream_is_a_source_without_acknowledgements() {
    let runtime = runtime();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    let pipeline =
        Pipeline::from_stream("count", || stream::iter(0..100_u64)).stage("keep", Stage::default(), move |number| {
            all.lock().push(number);
            async { Ok::<(), ExitReason>(()) }
        });
    start(&runtime, pipeline);
    eventually("all are seen", || seen.lock().len() == 100);
    assert_eq!(*seen.lock(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_call_to_the_source_of_a_pipeline_is_dropped_at_once() {
    let runtime = runtime();
    runtime.block_on(|ctx| async move {
        let pipeline =
            Pipeline::from_stream("source", stream::pending::<u64>)
                .stage("keep", Stage::default(), |_| async { Ok::<(), ExitReason>(()) });
        let stages = pipeline.start_link(&ctx).await.unwrap();
        let children = stages.which_children(&ctx).await.unwrap();
        let source = children.iter().find(|child| &*child.id == "source").unwrap();
        let ChildState::Running(source) = source.state else { unreachable!("it waits for the stream") };
        let answer = ctx.call::<u8, u8>(source, 1, Duration::MAX).await;
        assert_eq!(answer, Err(CallError::Dropped { to: source }));
    });
}

#[test]
fn in_any_schedule_with_crashes_and_errors_each_message_is_acknowledged_once() {
    test::explore(0..60, |ctx| async move {
        let topic = ctx.topics().create("numbers").unwrap();
        let work = work_of(&topic);
        let done = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&done);
        let pipeline = Pipeline::from_subscription("source", &work)
            .stage("risky", Stage { workers: 2, demand: 2 }, |lease| async move {
                let number = number(&lease);
                assert!(number % 7 != 3 || lease.attempt > 1, "crashes at the first attempt");
                if number % 5 == 1 && lease.attempt == 1 { Err(ExitReason::other("fails")) } else { Ok(number) }
            })
            .batches("collect", 4, Duration::from_millis(10))
            .stage("keep", Stage { workers: 2, demand: 1 }, move |numbers: Vec<u64>| {
                all.lock().extend(numbers);
                async { Ok::<(), ExitReason>(()) }
            });
        pipeline.start_link(&ctx).await.unwrap();
        for number in 0..30_u64 {
            topic.publish(Message::new(number.to_string())).await.unwrap();
        }
        while work.account().acked < 30 {
            ctx.sleep(Duration::from_millis(5)).await;
        }
        let mut done = done.lock().clone();
        done.sort_unstable();
        assert_eq!(done, (0..30).collect::<Vec<_>>());
        assert!(work.account().is_exact());
    });
}

#[test]
fn a_worker_that_takes_long_holds_up_only_what_waits_for_it() {
    let runtime = runtime();
    let topic = runtime.topics().create("numbers").unwrap();
    let work = work_of(&topic);
    let stage = Stage { workers: 3, demand: 2 };
    let pipeline = Pipeline::from_subscription("source", &work).stage("work", stage, |lease| async move {
        if number(&lease) == 0 {
            std::future::pending::<()>().await;
        }
        Ok::<(), ExitReason>(())
    });
    start(&runtime, pipeline);
    publish(&topic, 0..500);

    // One worker never comes back; at most the demand of the stage waits for it.
    eventually("the others are acknowledged", || work.account().acked >= 500 - 1 - 6);
}
