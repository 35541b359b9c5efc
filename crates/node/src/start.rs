//! A complete node: the runtime, the engine that runs scenarios on it, and the console.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_bench::Engine;
use rusm_console::{
    Console, ConsoleConfig, ConsoleError, Host, LogFilter, LogLine, LogLines, LogSnapshot, LogSource, NoScenarios,
    Readiness, runtime_dir,
};
use rusm_log::{Log, RecentLine, RecentLines};
use rusm_runtime::{Handle, Runtime, ShutdownReport, observe};
use rusm_store::{Store, StoreConfig};
use rusm_wasm::Wasm;

use crate::cluster::{self, Joined, Observed};
use crate::failure::{Failure, system};
use crate::logging;
use crate::run::topics;
use crate::serve::sites::Sites;
use crate::settings::Settings;
use crate::settings::app::App;
use crate::settings::raw::Given;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    // Dropped in this order: observers, scenario runs, connections to other nodes, servers, processes.
    console: Console,
    readiness: Readiness,
    engine: Option<Arc<Engine>>,
    cluster: Option<Joined>,
    sites: Option<Arc<Sites>>,
    runtime: Runtime,
    store: Option<Store>,
    drain: Duration,
    /// The values from which the settings of the node were read.
    given: Given,
}

/// Name of a node if the settings name none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultName<'a> {
    /// Always this name.
    Fixed(&'a str),
    /// This name, or this name with the process id if another node has it.
    Free(&'a str),
}

impl Node {
    /// Starts a node that runs scenarios.
    pub(crate) fn start(settings: &Settings, default_name: DefaultName<'_>) -> Result<Self, Failure> {
        Self::with_engine(settings, default_name, open_store(settings)?, |runtime| {
            let history = crate::bench::history::path();
            let engine =
                Engine::with_history(runtime.clone(), history.as_deref()).map_err(system("start the bench thread"))?;
            // The profiles of a new engine are always known.
            engine.set_profile(settings.profile.id()).map_err(|error| Failure::Usage(error.message))?;
            Ok(Some(Arc::new(engine)))
        })
    }

    /// Starts a node that runs an application instead of scenarios, with the store opened for the application.
    pub(crate) fn without_scenarios(
        settings: &Settings,
        default_name: DefaultName<'_>,
        store: Option<Store>,
    ) -> Result<Self, Failure> {
        Self::with_engine(settings, default_name, store, |_| Ok(None))
    }

    fn with_engine(
        settings: &Settings,
        default_name: DefaultName<'_>,
        store: Option<Store>,
        engine: impl FnOnce(&Handle) -> Result<Option<Arc<Engine>>, Failure>,
    ) -> Result<Self, Failure> {
        let observed = Observed::default();
        let (runtime, store) = start(settings, store, &observed)?;
        let engine = engine(&runtime)?;
        let host: Arc<dyn Host> = match &engine {
            Some(engine) => Arc::clone(engine) as Arc<dyn Host>,
            None => Arc::new(NoScenarios),
        };
        let readiness = not_ready();
        let console = open(&runtime, settings, default_name, host, &readiness)?;
        observed.set(console.socket());
        let cluster = join(&runtime, settings, &console)?;
        let (drain, given) = (settings.drain, settings.given.clone());
        Ok(Self { console, readiness, engine, runtime, store, cluster, sites: None, drain, given })
    }

    /// Creates the topics of an application, and starts its servers. `wasm` is its engine of guests, if it has one
    /// already.
    pub(crate) fn serve(&mut self, app: &App, wasm: Option<Wasm>) -> Result<(), Failure> {
        topics::open(&self.runtime, &app.topics, self.store.as_ref())?;
        if !app.sites.is_empty() {
            let sites = Sites::start(&self.runtime, &Arc::new(app.clone()), wasm, self.store.clone())?;
            self.sites = Some(Arc::new(sites));
        }
        Ok(())
    }

    /// Returns the addresses of the servers.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(|sites| sites.urls())
    }

    /// Puts changed certificates, and with `modules` changed modules, of the servers into use from now on.
    pub(crate) fn follow_changes(&self, modules: bool) -> Result<(), Failure> {
        match &self.sites {
            Some(sites) => Sites::follow_changes(sites, modules).map_err(system("watch files")),
            None => Ok(()),
        }
    }

    /// Reads the certificates, modules and folders of the servers again.
    pub(crate) fn reload(&self) {
        if let Some(Err(error)) = self.sites.as_ref().map(Sites::reload_all) {
            tracing::error!("certificates, modules and folders stay as they are: {error}");
        }
    }

    /// Returns the values from which the settings of the node were read.
    pub(crate) const fn given(&self) -> &Given {
        &self.given
    }

    /// Returns the runtime, for callers that start processes on it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.runtime
    }

    /// Says that the application has started: `/readyz` answers 200 until the node stops.
    pub(crate) fn set_ready(&self) {
        self.readiness.set(true);
    }

    /// Returns the path of the socket to which observers attach.
    pub(crate) fn socket(&self) -> &Path {
        self.console.socket()
    }

    pub(crate) fn console(&self) -> &Console {
        &self.console
    }

    /// Ends the run, then the servers, the membership in a cluster, the processes, the store, and the connections of
    /// observers. Servers and processes together have the time of the drain.
    pub(crate) fn stop(self) -> ShutdownReport {
        self.readiness.set(false);
        if let Some(engine) = &self.engine {
            engine.stop();
        }
        let end = Instant::now() + self.drain;
        if let Some(sites) = self.sites {
            sites.drain(self.drain);
            // The figures of servers end with them.
            logging::keep_metrics();
        }
        // Other nodes see the node leave before its processes end.
        #[cfg_attr(
            not(feature = "cluster"),
            expect(clippy::drop_non_drop, reason = "without the feature there is no cluster to leave")
        )]
        drop(self.cluster);
        let shutdown = self.runtime.shutdown(end.saturating_duration_since(Instant::now()));
        // Close the store after the last process: this makes writes of weaker durability durable.
        if let Some(store) = self.store {
            store.close();
        }
        logging::keep_metrics();
        drop(self.console);
        shutdown
    }
}

