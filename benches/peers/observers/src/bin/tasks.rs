//! Tasks of tokio with console-subscriber, for tokio-console: `tasks N` starts N that wait and 16 that tick.

use std::future::pending;
use std::io::{Read, stdin};
use std::time::Duration;

const TICKING: usize = 16;
const TICK: Duration = Duration::from_millis(10);
/// The subscriber buffers 102,400 events; tasks that start faster than it reads them are lost.
const AT_ONCE: usize = 10_000;

#[tokio::main]
async fn main() {
    console_subscriber::init();
    let tasks: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("a number of tasks");
    for _ in 0..TICKING {
        tokio::task::Builder::new().name("ticking").spawn(tick()).expect("a task");
    }
    for task in 0..tasks {
        tokio::task::Builder::new().name("waiting").spawn(pending::<()>()).expect("a task");
        if task % AT_ONCE == AT_ONCE - 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    println!("ready");
    tokio::task::spawn_blocking(|| stdin().read(&mut [0])).await.expect("a thread").expect("standard input");
}

async fn tick() {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
    }
}
