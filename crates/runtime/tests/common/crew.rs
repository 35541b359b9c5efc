//! Processes that a test waits for.

use std::sync::Arc;

use rusm_runtime::{Context, Runtime};

/// Runs `count` processes and waits until all have completed.
pub(crate) fn crew<F>(runtime: &Runtime, count: usize, body: impl Fn(usize, Context) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tell, told) = std::sync::mpsc::channel();
    for worker in 0..count {
        let (tell, body) = (tell.clone(), body.clone());
        let body = move |ctx| async move {
            body(worker, ctx).await;
            tell.send(()).expect("the test waits");
        };
        runtime.spawn(body).expect("there is room");
    }
    drop(tell);
    assert_eq!(told.iter().count(), count, "all processes must complete");
}

/// Runs a process and waits until it has completed.
pub(crate) fn run<F>(runtime: &Runtime, body: impl FnOnce(Context) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let body = parking_lot::Mutex::new(Some(body));
    let body = Arc::new(body);
    crew(runtime, 1, move |_, ctx| {
        let body = body.lock().take().expect("there is one process");
        body(ctx)
    });
}
