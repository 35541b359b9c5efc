//! A durable queue of jobs: they survive the program, are retried, and are acknowledged together with what they write.
//!
//! `cargo run -p rusm-examples --bin job_queue [FILE]`. Kill it at any time and run it again: no job is lost, and none
//! counts twice.

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::future::ready;
use std::time::Duration;

use rusm::prelude::*;
use rusm::store::jobs::{Done, Job, Jobs, NewJob, Retry};
use rusm::store::{Bucket, Store, StoreConfig};

fn deliver(job: &Job, log: Bucket) -> Result<Done, String> {
    let name = String::from_utf8_lossy(job.payload()).into_owned();
    if name == "bob" && job.attempt() == 1 {
        return Err("bob is not at home".to_owned());
    }
    println!("{name} is served at attempt {}", job.attempt());
    Ok(Done::with(move |tx| tx.put(&log, name, "served")))
}

fn main() -> Result<(), ExitReason> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "jobs.redb".to_owned());
    let store = Store::open(&file, StoreConfig::default())?;
    let (jobs, log) = (Jobs::open(&store, "orders")?, store.bucket("log")?);
    let runtime = Runtime::start(Config::default())?;
    for name in ["ada", "bob", "cleo"] {
        jobs.blocking_enqueue(NewJob::new(name).unique(name))?;
    }
    runtime.run(move |ctx| async move {
        let worker = jobs.worker(move |_ctx, job| ready(deliver(&job, log.clone())));
        let retry = Retry { first: Duration::from_millis(50), ..Retry::default() };
        let tree = Supervisor::new(Strategy::OneForOne).child(worker.retry(retry).child("orders"));
        tree.start_link(&ctx).await?;
        while jobs.counts().pending > 0 {
            ctx.sleep(Duration::from_millis(5)).await;
        }
        println!("all orders are served");
        Ok(())
    })
}
