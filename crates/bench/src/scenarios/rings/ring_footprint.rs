//! Memory of a ring by number of reader slots and their spacing, and the time to create one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::ring::{Builder, Padding};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::rings::cases::median;

/// Capacity of the rings, in items of 4 bytes.
const CAPACITY: usize = 4_096;
/// Length of one turn of a case.
const TURN: Duration = Duration::from_millis(2);
/// Maximum number of turns kept per case.
const KEPT: usize = 1_000;
/// Number of reader slots, with the seed's bytes for slots on separate cache lines and packed.
const SEED: [(usize, u64, u64); 3] = [(4, 16_768, 16_512), (8, 17_024, 16_640), (16, 17_536, 16_768)];
const PADDINGS: [Padding; 3] = [Padding::Packed, Padding::Line, Padding::Pair];

/// Scenario that measures the memory of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFootprint;

impl Scenario for RingFootprint {
    fn card(&self) -> Card {
        Card {
            id: "ring-footprint",
            family: Family::Timing,
            label: "Ring footprint",
            description: "Memory of a ring of 4,096 items of 4 bytes, by number of readers and distance of their \
                          cursors.",
            details: &[
                "One operation is a ring created and dropped. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is the time for both.",
                "Bytes are those that the ring allocates: items, cursors, and a slot for each reader with its waker, \
                 its owner and its missed items. The seed project's ring has no such slots. Memory that is not touched \
                 is not resident.",
                "For packed cursors the seed project's bytes are exact for 4 readers only.",
                "A good result is few bytes for each reader.",
            ],
            ops_label: "rings/s",
            latency_label: Some("ring created and dropped"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "ring",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let case = |readers| move |padding| Case { readers, padding, bytes: 0, ns: Vec::new() };
            let cases = SEED.into_iter().flat_map(|(readers, ..)| PADDINGS.map(case(readers))).collect();
            run_in_turn(context, Footprints { cases }).await
        })
    }
}

struct Case {
    readers: usize,
    padding: Padding,
    bytes: u64,
    ns: Vec<f64>,
}

struct Footprints {
    cases: Vec<Case>,
}

impl Cases for Footprints {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[case];
        let (start, mut rings) = (Instant::now(), 0_u64);
        while rings == 0 || (start.elapsed() < TURN && !context.stops()) {
            let began = Instant::now();
            let ring = Builder::new(CAPACITY).readers_max(case.readers).padding(case.padding).build::<f32>();
            let (writer, subscriber) = ring.map_err(|error| RunError::Lacks(error.to_string()))?;
            case.bytes = subscriber.bytes() as u64;
            drop(black_box((writer, subscriber)));
            context.recorder.latency((began.elapsed().as_nanos() as u64).max(1));
            rings += 1;
        }
        context.recorder.count(rings);
        if !context.stops() && case.ns.len() < KEPT {
            case.ns.push(start.elapsed().as_nanos() as f64 / rings as f64);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Bytes of a ring of 4,096 items of 4 bytes",
            &[
                ("readers", ColumnUnit::Count),
                ("apart", ColumnUnit::Bytes),
                ("bytes", ColumnUnit::Count),
                ("without the items", ColumnUnit::Count),
                ("per reader", ColumnUnit::Count),
                ("created and freed in", ColumnUnit::Ns),
                ("seed bytes", ColumnUnit::Count),
            ],
        );
        let items = (CAPACITY * size_of::<f32>()) as u64;
        for case in self.cases.iter().filter(|case| case.bytes > 0) {
            let fewest = self.cases.iter().find(|other| other.padding == case.padding && other.bytes > 0);
            let slots = fewest.filter(|other| other.readers < case.readers);
            let slot = slots.map(|other| (case.bytes - other.bytes) / (case.readers - other.readers) as u64);
            let seed = SEED.iter().find(|(readers, ..)| *readers == case.readers);
            table.row([
                (case.readers as u64).into(),
                (case.padding.bytes() as u64).into(),
                case.bytes.into(),
                (case.bytes - items).into(),
                slot.into(),
                median(case.ns.clone()).into(),
                match case.padding {
                    Padding::Packed => seed.map(|(.., packed)| *packed),
                    Padding::Line => seed.map(|(_, line, _)| *line),
                    Padding::Pair => None,
                }
                .into(),
            ]);
        }
        table.note("side by side, reader slots are 32 bytes apart; seed: figures of the seed project, for orientation");
        context.show(table);
    }
}
