//! Held connections: their ramp, the check that each one answers, and pings on all of them in turn.
//!
//! ```text
//!   holder, one of at most 32 processes: open, open, … ──▶ all have ramped ──▶ three pings each ──▶ pings until the stop
//!                       an open that fails ends the ramp of all ┘
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusm_runtime::Context;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::time::timeout;

use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::measure::usage::resident;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenarios::serving::descriptors::Descriptors;
use crate::scenarios::serving::wire::Wire;

/// Processes that hold the client ends; each connects one after the other.
const HOLDERS_MAX: u64 = 32;
/// Number of pings that each connection must answer after the ramp.
const CHECKS: u64 = 3;
/// Connections from one source address of loopback: fewer than the ports that Linux gives out.
const PER_ADDRESS: u64 = 20_000;
/// Pause of a holder without connections between two looks at the stop flag.
const IDLE: Duration = Duration::from_millis(50);

/// Connections to hold.
#[derive(Clone, Debug)]
pub(crate) struct HeldLoad {
    pub(crate) address: SocketAddr,
    pub(crate) wire: Wire,
    /// Number of connections that were asked for.
    pub(crate) wanted: u64,
    /// Number of file descriptors of this process for each connection.
    pub(crate) ends: u64,
    /// Time after which an attempt to connect, or a ping, has failed.
    pub(crate) timeout: Duration,
    /// True if the run goes on with fewer connections than wanted.
    pub(crate) finds_limit: bool,
}

/// State that all holders share.
#[derive(Debug)]
struct Ramp {
    load: HeldLoad,
    held: AtomicU64,
    /// Number of connections that have answered all checks.
    checked: AtomicU64,
    /// The first failure; it ends the ramp.
    failure: OnceLock<String>,
    steps: Barrier,
}

impl HeldLoad {
    /// Opens the connections, checks and holds them, and pings all of them in turn until the run stops.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if a connection fails and the load does not look for the limit.
    pub(crate) async fn run(self, context: &mut RunContext) -> Result<(), RunError> {
        let descriptors = Descriptors::raise(self.ends);
        let target = self.wanted.min(descriptors.connections_max()).max(1);
        let holders = target.min(HOLDERS_MAX);
        let (finds_limit, wanted) = (self.finds_limit, self.wanted);
        let ramp = Arc::new(Ramp {
            load: self,
            held: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            failure: OnceLock::new(),
            steps: Barrier::new(holders as usize + 1),
        });
        let (start, rss_before) = (Instant::now(), rss());
        for index in 0..holders {
            let holder = Holder {
                numbers: (target * index / holders)..(target * (index + 1) / holders),
                ramp: Arc::clone(&ramp),
                stop: context.stop_flag(),
                recorder: context.recorder(),
                pace: context.pace(index, holders, context.duty()),
            };
            context.spawn_worker(move |ctx| holder.run(ctx))?;
        }
        tokio::select! {
            _ = ramp.steps.wait() => {}
            stopped = context.stopped() => return stopped,
        }
        let took = start.elapsed();
        tokio::select! {
            _ = ramp.steps.wait() => {}
            stopped = context.stopped() => return stopped,
        }
        // After the checks: a connection of HTTP has its buffers from its first request on.
        let grown = rss().saturating_sub(rss_before);
        let failure = ramp.failure.get();
        let ramped = Ramped {
            target,
            held: ramp.held.load(Ordering::Relaxed),
            checked: ramp.checked.load(Ordering::Relaxed),
            took,
            grown,
        };
        let mut table = ramped.table();
        table.note(descriptors.line());
        if wanted > target {
            table.note(format!("{wanted} were wanted; that is more than this limit allows"));
        }
        if let Some(failure) = failure {
            table.note(format!("the ramp ended at the first failure: {failure}"));
        }
        context.tables().show(table);
        match failure {
            Some(failure) if !finds_limit || ramped.checked == 0 => return Err(RunError::Lacks(failure.clone())),
            _ => {}
        }
        context.prepared();
        context.stopped().await?;
        context.ended().await
    }
}

fn rss() -> u64 {
    resident().map_or(0, |(now, _)| now)
}

/// Figures of a ramp.
#[derive(Clone, Copy, Debug)]
struct Ramped {
    target: u64,
    held: u64,
    checked: u64,
    took: Duration,
    /// Growth of resident memory from the start of the ramp to the end of the checks, in bytes.
    grown: u64,
}

