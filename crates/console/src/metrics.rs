//! The node's counters as `OpenMetrics` text, for `GET /metrics` on the console's listener.
//!
//! A request reads the totals of the runtime itself. What takes longer to find out is as old as the sampler's last sample:
//! the scenario, the log, the memory, stuck processes and the uptime.

mod application;
mod serve;

use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use super::encode;
use super::sampler::sample::Sample;
use rusm_runtime::Handle;
use rusm_runtime::observe;

/// Media type of [`text`].
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns all metrics of a node to which `clients` observers are attached.
pub(super) fn text(runtime: &Handle, sample: Sample, clients: u32) -> String {
    let mut registry = Registry::with_prefix("rusm");
    registry.register_collector(Box::new(Node { runtime: runtime.clone(), sample, clients }));
    // Its names are those of OpenTelemetry, without the prefix.
    let mut servers = Registry::default();
    servers.register_collector(Box::new(serve::Servers(runtime.clone())));
    let mut application = Registry::default();
    application.register_collector(Box::new(application::Application(runtime.clone())));
    let mut text = String::new();
    let encoded = encode_registry(&mut text, &registry)
        .and_then(|()| encode_registry(&mut text, &servers))
        .and_then(|()| encode_registry(&mut text, &application))
        .and_then(|()| encode_eof(&mut text));
    match encoded {
        Ok(()) => text,
        Err(_) => unreachable!("writing to a string does not fail"),
    }
}

#[derive(Debug)]
struct Node {
    runtime: Handle,
    sample: Sample,
    /// The current number: the sample's is as old as the sample.
    clients: u32,
}

type PerScheduler<M> = Family<Vec<(&'static str, String)>, M>;
type PerUse<M> = Family<Vec<(&'static str, &'static str)>, M>;

impl Collector for Node {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let totals = observe::totals(&self.runtime);
        let mut counter = |name: &str, help: &str, unit: Option<&Unit>, value: u64| {
            let metric = ConstCounter::new(value);
            let encoder = to.encode_descriptor(name, help, unit, metric.metric_type())?;
            metric.encode(encoder)
        };
        counter("processes_spawned", "Processes ever spawned", None, totals.spawned)?;
        counter("processes_exited", "Processes ever ended", None, totals.exited)?;
        counter("processes_crashed", "Processes ever ended abnormally", None, totals.crashed)?;
        counter("processes_killed", "Of the crashed ones, those ended by an exit signal", None, totals.killed)?;
        counter("processes_linked", "Of the crashed ones, those taken along by a link", None, totals.linked)?;
        let supervision = observe::supervision(&self.runtime);
        counter("restarts", "Restarts of children by supervisors", None, supervision.restarts)?;
        counter("restarts_failed", "Failed restarts of children", None, supervision.restarts_failed)?;
        counter("children_lost", "Children lost after too many restarts", None, supervision.children_lost)?;
        counter("messages_received", "Messages ever received", None, totals.messages)?;
        let mailboxes = observe::mailbox_bytes(&self.runtime);
        counter("mailboxes_filled", "Times that the limit of all mailboxes was reached", None, mailboxes.filled_total)?;
        if let Some(log) = &self.sample.log {
            counter("log_lines", "Log lines written", None, log.lines_total)?;
            counter("log_lines_dropped", "Log lines dropped", None, log.dropped_total)?;
            counter("log_errors", "Failed writes to the log", None, log.errors_total)?;
        }
        counter("scenario_operations", "Operations of the running scenario", None, self.sample.run.ops)?;
        counter("scenario_errors", "Failed operations of the running scenario", None, self.sample.run.errors)?;
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            let metric = ConstGauge::new(value);
            let encoder = to.encode_descriptor(name, help, unit, metric.metric_type())?;
            metric.encode(encoder)
        };
        gauge("processes", "Processes alive", None, totals.live as f64)?;
        gauge("process_limit", "Maximum number of live processes", None, observe::process_limit(&self.runtime) as f64)?;
        gauge("processes_stuck", "Processes inside a poll that does not return", None, self.sample.stuck.len() as f64)?;
        gauge("uptime", "Time since the node started", Some(&Unit::Seconds), self.sample.uptime.as_secs_f64())?;
        gauge("resident_memory", "Resident set of the node", Some(&Unit::Bytes), self.sample.rss_bytes as f64)?;
        let of_bytes = Some(&Unit::Bytes);
        gauge("mailboxes", "Bytes of the messages in all mailboxes", of_bytes, mailboxes.bytes as f64)?;
        gauge("mailboxes_limit", "Maximum number of bytes in all mailboxes", of_bytes, mailboxes.max_bytes as f64)?;
        gauge("observers", "Observers attached", None, f64::from(self.clients))?;
        gauge(
            "console_duty",
            "Share of one core used for observation",
            Some(&Unit::Other("ratio".to_owned())),
            self.sample.duty_pct / 100.0,
        )?;
        self.memory(&mut to)?;
        self.schedulers(to)
    }
}

impl Node {
    /// Encodes the memory by use. The uses together are the resident set, except for what is not known.
    fn memory(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let memory = encode::memory(&self.sample);
        let Some(uses) = memory.uses else { return Ok(()) };
        let bytes = PerUse::<Gauge>::default();
        let figures = [
            ("control_blocks", memory.control_block_bytes),
            ("futures", memory.future_bytes),
            ("mailboxes", memory.mailbox_bytes),
            ("free_slots", uses.free_slot_bytes),
            ("side_tables", uses.side_table_bytes),
            ("free_nodes", uses.free_node_bytes),
            ("topics", uses.topic_bytes),
            ("rings", uses.ring_bytes),
            ("timers", uses.timer_bytes),
            ("stores", uses.store_bytes),
            ("linear_memory", uses.linear_bytes),
            ("guest_stacks", uses.guest_stack_bytes),
            ("engines", uses.engine_bytes),
            ("code", uses.code_bytes),
            ("observers", uses.observer_bytes),
            ("recorder", uses.recorder_bytes),
            ("log", uses.log_bytes),
            ("thread_stacks", uses.thread_stack_bytes),
            ("program", uses.program_bytes),
            ("other", uses.other_bytes),
            ("allocator", uses.allocator_bytes),
        ];
        for (used_for, count) in figures {
            bytes.get_or_create(&vec![("use", used_for)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let help = "Resident memory of the node by use";
        let encoder = to.encode_descriptor("memory", help, Some(&Unit::Bytes), bytes.metric_type())?;
        bytes.encode(encoder)
    }

    fn schedulers(&self, mut to: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let busy = PerScheduler::<Counter<f64, AtomicU64>>::default();
        let queue = PerScheduler::<Gauge>::default();
        for (id, scheduler) in observe::schedulers(&self.runtime).iter().enumerate() {
            let label = vec![("scheduler", id.to_string())];
            busy.get_or_create(&label).inc_by(scheduler.busy_ns as f64 / 1e9);
            queue.get_or_create(&label).set(scheduler.run_queue.cast_signed());
        }
        let encoder =
            to.encode_descriptor("scheduler_busy", "Time not asleep", Some(&Unit::Seconds), busy.metric_type())?;
        busy.encode(encoder)?;
        let encoder = to.encode_descriptor("scheduler_run_queue", "Runnable processes", None, queue.metric_type())?;
        queue.encode(encoder)
    }
}
