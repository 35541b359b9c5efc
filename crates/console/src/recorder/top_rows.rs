//! Selection of the processes that are recorded: the first ones by several orders, found by one pass over the table.
//!
//! ```text
//!   pass, some parts of the table at each tick ──▶ the first 24 by each order ──▶ rows of the next instants
//!   processes inside a poll at a tick ──▶ seen recently ───────────────────────┘
//! ```
//!
//! A pass begins once a second, or less often if it is expensive; while no process runs, every 20 seconds.

use std::time::{Duration, Instant};

use crate::budget::{thread_cpu, thread_cpu_since};
use crate::view::table::ranking::Ranked;
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, ProcessRef};

/// Number of processes that are recorded of each order.
const KEPT: usize = 24;
/// Number of processes that were inside a poll at one of the last ticks and are recorded for that.
const POLLED: usize = 32;
/// Parts of the table that one tick reads: a few hundred microseconds.
const PARTS_PER_TICK: usize = 64;
/// Time between the beginnings of two passes.
const PASS_EVERY: Duration = Duration::from_secs(1);
/// Share of one core that passes may use.
const PASS_SHARE: f64 = 0.0025;
/// Time after which a pass begins although no process ran: messages from outside may have arrived.
const IDLE_EVERY: Duration = Duration::from_secs(20);

/// The orders: CPU time and reductions since the last pass, mailbox, and memory.
const ORDERS: usize = 4;

/// Counters of a process at the last pass.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    generation: u32,
    reductions: u32,
    busy_us: u32,
}

/// The first processes by one order.
#[derive(Clone, Debug, Default)]
struct Best {
    rows: Vec<(u64, Ranked)>,
    /// Smallest key of the rows; once the list is full, only larger keys enter.
    floor: u64,
}

/// Selects the processes.
#[derive(Debug)]
pub(super) struct TopRows {
    earlier: Vec<Counters>,
    /// Number of slots with earlier counters: the memory of the recorder is bounded.
    slots_max: usize,
    best: [Best; ORDERS],
    polled: Vec<Ranked>,
    selected: Vec<Ranked>,
    /// Next part to read; `None` between two passes.
    part: Option<usize>,
    began: Option<Instant>,
    cost: Duration,
    idle_progress: Option<u64>,
    total: u64,
    counted: u64,
}

impl TopRows {
    /// Creates a selection that keeps counters in at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            earlier: Vec::new(),
            slots_max: bytes_max / size_of::<Counters>(),
            best: Default::default(),
            polled: Vec::new(),
            selected: Vec::new(),
            part: None,
            began: None,
            cost: Duration::ZERO,
            idle_progress: None,
            total: 0,
            counted: 0,
        }
    }

    /// Returns the memory that the selection takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.earlier.capacity() * size_of::<Counters>()
    }

    /// Returns the selected processes; some of them may have ended.
    pub(super) fn selected(&self) -> &[Ranked] {
        &self.selected
    }

    /// Returns the number of processes at the last pass.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Reads a part of the table, if a pass is due.
    pub(super) fn tick(&mut self, runtime: &Handle, now: Instant) {
        self.note_polled(runtime);
        let before = thread_cpu();
        let parts = observe::table_parts(runtime);
        let Some(first) = self.part.or_else(|| self.begin(runtime, now, parts)) else { return };
        let last = (first + PARTS_PER_TICK).min(parts);
        for part in first..last {
            observe::for_each_process(runtime, part, |seen| self.visit(&seen));
        }
        self.cost += thread_cpu_since(before);
        self.part = (last < parts).then_some(last);
        if self.part.is_none() {
            self.select();
        }
    }

    /// Remembers the processes that are inside a poll: on a large table, those between two passes would be missed.
    fn note_polled(&mut self, runtime: &Handle) {
        for pid in observe::polled(runtime) {
            let ranked = Ranked { slot: pid.slot(), generation: pid.generation() };
            if !self.polled.contains(&ranked) {
                if self.polled.len() == POLLED {
                    self.polled.remove(0);
                }
                self.polled.push(ranked);
            }
        }
    }

    /// Begins a pass if one is due; returns its first part.
    fn begin(&mut self, runtime: &Handle, now: Instant, parts: usize) -> Option<usize> {
        let pause = PASS_EVERY.max(self.cost.div_f64(PASS_SHARE));
        let age = self.began.map(|began| now - began);
        if age.is_some_and(|age| age < pause) {
            return None;
        }
        let idle_progress = observe::idle_progress(runtime);
        if idle_progress.is_some() && idle_progress == self.idle_progress && age.is_some_and(|age| age < IDLE_EVERY) {
            return None;
        }
        self.idle_progress = idle_progress;
        self.began = Some(now);
        self.cost = Duration::ZERO;
        self.counted = 0;
        self.best = Default::default();
        let slots = (parts * observe::TABLE_PART_SLOTS).min(self.slots_max);
        if self.earlier.len() < slots {
            self.earlier.reserve_exact(slots - self.earlier.len());
            self.earlier.resize(slots, Counters::default());
        }
        Some(0)
    }

    #[inline]
    fn visit(&mut self, seen: &ProcessRef<'_>) {
        self.counted += 1;
        let ranked = Ranked { slot: seen.slot(), generation: seen.generation() };
        let (reductions, busy_us) = (seen.reductions() as u32, (seen.busy_ns() / 1000) as u32);
        if let Some(earlier) = self.earlier.get_mut(ranked.slot as usize) {
            let known = if earlier.generation == ranked.generation { *earlier } else { Counters::default() };
            *earlier = Counters { generation: ranked.generation, reductions, busy_us };
            self.best[0].offer(u64::from(busy_us.wrapping_sub(known.busy_us)), ranked);
            self.best[1].offer(u64::from(reductions.wrapping_sub(known.reductions)), ranked);
        }
        self.best[2].offer(seen.mailbox_len(), ranked);
        self.best[3].offer(seen.memory_bytes(), ranked);
    }

    fn select(&mut self) {
        self.total = self.counted;
        let mut all: Vec<Ranked> =
            self.best.iter().flat_map(|best| best.rows.iter().map(|(_, ranked)| *ranked)).collect();
        all.append(&mut self.polled);
        all.sort_unstable_by_key(|ranked| (ranked.slot, ranked.generation));
        all.dedup();
        self.selected = all;
    }
}

impl Best {
    #[inline]
    fn offer(&mut self, key: u64, ranked: Ranked) {
        if key > self.floor || self.rows.len() < KEPT {
            self.enter(key, ranked);
        }
    }

    #[inline(never)]
    fn enter(&mut self, key: u64, ranked: Ranked) {
        if self.rows.len() == KEPT {
            let lowest = (0..KEPT).min_by_key(|at| self.rows[*at].0).unwrap_or(0);
            self.rows.swap_remove(lowest);
        }
        self.rows.push((key, ranked));
        if self.rows.len() == KEPT {
            self.floor = self.rows.iter().map(|row| row.0).min().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_by_an_order_are_kept(keys in proptest::collection::vec(0..500_u64, 0..300)) {
            let mut best = Best::default();
            for (slot, key) in (0..).zip(&keys) {
                best.offer(*key, Ranked { slot, generation: 1 });
            }

            let mut found: Vec<u64> = best.rows.iter().map(|row| row.0).collect();
            let mut due = keys;
            due.sort_unstable_by(|a, b| b.cmp(a));
            due.truncate(KEPT);
            found.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(found, due);
        }
    }
}
