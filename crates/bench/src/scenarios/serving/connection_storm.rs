//! TCP connections that come, are echoed once and go: the cost of a connection that is a process.
//!
//! ```text
//!   client ── connect, payload ──▶ acceptor, one per scheduler ── spawns ──▶ connection's process
//!      ◀───────────────────── the same payload, then the close ──────────────────┘
//! ```
//!
//! The server closes first and the client then resets the connection, so the kernel keeps no port of it in `TIME_WAIT`:
//! otherwise the ports would run out within a second.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_serve::listeners;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::measure::rng::XorShift;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::descriptors::{Descriptors, ENDS};
use crate::scenarios::serving::host::CO_RESIDENT;

/// Number of connections that a client holds at most.
const HELD_MAX: u64 = 16;
/// First byte of a payload after which the server closes the connection.
const CLOSE: u8 = b'c';
/// First byte of a payload after which the server waits for more.
const HOLD: u8 = b'h';
/// Pause of an acceptor after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Scenario with connections that come and go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionStorm;

impl Scenario for ConnectionStorm {
    fn card(&self) -> Card {
        Card {
            id: "connection-storm",
            family: Family::Actors,
            label: "Connection storm",
            description: "TCP connections that are accepted by a process of their own, echoed once and closed.",
            details: &[
                "One operation is a connection: opened, accepted, echoed once, and closed by both sides.",
                "Latency is from before the connect call until the whole echo is read.",
                "Each scheduler accepts on a socket of its own; the kernel spreads the connections over them.",
                "With hold, this share of the connections stays open: each client holds at most 16 and then closes the \
                 oldest.",
                CO_RESIDENT,
                "A connection that is refused, cut, or echoed with other bytes is an error.",
                "A good result: no errors. Goal: at least 0.8 of the rate of a plain tokio accept loop, see \
                 docs/serving.md.",
            ],
            ops_label: "connections/s",
            latency_label: Some("connect call to echo"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "clients",
                    description: "Processes that connect, each with one connection at a time that is not held.",
                    kind: Kind::Count { min: 1, max: 10_000, default: 64 },
                },
                Parameter {
                    name: "hold",
                    description: "Percentage of the connections that stay open.",
                    kind: Kind::Count { min: 0, max: 100, default: 0 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes that are echoed.",
                    kind: Kind::Bytes { min: 1, max: 1 << 20, default: 16 },
                },
            ],
            source_file: file!(),
            timed: "connection",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let (clients, hold) = (context.params().number("clients"), context.params().number("hold"));
            let payload = context.params().number("payload") as usize;
            let held_max = if hold > 0 { HELD_MAX } else { 0 };
            Descriptors::raise(ENDS).check(clients * (1 + held_max))?;
            let counts = Arc::new(Counts::default());
            let address = start_acceptors(context, payload, &counts)?;
            for index in 0..clients {
                let client = Client {
                    address,
                    payload,
                    hold,
                    held: VecDeque::new(),
                    random: XorShift::new((context.seed() + index) | 1),
                    recorder: context.recorder(),
                    pace: context.pace(index, clients, context.duty()),
                };
                context.spawn_worker(move |ctx| client.run(ctx))?;
            }
            // The acceptors have no end of their own: when this returns, all workers are killed.
            context.stopped().await?;
            context.tables().show(counts.table());
            Ok(())
        })
    }
}

/// Counts of the server.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    failed: AtomicU64,
    open: AtomicU64,
    open_peak: AtomicU64,
}

impl Counts {
    fn table(&self) -> Table {
        let columns = [
            ("accepted", ColumnUnit::Count),
            ("accept errors", ColumnUnit::Count),
            ("open at once, at most", ColumnUnit::Count),
        ];
        let mut table = Table::new("The server's own account", &columns);
        table.row([&self.accepted, &self.failed, &self.open_peak].map(|count| count.load(Ordering::Relaxed).into()));
        table.note("with the warm-up");
        table
    }
}

