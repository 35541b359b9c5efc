//! Two processes send a number back and forth.
//!
//! `cargo run --release -p rusm-examples --bin ping_pong -- [ROUND_TRIPS]`
//!
//! The result is only a rough figure: one run, no warm-up, start and end included. To measure, use
//! `rusm bench run ping-pong`.

#![expect(clippy::print_stdout, reason = "an example that prints its result")]

use std::error::Error;
use std::time::Instant;

use rusm::{Config, Context, Pid, Runtime};

struct Ping {
    from: Pid,
    number: u64,
}

struct Pong(u64);

async fn ponger(ctx: Context) {
    loop {
        let Ping { from, number } = ctx.receive_of::<Ping>().await;
        ctx.send(from, Pong(number)).await;
    }
}

async fn pinger(ctx: Context, ponger: Pid, round_trips: u64) {
    let started = Instant::now();
    for number in 0..round_trips {
        ctx.send(ponger, Ping { from: ctx.pid(), number }).await;
        let Pong(answer) = ctx.receive_of::<Pong>().await;
        assert_eq!(answer, number, "one pong for each ping, in order");
    }
    let took = started.elapsed();
    let millions_per_sec = round_trips as f64 / took.as_secs_f64() / 1e6;
    println!("{round_trips} round trips in {took:.2?}: {millions_per_sec:.2} M round trips/s");
    println!("one run without a warm-up; for a measurement: rusm bench run ping-pong");
}

fn main() -> Result<(), Box<dyn Error>> {
    let round_trips = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let runtime = Runtime::start(Config::default())?;

    let ponger = runtime.spawn(ponger)?;
    let game = runtime.spawn(move |ctx| pinger(ctx, ponger, round_trips))?;
    runtime.wait(game);
    Ok(())
}
