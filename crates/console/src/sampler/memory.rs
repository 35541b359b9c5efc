//! Memory of the node by use: what each part of it reports, set against the resident memory of its mappings.
//!
//! ```text
//!   smaps ──▶ program │ thread stacks │ code │ guests │ heap
//!                                                       └─▶ slots, futures, mailboxes, topics, rings, stores, ...
//!                                                           freed and kept by the allocator │ other allocations
//! ```
//!
//! Nothing is counted in advance: it is read while an observer is attached or fetches the metrics, at most once a
//! second, and more rarely if it costs more CPU time.

mod allocator;
mod mappings;

use std::time::{Duration, Instant};

use rusm_protocol::MemoryUses;
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, ProcessRef};

use super::sample::{Census, MemoryReading};
use crate::budget::{thread_cpu, thread_cpu_since};

/// Minimum interval between two readings.
const EVERY: Duration = Duration::from_secs(1);
/// Share of one core that the readings may use.
const SHARE: f64 = 0.003;

/// Figures that other parts of the console and its host report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportedBytes {
    /// Buffers for observers.
    pub(crate) observers: u64,
    /// Flight recorder.
    pub(crate) recorder: u64,
    /// Lines that wait for the log thread.
    pub(crate) log: u64,
}

/// Reads the memory of the node as often as its budget allows.
#[derive(Debug, Default)]
pub(crate) struct MemoryProbe {
    newest: Option<(MemoryReading, Duration)>,
    read_at: Option<Instant>,
    cost: Duration,
}

impl MemoryProbe {
    /// Returns the newest reading and its uptime; reads again if that was long ago.
    pub(crate) fn read(
        &mut self,
        runtime: &Handle,
        census: &Census,
        reported: ReportedBytes,
        now: Instant,
    ) -> Option<(MemoryReading, Duration)> {
        let pause = EVERY.max(self.cost.div_f64(SHARE));
        if self.read_at.is_none_or(|at| now - at >= pause) {
            let before = thread_cpu();
            let reading = Self::read_now(runtime, census, reported);
            self.cost = thread_cpu_since(before);
            self.read_at = Some(now);
            self.newest = reading.map(|mut reading| {
                reading.uses.cost_us = self.cost.as_micros() as u64;
                (reading, observe::uptime(runtime))
            });
        }
        self.newest
    }

    fn read_now(runtime: &Handle, census: &Census, reported: ReportedBytes) -> Option<MemoryReading> {
        let regions: Vec<_> = observe::engines(runtime).into_iter().flat_map(|engine| engine.regions).collect();
        let resident = mappings::read(&regions)?;
        let parts = observe::memory(runtime);
        let store_bytes = observe::stores(runtime).iter().map(|store| store.cache_bytes).sum();
        let observer_bytes = reported.observers;
        let on_heap = [
            parts.table_bytes,
            census.future_bytes,
            census.mailbox_bytes,
            census.side_table_bytes,
            parts.free_node_bytes,
            parts.topic_bytes,
            parts.ring_bytes,
            parts.timer_bytes,
            store_bytes,
            observer_bytes,
            reported.recorder,
            reported.log,
        ];
        let left = resident.heap.saturating_sub(on_heap.iter().sum());
        // Only freed memory of an arena is not resident.
        let allocator_bytes = allocator::kept_bytes().saturating_sub(resident.arena_unused).min(left);
        let uses = MemoryUses {
            free_slot_bytes: 0,
            side_table_bytes: census.side_table_bytes,
            free_node_bytes: parts.free_node_bytes,
            topic_bytes: parts.topic_bytes,
            ring_bytes: parts.ring_bytes,
            timer_bytes: parts.timer_bytes,
            store_bytes,
            linear_bytes: resident.linear,
            linear_size_bytes: census.linear_size_bytes,
            guest_stack_bytes: resident.guest_stacks,
            engine_bytes: resident.engines,
            code_bytes: resident.code,
            observer_bytes,
            recorder_bytes: reported.recorder,
            log_bytes: reported.log,
            thread_stack_bytes: resident.thread_stacks,
            program_bytes: resident.program,
            other_bytes: left - allocator_bytes,
            allocator_bytes,
            resident_bytes: resident.bytes(),
            age_ms: 0,
            cost_us: 0,
        };
        Some(MemoryReading { uses, table_bytes: parts.table_bytes })
    }
}

/// Returns the memory of all processes' control blocks.
pub(crate) fn control_block_bytes(live: u64) -> u64 {
    live * ProcessRef::control_block_bytes()
}