/// Starts an acceptor on each scheduler, and returns their address.
fn start_acceptors(context: &mut RunContext, payload: usize, counts: &Arc<Counts>) -> Result<SocketAddr, RunError> {
    let listen = listeners((Ipv4Addr::LOCALHOST, 0).into(), context.schedulers());
    let (listeners, address) =
        listen.map_err(|error| RunError::Lacks(format!("cannot listen on {}: {error}", Ipv4Addr::LOCALHOST)))?;
    let failed = Arc::clone(counts);
    context.meter().fail_by(move || failed.failed.load(Ordering::Relaxed));
    for (scheduler, listener) in listeners.into_iter().enumerate() {
        let counts = Arc::clone(counts);
        context.spawn_worker_on(Some(scheduler), move |ctx| accept(ctx, listener, payload, counts))?;
    }
    Ok(address)
}

async fn accept(ctx: Context, listener: StdListener, payload: usize, counts: Arc<Counts>) -> std::io::Result<()> {
    ctx.set_label("acceptor");
    let listener = TcpListener::from_std(listener)?;
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            counts.accepted.fetch_add(1, Ordering::Relaxed);
            let counts = Arc::clone(&counts);
            ctx.spawn(move |ctx| connection(ctx, stream, payload, counts));
        } else {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            ctx.sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Counts a connection as long as it is open.
struct Open(Arc<Counts>);

impl Open {
    fn new(counts: Arc<Counts>) -> Self {
        let open = counts.open.fetch_add(1, Ordering::Relaxed) + 1;
        counts.open_peak.fetch_max(open, Ordering::Relaxed);
        Self(counts)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Echoes payloads until one asks for the close. Errors are seen and counted by the client.
async fn connection(ctx: Context, mut stream: TcpStream, payload: usize, counts: Arc<Counts>) {
    ctx.set_label("connection");
    let _open = Open::new(counts);
    drop(stream.set_nodelay(true));
    let mut buffer = vec![0; payload];
    while stream.read_exact(&mut buffer).await.is_ok() && stream.write_all(&buffer).await.is_ok() {
        if buffer[0] == CLOSE {
            return;
        }
    }
}

struct Client {
    address: SocketAddr,
    payload: usize,
    /// Percentage of connections to hold.
    hold: u64,
    held: VecDeque<TcpStream>,
    random: XorShift,
    recorder: Recorder,
    pace: Pace,
}

impl Client {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("tcp client");
        let (mut payload, mut echo) = (vec![0; self.payload], vec![0; self.payload]);
        let mut number = 0_u8;
        while self.pace.next_batch(&ctx, 1).await.is_some() {
            number = number.wrapping_add(1);
            payload.fill(number);
            let holds = (self.random.next() >> 32) % 100 < self.hold;
            payload[0] = if holds { HOLD } else { CLOSE };
            let succeeded = match self.connect(&payload, &mut echo).await {
                Ok(Some(stream)) if holds => {
                    self.held.push_back(stream);
                    if self.held.len() > HELD_MAX as usize {
                        drop(self.held.pop_front());
                    }
                    true
                }
                Ok(Some(stream)) => closed(stream).await,
                Ok(None) | Err(_) => false,
            };
            if succeeded {
                self.recorder.count(1);
            } else if self.pace.is_over() {
                // The acceptors end before their clients.
                return;
            } else {
                self.recorder.fail(1);
                // A refusal does not wait for anything: let the others run.
                ctx.yield_now().await;
            }
        }
    }

    /// Opens a connection and sends the payload; `None` if the echo differs.
    async fn connect(&mut self, payload: &[u8], echo: &mut [u8]) -> std::io::Result<Option<TcpStream>> {
        let stamp = self.pace.begin(&mut self.recorder);
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        // The client leaves with a reset: see the head of this file.
        stream.set_zero_linger()?;
        stream.write_all(payload).await?;
        stream.read_exact(echo).await?;
        self.recorder.end(stamp);
        Ok((echo == payload).then_some(stream))
    }
}

/// Waits for the server's close; false if it sends something else.
async fn closed(mut stream: TcpStream) -> bool {
    matches!(stream.read(&mut [0]).await, Ok(0))
}
