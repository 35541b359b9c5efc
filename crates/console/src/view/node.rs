//! State shared by all sessions of a console.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::{CpuGroup, Hello, NodeInfo, PROTOCOL_VERSION, Role, View};
use tokio::sync::{Mutex, Notify, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::budget::{OrderBudget, OrderBudgets};
use crate::config::{Limits, LogFilter, LogLines, RecorderConfig};
use crate::encode::frame_texts::FrameTexts;
use crate::host::Host;
use crate::metrics;
use crate::rate_limit::{ALL_REFUSALS_PER_SEC, TokenBucket};
use crate::recorder::recording::Recording;
use crate::sampler::memory::{MemoryProbe, ReportedBytes};
use crate::sampler::sample::{MemoryReading, Sample};
use crate::serving::readiness::Readiness;
use crate::view::cpu::looks::CpuLooks;
use crate::view::filter::Filter;
use crate::view::table::ranking::{self, Order};
use crate::view::table::shared_orders::{OrderKey, SharedOrders};
use crate::view::table::sort_key::{FilterRates, Rates};
use rusm_runtime::{Handle, Pid, observe};

/// Time without a request after which rates are discarded.
const RATES_KEPT: Duration = Duration::from_secs(10);

/// Shared state of a console's sessions.
pub(crate) struct Node {
    pub(crate) runtime: Handle,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    budgets: Rc<OrderBudgets>,
    /// Allowance for log lines about refused commands.
    pub(crate) refusals: RefCell<TokenBucket>,
    /// The newest lines of the program's log, if the program provides them.
    pub(crate) log_lines: Option<Arc<dyn LogLines>>,
    /// Replaces the filter of the program's log, if the program allows it.
    pub(crate) log_filter: Option<LogFilter>,
    /// Answer of `GET /readyz`.
    pub(crate) readiness: Readiness,
    /// True if no client may change the node.
    pub(crate) read_only: bool,
    pub(crate) recording: RefCell<Recording>,
    info: NodeInfo,
    tick: Duration,
    pause: Cell<Duration>,
    clients: Cell<u32>,
    first_client: Notify,
    /// Number of starts and ends of runs; each change invalidates every order.
    era: Cell<u64>,
    frames: watch::Receiver<Arc<Sample>>,
    stopping: watch::Receiver<bool>,
    memory: RefCell<MemoryProbe>,
    /// The lock lets one order be computed at a time; data for rates is kept for a while after its last use.
    rates: Mutex<Vec<Rates>>,
    /// The rates that filters compare: a filter may read them when the order does not.
    filter_rates: Mutex<Vec<Rates>>,
    orders: RefCell<SharedOrders>,
    cpu_looks: RefCell<Vec<Weak<RefCell<CpuLooks>>>>,
    frame_texts: RefCell<FrameTexts>,
}

/// Fixed settings of a [`Node`].
pub(crate) struct NodeSetup {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) limits: Limits,
    pub(crate) recorder: RecorderConfig,
    pub(crate) info: NodeInfo,
    pub(crate) tick: Duration,
    pub(crate) readiness: Readiness,
}

impl Node {
    pub(crate) fn new(
        runtime: Handle,
        setup: NodeSetup,
        frames: watch::Receiver<Arc<Sample>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let NodeSetup { host, limits, recorder, info, tick, readiness } = setup;
        Self {
            runtime,
            host,
            limits,
            budgets: Rc::default(),
            refusals: RefCell::new(TokenBucket::new(ALL_REFUSALS_PER_SEC, Instant::now())),
            log_lines: None,
            log_filter: None,
            readiness,
            read_only: false,
            recording: RefCell::new(Recording::new(recorder)),
            info,
            tick,
            pause: Cell::new(tick),
            clients: Cell::new(0),
            first_client: Notify::new(),
            era: Cell::new(0),
            frames,
            stopping,
            memory: RefCell::default(),
            rates: Mutex::default(),
            filter_rates: Mutex::default(),
            orders: RefCell::default(),
            cpu_looks: RefCell::default(),
            frame_texts: RefCell::default(),
        }
    }