/// Bytes of writes that may wait for the store, however small its cache.
const QUEUE_BYTES_MIN: usize = 1 << 20;

/// Opens the store that the settings name, if they name one.
pub(crate) fn open_store(settings: &Settings) -> Result<Option<Store>, Failure> {
    let Some(store) = &settings.store else { return Ok(None) };
    let default = StoreConfig::default();
    let config = StoreConfig {
        durability: store.durability,
        cache_bytes: store.cache_bytes,
        // Writes that wait are in memory beside the cache.
        queue_bytes: default.queue_bytes.min(store.cache_bytes / 2).max(QUEUE_BYTES_MIN),
        ..default
    };
    Ok(Some(Store::open(&store.path, config)?))
}

/// Starts a runtime, and attaches the store to it.
fn start(settings: &Settings, store: Option<Store>, observed: &Observed) -> Result<(Runtime, Option<Store>), Failure> {
    let mut config = settings.runtime.clone();
    config.exports = observed.export(config.exports);
    let runtime = Runtime::start(config)?;
    if let Some(store) = &store {
        store.attach(&runtime);
        let report = store.report();
        let (path, durability) = (report.path, report.durability);
        tracing::info!(%path, durability, buckets = report.buckets.len(), "store is open");
    }
    Ok((runtime, store))
}

/// Joins other nodes, if the settings say so.
fn join(runtime: &Handle, settings: &Settings, console: &Console) -> Result<Option<Joined>, Failure> {
    let Some(cluster) = &settings.cluster else { return Ok(None) };
    let dir = console.socket().parent().unwrap_or_else(|| Path::new("."));
    let name = console.socket().file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    cluster::join(runtime, &name, dir, cluster).map(Some)
}

fn not_ready() -> Readiness {
    let readiness = Readiness::default();
    readiness.set(false);
    readiness
}

fn open(
    runtime: &Handle,
    settings: &Settings,
    default_name: DefaultName<'_>,
    host: Arc<dyn Host>,
    readiness: &Readiness,
) -> Result<Console, Failure> {
    let (DefaultName::Fixed(name) | DefaultName::Free(name)) = default_name;
    let config = ConsoleConfig {
        dir: settings.socket_dir.clone().unwrap_or_else(runtime_dir),
        listen: settings.listen,
        tick: settings.tick,
        lints: settings.lints,
        lint_thresholds: settings.lint_thresholds,
        recorder: settings.recorder,
        host,
        log: logging::log().map(|log| Arc::new(move || snapshot(log)) as LogSource),
        log_lines: log_lines(runtime),
        log_filter: logging::has_filter().then(|| Arc::new(logging::set_filter) as LogFilter),
        readiness: readiness.clone(),
        read_only: settings.read_only,
        // Each server has a listener for each scheduler, and a folder.
        reserved_files: (settings.app.sites.len() * (runtime.config().schedulers + 1)) as u32,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..ConsoleConfig::named(settings.name.as_deref().unwrap_or(name))
    };
    let console = match Console::bind(runtime, config.clone()) {
        Err(ConsoleError::SocketInUse { .. } | ConsoleError::SocketSilent { .. })
            if matches!(default_name, DefaultName::Free(_)) && settings.name.is_none() =>
        {
            let name = format!("{name}-{}", std::process::id());
            Console::bind(runtime, ConsoleConfig { name, ..config })?
        }
        bound => bound?,
    };
    logging::export_metrics(console.metrics());
    Ok(console)
}

/// Returns the source of the log lines that observers may read.
fn log_lines(runtime: &Handle) -> Option<Arc<dyn LogLines>> {
    struct Lines(&'static RecentLines, Handle);

    impl LogLines for Lines {
        fn noted(&self) -> u64 {
            self.0.noted()
        }

        fn newest(&self, len: usize) -> (u64, Vec<LogLine>) {
            let (noted, lines) = self.0.newest(len);
            let uptime = observe::uptime(&self.1);
            let line = |line: RecentLine| LogLine {
                seq: line.seq,
                // A line from before the start of the runtime is as old as the runtime.
                at_ms: uptime.saturating_sub(line.at.elapsed()).as_millis() as u64,
                level: line.level.as_str().to_ascii_lowercase(),
                target: line.target,
                pid: line.pid,
                module: line.module,
                text: line.text,
            };
            (noted, lines.into_iter().map(line).collect())
        }
    }

    logging::recent().map(|recent| Arc::new(Lines(recent, runtime.clone())) as Arc<dyn LogLines>)
}

/// Returns the counters of the log in the form that observers receive.
fn snapshot(log: &Log) -> LogSnapshot {
    let counters = log.counters();
    LogSnapshot {
        lines_total: counters.lines_total,
        dropped_total: counters.dropped_total,
        errors_total: counters.errors_total,
        error: counters.error,
        queued_bytes: counters.queued_bytes,
    }
}
