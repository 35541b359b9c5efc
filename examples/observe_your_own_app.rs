//! An application that `rusm-top` can observe. Only one line is needed for that; the rest is the application.
//!
//! ```text
//!   customer 1 ─┐                    ┌─ cooks, 2 ms each
//!   customer 2 ─┼─▶ kitchen, mailbox ┤
//!   ...         ┘                    └─ Meal ──▶ customer
//! ```
//!
//! `cargo run -p rusm-examples --bin observe_your_own_app`, then `rusm-top shop` in another terminal. In the Processes
//! view the kitchen is busy, and its mailbox fills when many customers order at once. Customers sleep between meals.

#![expect(clippy::print_stdout, reason = "an example that prints how to observe it")]

use std::error::Error;
use std::time::{Duration, Instant};

use rusm::console::{Console, ConsoleConfig};
use rusm::{Config, Context, Pid, Runtime};
use tokio::signal::unix::{SignalKind, signal};

const CUSTOMERS: u64 = 40;
const COOKING: Duration = Duration::from_millis(2);

struct Order {
    from: Pid,
}

struct Meal;

async fn kitchen(ctx: Context) {
    loop {
        let Order { from } = ctx.receive_of::<Order>().await;
        let until = Instant::now() + COOKING;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        ctx.send(from, Meal).await;
    }
}

async fn customer(ctx: Context, kitchen: Pid, number: u64) {
    ctx.set_label(format!("customer {number}"));
    let appetite = Duration::from_millis(100 + 7 * number);
    loop {
        ctx.send(kitchen, Order { from: ctx.pid() }).await;
        ctx.receive_of::<Meal>().await;
        ctx.sleep(appetite).await;
    }
}

/// Starts all other processes; observers show it as their parent.
async fn shop(ctx: Context) -> Result<(), Box<dyn Error + Send + Sync>> {
    ctx.register("shop")?;
    let kitchen = ctx.spawn(kitchen);
    ctx.runtime().register(kitchen, "kitchen")?;
    for number in 1..=CUSTOMERS {
        ctx.spawn(move |ctx| customer(ctx, kitchen, number));
    }
    loop {
        ctx.receive().await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Install the handler before printing anything: an earlier signal would not reach it.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(Config::default())?;
    runtime.spawn(shop)?;

    // This line makes the application observable.
    let console = Console::bind(&runtime, ConsoleConfig::named("shop"))?;

    println!("watch it with: rusm-top {}", console.socket().display());
    println!("press ctrl-c to stop");
    interrupts.recv().await;

    runtime.shutdown(Duration::from_secs(1));
    println!("closed");
    Ok(())
}
