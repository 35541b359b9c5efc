//! Connections that are held open, up to the limit of file descriptors: what an idle connection costs, and that each one
//! still answers.
//!
//! ```text
//!   ramp: clients open connections ──▶ three pings on each ──▶ the run: pings on all of them, in turn
//!                                                              server: each connection is a process
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_serve::{Request, Router};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Barrier;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::measure::usage::resident;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::descriptors::Descriptors;
use crate::scenarios::serving::host::{CO_RESIDENT, Host};
use crate::scenarios::serving::wire::Wire;
use crate::scenarios::serving::ws_echo::echo;

/// Processes that hold the client ends; each connects one after the other.
const HOLDERS_MAX: u64 = 32;
/// Number of pings that each connection must answer after the ramp.
const CHECKS: u64 = 3;
/// Connections from one source address: fewer than the ports that Linux gives out.
const PER_ADDRESS: u64 = 20_000;

/// Scenario with connections that are held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionScale;

impl Scenario for ConnectionScale {
    fn card(&self) -> Card {
        Card {
            id: "connection-scale",
            family: Family::Actors,
            label: "Connection scale",
            description: "Connections held open, up to the limit of file descriptors, that all answer pings.",
            details: &[
                "The headline is the number of connections held. One operation is a ping that was answered.",
                "Latency is from before a ping is sent until its answer is read.",
                "The soft limit of file descriptors is raised to the hard limit. A connection takes two, because both \
                 ends are in this process; a higher target is lowered to what they allow.",
                "After the ramp each connection must answer three pings, or the run fails. Then the run pings all of \
                 them in turn.",
                "The clients come from addresses of 127/8, 20,000 connections from each: one address has 28,000 ports.",
                "The bytes of a connection are the growth of resident memory during the ramp. They include its process \
                 and the client's socket, but not the buffers of the kernel.",
                CO_RESIDENT,
                "A good result: the target is held. Goal: at most 10 KiB for a connection with its process.",
            ],
            ops_label: "pings/s",
            latency_label: Some("ping to answer"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "connections",
                    description: "Connections to hold; 10M is as many as the limit of file descriptors allows.",
                    kind: Kind::Count { min: 1, max: 10_000_000, default: 1_000 },
                },
                Parameter {
                    name: "protocol",
                    description: "Kind of the connections: WebSockets, or kept connections of HTTP/1.1.",
                    kind: Kind::Choice { words: &["websocket", "http"] },
                },
            ],
            source_file: file!(),
            timed: "ping",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let descriptors = Descriptors::raise();
            let wanted = context.params().number("connections");
            let target = wanted.min(descriptors.connections_max()).max(1);
            let is_websocket = context.params().word("protocol") == "websocket";
            let router = if is_websocket {
                Router::new().route("GET /", echo)
            } else {
                Router::new().route("GET /", |_: Request| std::future::ready(StatusCode::NO_CONTENT))
            };
            let host = Host::start(context, self.card().id, target, router)?;
            let address = host.address();
            let wire = Arc::new(if is_websocket { Wire::websocket(address) } else { Wire::http(address) });
            let ramp = Ramp { descriptors, wanted, target, start: Instant::now(), rss_before: rss() };
            let held = Arc::new(AtomicU64::new(0));
            let steps = start_holders(context, target, address, &wire, &held)?;
            tokio::select! {
                _ = steps.wait() => {}
                stopped = context.stopped() => return stopped,
            }
            let ramped = ramp.end(held.load(Ordering::Relaxed));
            tokio::select! {
                _ = steps.wait() => {}
                stopped = context.stopped() => return stopped,
            }
            context.tables().show(ramped.table());
            context.prepared();
            context.stopped().await?;
            let ended = context.ended().await;
            host.show(context);
            ended
        })
    }
}

fn rss() -> u64 {
    resident().map_or(0, |(now, _)| now)
}

/// Starts the processes that hold the client ends. All of them and the caller wait for each other twice: after the ramp,
/// and after the checks.
fn start_holders(
    context: &mut RunContext,
    target: u64,
    address: SocketAddr,
    wire: &Arc<Wire>,
    held: &Arc<AtomicU64>,
) -> Result<Arc<Barrier>, RunError> {
    let holders = target.min(HOLDERS_MAX);
    let steps = Arc::new(Barrier::new(holders as usize + 1));
    for index in 0..holders {
        let holder = Holder {
            numbers: (target * index / holders)..(target * (index + 1) / holders),
            address,
            wire: Arc::clone(wire),
            held: Arc::clone(held),
            stop: context.stop_flag(),
            recorder: context.recorder(),
            pace: context.pace(index, holders, context.duty()),
        };
        let steps = Arc::clone(&steps);
        context.spawn_worker(move |ctx| holder.run(ctx, steps))?;
    }
    Ok(steps)
}

