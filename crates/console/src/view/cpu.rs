//! One client's view of CPU time: by kind, parent or scheduler, ended processes and the runtime included.
//!
//! ```text
//!   live processes ──┐
//!   ended groups ────┼──▶ sums by group ──▶ growth since a look some seconds ago ──▶ rows
//!   schedulers ──────┤
//!   threads ─────────┴──▶ parts of the runtime
//! ```
//!
//! All sums only grow, so what a process used moves from live to ended when it ends, and is never lost in between.

pub(crate) mod group;
pub(crate) mod groups;
pub(crate) mod looks;
mod parts;
mod waits;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rusm_protocol::{Cpu, CpuGroup, CpuPart, CpuRow, CpuView, ServerMessage};

use self::group::{GroupId, Growth};
use self::looks::{CpuLooks, Look};
use self::waits::WaitP99;
use crate::encode::cpu as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};

/// A client's view of CPU time.
pub(crate) struct CpuSource {
    view: CpuView,
    /// Shared with the other clients that group alike; absent until the first read.
    looks: Option<Rc<RefCell<CpuLooks>>>,
    /// Time of the look that was sent last.
    sent: Option<Instant>,
}

impl CpuSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: CpuView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        if view.group == CpuGroup::Other {
            return Err(HostError::out_of_range("group is not one of kind, parent, scheduler".to_owned()));
        }
        Ok(Self { view, looks: None, sent: None })
    }
}

impl ViewSource for CpuSource {
    type Data = Cpu;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Cpu {
        let group = self.view.group;
        let looks = Rc::clone(self.looks.get_or_insert_with(|| node.cpu_looks(group)));
        let mut looks = looks.borrow_mut();
        let half = Duration::from_secs_f64(0.5 / self.view.hz);
        looks.refresh(&node.runtime, half, self.sent);
        self.sent = looks.newest_at();
        match looks.span() {
            Some((then, now)) => self.compare(node, then, now, &looks.p99()),
            None => Cpu { group, cores: node.cores(), ..Cpu::default() },
        }
    }

    fn message(&self, found: Cpu, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, degraded } = meta;
        ServerMessage::Cpu(Cpu { id: self.view.id, seq, at_ms, cost_us, degraded, ..found })
    }
}

impl CpuSource {
    fn compare(&self, node: &Node, then: &Look, now: &Look, waits: &HashMap<&GroupId, WaitP99>) -> Cpu {
        let span = now.at - then.at;
        let pct = |ns: u64| ns as f64 / span.as_nanos().max(1) as f64 * 100.0;
        let by_scheduler = self.view.group == CpuGroup::Scheduler;
        let mut runtime: Vec<CpuPart> = now
            .threads
            .parts_since(&then.threads, by_scheduler)
            .map(|(name, ns)| CpuPart { name, cpu_pct: pct(ns) })
            .collect();
        runtime.retain(|part| part.cpu_pct > 0.0);
        let mut rows: Vec<(GroupId, Growth)> =
            if by_scheduler { now.threads.scheduler_rows(&then.threads) } else { now.sums.since(&then.sums) };
        rows.sort_by_key(|(id, growth)| (Reverse((growth.busy_ns, growth.live)), id.clone()));
        let in_rows: u64 = rows.iter().map(|(_, growth)| growth.busy_ns).sum();
        let used_ns = now.process_ns - then.process_ns;
        let machine_ns = now.machine_ns.zip(then.machine_ns).map_or(0, |(now, then)| now.saturating_sub(then));
        let offset = self.view.window.offset.min(rows.len() as u64);
        let window = rows.iter().skip(offset as usize).take(self.view.window.len as usize);
        Cpu {
            group: self.view.group,
            span_ms: span.as_millis() as u64,
            cores: node.cores(),
            process_pct: encode::round(pct(used_ns)),
            others_pct: encode::round(pct(machine_ns.saturating_sub(used_ns))),
            sum_pct: encode::round(pct(in_rows) + runtime.iter().map(|part| part.cpu_pct).sum::<f64>()),
            total: rows.len() as u64,
            offset,
            rows: window.map(|(id, growth)| row(node, id, growth, waits.get(id).copied(), span)).collect(),
            runtime: runtime.into_iter().map(|part| CpuPart { cpu_pct: encode::round(part.cpu_pct), ..part }).collect(),
            ..Cpu::default()
        }
    }
}

fn row(node: &Node, id: &GroupId, growth: &Growth, wait: Option<WaitP99>, span: Duration) -> CpuRow {
    let pct = |ns: u64| ns as f64 / span.as_nanos().max(1) as f64 * 100.0;
    CpuRow {
        cpu_pct: encode::round(pct(growth.busy_ns)),
        ended_pct: encode::round(pct(growth.ended_busy_ns)),
        live: growth.live,
        ended_per_sec: encode::round(growth.ended as f64 / span.as_secs_f64().max(1e-3)),
        ended_total: growth.ended_total,
        wait_p99_ns: wait.map(|wait| wait.ns),
        wait_samples: wait.map_or(0, |wait| wait.samples),
        from: growth.from.only().and_then(|parent| encode::parent(&node.runtime, parent)),
        ..encode::named(&node.runtime, id)
    }
}
