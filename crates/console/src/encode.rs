//! Conversion of observations by the sampler and the table to protocol messages; no other module does this.

pub(super) mod causes;
pub(super) mod cluster;
pub(crate) mod cpu;
pub(super) mod engines;
pub(super) mod events;
pub(crate) mod frame_texts;
pub(super) mod inspect;
pub(super) mod schedulers;
pub(super) mod serve;
pub(super) mod stores;
pub(crate) mod text;
pub(super) mod time;
pub(super) mod topics;
pub(super) mod tree;
pub(super) mod waits;

use std::collections::HashMap;

use rusm_protocol::{
    Bonds, Cell, Column, Frame, LintInfo, MemorySnapshot, ObserverSnapshot, ProcessDetail, ProcessInfo, ProcessStatus,
    SchedulerSnapshot, SnapshotCost, THROUGHPUT_POINTS, TimeSeriesSnapshot,
};

use super::lints::active_warnings::Warning;
use super::lints::waits::WaitGraph;
use super::sampler::memory::control_block_bytes;
use super::sampler::sample::Sample;
use super::view::table::ranking::Ranked;
use super::view::table::sort_key;
use rusm_runtime::observe::{self, BodyInfo, CauseKind, ProcessRef, ProcessState};
use rusm_runtime::{Handle, NAME_MAX_BYTES, Pid};
use text::cut;

/// Number of bonds of each kind that the detail of a process shows.
const LINKS_SHOWN: usize = 16;

/// Returns the word for a kind of failure.
const fn cause_word(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Crash => "crash",
        CauseKind::Killed => "killed",
        CauseKind::Link => "link",
    }
}

/// Creates a frame without the fields that differ between clients.
pub(super) fn frame(sample: &Sample) -> Frame {
    let run = &sample.run;
    let uptime_ms = sample.uptime.as_millis() as u64;
    Frame {
        scenario: run.scenario.clone(),
        running: run.scenario.is_some(),
        uptime_ms,
        ops_per_sec: round(sample.ops_per_sec),
        peak_concurrent: run.peak_concurrent,
        profile: run.profile.clone(),
        latency: run.latency,
        throughput: TimeSeriesSnapshot {
            points: sample.throughput.iter().map(|point| round(*point)).collect(),
            capacity: THROUGHPUT_POINTS,
        },
        observer: observer(sample, uptime_ms),
        seq: sample.seq,
        captured_at_ns: sample.uptime.as_nanos() as u64,
        run_id: run.run_id,
        run_ms: run.run_ms,
        warming_up: run.warming_up,
        paused: run.paused,
        run_error: run.error.clone(),
        ops_total: run.ops_measured,
        errors_total: run.errors,
        errors_per_sec: round(sample.errors_per_sec),
        dropped_total: run.dropped,
        dropped_per_sec: round(sample.dropped_per_sec),
        offered_per_sec: round(run.offered_per_sec),
        others_alive: if run.scenario.is_some() { run.others_alive } else { sample.totals.live },
        cpu_ns_per_op: round(sample.cpu_ns_per_op),
        latency_window: run.latency_window,
        latency_sampling: run.latency_sampling,
        stalled: sample.stalled,
        cost: SnapshotCost {
            snapshot_us: round(sample.cost_us),
            duty_pct: round(sample.duty_pct),
            target_hz: round(sample.target_hz),
            actual_hz: round(sample.actual_hz),
        },
        skipped: 0,
    }
}

