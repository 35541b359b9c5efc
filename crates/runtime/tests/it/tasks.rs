//! Tasks: a value or the exit reason, and no process that outlives its task.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_core::Stream;
use rusm_runtime::{Config, Context, ExitReason, Runtime};

use crate::ask::{ask, runtime};

#[test]
fn a_task_gives_its_value_or_the_reason_why_there_is_none() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        assert!(ctx.task(|ctx| async move { ctx.pid() }).unwrap().await.is_ok());
        let failed = ctx.task(|_| async { if true { panic!("no luck") } else { 1_u8 } }).unwrap().await;
        assert!(matches!(failed, Err(ExitReason::Panic(_))), "{failed:?}");
        let endless = ctx.task(|_| pending::<u8>()).unwrap();
        ctx.exit(endless.pid(), ExitReason::other("ended"));
        assert_eq!(endless.await, Err(ExitReason::other("ended")));
    });
}

#[test]
fn a_task_ends_with_its_future_and_with_its_owner() {
    let runtime = runtime();
    let (tell, told) = std::sync::mpsc::channel();
    let owner = runtime.spawn(move |ctx: Context| async move {
        drop(ctx.task(|_| pending::<u8>()).unwrap());
        let task = ctx.task(|_| pending::<u8>()).unwrap();
        tell.send(task.pid()).expect("the test waits");
        drop(task.await);
    });
    let task = told.recv().unwrap();
    let end = runtime.watch(task);
    runtime.exit(owner.unwrap(), ExitReason::other("owner"));
    assert_eq!(end.wait(), ExitReason::Killed);
    while runtime.process_count() > 0 {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_task_from_outside_gives_its_value_or_its_exit_reason_and_ends_with_its_future() {
    let runtime = runtime();

    let value = runtime.task(|ctx| async move { ctx.receive_of::<u8>().await }).unwrap();
    runtime.try_send(value.pid(), 7_u8).unwrap();
    assert_eq!(value.await, Ok(7));

    let failed = runtime.task(|_| async { if true { panic!("no luck") } else { 1_u8 } }).unwrap().await;
    assert!(matches!(failed, Err(ExitReason::Panic(_))), "{failed:?}");

    let dropped = runtime.task(|_| pending::<u8>()).unwrap();
    let end = runtime.watch(dropped.pid());
    drop(dropped);
    assert_eq!(end.await, ExitReason::Killed);
}

#[test]
fn a_thread_waits_for_the_value_of_a_task_or_its_exit_reason() {
    let runtime = runtime();
    let killed = runtime.task(|_| pending::<u8>()).unwrap();
    runtime.exit(killed.pid(), ExitReason::Killed);

    assert_eq!(killed.wait(), Err(ExitReason::Killed));
    assert_eq!(runtime.task(|_| async { 7_u8 }).unwrap().wait(), Ok(7));
}

#[test]
fn tasks_for_many_items_are_few_at_a_time_and_their_values_in_order() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let live = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let mut tasks = ctx.tasks(3, 0..20_u32, |ctx, item| {
            let (live, most) = (Arc::clone(&live), Arc::clone(&most));
            async move {
                most.fetch_max(live.fetch_add(1, SeqCst) + 1, SeqCst);
                for _ in 0..20 - item {
                    ctx.yield_now().await;
                }
                live.fetch_sub(1, SeqCst);
                if item == 7 { panic!("no luck") } else { item }
            }
        });
        let mut values = Vec::new();
        while let Some(value) = tasks.next().await {
            values.push(value.ok());
        }
        assert!(tasks.next().await.is_none());
        assert_eq!(values, (0..20).map(|item| (item != 7).then_some(item)).collect::<Vec<_>>());
        assert!(most.load(SeqCst) <= 3, "{most:?}");
    });
}

#[test]
fn tasks_that_are_dropped_end_and_those_without_room_say_so() {
    let runtime = Runtime::start(Config { process_limit: 3, ..Config::default() }).unwrap();
    ask(&runtime, |ctx| async move {
        let mut tasks = ctx.tasks(9, 0..3_u8, |_, item| async move {
            match item {
                0 => item,
                _ => pending().await,
            }
        });
        assert_eq!(tasks.next().await, Some(Ok(0)));
        drop(tasks);
        while ctx.runtime().process_count() > 1 {
            ctx.yield_now().await;
        }
        let mut tasks = ctx.tasks(9, 0..3_u8, |_, _| pending::<u8>());
        std::future::poll_fn(|cx| {
            let polled = std::pin::Pin::new(&mut tasks).poll_next(cx);
            assert!(polled.is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        let said = format!("{tasks:?}");
        assert!(said.contains("Err("), "{said}");
    });
    while runtime.process_count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_process_is_watched_from_its_start_and_a_runtime_ends_without_blocking() {
    let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() }).unwrap();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_, end) = runtime.spawn_monitored(|_| async { ExitReason::other("at once") }).unwrap();
    assert_eq!(outside.block_on(end), ExitReason::other("at once"));
    runtime.spawn(|_| pending::<()>()).unwrap();
    let report = outside.block_on(runtime.shutdown_async(Duration::from_mins(1)));
    assert_eq!((report.killed, report.stuck), (0, Vec::new()));
}

#[test]
fn a_tied_task_of_tokio_ends_with_its_process_and_returns_its_value_or_its_panic() {
    struct Told(std::sync::mpsc::Sender<&'static str>);
    impl Drop for Told {
        fn drop(&mut self) {
            _ = self.0.send("aborted");
        }
    }

    let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() }).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let owner = runtime.spawn(move |ctx: Context| async move {
        assert_eq!(ctx.tie(async { 7 }).await, Ok(7));
        let failed = ctx.tie(async { if true { panic!("no luck") } else { 1_u8 } }).await;
        assert!(matches!(failed, Err(ExitReason::Panic(_))), "{failed:?}");
        let alive = Told(tell.clone());
        let endless = ctx.tie(async move {
            let _alive = alive;
            pending::<()>().await;
        });
        tell.send("tied").expect("the test waits");
        drop(endless.await);
    });
    let long = Duration::from_mins(2);
    assert_eq!(told.recv_timeout(long), Ok("tied"));
    runtime.exit(owner.unwrap(), ExitReason::other("ended"));
    assert_eq!(told.recv_timeout(long), Ok("aborted"));
}
