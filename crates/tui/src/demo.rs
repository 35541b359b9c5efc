//! A simulated node for trying the observer and for its tests. **All data in this file is synthetic**, and synthetic
//! data exists only in this file and its folder.
//!
//! Deterministic: the same seed and the same commands at the same times produce the same messages.

pub(crate) mod cpu;
pub(crate) mod events;
pub(crate) mod guests;
mod inspect;
pub(crate) mod network;
mod past;
mod processes;
mod random;
mod results;
pub(crate) mod sched;
pub(crate) mod stores;
pub(crate) mod time;
pub(crate) mod topics;
mod tree;
mod watches;

use std::time::Duration;

use rusm_protocol::{
    CausesView, ClientMessage, ClusterView, CpuView, EnginesView, ErrorCode, EventsRequest, Frame, Hello, HistoryRun,
    InspectView, LatencySnapshot, Lint, LintInfo, MemorySnapshot, MemoryUses, NodeInfo, ObserverSnapshot,
    PROTOCOL_VERSION, ProcessFilter, ResultsView, Role, SchedulerSnapshot, SchedulersView, ServeView, ServerMessage,
    SnapshotCost, StoresView, THROUGHPUT_POINTS, TimeSeriesSnapshot, TimeView, TopicsView, TreeView, View,
};
use rusm_text::suggestion;

use crate::demo::processes::{PROCESSES, Processes, pid};
use crate::demo::random::random;
use crate::demo::results::cards::{profiles, scenarios};

/// Number of schedulers of the node.
const SCHEDULERS: u64 = 4;

/// Duration of the warm-up at the start of a run.
const WARM_UP_MS: u64 = 2000;

/// The simulated node.
#[derive(Clone, Debug)]
pub struct Demo {
    seed: u64,
    frame_every_ms: u64,
    next_frame_ms: u64,
    next_rows_ms: u64,
    next_detail_ms: u64,
    frame_seq: u64,
    rows_seq: u64,
    run: Option<DemoRun>,
    run_ids: u64,
    ended: Option<DemoRun>,
    profile: usize,
    view: Option<View>,
    detail: Option<String>,
    /// Time of the next batch of events; `None` while the client has not subscribed to events.
    next_events_ms: Option<u64>,
    events: EventsRequest,
    tree: Option<TreeView>,
    next_tree_ms: u64,
    engines: Option<EnginesView>,
    stores: Option<StoresView>,
    next_stores_ms: u64,
    next_engines_ms: u64,
    time: Option<TimeView>,
    next_time_ms: u64,
    topics: Option<TopicsView>,
    watches: watches::Watches,
    next_topics_ms: u64,
    inspect: Option<InspectView>,
    next_inspect_ms: u64,
    causes: Option<CausesView>,
    next_causes_ms: u64,
    cpu: Option<CpuView>,
    next_cpu_ms: u64,
    schedulers: Option<SchedulersView>,
    next_schedulers_ms: u64,
    serve: Option<ServeView>,
    next_serve_ms: u64,
    cluster: Option<ClusterView>,
    next_cluster_ms: u64,
    results: Option<ResultsView>,
    next_results_ms: u64,
    processes: Processes,
}

#[derive(Clone, Debug)]
struct DemoRun {
    id: u64,
    scenario: usize,
    started_ms: u64,
    ended_ms: Option<u64>,
    paused_ms: Option<u64>,
}

