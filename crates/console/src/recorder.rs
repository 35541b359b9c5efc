//! The flight recorder: what observers would have seen over the last minutes, in bounded memory.
//!
//! ```text
//!   sample ──▶ tick, ten times a second ─────────────────▶ ring of one minute
//!        └───▶ tick, rows, tree, ... once a second ──▶ JSON ──▶ differences ──▶ ring of fifteen minutes ──▶ past
//!        └───▶ figures once a second ────────────────────────────────────────▶ history
//! ```
//!
//! It records the messages that clients receive, as text, so an instant of the past equals what a client saw live. It
//! runs on the console's thread at its ticks, whether or not a client is attached. While no client is attached and no
//! process runs, nothing but clocks would differ between two instants, so it records fewer.

mod delta;
mod figures;
mod kind;
pub(crate) mod recording;
mod ring;
mod schedule;
mod top_rows;

use std::time::{Duration, Instant};

use rusm_protocol::{
    CausesView, Column, CpuView, Engines, EnginesView, Frame, Results, ResultsView, Role, Rows, SchedulersView,
    ServeView, ServerMessage, Stores, StoresView, TREE_OPEN_MAX, Time, TimeView, Topics, TopicsView, TreeRows,
    TreeView, VIEW_ROWS_MAX, ViewWindow, Waits, WaitsView, encode,
};

use self::recording::Recording;
use self::ring::Kind;
use self::schedule::{Due, Schedule};
use self::top_rows::TopRows;
use crate::budget::{thread_cpu, thread_cpu_since};
use crate::encode::events::events as event_list;
use crate::encode::{self as encoder, RowEncoder};
use crate::sampler::sample::Sample;
use crate::view::causes::CausesSource;
use crate::view::cpu::CpuSource;
use crate::view::engines::EnginesSource;
use crate::view::network::serve::ServeSource;
use crate::view::node::Node;
use crate::view::schedulers::SchedulersSource;
use crate::view::stores::StoresSource;
use crate::view::table::window::{ViewMeta, ViewSource};
use crate::view::time::TimeSource;
use crate::view::topics::TopicsSource;
use crate::view::tree::TreeSource;
use crate::view::waits::WaitsSource;
use rusm_runtime::observe;

/// Shortest time between two looks at the CPU time of all processes: one at each instant that is not early.
const CPU_EVERY: Duration = Duration::from_millis(900);
/// Share of one core that looks at the CPU time of all processes may use.
const CPU_SHARE: f64 = 0.0015;
/// Size of a message from which on it is not recorded. An instant of all kinds still fits into one answer.
const MESSAGE_MAX_BYTES: usize = 120 * 1024;
/// Number of events of an instant.
const EVENTS: usize = 64;
/// Number of processes up to which the sums of the tree are recorded: reading them all then takes a fraction of a
/// millisecond.
const SUMS_PROCESSES_MAX: u64 = 20_000;
/// Supervisors with recorded children.
const OPEN_MAX: usize = 64;

/// Writes the recording of a console.
pub(crate) struct Recorder {
    encoder: RowEncoder,
    views: Views,
    schedule: Schedule,
    seq: u64,
}