/// The start of a ramp.
struct Ramp {
    descriptors: Descriptors,
    wanted: u64,
    target: u64,
    start: Instant,
    rss_before: u64,
}

/// A finished ramp.
struct Ramped {
    ramp: Ramp,
    held: u64,
    took: Duration,
    rss: u64,
}

impl Ramp {
    fn end(self, held: u64) -> Ramped {
        Ramped { held, took: self.start.elapsed(), rss: rss(), ramp: self }
    }
}

impl Ramped {
    fn table(&self) -> Table {
        let columns = [
            ("target", ColumnUnit::Count),
            ("held", ColumnUnit::Count),
            ("ramp", ColumnUnit::Ns),
            ("connections/s", ColumnUnit::Amount),
            ("bytes/connection", ColumnUnit::Bytes),
            ("answered 3 pings", ColumnUnit::Count),
        ];
        let mut table = Table::new("Connections held", &columns);
        let grown = self.rss.saturating_sub(self.ramp.rss_before) as f64;
        table.row([
            self.ramp.target.into(),
            self.held.into(),
            (self.took.as_nanos() as f64).into(),
            (self.held as f64 / self.took.as_secs_f64()).into(),
            (grown / self.held as f64).into(),
            self.held.into(),
        ]);
        let limit = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        let Descriptors { before, limit: now, .. } = self.ramp.descriptors;
        table.note(format!("limit of file descriptors: {}, raised to {}", limit(before), limit(now)));
        if self.ramp.wanted > self.ramp.target {
            table.note(format!("{} were wanted; that is more than this limit allows", self.ramp.wanted));
        }
        table
    }
}

struct Holder {
    /// Numbers of its connections; they select the source addresses.
    numbers: std::ops::Range<u64>,
    address: SocketAddr,
    wire: Arc<Wire>,
    held: Arc<AtomicU64>,
    stop: StopFlag,
    recorder: Recorder,
    pace: Pace,
}

impl Holder {
    async fn run(mut self, ctx: Context, steps: Arc<Barrier>) -> Result<(), String> {
        ctx.set_label("holder of connections");
        let mut streams = Vec::with_capacity((self.numbers.end - self.numbers.start) as usize);
        for number in self.numbers.clone() {
            if self.stop.is_set() {
                return Ok(());
            }
            let opened = self.open(number).await;
            streams.push(opened.map_err(|error| format!("connection {number}: {error}"))?);
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        steps.wait().await;
        for _ in 0..CHECKS {
            for (stream, number) in streams.iter_mut().zip(self.numbers.clone()) {
                if self.stop.is_set() {
                    return Ok(());
                }
                let answered = self.wire.ping(stream).await;
                answered.map_err(|error| format!("connection {number} does not answer: {error}"))?;
            }
        }
        steps.wait().await;
        let mut next = 0;
        while self.pace.next_batch(&ctx, 1).await.is_some() {
            let stamp = self.pace.begin(&mut self.recorder);
            let answered = self.wire.ping(&mut streams[next]).await;
            answered.map_err(|error| format!("a connection does not answer: {error}"))?;
            self.recorder.end(stamp);
            self.recorder.count(1);
            next = (next + 1) % streams.len();
        }
        Ok(())
    }

    async fn open(&self, number: u64) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source(number), 0).into())?;
        let mut stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        // These clients leave with a reset, so that the kernel keeps none of their ports.
        stream.set_zero_linger()?;
        self.wire.open(&mut stream).await?;
        Ok(stream)
    }
}

/// Returns the source address of a connection, an address of 127/8.
fn source(number: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + (number / PER_ADDRESS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_address_has_fewer_connections_than_ports() {
        assert_eq!(source(19_999), Ipv4Addr::LOCALHOST);
        assert_eq!(source(20_000), Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(source(10_000_000), Ipv4Addr::new(127, 0, 1, 245));
    }

    #[test]
    fn a_lowered_target_says_what_was_wanted() {
        let descriptors = Descriptors::raise();
        let ramp = Ramp { descriptors, wanted: 9, target: 4, start: Instant::now(), rss_before: 1_000 };

        let table = Ramped { ramp, held: 4, took: Duration::from_secs(2), rss: 5_000 }.table();

        let text = table.to_string();
        assert!(text.contains("9 were wanted"), "{text}");
        assert!(text.lines().nth(2).unwrap().contains("1,000"), "{text}");
    }
}
