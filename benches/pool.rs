//! Cost of a pool: CPU time of a send through a [`Pool`], and of a send to the addresses of its workers in turn.
//!
//! ```sh
//! cargo run --release -p rusm-benches --bin pool [WORKERS [TURNS]]
//! ```
//!
//! One process sends a million messages in a turn, and waits until the workers have counted them. The turns of both ways
//! alternate, on one scheduler. Prints medians, and the ratio of each pair of turns.

#![expect(clippy::print_stdout, reason = "a measuring program that prints to a terminal")]

use rusm_benches::cpu_ns;
use rusm_runtime::actor::{Address, Inbox};
use rusm_runtime::pool::Pool;
use rusm_runtime::{Config, Context, ExitReason, ReplyTo, Runtime};

/// Messages of a turn.
const MESSAGES: u64 = 1_000_000;

/// Message to a worker.
enum Work {
    /// One unit of work.
    Unit(u64),
    /// Asks for the number of units since the last question.
    Count(ReplyTo<u64>),
}

async fn worker(ctx: Context, mut inbox: Inbox<Work>) {
    let mut units = 0;
    loop {
        match inbox.receive(&ctx).await {
            Work::Unit(unit) => units += std::hint::black_box(unit),
            Work::Count(reply) => drop(reply.send(&ctx, std::mem::take(&mut units))),
        }
    }
}

fn main() -> Result<(), ExitReason> {
    let mut arguments = std::env::args().skip(1);
    let workers = arguments.next().map_or(Ok(4), |text| text.parse::<usize>())?.max(1);
    let turns = arguments.next().map_or(Ok(9), |text| text.parse::<usize>())?.max(1);
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() })?;
    runtime.run(move |ctx| async move {
        let pool = Pool::new("workers", workers, worker);
        pool.start_link(&ctx).await?;
        let addresses = pool.workers();
        let (mut pooled, mut direct) = (Vec::new(), Vec::new());
        // The first pair warms up.
        for _ in 0..=turns {
            let before = cpu_ns();
            for _ in 0..MESSAGES {
                pool.send(&ctx, Work::Unit(1)).await;
            }
            all_counted(&ctx, &addresses).await?;
            let between = cpu_ns();
            for number in 0..MESSAGES as usize {
                addresses[number % addresses.len()].send(&ctx, Work::Unit(1)).await;
            }
            all_counted(&ctx, &addresses).await?;
            pooled.push((between - before) / MESSAGES as f64);
            direct.push((cpu_ns() - between) / MESSAGES as f64);
        }
        let (pooled, direct) = (&pooled[1..], &direct[1..]);
        let ratios: Vec<f64> = pooled.iter().zip(direct).map(|(pooled, direct)| pooled / direct).collect();
        let [[_, pool_ns, _], [_, direct_ns, _], [least, ratio, most]] = [pooled, direct, &ratios].map(spread);
        println!("{workers} workers, CPU ns of a send: pool {pool_ns:.1}, addresses in turn {direct_ns:.1}");
        println!("ratio {ratio:.3}, from {least:.3} to {most:.3} in {turns} turns");
        Ok(())
    })
}

/// Waits until the workers have counted the messages of a turn.
async fn all_counted(ctx: &Context, addresses: &[Address<Work>]) -> Result<(), ExitReason> {
    let mut units = 0;
    for address in addresses {
        units += address.call(ctx, Work::Count).await?;
    }
    assert_eq!(units, MESSAGES);
    Ok(())
}

/// Returns the least value, the median and the greatest value.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}