/// The recorded part of the views that a client selects.
struct Views {
    open: Vec<String>,
    /// The last look at the tree, with its sums.
    tree: Option<TreeSource>,
    engines: Option<EnginesSource>,
    time: Option<TimeSource>,
    stores: Option<StoresSource>,
    topics: Option<TopicsSource>,
    causes: Option<CausesSource>,
    schedulers: Option<SchedulersSource>,
    serve: Option<ServeSource>,
    waits: Option<WaitsSource>,
    cpu: Option<CpuSource>,
    /// The last look at CPU time, which reads every process, and the time of the next one.
    cpu_text: String,
    next_cpu: Option<Instant>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let window = ViewWindow { offset: 0, len: 50 };
        // Fixed views are within all limits.
        let views = Views {
            open: Vec::new(),
            tree: None,
            engines: EnginesSource::new(EnginesView { window, ..EnginesView::default() }).ok(),
            time: TimeSource::new(TimeView::default()).ok(),
            stores: StoresSource::new(StoresView { window, ..StoresView::default() }, Role::Observe).ok(),
            schedulers: SchedulersSource::new(SchedulersView::default()).ok(),
            serve: ServeSource::new(ServeView { window, requests: window, ..ServeView::default() }).ok(),
            waits: WaitsSource::new(WaitsView { window, ..WaitsView::default() }).ok(),
            cpu: CpuSource::new(CpuView { window, ..CpuView::default() }).ok(),
            cpu_text: String::new(),
            next_cpu: None,
            causes: CausesSource::new(CausesView { window, ..CausesView::default() }).ok(),
            topics: TopicsSource::new(TopicsView { window, ..TopicsView::default() }).ok(),
        };
        Self { encoder: RowEncoder::default(), views, schedule: Schedule::default(), seq: 0 }
    }

    /// Records what is due at a tick of the node.
    pub(crate) fn tick(&mut self, node: &Node, sample: &Sample, now: Instant) {
        let recording = &mut *node.recording.borrow_mut();
        if !recording.is_on() {
            return;
        }
        let before = thread_cpu();
        recording.top_rows.tick(&node.runtime, now);
        let due = self.schedule.due(now, sample.clients, observe::idle_progress(&node.runtime));
        if due.frame {
            self.record(recording, node, sample, now, due);
        }
        recording.cost.add(now, thread_cpu_since(before));
    }

    /// Records a frame, and with it what else is due.
    fn record(&mut self, recording: &mut Recording, node: &Node, sample: &Sample, now: Instant, due: Due) {
        let frame = encoder::frame(sample);
        let at_ms = frame.captured_at_ns / 1_000_000;
        let tick = encode(&ServerMessage::Tick { frame: Box::new(frame.clone()) });
        recording.frames.push(at_ms, &[(kind::TICK, &tick)]);
        if due.figures {
            recording.figures.push(at_ms, &frame);
        }
        if due.instant {
            self.record_views(recording, node, now, at_ms, &frame, tick);
        }
    }

    /// Records an instant with all views.
    fn record_views(
        &mut self,
        recording: &mut Recording,
        node: &Node,
        now: Instant,
        at_ms: u64,
        frame: &Frame,
        tick: String,
    ) {
        let before = thread_cpu();
        self.seq += 1;
        let mut messages = vec![(kind::TICK, tick)];
        let mut add = |kind, message: ServerMessage| messages.push((kind, encode(&message)));
        add(kind::ROWS, ServerMessage::Rows(self.rows(&recording.top_rows, node)));
        add(kind::TREE, ServerMessage::Tree(self.tree(node, at_ms, frame.observer.process_count)));
        let Views { engines, time, stores, topics, causes, schedulers, serve, waits, .. } = &mut self.views;
        let seq = self.seq;
        for (kind, message) in [
            (kind::ENGINES, look(engines, node, seq, at_ms)),
            (kind::TIME, look(time, node, seq, at_ms)),
            (kind::STORES, look(stores, node, seq, at_ms)),
            (kind::TOPICS, look(topics, node, seq, at_ms)),
            (kind::CAUSES, look(causes, node, seq, at_ms)),
            (kind::SCHEDULERS, look(schedulers, node, seq, at_ms)),
            (kind::SERVE, look(serve, node, seq, at_ms)),
            (kind::WAITS, look(waits, node, seq, at_ms)),
            (kind::RESULTS, Some(results(node, seq, at_ms))),
            (kind::EVENTS, Some(ServerMessage::Events(event_list(&node.runtime, EVENTS)))),
        ] {
            if let Some(message) = message.filter(|message| !is_empty(message)) {
                add(kind, message);
            }
        }
        self.look_at_cpu(node, now, at_ms);
        if !self.views.cpu_text.is_empty() {
            messages.push((kind::CPU, self.views.cpu_text.clone()));
        }
        messages.retain(|(_, text)| text.len() <= MESSAGE_MAX_BYTES);
        let texts: Vec<(Kind, &str)> = messages.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        recording.instants.push(at_ms, &texts);
        self.schedule.instant_cost(now, thread_cpu_since(before));
    }

    /// Looks at the CPU time by kind, as often as its cost allows.
    fn look_at_cpu(&mut self, node: &Node, now: Instant, at_ms: u64) {
        if self.views.next_cpu.is_some_and(|next| now < next) {
            return;
        }
        let before = thread_cpu();
        if let Some(message) = look(&mut self.views.cpu, node, self.seq, at_ms) {
            self.views.cpu_text = encode(&message);
        }
        let every = CPU_EVERY.max(thread_cpu_since(before).div_f64(CPU_SHARE));
        self.views.next_cpu = Some(now + every);
    }

    /// Returns the rows of the selected processes that live, in no order.
    fn rows(&mut self, top_rows: &TopRows, node: &Node) -> Rows {
        let alive: Vec<_> = top_rows
            .selected()
            .iter()
            .filter(|ranked| {
                let seen = observe::process_in_slot(&node.runtime, ranked.slot);
                seen.is_some_and(|seen| seen.generation() == ranked.generation)
            })
            .take(VIEW_ROWS_MAX as usize)
            .copied()
            .collect();
        let rows = self.encoder.rows(&node.runtime, &alive, &Column::ALL, None);
        Rows {
            seq: self.seq,
            total: top_rows.total(),
            matched: rows.len() as u64,
            columns: Column::ALL.to_vec(),
            rows,
            ..Rows::default()
        }
    }

    /// Returns the first page of the tree, with its supervisors open. Sums read every process, so they are left out
    /// while there are many.
    fn tree(&mut self, node: &Node, at_ms: u64, processes: u64) -> TreeRows {
        let open = std::mem::take(&mut self.views.open);
        let (window, sums) = (ViewWindow { offset: 0, len: 150 }, processes <= SUMS_PROCESSES_MAX);
        let Ok(source) = TreeSource::new(TreeView { open, window, sums, ..TreeView::default() }) else {
            return TreeRows::default();
        };
        let mut source = match &mut self.views.tree {
            Some(before) => source.continuing(before),
            None => source,
        };
        let rows = source.read(node);
        self.views.tree = Some(source);
        let supervisors = rows.rows.iter().filter(|row| row.branch.is_some());
        self.views.open = supervisors.take(OPEN_MAX.min(TREE_OPEN_MAX)).map(|row| row.path.clone()).collect();
        TreeRows { seq: self.seq, at_ms, ..rows }
    }
}

