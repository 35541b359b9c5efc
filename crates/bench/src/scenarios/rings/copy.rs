//! Writing to a ring and reading from it on one thread: the overhead of the ring compared with a plain copy.

mod laps;

use std::time::{Duration, Instant};

use rusm_runtime::ring::RingError;

use crate::measure::usage::thread_cpu;
use crate::report::table::Table;
use crate::run::error::RunError;
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::rings::cases::median;
use laps::{CHUNKS_PER_LAP, Lap};

/// Length of one turn of a case.
const TURN: Duration = Duration::from_millis(8);
/// Maximum number of turns kept per case.
const KEPT: usize = 1_000;

/// How items are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyMethod {
    /// One item at a time, as the seed did before its fix.
    PerItem,
    /// With at most two copies.
    Copies,
    /// Written and read in place.
    InPlace,
    /// Copied into and out of a plain buffer of the same size: the upper bound.
    Memcpy,
}

impl CopyMethod {
    pub(crate) const ALL: [Self; 4] = [Self::Memcpy, Self::Copies, Self::InPlace, Self::PerItem];
}

/// A way of copying with its sizes, and the results of its turns.
pub(crate) struct CopyCase {
    pub(crate) method: CopyMethod,
    pub(crate) chunk: usize,
    pub(crate) capacity: usize,
    ns_per_item: Vec<f64>,
}

/// Cases that run in turns.
pub(crate) struct CopyCases {
    cases: Vec<CopyCase>,
    table: fn(&Self) -> Table,
}

impl CopyCases {
    pub(crate) fn new(sizes: impl Iterator<Item = (usize, usize)>, table: fn(&Self) -> Table) -> Self {
        let case = |(method, (capacity, chunk))| CopyCase { method, chunk, capacity, ns_per_item: Vec::new() };
        Self { cases: sizes.flat_map(|sizes| CopyMethod::ALL.map(|method| (method, sizes))).map(case).collect(), table }
    }

    /// Returns the sizes that had turns.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = &CopyCase> {
        self.cases.iter().filter(|case| case.method == CopyMethod::Memcpy && !case.ns_per_item.is_empty())
    }

    /// Returns the CPU time per item in nanoseconds, the median of all turns.
    pub(crate) fn ns_per_item(&self, method: CopyMethod, like: &CopyCase) -> Option<f64> {
        let same =
            |case: &&CopyCase| case.method == method && case.chunk == like.chunk && case.capacity == like.capacity;
        let case = self.cases.iter().find(same).filter(|case| !case.ns_per_item.is_empty())?;
        Some(median(case.ns_per_item.clone()))
    }

    pub(crate) fn turns(&self) -> u64 {
        self.cases.iter().map(|case| case.ns_per_item.len()).min().unwrap_or(0) as u64
    }
}

impl Cases for CopyCases {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[case];
        let error = |error: &dyn std::fmt::Display| RunError::Lacks(error.to_string());
        let mut lap = case.lap().map_err(|failed| error(&failed))?;
        let (mut items, mut cpu, mut wrong) = (0, Duration::ZERO, 0);
        let start = Instant::now();
        while start.elapsed() < TURN && !context.stops() {
            let began = Instant::now();
            let before = thread_cpu();
            let read = lap();
            cpu += thread_cpu().saturating_sub(before);
            items += CHUNKS_PER_LAP * case.chunk as u64;
            wrong += u64::from(read != (items as u32).wrapping_sub(case.chunk as u32));
            context.recorder.latency(began.elapsed().as_nanos() as u64 / CHUNKS_PER_LAP);
        }
        context.recorder.count(items);
        context.recorder.fail(wrong);
        if !context.stops() && case.ns_per_item.len() < KEPT {
            case.ns_per_item.push(cpu.as_nanos() as f64 / items as f64);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        context.show((self.table)(self));
    }
}

impl CopyCase {
    fn lap(&self) -> Result<Lap, RingError> {
        let (chunk, capacity, turn) = (self.chunk, self.capacity, self.ns_per_item.len());
        match self.method {
            CopyMethod::PerItem => laps::per_item(chunk, capacity, turn),
            CopyMethod::Copies => laps::copies(chunk, capacity, turn),
            CopyMethod::InPlace => laps::in_place(chunk, capacity, turn),
            CopyMethod::Memcpy => Ok(laps::memcpy(chunk, capacity, turn)),
        }
    }
}
