//! A runtime with two schedulers, and the result of one of its processes.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::{Config, Context, Runtime};

pub(crate) fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Runs a body as a process and returns its result.
pub(crate) fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    runtime: &Runtime,
    body: impl FnOnce(Context) -> F + Send + 'static,
) -> T {
    let (give, take) = mpsc::channel();
    let run = move |ctx: Context| {
        let body = body(ctx);
        async move { give.send(body.await).expect("the test waits") }
    };
    runtime.spawn(run).expect("there is room");
    take.recv_timeout(Duration::from_mins(2)).expect("the process answers")
}