impl Demo {
    /// Creates a node in the middle of a spawn storm.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            frame_every_ms: 100,
            next_frame_ms: 0,
            next_rows_ms: 0,
            next_detail_ms: 0,
            frame_seq: 0,
            rows_seq: 0,
            run: Some(DemoRun { id: 1, scenario: 0, started_ms: 0, ended_ms: None, paused_ms: None }),
            run_ids: 1,
            ended: None,
            profile: 1,
            view: None,
            detail: None,
            next_events_ms: None,
            events: EventsRequest::default(),
            tree: None,
            next_tree_ms: 0,
            engines: None,
            stores: None,
            next_stores_ms: 0,
            next_engines_ms: 0,
            time: None,
            next_time_ms: 0,
            topics: None,
            watches: watches::Watches::default(),
            next_topics_ms: 0,
            inspect: None,
            next_inspect_ms: 0,
            causes: None,
            next_causes_ms: 0,
            cpu: None,
            next_cpu_ms: 0,
            schedulers: None,
            next_schedulers_ms: 0,
            serve: None,
            next_serve_ms: 0,
            cluster: None,
            next_cluster_ms: 0,
            results: None,
            next_results_ms: 0,
            processes: Processes::new(seed),
        }
    }

    /// Handles a command and returns its answers.
    #[expect(clippy::too_many_lines, reason = "one short arm for each message")]
    pub fn receive(&mut self, message: ClientMessage, now: Duration) -> Vec<ServerMessage> {
        let now_ms = now.as_millis() as u64;
        match message {
            ClientMessage::Run { scenario, id, .. } => {
                let Some(at) = scenarios().iter().position(|known| known.id == scenario) else {
                    let known = scenarios();
                    let hint = suggestion(&scenario, known.iter().map(|known| known.id.as_str()));
                    return refuse(format!("unknown scenario {scenario:?}: {hint}"), id);
                };
                self.stop(now_ms);
                self.run_ids += 1;
                self.run = Some(DemoRun {
                    id: self.run_ids,
                    scenario: at,
                    started_ms: now_ms,
                    ended_ms: None,
                    paused_ms: None,
                });
                acknowledge(id)
            }
            ClientMessage::Stop { id } => {
                self.stop(now_ms);
                acknowledge(id)
            }
            ClientMessage::Pause { paused, id } => {
                if let Some(run) = &mut self.run {
                    let since = run.paused_ms.take().unwrap_or(now_ms);
                    run.started_ms += now_ms - since;
                    run.paused_ms = paused.then_some(now_ms);
                }
                acknowledge(id)
            }
            ClientMessage::SetResourceProfile { profile, id } => {
                let Some(at) = profiles().iter().position(|known| known.id == profile) else {
                    let known = profiles();
                    let hint = suggestion(&profile, known.iter().map(|known| known.id.as_str()));
                    return refuse(format!("unknown profile {profile:?}: {hint}"), id);
                };
                self.profile = at;
                acknowledge(id)
            }
            ClientMessage::SetObserverDetail { enabled } => {
                if !enabled {
                    self.view = None;
                }
                Vec::new()
            }
            ClientMessage::Watch { frame_hz } => {
                self.frame_every_ms = (1000.0 / frame_hz.clamp(0.1, 60.0)) as u64;
                Vec::new()
            }
            ClientMessage::View(view) => {
                if let Err(error) = ProcessFilter::parse(&view.filter) {
                    return refuse(error.message, None);
                }
                self.view = Some(view);
                self.next_rows_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Detail { pid } => {
                self.detail = pid;
                self.next_detail_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Inspect { view } => {
                self.inspect = view;
                self.next_inspect_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Causes { view } => {
                self.causes = view;
                self.next_causes_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Tree { view } => {
                self.tree = view;
                self.next_tree_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Stores { view } => {
                self.stores = view;
                self.next_stores_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Engines { view } => {
                self.engines = view;
                self.next_engines_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Time { view } => {
                self.time = view;
                self.next_time_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Topics { view } => {
                self.topics = view;
                self.next_topics_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Cpu { view } => {
                self.cpu = view;
                self.next_cpu_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Schedulers { view } => {
                self.schedulers = view;
                self.next_schedulers_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Cluster { view } => {
                self.cluster = view;
                self.next_cluster_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Serve { view } => {
                self.serve = view;
                self.next_serve_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Waits { view } => {
                self.watches.show_waits(view, now_ms);
                Vec::new()
            }
            ClientMessage::Trace { trace, id } => {
                self.watches.trace(trace, now_ms);
                acknowledge(id)
            }
            ClientMessage::Events(request) => {
                self.next_events_ms = request.enabled.then_some(now_ms);
                self.events = request;
                Vec::new()
            }
            ClientMessage::Results { view } => {
                self.results = view;
                self.next_results_ms = now_ms;
                Vec::new()
            }
            ClientMessage::Report { run, offset, id } => results::report(run, offset, id),
            ClientMessage::Past(view) => {
                let mut then = self.clone();
                let frame = |ms| then.frame(ms);
                vec![past::instant(view, now_ms, self.seed, self.processes.clone(), frame)]
            }
            ClientMessage::History(view) => {
                let run = self.run.as_ref().map(|run| HistoryRun {
                    run_id: run.id,
                    scenario: scenarios()[run.scenario].id.clone(),
                    from_ms: run.started_ms,
                });
                let mut then = self.clone();
                vec![past::history(view.id, now_ms, run, |ms| then.frame(ms))]
            }
            ClientMessage::RestartChild { id, .. } => {
                let message = "the children of the demo are not restarted".to_owned();
                vec![ServerMessage::Error { message, code: ErrorCode::Failed, id }]
            }
            ClientMessage::KillAll { id, .. } => {
                let message = "the demo ends one process at a time".to_owned();
                vec![ServerMessage::Error { message, code: ErrorCode::Failed, id }]
            }
            ClientMessage::SetLogFilter { id, .. } => acknowledge(id),
            ClientMessage::Kill { pid, id, .. } => {
                self.processes.kill(pid);
                acknowledge(id)
            }
        }
    }

    /// Returns the messages that the node sends unprompted up to `now`.
    pub fn poll(&mut self, now: Duration) -> Vec<ServerMessage> {
        let now_ms = now.as_millis() as u64;
        let mut out = Vec::new();
        if now_ms >= self.next_frame_ms {
            self.next_frame_ms = now_ms + self.frame_every_ms;
            out.push(ServerMessage::Tick { frame: Box::new(self.frame(now_ms)) });
        }
        if let Some(view) = self.view.clone().filter(|_| now_ms >= self.next_rows_ms) {
            self.next_rows_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Rows(self.processes.rows(&view, self.rows_seq, now_ms)));
        }
        if let Some(pid) = self.detail.clone().filter(|_| now_ms >= self.next_detail_ms) {
            self.next_detail_ms = now_ms + 250;
            let process = self.processes.detail(&pid, now_ms).map(Box::new);
            out.push(ServerMessage::Process { process, pid });
        }
        if let Some(view) = self.tree.as_ref().filter(|_| now_ms >= self.next_tree_ms) {
            self.next_tree_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Tree(tree::rows(view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.engines.as_ref().filter(|_| now_ms >= self.next_engines_ms) {
            self.next_engines_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Engines(guests::engines(view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.time.as_ref().filter(|_| now_ms >= self.next_time_ms) {
            self.next_time_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Time(time::time(view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.stores.as_ref().filter(|_| now_ms >= self.next_stores_ms) {
            self.next_stores_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Stores(stores::stores(view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.topics.as_ref().filter(|_| now_ms >= self.next_topics_ms) {
            self.next_topics_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Topics(topics::topics(view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.inspect.as_ref().filter(|_| now_ms >= self.next_inspect_ms) {
            self.next_inspect_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            let inspection = inspect::inspection(&self.processes, view, self.rows_seq, now_ms);
            out.push(ServerMessage::Inspection(Box::new(inspection)));
        }
        if let Some(view) = self.causes.as_ref().filter(|_| now_ms >= self.next_causes_ms) {
            self.next_causes_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Causes(inspect::causes(self.seed, view, self.rows_seq, now_ms)));
        }
        if let Some(view) = self.cpu.clone().filter(|_| now_ms >= self.next_cpu_ms) {
            self.next_cpu_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            let loads: Vec<f64> = (0..SCHEDULERS).map(|scheduler| self.load(scheduler, now_ms)).collect();
            out.push(ServerMessage::Cpu(cpu::cpu(&view, self.rows_seq, now_ms, &loads)));
        }
        if let Some(view) = self.schedulers.clone().filter(|_| now_ms >= self.next_schedulers_ms) {
            self.next_schedulers_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            let rate = self.run.as_ref().map_or(0.0, |run| self.rate(run, now_ms));
            let figures = self.observer(now_ms, rate).schedulers;
            out.push(ServerMessage::Schedulers(sched::schedulers(&view, self.rows_seq, now_ms, &figures)));
        }
        if let Some(view) = self.serve.as_ref().filter(|_| now_ms >= self.next_serve_ms) {
            self.next_serve_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Serve(Box::new(network::serve::serve(view, self.rows_seq, now_ms))));
        }
        if let Some(view) = self.cluster.as_ref().filter(|_| now_ms >= self.next_cluster_ms) {
            self.next_cluster_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            out.push(ServerMessage::Cluster(Box::new(network::cluster::cluster(view, self.rows_seq, now_ms))));
        }
        if let Some(view) = self.results.clone().filter(|_| now_ms >= self.next_results_ms) {
            self.next_results_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            self.rows_seq += 1;
            let known = scenarios();
            let profile = &profiles()[self.profile].id;
            let run = self.run.as_ref().map(|run| results::DemoResult {
                number: run.id,
                scenario: &known[run.scenario].id,
                profile,
                rate: self.rate(run, now_ms),
                measured_ms: Some(now_ms.saturating_sub(run.started_ms + WARM_UP_MS)),
            });
            out.push(ServerMessage::Results(Box::new(results::results(&view, run.as_ref(), self.rows_seq, now_ms))));
        }
        out.extend(self.watches.poll(now_ms));
        if self.next_events_ms.is_some_and(|due| now_ms >= due) {
            self.next_events_ms = Some(now_ms + events::EVERY_MS);
            out.push(ServerMessage::Events(events::answer(self.seed, now_ms, &mut self.events)));
        }
        out
    }

    /// Returns the time at which [`Self::poll`] has its next message.
    pub fn due(&self) -> Duration {
        let rows = self.view.as_ref().map(|_| self.next_rows_ms);
        let detail = self.detail.as_ref().map(|_| self.next_detail_ms);
        let tree = self.tree.as_ref().map(|_| self.next_tree_ms);
        let engines = self.engines.as_ref().map(|_| self.next_engines_ms);
        let time = self.time.as_ref().map(|_| self.next_time_ms);
        let stores = self.stores.as_ref().map(|_| self.next_stores_ms);
        let topics = self.topics.as_ref().map(|_| self.next_topics_ms);
        let cpu = self.cpu.as_ref().map(|_| self.next_cpu_ms);
        let inspect = self.inspect.as_ref().map(|_| self.next_inspect_ms);
        let causes = self.causes.as_ref().map(|_| self.next_causes_ms);
        let schedulers = self.schedulers.as_ref().map(|_| self.next_schedulers_ms);
        let results = self.results.as_ref().map(|_| self.next_results_ms);
        let serve = self.serve.as_ref().map(|_| self.next_serve_ms);
        let cluster = self.cluster.as_ref().map(|_| self.next_cluster_ms);
        let views = [
            rows,
            detail,
            tree,
            engines,
            time,
            stores,
            topics,
            cpu,
            inspect,
            causes,
            schedulers,
            results,
            serve,
            cluster,
            self.next_events_ms,
        ];
        let due = views.into_iter().chain([Some(self.next_frame_ms), self.watches.due_ms()]).flatten().min();
        Duration::from_millis(due.unwrap_or(self.next_frame_ms))
    }

    /// Returns the greeting of the node.
    pub fn hello(&self) -> ServerMessage {
        ServerMessage::Hello(Box::new(Hello {
            scenarios: scenarios(),
            profiles: profiles(),
            instance_capacity: 0,
            protocol_version: PROTOCOL_VERSION,
            role: Role::Control,
            node: NodeInfo {
                name: "demo".to_owned(),
                version: "0.1.0".to_owned(),
                os_pid: 4242,
                started_unix_ms: 1_700_000_000_000,
                cores: SCHEDULERS as u32,
                schedulers: SCHEDULERS as u32,
                process_limit: 2 * PROCESSES,
                features: ["arrivals_column", "bond_columns", "cluster", "console", "log_filter", "past"]
                    .map(str::to_owned)
                    .to_vec(),
                build: "release".to_owned(),
            },
        }))
    }

    fn stop(&mut self, now_ms: u64) {
        if let Some(run) = self.run.take() {
            self.ended = Some(DemoRun { ended_ms: Some(now_ms), ..run });
        }
    }

    fn random(&self, salt: u64, n: u64) -> f64 {
        random(self.seed, salt, n)
    }

    /// Returns a value between -1 and 1 that varies over seconds, with a little noise.
    fn drift(&self, salt: u64, ms: u64) -> f64 {
        let t = ms as f64 / 1000.0;
        let phase = self.random(salt, 0) * 6.0;
        let slow = (t / 7.3 + phase).sin() * 0.5 + (t / 2.9 + phase * 2.0).sin() * 0.3;
        slow + (self.random(salt, ms / 100) - 0.5) * 0.4
    }

    fn rate(&self, run: &DemoRun, ms: u64) -> f64 {
        if run.paused_ms.is_some_and(|paused_ms| paused_ms <= ms) {
            return 0.0;
        }
        let full = [19_400_000.0, 12_100_000.0, 18_300_000.0][run.scenario % 3] * [0.62, 1.0, 1.18][self.profile % 3];
        let warm = (ms.saturating_sub(run.started_ms) as f64 / 1500.0).min(1.0);
        full * warm.sqrt() * (1.0 + 0.06 * self.drift(run.id, ms))
    }

    fn frame(&mut self, ms: u64) -> Frame {
        self.frame_seq += 1;
        let rate = self.run.as_ref().map_or(0.0, |run| self.rate(run, ms));
        let shown = self.run.as_ref().or(self.ended.as_ref());
        let run_ms = shown.map_or(0, |run| run.ended_ms.or(run.paused_ms).unwrap_or(ms).saturating_sub(run.started_ms));
        let running = self.run.is_some();
        let points = (0..THROUGHPUT_POINTS as u64).rev().map(|back| match (&self.run, ms.checked_sub(back * 50)) {
            (Some(run), Some(at)) if at >= run.started_ms => self.rate(run, at),
            _ => 0.0,
        });
        let measured_s = run_ms.saturating_sub(WARM_UP_MS) as f64 / 1000.0;
        let mean =
            shown.map_or(0.0, |run| self.rate(&DemoRun { started_ms: 0, ..run.clone() }, run.started_ms + 9_000));
        Frame {
            scenario: shown.map(|run| scenarios()[run.scenario].id.clone()),
            running,
            uptime_ms: ms,
            ops_per_sec: rate,
            peak_concurrent: PROCESSES + 4096,
            profile: profiles()[self.profile].id.clone(),
            latency: self.latency(7, 0, (mean * measured_s) as u64),
            throughput: TimeSeriesSnapshot { points: points.collect(), capacity: THROUGHPUT_POINTS },
            observer: self.observer(ms, rate),
            seq: self.frame_seq,
            captured_at_ns: ms * 1_000_000,
            run_id: shown.map_or(0, |run| run.id),
            run_ms,
            warming_up: running && run_ms < WARM_UP_MS,
            paused: self.run.as_ref().is_some_and(|run| run.paused_ms.is_some()),
            ops_total: (mean * measured_s) as u64,
            cpu_ns_per_op: if running { 96.0 * (1.0 + 0.02 * self.drift(3, ms)) } else { 0.0 },
            latency_window: self.latency(11, ms / 1000, rate as u64),
            latency_sampling: 16,
            cost: SnapshotCost {
                snapshot_us: 41.0 + 6.0 * self.drift(5, ms),
                duty_pct: 0.24 + 0.05 * self.drift(6, ms / 500 * 500),
                target_hz: 20.0,
                actual_hz: 20.0,
            },
            ..Frame::default()
        }
    }

    fn latency(&self, salt: u64, n: u64, count: u64) -> LatencySnapshot {
        if count == 0 {
            return LatencySnapshot::default();
        }
        let scale = 1.0 + 0.1 * (self.random(salt, n) - 0.5);
        let ns = |value: f64| (value * scale) as u64;
        LatencySnapshot {
            count,
            min_ns: ns(180.0),
            max_ns: ns(2_140_000.0),
            mean_ns: 1_420.0 * scale,
            p50_ns: ns(910.0),
            p90_ns: ns(2_300.0),
            p95_ns: ns(3_900.0),
            p99_ns: ns(18_700.0),
            p999_ns: ns(121_000.0),
        }
    }

    fn busy(&self) -> f64 {
        if self.run.is_some() { [0.55, 0.82, 0.97][self.profile % 3] } else { 0.04 }
    }

    /// Returns the busy share of a scheduler.
    fn load(&self, scheduler: u64, ms: u64) -> f64 {
        (self.busy() * (1.0 + 0.12 * self.drift(20 + scheduler, ms))).clamp(0.0, 1.0)
    }

    fn observer(&self, ms: u64, rate: f64) -> ObserverSnapshot {
        let busy = self.busy();
        let load = |scheduler: u64| self.load(scheduler, ms);
        let schedulers = (0..SCHEDULERS).map(|s| SchedulerSnapshot {
            utilisation: load(s) as f32,
            run_queue: (load(s) * 64.0 * self.random(30 + s, ms / 200)) as u64,
            polls_per_sec: rate / SCHEDULERS as f64,
            steals_per_sec: load(s) * 640.0 * (1.2 + self.drift(40 + s, ms)),
            parks_per_sec: (1.0 - load(s)) * 900.0,
            wakes_per_sec: (1.0 - load(s)) * 870.0,
        });
        let control_block_bytes = PROCESSES * 192;
        let (future_bytes, mailbox_bytes) = (38 << 20, (9 << 20) + (4e6 * (1.0 + self.drift(8, ms))) as u64);
        let total = control_block_bytes + future_bytes + mailbox_bytes;
        let uses = sched::memory(ms);
        let mut memory = MemorySnapshot {
            limit_bytes: 8 << 30,
            control_block_bytes,
            future_bytes,
            mailbox_bytes,
            mailbox_limit_bytes: 2 << 30,
            uses: Some(uses),
            ..MemorySnapshot::default()
        };
        memory.rss_bytes = memory.known_bytes() + (1 << 20);
        memory.uses = Some(MemoryUses { resident_bytes: memory.rss_bytes, ..uses });
        let (polled, ready) = ((SCHEDULERS as f64 * busy).round() as u64, (busy * 90.0) as u64);
        let running = polled + ready;
        ObserverSnapshot {
            uptime_ms: ms,
            process_count: PROCESSES,
            running,
            waiting: PROCESSES - running,
            scheduler_load: (0..SCHEDULERS).map(|s| load(s) as f32).collect(),
            total_memory_bytes: total,
            spawned_total: PROCESSES + (rate * ms as f64 / 1000.0) as u64,
            finished_total: (rate * ms as f64 / 1000.0) as u64,
            messages_total: 1_210 * ms,
            crashed_total: events::crashes(ms) + 3,
            killed_total: 2,
            linked_total: 1,
            polled,
            ready,
            spawned_per_sec: rate,
            finished_per_sec: rate * 0.999,
            messages_per_sec: 1.21e6 * (1.0 + 0.1 * self.drift(9, ms)),
            delays: Some(inspect::delays((ms / 100).max(1), 64.0)),
            schedulers: schedulers.collect(),
            memory,
            cpu_pct: (0..SCHEDULERS).map(load).sum::<f64>() * 100.0,
            others_pct: Some(21.0),
            clients: 1,
            restarts_total: ms / events::EVERY_MS / 2,
            lints_total: 1,
            lints: vec![self.lint(ms)],
            ..ObserverSnapshot::default()
        }
    }

    /// Returns a lint about the process with the longest mailbox, which keeps growing.
    fn lint(&self, ms: u64) -> LintInfo {
        let (i, len) = self.processes.longest_mailbox();
        LintInfo {
            id: Lint::MailboxGrowing.id().to_owned(),
            pid: pid(i),
            name: self.processes.name_of(i),
            value: len as f64,
            text: format!("{len} messages wait, {} more than 1.0 s ago", 80 + (40.0 * self.drift(70, ms)) as i64),
            since_ms: 12_400,
        }
    }
}

fn acknowledge(id: Option<u64>) -> Vec<ServerMessage> {
    id.map(|id| ServerMessage::Ack { id }).into_iter().collect()
}

fn refuse(message: String, id: Option<u64>) -> Vec<ServerMessage> {
    vec![ServerMessage::Error { message, code: ErrorCode::Unknown, id }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_says_the_same() {
        let say = || {
            let mut demo = Demo::new(7);
            demo.receive(ClientMessage::View(View::default()), Duration::ZERO);
            (0..20).map(|n| demo.poll(Duration::from_millis(n * 100))).collect::<Vec<_>>()
        };

        assert_eq!(say(), say());
    }
}