fn observer(sample: &Sample, uptime_ms: u64) -> ObserverSnapshot {
    let live = sample.totals.live;
    let queued: u64 = sample.schedulers.iter().map(|scheduler| scheduler.run_queue).sum();
    let running = (sample.running + queued).min(live);
    let polled = sample.running.min(live);
    let control_blocks = control_block_bytes(live);
    ObserverSnapshot {
        uptime_ms,
        process_count: live,
        running,
        waiting: live - running,
        scheduler_load: sample.schedulers.iter().map(|scheduler| scheduler.utilisation as f32).collect(),
        total_memory_bytes: control_blocks + sample.census.future_bytes + sample.census.mailbox_bytes,
        spawned_total: sample.totals.spawned,
        finished_total: sample.totals.exited,
        messages_total: sample.totals.messages,
        processes: Vec::new(),
        crashed_total: sample.totals.crashed,
        killed_total: sample.totals.killed,
        linked_total: sample.totals.linked,
        polled,
        ready: running - polled,
        spawned_per_sec: round(sample.spawned_per_sec),
        finished_per_sec: round(sample.finished_per_sec),
        messages_per_sec: round(sample.messages_per_sec),
        schedulers: sample
            .schedulers
            .iter()
            .map(|scheduler| SchedulerSnapshot {
                utilisation: scheduler.utilisation as f32,
                run_queue: scheduler.run_queue,
                polls_per_sec: round(scheduler.polls_per_sec),
                steals_per_sec: round(scheduler.steals_per_sec),
                parks_per_sec: round(scheduler.parks_per_sec),
                wakes_per_sec: round(scheduler.wakes_per_sec),
            })
            .collect(),
        memory: memory(sample),
        cpu_pct: round(sample.cpu_pct),
        others_pct: sample.others_pct.map(round),
        stuck: sample.stuck.iter().map(ToString::to_string).collect(),
        clients: sample.clients,
        restarts_total: sample.supervision.restarts,
        restarts_failed_total: sample.supervision.restarts_failed,
        children_lost_total: sample.supervision.children_lost,
        lints_total: sample.lints_total,
        lints: sample.lints.iter().map(lint).collect(),
        log: sample.log.clone(),
        delays: sample.delays.clone(),
    }
}

/// Encodes the memory of the node by use.
pub(super) fn memory(sample: &Sample) -> MemorySnapshot {
    let control_blocks = control_block_bytes(sample.totals.live);
    MemorySnapshot {
        rss_bytes: sample.rss_bytes,
        limit_bytes: sample.limit_bytes,
        control_block_bytes: control_blocks,
        future_bytes: sample.census.future_bytes,
        mailbox_bytes: sample.census.mailbox_bytes,
        mailbox_limit_bytes: sample.mailboxes.max_bytes,
        mailboxes_full: sample.mailboxes.is_full,
        mailboxes_filled_total: sample.mailboxes.filled_total,
        uses: sample.memory.map(|(reading, read_at)| reading.uses(control_blocks, sample.uptime, read_at)),
    }
}

fn lint(warning: &Warning) -> LintInfo {
    LintInfo {
        id: warning.lint.id().to_owned(),
        pid: if warning.pid == Pid::NONE { String::new() } else { warning.pid.to_string() },
        name: warning.name.as_deref().map(|name| cut(name, NAME_MAX_BYTES)),
        value: round(warning.value),
        text: warning.text.clone(),
        since_ms: warning.since.as_millis() as u64,
    }
}

/// Rounds to about four significant digits: precise enough to read, and fewer bytes change.
pub(crate) fn round(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    if value >= 1000.0 { value.round() } else { (value * 1000.0).round() / 1000.0 }
}

/// Values of a process at a client's previous refresh, for computing rates.
#[derive(Clone, Copy, Debug)]
struct Seen {
    generation: u32,
    at_ns: u64,
    reductions: u64,
    busy_ns: u64,
    messages: u64,
    arrivals: u64,
    /// Rates that were sent with these values.
    rates: Option<Rates>,
}

/// Rates over a shorter span are noise: the previous rates are sent again.
const RATE_SPAN_MIN_NS: u64 = 50_000_000;

/// Encodes the rows of one client. Remembers the values that it sent last, so that rates cover this client's own
/// interval.
#[derive(Debug, Default)]
pub(super) struct RowEncoder {
    seen: HashMap<u32, Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    reductions: f64,
    busy_pct: f64,
    messages: f64,
    arrivals: f64,
}

