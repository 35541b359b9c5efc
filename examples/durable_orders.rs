//! A topic that outlives its node: what was not acknowledged comes again after a kill, with the number of attempts that it had.
//!
//! ```text
//!   1st run   tea, milk, sugar ──▶ topic on disk ──▶ cook: tea, done; milk …      ✂ kill -9, or what you like
//!   2nd run                        topic on disk ──▶ cook: milk, attempt 2, done; sugar, done
//! ```
//!
//! `cargo run -p rusm-examples --bin durable_orders [FILE]`, twice; the orders lie in FILE, `orders.redb` unless said otherwise.

#![expect(clippy::print_stdout, reason = "an example that prints what happens")]

use std::error::Error;

use rusm_runtime::store::{Store, StoreConfig};
use rusm_runtime::topic::{AckStatus, Message, Subscription, SubscriptionConfig, TopicConfig};
use rusm_runtime::{Config, Context, Runtime};

type Failure = Box<dyn Error + Send + Sync>;

/// Serves what is ordered, until there is nothing left.
async fn cook(_ctx: Context, kitchen: Subscription) -> Result<(), Failure> {
    let mut orders = kitchen.consumer();
    while let Some(order) = orders.try_next()? {
        let what = String::from_utf8_lossy(order.message.payload()).into_owned();
        // An attempt that is on disk counts, whatever becomes of this process.
        kitchen.saved().await?;
        println!("{what}, attempt {}", order.attempt);
        if what == "milk" && order.attempt == 1 {
            println!("the milk boils over: end this program, and run it again");
            std::future::pending::<()>().await;
        }
        if orders.ack(order.id) == AckStatus::Done {
            // Not needed for the next one, but from here on this one will not come again.
            kitchen.saved().await?;
            println!("{what} is served");
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "orders.redb".to_owned());
    let store = Store::open(&file, StoreConfig::default())?;
    let runtime = Runtime::start(Config::default())?;
    let orders = runtime.topics().open_durable(&store, "orders", TopicConfig::default())?;
    // Of the same name in every run, so it goes on where it was.
    let kitchen = orders.create_subscription("kitchen", SubscriptionConfig::default())?;

    let before = kitchen.account();
    let left = before.backlog + before.outstanding;
    println!("{left} orders are left in {file}");
    if left == 0 {
        for order in ["tea", "milk", "sugar"] {
            // Returns when it is on disk.
            orders.blocking_publish(Message::new(order))?;
            println!("ordered {order}");
        }
    }

    let shift = kitchen.clone();
    runtime.wait(runtime.spawn(move |ctx| cook(ctx, shift))?);
    let account = kitchen.account();
    println!("the cook goes home: {} ordered, {} served", account.published, account.acked);
    Ok(())
}
