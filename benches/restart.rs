//! Cost of a restart by a supervisor, of a down message and of a call: operations per second, and CPU time of the whole
//! process per operation.
//!
//! ```sh
//! cargo run --release -p rusm-benches --bin restart        # one scheduler for each core
//! cargo run --release -p rusm-benches --bin restart 1      # one scheduler
//! cargo run --release -p rusm-benches --bin restart 1 "call, 1" 1   # lines with these words in their name, once
//! ```
//!
//! A restart is measured from the first instruction of a child to that of its successor, so it includes the whole life
//! of the child. Each line shows the median rate and the median CPU time of its rounds; the rounds of all lines
//! alternate.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusm_benches::{cpu_ns, median};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Config, Context, Down, ExitReason, Request, Runtime};

/// Number of rounds of each line; the third argument overrides it.
const ROUNDS: usize = 6;

/// The way in which a child ends.
#[derive(Clone, Copy)]
enum Cause {
    Exit,
    Panic,
}

/// One line of the result.
struct Line {
    name: &'static str,
    run: fn(&Runtime) -> u64,
    /// Operations per second and CPU nanoseconds per operation, for each round.
    results: Vec<(f64, f64)>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schedulers = match std::env::args().nth(1) {
        Some(schedulers) => schedulers.parse()?,
        None => Config::default().schedulers,
    };
    let words = std::env::args().nth(2).unwrap_or_default();
    let rounds = std::env::args().nth(3).map_or(Ok(ROUNDS), |rounds| rounds.parse())?.max(1);
    let line = |name, run| Line { name, run, results: Vec::new() };
    let mut lines = vec![
        line("restart, 1 supervisor, exit", |runtime| restarts(runtime, 1, 400_000, Cause::Exit)),
        line("restart, 16 supervisors, exit", |runtime| restarts(runtime, 16, 50_000, Cause::Exit)),
        line("restart, 1 supervisor, panic", |runtime| restarts(runtime, 1, 60_000, Cause::Panic)),
        line("restart, 16 supervisors, panic", |runtime| restarts(runtime, 16, 5_000, Cause::Panic)),
        line("down of a monitored child", |runtime| downs(runtime, 400_000)),
        line("call, 1 pair", |runtime| calls(runtime, 1, 400_000)),
        line("call, 16 pairs", |runtime| calls(runtime, 16, 50_000)),
        line("send and answer, 1 pair", |runtime| hops(runtime, 400_000)),
        line("spawn and end", |runtime| spawns(runtime, 1_000_000)),
    ];
    lines.retain(|line| line.name.contains(&words));
    for _ in 0..rounds {
        for line in &mut lines {
            let runtime = Runtime::start(Config { schedulers, ..Config::default() })?;
            let (began, before) = (Instant::now(), cpu_ns());
            let operations = (line.run)(&runtime) as f64;
            let (took, spent_ns) = (began.elapsed().as_secs_f64(), cpu_ns() - before);
            line.results.push((operations / took, spent_ns / operations));
        }
    }
    println!("{schedulers} schedulers, median of {rounds}");
    for line in &mut lines {
        let per_sec = median(line.results.iter().map(|result| result.0).collect());
        let ns = median(line.results.iter().map(|result| result.1).collect());
        println!("{:<32} {:>12.0} /s {:>9.0} ns CPU", line.name, per_sec, ns);
    }
    Ok(())
}

/// Ends the child of each supervisor until it was restarted `each` times.
fn restarts(runtime: &Runtime, supervisors: u64, each: u64, cause: Cause) -> u64 {
    let outside = tokio::runtime::Builder::new_current_thread().build().expect("it builds");
    let (done, over) = std::sync::mpsc::channel();
    for _ in 0..supervisors {
        let (starts, done) = (Arc::new(AtomicU64::new(0)), done.clone());
        let why = ExitReason::other("crash");
        let dying = ChildSpec::new("dying", move |_: Context| {
            let last = starts.fetch_add(1, Ordering::Relaxed) == each;
            if last {
                done.send(()).expect("the receiver waits");
            }
            let why = why.clone();
            async move {
                match cause {
                    _ if last => pending().await,
                    Cause::Exit => why,
                    Cause::Panic => panic!("crash"),
                }
            }
        });
        let mut supervisor = Supervisor::new(Strategy::OneForOne).intensity(u32::MAX, Duration::from_millis(1));
        for id in ["a", "b", "c"] {
            supervisor = supervisor.child(ChildSpec::new(id, |_| pending::<()>()));
        }
        outside.block_on(supervisor.child(dying).start(runtime)).expect("all children start");
    }
    for _ in 0..supervisors {
        over.recv().expect("each supervisor restarts its child");
    }
    supervisors * each
}

/// Spawns monitored children that end at once, a hundred at a time, until the last down message was received.
fn downs(runtime: &Runtime, each: u64) -> u64 {
    let body = move |ctx: Context| async move {
        for _ in 0..each / 100 {
            for _ in 0..100 {
                ctx.spawn_monitor(|_| async {}).expect("there is room");
            }
            for _ in 0..100 {
                ctx.receive_of::<Down>().await;
            }
        }
    };
    let watcher = runtime.spawn(body).expect("there is room");
    assert_eq!(runtime.watch(watcher).wait(), ExitReason::Normal);
    each
}

/// Makes calls between pairs of processes.
fn calls(runtime: &Runtime, pairs: u64, each: u64) -> u64 {
    let ends: Vec<_> = (0..pairs)
        .map(|_| {
            let there = runtime.spawn(|ctx| async move {
                loop {
                    let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
                    reply.send(&ctx, request + 1);
                }
            });
            let callee = there.expect("there is room");
            let here = runtime.spawn(move |ctx| async move {
                for number in 0..each {
                    let reply = ctx.call(callee, number, Duration::from_secs(5)).await;
                    assert_eq!(reply, Ok(number + 1));
                }
                ctx.exit(callee, ExitReason::Shutdown);
            });
            runtime.watch(here.expect("there is room"))
        })
        .collect();
    for end in ends {
        assert_eq!(end.wait(), ExitReason::Normal);
    }
    pairs * each
}

/// Makes the same round trips with two plain messages.
fn hops(runtime: &Runtime, each: u64) -> u64 {
    let there = runtime.spawn(|ctx| async move {
        loop {
            let (from, number) = ctx.receive_of::<(rusm_runtime::Pid, u64)>().await;
            ctx.send(from, number + 1).await;
        }
    });
    let there = there.expect("there is room");
    let here = runtime.spawn(move |ctx| async move {
        for number in 0..each {
            ctx.send(there, (ctx.pid(), number)).await;
            assert_eq!(ctx.receive_of::<u64>().await, number + 1);
        }
        ctx.exit(there, ExitReason::Shutdown);
    });
    let here = here.expect("there is room");
    assert_eq!(runtime.watch(here).wait(), ExitReason::Normal);
    each
}

/// Spawns processes that end at once, a hundred at a time.
fn spawns(runtime: &Runtime, each: u64) -> u64 {
    let body = move |ctx: Context| async move {
        for _ in 0..each / 100 {
            for _ in 0..100 {
                ctx.spawn(|_| async {});
            }
            ctx.yield_now().await;
        }
    };
    let spawner = runtime.spawn(body).expect("there is room");
    assert_eq!(runtime.watch(spawner).wait(), ExitReason::Normal);
    each
}