impl RowEncoder {
    /// Encodes the rows of an order, in `columns`. With `waits`, the states of parked processes say what they wait for.
    pub(super) fn rows(
        &mut self,
        runtime: &Handle,
        order: &[Ranked],
        columns: &[Column],
        waits: Option<&WaitGraph>,
    ) -> Vec<Vec<Cell>> {
        let now_ns = observe::uptime(runtime).as_nanos() as u64;
        let needs_extra = columns.iter().any(|column| engines::is_body_column(*column));
        let mut seen = HashMap::with_capacity(order.len());
        let rows = order.iter().map(|ranked| {
            let process_ref =
                observe::process_in_slot(runtime, ranked.slot).filter(|now| now.generation() == ranked.generation);
            let Some(process_ref) = process_ref else {
                return gone(*ranked, columns);
            };
            let rates = self.rates(&process_ref, now_ns, &mut seen);
            let body_info = needs_extra.then(|| observe::body_info_of(&process_ref)).flatten();
            let cell = |column: &Column| match *column {
                column if engines::is_body_column(column) => engines::body_cell(body_info.as_deref(), column),
                Column::State => {
                    let words = waits.and_then(|graph| waits::words(runtime, &process_ref, graph));
                    Cell::Text(words.unwrap_or_else(|| state(&process_ref).to_owned()))
                }
                column => cell(runtime, &process_ref, column, rates, now_ns),
            };
            columns.iter().map(cell).collect()
        });
        let rows = rows.collect();
        self.seen = seen;
        rows
    }

    /// Returns the rates since the client's previous refresh; `None` if the process is new to this client.
    fn rates(&self, process_ref: &ProcessRef<'_>, now_ns: u64, seen: &mut HashMap<u32, Seen>) -> Option<Rates> {
        let now = Seen {
            generation: process_ref.generation(),
            at_ns: now_ns,
            reductions: process_ref.reductions(),
            busy_ns: process_ref.busy_ns(),
            messages: process_ref.messages(),
            arrivals: sort_key::arrivals(process_ref),
            rates: None,
        };
        let then = self.seen.get(&process_ref.slot()).filter(|then| then.generation == now.generation);
        let age_ns = now_ns.saturating_sub(process_ref.spawned_ms() * 1_000_000);
        let now = then.map_or_else(|| now.since_spawn(age_ns), |then| now.after(then));
        seen.insert(process_ref.slot(), now);
        now.rates
    }
}

/// Returns the fill of each mailbox in per cent of its capacity; nothing if all of them are empty.
pub(super) fn mailbox_fill(runtime: &Handle, order: &[Ranked]) -> Vec<u8> {
    let fill = |ranked: &Ranked| {
        let seen =
            observe::process_in_slot(runtime, ranked.slot).filter(|now| now.generation() == ranked.generation)?;
        // Rounded up: a mailbox that holds a message is not empty.
        Some((seen.mailbox_len() * 100).div_ceil(seen.mailbox_capacity().max(1)).min(100) as u8)
    };
    let fills: Vec<u8> = order.iter().map(|ranked| fill(ranked).unwrap_or(0)).collect();
    if fills.iter().all(|fill| *fill == 0) { Vec::new() } else { fills }
}

/// Age up to which the rates of a process are those of its whole life, if it is new to the client.
const YOUNG_NS: u64 = 1_000_000_000;

impl Seen {
    /// Returns this observation of a process that is new to the client, with rates if it is young: otherwise, processes
    /// that live for less than two refreshes would have none.
    fn since_spawn(self, age_ns: u64) -> Self {
        let spawned = Self {
            at_ns: self.at_ns.saturating_sub(age_ns),
            reductions: 0,
            busy_ns: 0,
            messages: 0,
            arrivals: 0,
            rates: None,
            ..self
        };
        if (RATE_SPAN_MIN_NS..=YOUNG_NS).contains(&age_ns) { self.after(&spawned) } else { self }
    }

    /// Returns this observation with the rates since an earlier one, or the earlier one if it is too recent.
    fn after(self, then: &Self) -> Self {
        let span_ns = self.at_ns.saturating_sub(then.at_ns);
        if span_ns < RATE_SPAN_MIN_NS {
            return *then;
        }
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / span_ns as f64 * 1e9;
        let rates = Rates {
            reductions: rate(self.reductions, then.reductions),
            busy_pct: (rate(self.busy_ns, then.busy_ns) / 1e7).min(100.0),
            messages: rate(self.messages, then.messages),
            arrivals: rate(self.arrivals, then.arrivals),
        };
        // The number of arrivals may be too high at one look.
        Self { arrivals: self.arrivals.max(then.arrivals), rates: Some(rates), ..self }
    }
}

