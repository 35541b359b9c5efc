//! Two nodes: a process on one of them starts, calls and monitors a process on the other, and loses its node.
//!
//! ```text
//!   south: customer ── call: orders ──▶ north: clerk
//!                   ◀── noconnection ──  (cut)
//! ```
//!
//! Both nodes are in this program, on a network in memory; on two machines only the line with the link differs.
//! `cargo run -p rusm-examples --bin two_nodes`

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm::cluster::node::Node;
use rusm::cluster::{BootId, Config as SessionConfig, MemoryNetwork, NodeName};
use rusm::remote::{Decoder, Encoder, Exports, NodeUp, Portable};
use rusm::{Config, Context, Down, Request, Runtime};

/// A request that goes to another node, so it says how it becomes bytes.
struct Order {
    item: String,
    count: u32,
}

impl Portable for Order {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.item.encode(to);
        self.count.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { item: String::decode(from)?, count: u32::decode(from)? })
    }
}

/// Answers orders. Other nodes may start it by the name under which it is exported.
async fn clerk(ctx: Context) {
    loop {
        let Request { request, reply } = ctx.receive_of::<Request<Order, String>>().await;
        reply.send(&ctx, format!("{} × {} from the north", request.count, request.item));
    }
}

fn start(network: &MemoryNetwork, name: &str, boot: u128) -> Result<(Runtime, Node), Box<dyn Error>> {
    let exports = Exports::default().call::<Order, String>("order").spawnable("clerk", |ctx, _| clerk(ctx));
    let runtime = Runtime::start(Config { schedulers: 1, exports, ..Config::default() })?;
    // Between machines: a `NetworkLink`, and a random number for this start of the node.
    let link = Arc::new(network.join(NodeName::new(name)?));
    let node = Node::start(&runtime, link, BootId(boot), SessionConfig::default())?;
    Ok((runtime, node))
}

fn main() -> Result<(), Box<dyn Error>> {
    let network = MemoryNetwork::new();
    let (_north, _in_cluster) = start(&network, "north", 1)?;
    let (south, _also_in_cluster) = start(&network, "south", 2)?;
    let (give, take) = std::sync::mpsc::channel();

    let customer = south.spawn(move |ctx: Context| async move {
        if ctx.watch_nodes().is_empty() {
            ctx.receive_of::<NodeUp>().await;
        }
        let (clerk, _) = ctx.spawn_monitor_on("north", "clerk", Bytes::new()).await?;
        println!(
            "{} is on {}",
            clerk,
            ctx.runtime().node_of(clerk).map_or_else(String::new, |node| node.name.to_string())
        );
        let order = Order { item: "lamp".to_owned(), count: 3 };
        let answer: String = ctx.call(clerk, order, Duration::from_secs(5)).await?;
        println!("the answer: {answer}");
        give.send(())?;
        let down = ctx.receive_of::<Down>().await;
        println!("{} is gone: {}", down.pid, down.reason);
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })?;
    take.recv()?;
    network.cut(&NodeName::new("north")?, &NodeName::new("south")?);
    println!("the customer ended: {}", south.wait(customer));
    Ok(())
}
