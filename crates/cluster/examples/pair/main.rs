//! Measures two nodes in two operating-system processes on this machine, beside the transport's own ping.
//!
//! ```text
//!   this process: node a, a raw zenoh session         child process: node b, a raw zenoh session that echoes
//!     round trips, one-way messages, kill -9, SIGSTOP
//! ```
//!
//! `cargo run --release -p rusm-cluster --features zenoh --example pair -- [ROUNDS]`. The script `benches/peers/dist.erl`
//! measures Erlang in the same way. Each round measures all cases in turn, so that a disturbance hits all of them.

#![expect(clippy::print_stdout, reason = "a program that prints its results")]

mod child;
mod losses;
mod raw;
mod traffic;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_cluster::node::Node;
use rusm_cluster::{BootId, Config, NetworkLink, NetworkSettings, NodeName};
use rusm_runtime::remote::Exports;
use rusm_runtime::{Config as RuntimeConfig, Runtime};

/// Result of a case, or the reason why it failed.
type Measured<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Payload of all messages, in bytes.
const PAYLOAD: usize = 64;
/// Time within which a node must appear.
const SOON: Duration = Duration::from_secs(20);

fn main() -> Measured<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("child") => child::run(&args[1], &args[2]),
        first => parent(first.map_or(Ok(3), str::parse)?),
    }
}

/// A node of this process.
pub(crate) struct Member {
    pub(crate) runtime: Runtime,
    /// Dropped before the runtime ends.
    _node: Node,
}

impl Member {
    /// Starts a node on a free port, or one that joins another. Returns it with its address.
    pub(crate) fn start(name: &str, join: Vec<String>) -> Measured<(Self, String)> {
        let exports = Exports::default()
            .spawnable("echo", |ctx, _| child::echo(ctx))
            .spawnable("sink", |ctx, _| child::sink(ctx));
        let config = RuntimeConfig { schedulers: 1, exports, ..RuntimeConfig::default() };
        let runtime = Runtime::start(config)?;
        let settings = NetworkSettings { join, ..NetworkSettings::loopback(NodeName::new(name)?, 0) };
        let link = Arc::new(NetworkLink::open(settings)?);
        let address = link.addresses().into_iter().next().ok_or("the node has no address")?;
        let boot = BootId(u128::from(std::process::id()));
        let node = Node::start(&runtime, link, boot, Config::default())?;
        Ok((Self { runtime, _node: node }, address))
    }
}

/// The other node, killed when it is dropped.
pub(crate) struct Peer(pub(crate) Child);

impl Peer {
    /// Starts the other node, and waits until it has joined.
    pub(crate) fn start(member: &Member, join: &str, raw: SocketAddr) -> Measured<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(["child", join, &raw.to_string()]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let peer = Self(child);
        let until = Instant::now() + SOON;
        while member.runtime.node_named("b").is_none() {
            if Instant::now() > until {
                return Err("the other node did not join".into());
            }
            std::thread::yield_now();
        }
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn parent(rounds: u32) -> Measured<()> {
    let (member, address) = Member::start("a", Vec::new())?;
    let raw = raw::Pinger::open()?;
    let peer = Peer::start(&member, &address, raw.address())?;
    println!("{:<34} {:>10} {:>10} {:>10}", "round trip, 64 B", "p50 µs", "p99 µs", "p99.9 µs");
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let transport = raw.round_trips()?;
        let calls = traffic::calls(&member)?;
        println!("{:<34} {transport}", "zenoh alone");
        println!("{:<34} {calls}", "a call of a process");
        ratios.push(calls.p50 / transport.p50);
    }
    ratios.sort_by(f64::total_cmp);
    println!("call / zenoh, p50, median of {rounds}: {:.2}", ratios[ratios.len() / 2]);
    println!("\n{:<34} {:>10}", "one way, 64 B", "k msg/s");
    for _ in 0..rounds {
        println!("{:<34} {:>10.0}", "zenoh alone, one publisher", raw.one_way()? / 1e3);
        for (senders, sinks) in [(1, 1), (8, 8), (64, 1), (64, 64)] {
            let label = format!("{senders} senders to {sinks} receivers");
            println!("{label:<34} {:>10.0}", traffic::one_way(&member, senders, sinks)? / 1e3);
        }
    }
    drop(peer);
    println!("\n{:<34} {:>10}", "noconnection after", "ms");
    for _ in 0..rounds {
        let peer = Peer::start(&member, &address, raw.address())?;
        println!("{:<34} {:>10.2}", "kill -9", losses::killed(&member, peer)?.as_secs_f64() * 1e3);
    }
    for _ in 0..rounds.min(3) {
        let peer = Peer::start(&member, &address, raw.address())?;
        println!("{:<34} {:>10.0}", "SIGSTOP", losses::stopped(&member, &peer)?.as_secs_f64() * 1e3);
    }
    Ok(())
}
