//! A durable topic: messages that were not acknowledged are delivered again after a kill, with an increased number of
//! attempts.
//!
//! ```text
//!   1st run   tea, milk, sugar ──▶ topic on disk ──▶ cook: tea, done; milk …      ✂ end it, for example with kill -9
//!   2nd run                        topic on disk ──▶ cook: milk, attempt 2, done; sugar, done
//! ```
//!
//! Run `cargo run -p rusm-examples --bin durable_orders [FILE]` twice. The orders are stored in FILE, by default
//! `orders.redb`.

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::error::Error;

use rusm::store::{Store, StoreConfig};
use rusm::topic::{AckStatus, Message, Subscription, SubscriptionConfig, TopicConfig};
use rusm::{Config, Context, Runtime};

type Failure = Box<dyn Error + Send + Sync>;

/// Serves orders until the subscription is empty.
async fn cook(_ctx: Context, kitchen: Subscription) -> Result<(), Failure> {
    let mut orders = kitchen.consumer();
    while let Some(order) = orders.try_next()? {
        let what = String::from_utf8_lossy(order.message.payload()).into_owned();
        // Waits until the attempt is on disk, so that it counts even if the node is killed.
        kitchen.flush_acks().await?;
        println!("{what}, attempt {}", order.attempt);
        if what == "milk" && order.attempt == 1 {
            println!("the milk boils over: end this program, and run it again");
            std::future::pending::<()>().await;
        }
        if orders.ack(order.id) == AckStatus::Done {
            // Waits until the acknowledgement is on disk: from then on this order is never delivered again.
            kitchen.flush_acks().await?;
            println!("{what} is served");
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "orders.redb".to_owned());
    let store = Store::open(&file, StoreConfig::default())?;
    let runtime = Runtime::start(Config::default())?;
    let orders = store.open_topic(&runtime.topics(), "orders", TopicConfig::default())?;
    // The name is the same in every run, so the subscription continues at its last position.
    let kitchen = orders.create_subscription("kitchen", SubscriptionConfig::default())?;

    let before = kitchen.account();
    let left = before.backlog + before.outstanding;
    println!("{left} orders are left in {file}");
    if left == 0 {
        for order in ["tea", "milk", "sugar"] {
            // Returns once the message is on disk.
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