    /// Sets the source of log lines, and what changes their filter.
    pub(crate) fn with_log(self, log_lines: Option<Arc<dyn LogLines>>, log_filter: Option<LogFilter>) -> Self {
        Self { log_lines, log_filter, ..self }
    }

    /// Lets no client change the node.
    pub(crate) fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    pub(crate) fn hello(&self, role: Role) -> Hello {
        let capacity: u64 = observe::engines(&self.runtime).iter().map(|engine| engine.capacity).sum();
        Hello {
            scenarios: self.host.scenarios(),
            profiles: self.host.profiles(),
            instance_capacity: capacity.try_into().unwrap_or(u32::MAX),
            protocol_version: PROTOCOL_VERSION,
            role,
            node: NodeInfo { features: self.features(), ..self.info.clone() },
        }
    }

    /// Returns the memory of the node by use, for a sample; reads it again if the last reading is old.
    pub(crate) fn memory(&self, sample: &Sample) -> Option<(MemoryReading, Duration)> {
        // An order in progress holds the lock; its data is then counted at the next reading.
        let stored = |rates: &Mutex<Vec<Rates>>| rates.try_lock().map_or(0, |all| all.iter().map(Rates::bytes).sum());
        let rates: u64 = stored(&self.rates) + stored(&self.filter_rates);
        let log = sample.log.as_ref().map_or(0, |log| log.queued_bytes);
        let recorder = self.recording.borrow().bytes() as u64;
        let reported = ReportedBytes { observers: rates, recorder, log };
        self.memory.borrow_mut().read(&self.runtime, &sample.census, reported, Instant::now())
    }

    /// Lists the parts that this node has now.
    fn features(&self) -> Vec<String> {
        let parts = [
            ("arrivals_column", true),
            ("bond_columns", true),
            ("cluster", self.runtime.node().is_some()),
            ("console", true),
            ("log_filter", self.log_filter.is_some()),
            ("past", self.recording.borrow().is_on()),
            ("read_only", self.read_only),
            ("scenarios", !self.host.scenarios().is_empty()),
            ("store", !observe::stores(&self.runtime).is_empty()),
            ("wasm", !observe::engines(&self.runtime).is_empty()),
        ];
        parts.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the sampler's current pause between two samples.
    pub(crate) fn pause(&self) -> Duration {
        self.pause.get()
    }

    /// Sets the sampler's pause until the next sample.
    pub(crate) fn set_pause(&self, pause: Duration) {
        self.pause.set(pause);
    }

    pub(crate) const fn tick(&self) -> Duration {
        self.tick
    }

    pub(crate) fn frames(&self) -> watch::Receiver<Arc<Sample>> {
        self.frames.clone()
    }

    pub(crate) fn newest(&self) -> Arc<Sample> {
        Arc::clone(&self.frames.borrow())
    }

    /// Returns all metrics as text.
    pub(crate) fn metrics(&self) -> String {
        let sample = self.newest();
        // Without an observer, the newest sample lacks memory by use.
        let sample = Sample { memory: self.memory(&sample), ..(*sample).clone() };
        metrics::text(&self.runtime, sample, self.clients())
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }

    /// Returns the number of cores that the node may use.
    pub(crate) const fn cores(&self) -> u32 {
        self.info.cores
    }

    pub(crate) fn clients(&self) -> u32 {
        self.clients.get()
    }

    /// Returns a number that changes when a run starts or ends.
    pub(crate) fn era(&self) -> u64 {
        self.era.get()
    }

    /// Records that a run has started or ended.
    pub(crate) fn begin_era(&self) {
        self.era.set(self.era.get() + 1);
    }

    /// Takes a client slot; returns `None` if all are taken.
    pub(crate) fn admit(&self) -> Option<ClientSlot<'_>> {
        let slot = ClientSlot::take(&self.clients, self.limits.clients)?;
        if self.clients.get() == 1 {
            self.first_client.notify_one();
        }
        Some(slot)
    }

    /// Waits until a client comes that is the only one.
    pub(crate) async fn first_client(&self) {
        self.first_client.notified().await;
    }

    /// Discards the data for rates if no observer is attached any more.
    pub(crate) async fn clear_rates_if_idle(&self) {
        if self.clients.get() == 0 {
            self.rates.lock().await.clear();
            self.filter_rates.lock().await.clear();
            self.orders.borrow_mut().clear();
        }
    }