/// Encodes the row of a process that has ended; it keeps its position until the next order.
fn gone(ranked: Ranked, columns: &[Column]) -> Vec<Cell> {
    let cell = |column: &Column| match column {
        Column::Pid => Cell::Text(Pid::local(ranked.slot, ranked.generation).to_string()),
        Column::State => Cell::Text("exited".to_owned()),
        _ => Cell::Empty(()),
    };
    columns.iter().map(cell).collect()
}

fn cell(runtime: &Handle, seen: &ProcessRef<'_>, column: Column, rates: Option<Rates>, now_ns: u64) -> Cell {
    let rate = |of: fn(Rates) -> f64| rates.map_or(Cell::Empty(()), |rates| Cell::Rate(round(of(rates))));
    match column {
        Column::Pid => Cell::Text(seen.pid().to_string()),
        Column::Name => display_name(runtime, seen).map_or(Cell::Empty(()), Cell::Text),
        Column::RedsPerSec => rate(|rates| rates.reductions),
        Column::Reds => Cell::Count(seen.reductions()),
        Column::BusyPct => rate(|rates| rates.busy_pct),
        Column::MemoryBytes => Cell::Count(seen.memory_bytes()),
        Column::MailboxLen => Cell::Count(seen.mailbox_len()),
        Column::MailboxBytes => Cell::Count(seen.mailbox_bytes()),
        Column::Links => Cell::Count(observe::link_counts(seen).0),
        Column::Monitors => Cell::Count(observe::link_counts(seen).1),
        Column::MsgsPerSec => rate(|rates| rates.messages),
        Column::ArrivalsPerSec => rate(|rates| rates.arrivals),
        Column::Messages => Cell::Count(seen.messages()),
        Column::AgeMs => Cell::Count((now_ns / 1_000_000).saturating_sub(seen.spawned_ms())),
        Column::Parent => parent(runtime, seen).map_or(Cell::Empty(()), Cell::Text),
        _ => Cell::Empty(()),
    }
}

