//! Tasks: a value or the exit reason, and no process that outlives its task.

use std::future::pending;
use std::time::Duration;

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
