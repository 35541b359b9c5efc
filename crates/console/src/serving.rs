//! The console's thread: one reactor for the clock, both listeners and every session.

pub(super) mod metrics_reader;
pub(super) mod readiness;
mod ticker;

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusm_protocol::NodeInfo;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime as Reactor;
use tokio::sync::watch;
use tokio::task::LocalSet;

use self::metrics_reader::Requests;
use self::ticker::Ticker;
use super::budget::{UnobservedBudget, sampling_pause, thread_cpu};
use super::config::{ConsoleConfig, LogSource};
use super::endpoint::handshake::Transport;
use super::endpoint::listeners;
use super::lints::LintConfig;
use super::recorder::Recorder;
use super::sampler::Sampler;
use super::sampler::sample::Sample;
use super::view::node::{Node, NodeSetup};
use rusm_runtime::{Handle, observe};

/// Time limit for sessions to close their connections.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

type Tcp<L> = Option<(L, Transport)>;

/// The resources of the operating system, ready to serve.
pub(super) struct Serving {
    reactor: Reactor,
    ticker: Ticker,
    unix: UnixListener,
    tcp: Tcp<TcpListener>,
    metrics: Requests,
}

impl Serving {
    /// Registers the listeners with a reactor.
    pub(super) fn open(
        unix: StdUnixListener,
        tcp: Tcp<StdTcpListener>,
        tick: Duration,
        metrics: Requests,
    ) -> io::Result<Self> {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = reactor.enter();
        let ticker = Ticker::new(tick)?;
        let unix = UnixListener::from_std(unix)?;
        let tcp = match tcp {
            Some((listener, transport)) => Some((TcpListener::from_std(listener)?, transport)),
            None => None,
        };
        drop(entered);
        Ok(Self { reactor, ticker, unix, tcp, metrics })
    }

    /// Serves until `stopping` becomes true.
    pub(super) fn run(self, runtime: Handle, config: ConsoleConfig, stopping: watch::Receiver<bool>) {
        let serve = serve(runtime, config, self.ticker, self.unix, (self.tcp, self.metrics), stopping);
        LocalSet::new().block_on(&self.reactor, serve);
    }
}

async fn serve(
    runtime: Handle,
    config: ConsoleConfig,
    ticker: Ticker,
    unix: UnixListener,
    (tcp, metrics): (Tcp<TcpListener>, Requests),
    mut stopping: watch::Receiver<bool>,
) {
    let tick = config.tick.interval();
    let (newest, frames) = watch::channel(Arc::new(Sample::default()));
    let info = node_info(&runtime, &config);
    let lints = LintConfig { levels: config.lints, thresholds: config.lint_thresholds };
    let ConsoleConfig { host, limits, recorder, readiness, .. } = config;
    let setup = NodeSetup { host, limits, recorder, info, tick, readiness };
    let node = Node::new(runtime.clone(), setup, frames, stopping.clone());
    let node = Rc::new(node.with_log(config.log_lines, config.log_filter).read_only(config.read_only));
    let work = async {
        tokio::join!(
            sample(&node, Sampler::new(runtime, tick, lints, Instant::now()), config.log, newest, ticker),
            listeners::accept_unix(&node, unix),
            metrics.answer(&node),
            async {
                if let Some((listener, transport)) = tcp {
                    listeners::accept_tcp(&node, listener, transport).await;
                }
            },
        )
    };
    tokio::select! {
        _ = work => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    // Sessions receive the same signal.
    let until = Instant::now() + SHUTDOWN_TIMEOUT;
    while node.clients() > 0 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn node_info(runtime: &Handle, config: &ConsoleConfig) -> NodeInfo {
    NodeInfo {
        name: config.name.clone(),
        version: config.version.clone(),
        os_pid: std::process::id(),
        started_unix_ms: unix_ms(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        schedulers: runtime.config().schedulers as u32,
        process_limit: observe::process_limit(runtime) as u64,
        features: Vec::new(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "distinguishes nodes that share a process id, and measures nothing")]
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

async fn sample(
    node: &Rc<Node>,
    mut sampler: Sampler,
    log: Option<LogSource>,
    newest: watch::Sender<Arc<Sample>>,
    mut ticker: Ticker,
) {
    let mut recorder = Recorder::new();
    let mut last = None;
    let mut cost_before = 0.0;
    let mut unobserved = UnobservedBudget::new(Instant::now(), thread_cpu());
    loop {
        let run = node.host.sample();
        let this = Some((run.run_id, run.scenario.is_some()));
        if std::mem::replace(&mut last, this) != this {
            node.begin_era();
        }
        let mut sample = sampler.tick(Instant::now(), run, node.clients());
        sample.log = log.as_ref().map(|read| read());
        if node.clients() > 0 {
            sample.memory = node.memory(&sample);
        }
        // One sample that was expensive by chance, for example on a machine that was short of CPU, delays nothing.
        let cost_us = sample.cost_us.min(std::mem::replace(&mut cost_before, sample.cost_us));
        let pause = sampling_pause(node.tick(), Duration::from_secs_f64(cost_us / 1e6));
        recorder.tick(node, &sample, Instant::now());
        newest.send_replace(Arc::new(sample));
        let pause = pause.max(unobserved.pause(Instant::now(), thread_cpu(), node.clients()));
        node.set_pause(pause);
        sampler.plan(pause);
        if let Err(error) = rest(node, &mut ticker, pause).await {
            // Not known to happen; frames are then paced by the reactor's own timer.
            tracing::warn!(%error, "the console's ticker failed");
            tokio::time::sleep(pause).await;
        }
    }
}

/// Waits for the next sample. The first client that comes waits no longer than the interval that it was promised.
async fn rest(node: &Node, ticker: &mut Ticker, pause: Duration) -> io::Result<()> {
    tokio::select! {
        biased;
        result = ticker.next(pause) => return result,
        () = node.first_client() => {}
    }
    node.set_pause(node.tick());
    ticker.next(node.tick()).await
}