fn look<S: ViewSource>(source: &mut Option<S>, node: &Node, seq: u64, at_ms: u64) -> Option<ServerMessage> {
    let source = source.as_mut()?;
    let found = source.read(node);
    Some(source.message(found, ViewMeta { seq, at_ms, cost_us: 0.0, degraded: None }))
}

/// Returns the newest result, and the list of results. Nobody watches them, so no intermediate ones are computed for it.
fn results(node: &Node, seq: u64, at_ms: u64) -> ServerMessage {
    let window = ViewWindow { offset: 0, len: 50 };
    let view = ResultsView { rows: window, history: window, ..ResultsView::default() };
    ServerMessage::Results(Box::new(Results { seq, at_ms, ..node.host.recorded_results(&view) }))
}

/// Returns true if the node has nothing of this kind.
fn is_empty(message: &ServerMessage) -> bool {
    match message {
        ServerMessage::Engines(Engines { engines, .. }) => engines.is_empty(),
        ServerMessage::Time(Time { tickers, streams, .. }) => tickers.is_empty() && streams.is_empty(),
        ServerMessage::Stores(Stores { stores, tables, .. }) => stores.is_empty() && tables.is_empty(),
        ServerMessage::Serve(serve) => serve.servers.is_empty(),
        ServerMessage::Topics(Topics { topics, .. }) => topics.is_empty(),
        ServerMessage::Waits(Waits { rows, .. }) => rows.is_empty(),
        ServerMessage::Results(results) => results.result.is_none() && results.history.is_empty(),
        _ => false,
    }
}
