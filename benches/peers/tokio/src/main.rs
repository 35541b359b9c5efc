//! Runs rusm's scenarios on tokio's tasks and channels, under the same rules; prints one line of figures per run:
//!
//! ```text
//! peers-tokio spawn-storm|ping-pong|ping-pong-64|fan-in|respawn|down [SECONDS] [WORKERS]
//! peers-tokio broadcast|async-broadcast|async-broadcast-50|mpsc|herd [SECONDS] [WORKERS]
//! ```
//!
//! WORKERS defaults to 2; 0 selects tokio's single-threaded runtime.

mod count;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use count::Count;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc};
use tokio::task::{JoinHandle, consume_budget, yield_now};

/// Time before the measured window.
const WARM_UP: Duration = Duration::from_millis(300);
/// Spawners wait while more tasks than this are alive.
const ALIVE_MAX: u64 = 2_000;
const SPAWNERS: usize = 2;
const PRODUCERS: usize = 64;
const SUBSCRIBERS: usize = 1_000;
const PAYLOAD_BYTES: usize = 1_024;

/// State shared by all tasks of a run.
#[derive(Default)]
struct Run {
    started: Count,
    done: Count,
    over: AtomicBool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Measures operations and CPU time in the window after the warm-up.
    async fn measure(&self, window: Duration, tasks: Vec<JoinHandle<()>>) -> Figures {
        tokio::time::sleep(WARM_UP).await;
        let (before, cpu, start) = (self.done.sum(), count::cpu_ns(), Instant::now());
        tokio::time::sleep(window).await;
        let figures =
            Figures { operations: self.done.sum() - before, time: start.elapsed(), cpu_ns: count::cpu_ns() - cpu };
        self.over.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("a task of the harness does not panic");
        }
        figures
    }
}

struct Figures {
    operations: u64,
    time: Duration,
    cpu_ns: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().unwrap_or_default();
    let seconds: f64 = arguments.next().map_or(1.0, |seconds| seconds.parse().expect("SECONDS is a number"));
    let workers = arguments.next().map_or(2, |workers| workers.parse().expect("WORKERS is a number"));
    let window = Duration::from_secs_f64(seconds);
    let runtime = runtime(workers);
    let figures = runtime.block_on(async {
        match scenario.as_str() {
            "spawn-storm" => spawn_storm(window).await,
            "ping-pong" => ping_pong(window, 1).await,
            "ping-pong-64" => ping_pong(window, 64).await,
            "fan-in" => fan_in(window).await,
            "respawn" => respawn(window).await,
            "down" => down(window).await,
            "broadcast" => fan_out(window).await,
            "async-broadcast" => fan_out_lossless(window, SUBSCRIBERS).await,
            "async-broadcast-50" => fan_out_lossless(window, 50).await,
            "mpsc" => one_to_one(window).await,
            "herd" => herd(window).await,
            _ => {
                eprintln!(
                    "usage: peers-tokio spawn-storm|ping-pong|ping-pong-64|fan-in|respawn|down|broadcast|async-broadcast|\
                     async-broadcast-50|mpsc|herd [SECONDS] [WORKERS]"
                );
                std::process::exit(2);
            }
        }
    });
    let per_second = figures.operations as f64 / figures.time.as_secs_f64();
    let cpu_ns = figures.cpu_ns as f64 / figures.operations.max(1) as f64;
    println!("tokio\t{scenario}\tops_per_s={per_second:.0}\tcpu_ns_per_op={cpu_ns:.1}");
    runtime.shutdown_background();
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = if workers == 0 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if workers > 0 {
        builder.worker_threads(workers);
    }
    builder.enable_all().build().expect("tokio's runtime starts")
}

async fn spawn_storm(window: Duration) -> Figures {
    let run = Arc::new(Run::default());
    let spawner = |run: Arc<Run>| async move {
        while !run.is_over() {
            for _ in 0..64 {
                let run = Arc::clone(&run);
                tokio::spawn(async move { run.done.add(1) });
            }
            run.started.add(64);
            consume_budget().await;
            while run.started.sum().saturating_sub(run.done.sum()) > ALIVE_MAX {
                yield_now().await;
            }
        }
    };
    let spawners = (0..SPAWNERS).map(|_| tokio::spawn(spawner(Arc::clone(&run)))).collect();
    run.measure(window, spawners).await
}

/// Counts round trips.
async fn ping_pong(window: Duration, pairs: usize) -> Figures {
    let run = Arc::new(Run::default());
    let mut pingers = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let (to_ponger, mut pings) = mpsc::unbounded_channel::<u64>();
        let (to_pinger, mut pongs) = mpsc::unbounded_channel::<u64>();
        tokio::spawn(async move {
            while let Some(ping) = pings.recv().await {
                if to_pinger.send(ping).is_err() {
                    break;
                }
            }
        });
        let run = Arc::clone(&run);
        pingers.push(tokio::spawn(async move {
            let mut ping = 0;
            while !run.is_over() {
                ping += 1;
                to_ponger.send(ping).expect("the ponger waits for pings");
                pongs.recv().await.expect("the ponger answers");
                run.done.add(1);
            }
        }));
    }
    run.measure(window, pingers).await
}