impl Ramped {
    fn table(self) -> Table {
        let columns = [
            ("target", ColumnUnit::Count),
            ("held", ColumnUnit::Count),
            ("ramp", ColumnUnit::Ns),
            ("connections/s", ColumnUnit::Amount),
            ("bytes/connection", ColumnUnit::Bytes),
            ("answered 3 pings", ColumnUnit::Count),
        ];
        let mut table = Table::new("Connections held", &columns);
        table.row([
            self.target.into(),
            self.held.into(),
            (self.took.as_nanos() as f64).into(),
            (self.held as f64 / self.took.as_secs_f64()).into(),
            (self.grown as f64 / self.held as f64).into(),
            self.checked.into(),
        ]);
        table
    }
}

struct Holder {
    /// Numbers of its connections; they select the source addresses.
    numbers: std::ops::Range<u64>,
    ramp: Arc<Ramp>,
    stop: StopFlag,
    recorder: Recorder,
    pace: Pace,
}

impl Holder {
    async fn run(self, ctx: Context) -> Result<(), String> {
        ctx.set_label("holder of connections");
        let mut streams = Vec::with_capacity((self.numbers.end - self.numbers.start) as usize);
        for number in self.numbers.clone() {
            if self.stop.is_set() || self.ramp.failure.get().is_some() {
                break;
            }
            match self.open(number).await {
                Ok(stream) => {
                    streams.push(stream);
                    self.ramp.held.fetch_add(1, Ordering::Relaxed);
                }
                // Only the first failure is kept.
                Err(error) => drop(self.ramp.failure.set(format!("connection {number}: {error}"))),
            }
        }
        self.ramp.steps.wait().await;
        let checked = self.check(&mut streams).await;
        self.ramp.checked.fetch_add(checked, Ordering::Relaxed);
        self.ramp.steps.wait().await;
        self.hold(&ctx, streams).await
    }

    /// Pings each connection [`CHECKS`] times, in the order in which they were opened, until the first ping that is not
    /// answered. Returns the number of connections that have answered all.
    async fn check(&self, streams: &mut [TcpStream]) -> u64 {
        let mut checked = 0;
        for stream in streams {
            for _ in 0..CHECKS {
                if self.stop.is_set() {
                    return checked;
                }
                if let Err(error) = self.ping(stream).await {
                    drop(self.ramp.failure.set(format!("a held connection does not answer: {error}")));
                    return checked;
                }
            }
            checked += 1;
        }
        checked
    }

    /// Pings the connections in turn until the run stops.
    async fn hold(mut self, ctx: &Context, mut streams: Vec<TcpStream>) -> Result<(), String> {
        let mut next = 0;
        while self.pace.next_batch(ctx, 1).await.is_some() {
            if streams.is_empty() {
                ctx.sleep(IDLE).await;
                continue;
            }
            next %= streams.len();
            let stamp = self.pace.begin(&mut self.recorder);
            match self.ping(&mut streams[next]).await {
                Ok(()) => {
                    self.recorder.end(stamp);
                    self.recorder.count(1);
                    next += 1;
                }
                Err(_) if self.ramp.load.finds_limit => {
                    self.recorder.fail(1);
                    streams.swap_remove(next);
                }
                Err(error) => return Err(format!("a held connection does not answer: {error}")),
            }
        }
        Ok(())
    }

    async fn ping(&self, stream: &mut TcpStream) -> io::Result<()> {
        timeout(self.ramp.load.timeout, self.ramp.load.wire.ping(stream)).await?
    }

    async fn open(&self, number: u64) -> io::Result<TcpStream> {
        let load = &self.ramp.load;
        let open = async {
            let mut stream = match load.address.ip() {
                IpAddr::V4(address) if address.is_loopback() => {
                    let socket = TcpSocket::new_v4()?;
                    socket.bind((source(number), 0).into())?;
                    socket.connect(load.address).await?
                }
                _ => TcpStream::connect(load.address).await?,
            };
            stream.set_nodelay(true)?;
            // These clients leave with a reset, so that the kernel keeps none of their ports.
            stream.set_zero_linger()?;
            load.wire.open(&mut stream).await?;
            Ok(stream)
        };
        timeout(load.timeout, open).await?
    }
}

/// Returns the source address of a connection to loopback, an address of 127/8.
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
    fn a_ramp_has_a_rate_and_bytes_for_each_connection() {
        let table = Ramped { target: 9, held: 4, checked: 3, took: Duration::from_secs(2), grown: 4_000 }.table();

        let text = table.to_string();
        assert!(text.lines().nth(2).unwrap().contains("1,000"), "{text}");
    }
}