fn state(seen: &ProcessRef<'_>) -> &'static str {
    if seen.is_stuck() && seen.state() == ProcessState::Running { "stuck" } else { seen.state().word() }
}

/// Longest name of a future's type that is sent: those of nested combinators have unbounded length.
const TYPE_MAX_BYTES: usize = 1024;

fn display_name(runtime: &Handle, seen: &ProcessRef<'_>) -> Option<String> {
    observe::display_name(runtime, seen).map(|called| cut(&called, NAME_MAX_BYTES))
}

fn parent(runtime: &Handle, seen: &ProcessRef<'_>) -> Option<String> {
    (seen.parent_slot() != 0)
        .then(|| observe::process(runtime, seen.pid())?.parent.map(|pid| pid.to_string()))
        .flatten()
}

/// Encodes the rows of the legacy table, for a client that does not support views.
pub(super) fn process_infos(runtime: &Handle, order: &[Ranked]) -> Vec<ProcessInfo> {
    let info = |ranked: &Ranked| {
        let seen =
            observe::process_in_slot(runtime, ranked.slot).filter(|now| now.generation() == ranked.generation)?;
        let status = match seen.state() {
            ProcessState::Running | ProcessState::Runnable => ProcessStatus::Running,
            ProcessState::Waiting | ProcessState::Io => ProcessStatus::Waiting,
            ProcessState::Sleeping => ProcessStatus::Sleeping,
            ProcessState::Exiting => ProcessStatus::Finished,
        };
        Some(ProcessInfo {
            // 32 bits of slot and 21 of generation: unique among live processes and exact in a double.
            id: u64::from(seen.generation() & 0x001f_ffff) << 32 | u64::from(seen.slot()),
            name: display_name(runtime, &seen),
            status,
            mailbox_depth: u32::try_from(seen.mailbox_len()).unwrap_or(u32::MAX),
            memory_bytes: seen.memory_bytes(),
            reductions: seen.reductions(),
            pid: seen.pid().to_string(),
        })
    };
    order.iter().filter_map(info).collect()
}

impl RowEncoder {
    /// Returns one process in full; `None` once it has ended.
    pub(super) fn detail(&mut self, runtime: &Handle, pid: Pid) -> Option<ProcessDetail> {
        let report = observe::process(runtime, pid)?;
        let seen = observe::process_in_slot(runtime, pid.slot()).filter(|now| now.generation() == pid.generation())?;
        let bonds = observe::links(runtime, pid, LINKS_SHOWN)?;
        let now_ns = observe::uptime(runtime).as_nanos() as u64;
        let mut last = HashMap::new();
        let rates = self.rates(&seen, now_ns, &mut last);
        let body_info = observe::body_info_of(&seen);
        self.seen = last;
        Some(ProcessDetail {
            pid: pid.to_string(),
            name: report.name.map(|name| cut(&name, NAME_MAX_BYTES)),
            label: report.label.map(|label| cut(&label, NAME_MAX_BYTES)),
            state: state(&seen).to_owned(),
            stuck: seen.is_stuck(),
            kind: body_info.as_deref().map_or("native", BodyInfo::kind).to_owned(),
            parent: report.parent.map(|parent| parent.to_string()),
            age_ms: (now_ns / 1_000_000).saturating_sub(seen.spawned_ms()),
            reductions: seen.reductions(),
            reds_per_sec: rates.map(|rates| round(rates.reductions)),
            busy_ns: seen.busy_ns(),
            busy_pct: rates.map(|rates| round(rates.busy_pct)),
            mailbox_len: seen.mailbox_len(),
            mailbox_capacity: seen.mailbox_capacity(),
            messages: seen.messages(),
            msgs_per_sec: rates.map(|rates| round(rates.messages)),
            memory_bytes: seen.memory_bytes(),
            control_block_bytes: ProcessRef::control_block_bytes(),
            future_bytes: seen.future_bytes(),
            mailbox_bytes: seen.mailbox_bytes(),
            future_type: cut(report.future_type, TYPE_MAX_BYTES),
            traps_exits: seen.traps_exits(),
            links: some(bonds.link_count, &bonds.links),
            monitors: some(bonds.monitor_count, &bonds.monitors),
            monitored_by: some(bonds.monitored_by_count, &bonds.monitored_by),
            module: body_info.as_deref().and_then(BodyInfo::source).map(|source| cut(&source, NAME_MAX_BYTES)),
            facts: body_info.as_deref().map(engines::facts).unwrap_or_default(),
        })
    }
}

fn some(count: usize, pids: &[Pid]) -> Bonds {
    Bonds { count: count as u64, pids: pids.iter().map(Pid::to_string).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_ms: u64, reductions: u64) -> Seen {
        Seen { generation: 1, at_ns: at_ms * 1_000_000, reductions, busy_ns: 0, messages: 0, arrivals: 0, rates: None }
    }

    #[test]
    fn a_rate_is_over_the_time_since_the_last_look() {
        let rates = look(250, 110).after(&look(50, 10)).rates;

        assert_eq!(rates, Some(Rates { reductions: 500.0, busy_pct: 0.0, messages: 0.0, arrivals: 0.0 }));
    }

    #[test]
    fn a_young_process_has_the_rates_of_its_life_and_an_old_one_none_at_the_first_look() {
        let rates = |age_ms: u64| look(5_000, 40).since_spawn(age_ms * 1_000_000).rates.map(|rates| rates.reductions);

        assert_eq!([10, 100, 1_000, 1_001].map(rates), [None, Some(400.0), Some(40.0), None]);
        let fed = Seen { arrivals: 5, ..look(5_000, 40) };
        assert_eq!(fed.since_spawn(100_000_000).rates.map(|rates| rates.arrivals), Some(50.0));
    }

    #[test]
    fn looks_right_after_another_say_what_that_one_said() {
        let (first, second) = (look(0, 10), look(200, 20).after(&look(0, 10)));

        assert_eq!(look(20, 900).after(&first).rates, None);
        assert_eq!(look(220, 900).after(&second).rates, second.rates);
        assert_eq!(
            look(400, 40).after(&look(220, 900).after(&second)).rates.map(|rates| rates.reductions),
            Some(100.0)
        );
    }

    #[test]
    fn a_text_is_cut_between_two_characters() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(cut("aäb", 9), "aäb");
    }
}
