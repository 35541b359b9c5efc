//! Spawns processes, sends them messages, and prints the reasons for which they exit.
//!
//! ```text
//!   guest ── Greet ──▶ greeter ── String ──▶ guest
//! ```
//!
//! `cargo run -p rusm-examples --bin hello`

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::error::Error;

use rusm::actor::{Inbox, Unmatched};
use rusm::{Config, Context, ExitReason, Pid, Runtime};

/// Message for the greeter. Any `Send` value can be a message.
struct Greet {
    from: Pid,
    name: &'static str,
}

async fn greeter(ctx: Context) {
    loop {
        let Greet { from, name } = ctx.receive_of::<Greet>().await;
        ctx.send(from, format!("hello, {name}")).await;
    }
}

async fn guest(ctx: Context, greeter: Pid) {
    ctx.send(greeter, Greet { from: ctx.pid(), name: "world" }).await;
    let answer = ctx.receive_of::<String>().await;
    println!("{} heard from {greeter}: {answer}", ctx.pid());
}

/// A process that returns an error exits with that error as its reason. A process that returns `()` exits normally.
async fn customer(ctx: Context) -> Result<(), String> {
    let coins = ctx.receive_of::<u32>().await;
    if coins < 3 { Err(format!("{coins} coins are not enough")) } else { Ok(()) }
}

/// A panic ends only the process in which it happens.
async fn juggler(ctx: Context) {
    let balls = ctx.receive_of::<usize>().await;
    println!("the last ball is number {}", [1, 2, 3][balls]);
}

/// A typed mailbox also says what becomes of a message of another type: here it ends the process.
async fn till(ctx: Context, inbox: Inbox<u32>) {
    let coins = inbox.unmatched(Unmatched::Crash).receive(&ctx).await;
    println!("the till has {coins} coins");
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::start(Config::default())?;

    let greeter = runtime.spawn(greeter)?;
    let guest = runtime.spawn(move |ctx| guest(ctx, greeter))?;
    runtime.wait(guest);

    // Watch a process before it can exit: the exit reason is not available after the process is gone.
    let customer = runtime.spawn(customer)?;
    let watch = runtime.watch(customer);
    runtime.try_send(customer, 2_u32)?;
    println!("the customer ended: {}", watch.wait());

    let juggler = runtime.spawn(juggler)?;
    let watch = runtime.watch(juggler);
    runtime.try_send(juggler, 3_usize)?;
    println!("the juggler ended: {}", watch.wait());

    let till = runtime.spawn_typed(till)?;
    let watch = runtime.watch(till.pid());
    runtime.try_send(till.pid(), 'b')?;
    println!("the till ended: {}", watch.wait());

    let watch = runtime.watch(greeter);
    runtime.exit(greeter, ExitReason::ShutdownWith("closing time".into()));
    println!("the greeter ended: {}", watch.wait());
    Ok(())
}