    /// Returns the looks at CPU time of all clients with this group.
    pub(crate) fn cpu_looks(&self, group: CpuGroup) -> Rc<RefCell<CpuLooks>> {
        let mut all = self.cpu_looks.borrow_mut();
        all.retain(|looks| looks.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).find(|looks| looks.borrow().group() == group).unwrap_or_else(|| {
            let looks = Rc::new(RefCell::new(CpuLooks::new(group)));
            all.push(Rc::downgrade(&looks));
            looks
        })
    }

    /// Returns the encoded frame of a sample, encoded once for all clients that have skipped as many frames.
    pub(crate) fn frame_text(&self, seq: u64, skipped: u64, encode: impl FnOnce() -> String) -> Utf8Bytes {
        self.frame_texts.borrow_mut().text(seq, skipped, encode)
    }

    /// Returns the CPU budget of a new client.
    pub(crate) fn new_budget(&self) -> Rc<OrderBudget> {
        self.budgets.add(Instant::now())
    }

    /// Returns a window of the process table, in an order after `known`: that of another client if it is recent, else a
    /// new one.
    pub(crate) async fn rank(
        &self,
        view: &View,
        filter: &Filter,
        around: Option<Pid>,
        known: Option<Instant>,
        budget: &OrderBudget,
    ) -> Order {
        let key = OrderKey { sort: view.sort, filter: filter.clone(), era: self.era() };
        let can_share = around.is_none() && !view.reorder;
        let find = || self.orders.borrow().find(&key, view.window, known, Instant::now());
        if let Some(order) = can_share.then(find).flatten() {
            return order;
        }
        let mut all = self.rates.lock().await;
        // Another client's order may have been computed while this one waited.
        if let Some(order) = can_share.then(find).flatten() {
            return order;
        }
        let order = self.compute(&mut all, view, filter, around).await;
        budget.spend(Instant::now(), order.cost);
        self.orders.borrow_mut().keep(key, order.clone());
        order
    }

    async fn compute(&self, all: &mut Vec<Rates>, view: &View, filter: &Filter, around: Option<Pid>) -> Order {
        let (sort, window) = (view.sort, view.window);
        let now = Instant::now();
        let wanted = |rates: &Rates| rates.looked_at().is_some_and(|at| now - at < RATES_KEPT);
        let mut filter_rates = self.filter_rates.lock().await;
        // Those of other clients' filters stay.
        filter_rates.retain(wanted);
        for &column in filter.rates().iter().take(FilterRates::LEN) {
            if !filter_rates.iter().any(|rates| rates.column() == column) {
                filter_rates.push(Rates::new(column, self.era()));
            }
        }
        let is_used = |rates: &Rates| filter.rates().contains(&rates.column());
        filter_rates.sort_by_key(|rates| !is_used(rates));
        let used = filter_rates.partition_point(is_used);
        let filter_rates = &mut filter_rates[..used];
        for rates in &mut *filter_rates {
            rates.follow(self.era());
        }
        if !sort.key.is_rate() {
            // Numbers and names need no stored data, but the lock still ensures one order at a time.
            let mut none = Rates::new(sort.key, self.era());
            return ranking::order(&self.runtime, sort, filter, window, &mut none, filter_rates, around).await;
        }
        all.retain(wanted);
        let index = all.iter().position(|rates| rates.column() == sort.key).unwrap_or_else(|| {
            all.push(Rates::new(sort.key, self.era()));
            all.len() - 1
        });
        all[index].follow(self.era());
        ranking::order(&self.runtime, sort, filter, window, &mut all[index], filter_rates, around).await
    }
}

/// A client slot out of a limited number, freed when dropped.
#[derive(Debug)]
pub(crate) struct ClientSlot<'a>(&'a Cell<u32>);

impl<'a> ClientSlot<'a> {
    /// Takes a slot if fewer than `limit` are taken.
    pub(crate) fn take(taken: &'a Cell<u32>, limit: u32) -> Option<Self> {
        (taken.get() < limit).then(|| {
            taken.set(taken.get() + 1);
            Self(taken)
        })
    }
}

impl Drop for ClientSlot<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