/// Counts messages received from 64 producers that send 30,000 each, in rounds. The channel is unbounded, because that
/// is faster here; only the size of a round bounds its memory.
async fn fan_in(window: Duration) -> Figures {
    const EACH: u64 = 30_000;
    let (cpu, start) = (count::cpu_ns(), Instant::now());
    let mut operations = 0;
    while start.elapsed() < window {
        let (sender, mut receiver) = mpsc::unbounded_channel::<u64>();
        for _ in 0..PRODUCERS {
            let sender = sender.clone();
            tokio::spawn(async move {
                for message in 0..EACH {
                    sender.send(message).expect("the receiver stays");
                    if message % 64 == 0 {
                        consume_budget().await;
                    }
                }
            });
        }
        drop(sender);
        let receiving = tokio::spawn(async move {
            let mut received = 0;
            while receiver.recv().await.is_some() {
                received += 1;
            }
            received
        });
        operations += receiving.await.expect("the receiver does not panic");
    }
    Figures { operations, time: start.elapsed(), cpu_ns: count::cpu_ns() - cpu }
}

/// Spawns a task that panics, detects the panic by its handle, and spawns it again: the minimum work of a supervisor.
async fn respawn(window: Duration) -> Figures {
    std::panic::set_hook(Box::new(|_| {}));
    let run = Arc::new(Run::default());
    let respawning = Arc::clone(&run);
    let task = tokio::spawn(async move {
        while !respawning.is_over() {
            let child = Arc::clone(&respawning);
            let ended = tokio::spawn(async move {
                child.done.add(1);
                panic!("crash");
            });
            assert!(ended.await.is_err(), "the child panics");
        }
    });
    run.measure(window, vec![task]).await
}

/// Spawns a task and joins it.
async fn down(window: Duration) -> Figures {
    let run = Arc::new(Run::default());
    let watching = Arc::clone(&run);
    let task = tokio::spawn(async move {
        while !watching.is_over() {
            tokio::spawn(async {}).await.expect("the child ends");
            watching.done.add(1);
        }
    });
    run.measure(window, vec![task]).await
}

/// Counts deliveries to 1,000 subscribers of a broadcast channel, with at most 16 in flight for each.
async fn fan_out(window: Duration) -> Figures {
    let run = Arc::new(Run::default());
    let (sender, _) = broadcast::channel::<Arc<[u8]>>(1_024);
    for _ in 0..SUBSCRIBERS {
        let (run, mut receiver) = (Arc::clone(&run), sender.subscribe());
        tokio::spawn(async move {
            loop {
                match receiver.recv().await {
                    Ok(_) => run.done.add(1),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
    }
    let publishing = Arc::clone(&run);
    let publisher = tokio::spawn(async move {
        let payload: Arc<[u8]> = vec![7; 64].into();
        let subscribers = SUBSCRIBERS as u64;
        while !publishing.is_over() {
            if publishing.started.sum() * subscribers > publishing.done.sum() + 16 * subscribers {
                yield_now().await;
                continue;
            }
            sender.send(Arc::clone(&payload)).expect("there are subscribers");
            publishing.started.add(1);
            consume_budget().await;
        }
    });
    run.measure(window, vec![publisher]).await
}

/// Counts deliveries of 1 KB to subscribers of a channel that waits for the slowest subscriber.
async fn fan_out_lossless(window: Duration, subscribers: usize) -> Figures {
    let run = Arc::new(Run::default());
    let (sender, receiver) = async_broadcast::broadcast::<Arc<[u8]>>(1_024);
    for _ in 0..subscribers {
        let (run, mut receiver) = (Arc::clone(&run), receiver.clone());
        tokio::spawn(async move {
            while receiver.recv().await.is_ok() {
                run.done.add(1);
                consume_budget().await;
            }
        });
    }
    drop(receiver);
    let publishing = Arc::clone(&run);
    let publisher = tokio::spawn(async move {
        let payload: Arc<[u8]> = vec![7; PAYLOAD_BYTES].into();
        while !publishing.is_over() {
            sender.broadcast_direct(Arc::clone(&payload)).await.expect("there are subscribers");
            consume_budget().await;
        }
    });
    run.measure(window, vec![publisher]).await
}

/// Counts messages of 1 KB, sent without copying through a bounded channel to one receiver.
async fn one_to_one(window: Duration) -> Figures {
    let run = Arc::new(Run::default());
    let (sender, mut receiver) = mpsc::channel::<Arc<[u8]>>(1_024);
    let receiving = Arc::clone(&run);
    tokio::spawn(async move {
        while let Some(message) = receiver.recv().await {
            std::hint::black_box(&message);
            receiving.done.add(1);
        }
    });
    let sending = Arc::clone(&run);
    let publisher = tokio::spawn(async move {
        let payload: Arc<[u8]> = vec![7; PAYLOAD_BYTES].into();
        while !sending.is_over() {
            sender.send(Arc::clone(&payload)).await.expect("the receiver stays");
        }
    });
    run.measure(window, vec![publisher]).await
}

/// Repeatedly spawns a thousand tasks that each send one message to one receiver and end.
async fn herd(window: Duration) -> Figures {
    let run = Arc::new(Run::default());
    let herding = Arc::clone(&run);
    let herds = tokio::spawn(async move {
        while !herding.is_over() {
            let (sender, mut receiver) = mpsc::channel::<Box<[u8]>>(1_024);
            for _ in 0..SUBSCRIBERS {
                let sender = sender.clone();
                tokio::spawn(
                    async move { sender.send(vec![7; PAYLOAD_BYTES].into()).await.expect("the receiver stays") },
                );
            }
            drop(sender);
            while receiver.recv().await.is_some() {
                herding.done.add(1);
            }
        }
    });
    run.measure(window, vec![herds]).await
}
