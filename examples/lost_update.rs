//! A race that a seed reproduces: two clients deposit one coin each, and in some schedules one coin is lost.
//!
//! ```text
//!   client 1 ── read ──▶ account ── 0 ──▶ client 1 ── write 1 ──▶ account
//!   client 2 ── read ──▶ account ── 0 ──▶ client 2 ── write 1 ──▶ account      two deposits, one coin
//! ```
//!
//! `cargo run -p rusm-examples --bin lost_update` tries schedules until one fails, and prints the seed of that one.
//! With `RUSM_SEED` set to that number it runs only that schedule, so you can add a `println!` and run it again.

#![expect(clippy::print_stdout, reason = "an example that prints its result")]

use std::time::Duration;

use rusm::{Context, Down, Pid, test};

/// Seeds of the schedules to try.
const SEEDS: std::ops::Range<u64> = 0..1_000;

enum Order {
    Read { from: Pid },
    Write(u64),
    Deposit(u64),
}

async fn account(ctx: Context) {
    let mut balance = 0;
    loop {
        match ctx.receive_of::<Order>().await {
            Order::Read { from } => ctx.send(from, balance).await,
            Order::Write(new) => balance = new,
            Order::Deposit(amount) => balance += amount,
        }
    }
}

async fn balance(ctx: &Context, account: Pid) -> u64 {
    ctx.send(account, Order::Read { from: ctx.pid() }).await;
    ctx.receive_of::<u64>().await
}

/// Wrong: the other client may write between the two messages.
async fn read_and_write(ctx: Context, account: Pid) {
    let balance = balance(&ctx, account).await;
    ctx.send(account, Order::Write(balance + 1)).await;
}

/// Right: the account performs the whole update in response to one message.
async fn deposit(ctx: Context, account: Pid) {
    ctx.send(account, Order::Deposit(1)).await;
}

/// Runs the application, then checks the final balance.
async fn bank<F>(ctx: Context, client: fn(Context, Pid) -> F) -> Result<(), String>
where
    F: Future<Output = ()> + Send + 'static,
{
    let account = ctx.spawn(account);
    for _ in 0..2 {
        ctx.spawn_monitor(|ctx| client(ctx, account)).map_err(|error| error.to_string())?;
    }
    for _ in 0..2 {
        ctx.receive_of::<Down>().await;
    }
    // Time is virtual: sleeping for a day takes less than a microsecond.
    ctx.sleep(Duration::from_hours(24)).await;
    match balance(&ctx, account).await {
        2 => Ok(()),
        balance => Err(format!("a balance of {balance} after two deposits")),
    }
}

fn main() {
    match test::find(SEEDS, |ctx| bank(ctx, read_and_write)) {
        Some(failure) => println!("read and write: {failure}"),
        None => println!("read and write: no schedule fails"),
    }

    // Your own tests would call `explore`, which panics with the seed of the first failure.
    test::explore(SEEDS, |ctx| bank(ctx, deposit));
    println!("deposit: no schedule fails");
}
