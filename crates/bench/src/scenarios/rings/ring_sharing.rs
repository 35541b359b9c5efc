//! Reader cursors packed together and on cache lines of their own: the cost of false sharing in a ring.

use rusm_protocol::Unit;
use rusm_runtime::ring::Padding;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::rings::cases::{RingCases, SEED_COLUMNS, SeedFigures, TURN, seed};
use crate::scenarios::rings::load::{RingLoad, Waiting};

const SEED: [SeedFigures; 5] = [
    seed(1, [24.3, 24.3], [71.8, 99.80], 1_060.0),
    seed(2, [25.0, 50.0], [87.7, 99.75], 852.0),
    seed(4, [22.1, 88.6], [95.2, 99.56], 415.0),
    seed(8, [14.0, 111.8], [97.0, 99.45], 220.0),
    seed(16, [16.1, 256.9], [99.0, 97.98], 62.5),
];

/// All paddings; the first is the baseline for the others.
const PADDINGS: [Padding; 3] = [Padding::Packed, Padding::Line, Padding::Pair];

/// Items of a write, as in the seed.
const CHUNK: usize = 8;

/// Scenario that measures the cost of sharing cache lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSharing;

impl Scenario for RingSharing {
    fn card(&self) -> Card {
        Card {
            id: "ring-sharing",
            family: Family::Timing,
            label: "Ring sharing",
            description: "Readers whose cursors are side by side, 64 bytes apart and 128 bytes apart.",
            details: &[
                "One operation is an item read by one reader. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is from before a chunk is written until the first reader has read it, for one chunk in 256.",
                "Cursors on the same cache line slow each other down only while their readers run on several cores at \
                 once, so the effect grows with the cores. Our cursors are published once for each eighth of the ring, \
                 so the effect is small.",
                "The seed columns were measured on 16 cores with threads that retry at once.",
                "A good result is a ratio ÷ packed near 1: then the distance of the cursors does not matter.",
            ],
            ops_label: "items read/s",
            latency_label: Some("chunk written to read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "wait",
                    description: "Way in which the writer and the readers wait.",
                    kind: Kind::Choice { words: &["park-lazy", "processes", "spin-yield", "busy"] },
                },
                LOAD,
            ],
            source_file: file!(),
            timed: "256th chunk",
            ops_per_timed: 2_048,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let wait = context.params().word("wait");
            let waiting = Waiting::ALL.into_iter().find(|waiting| waiting.word() == wait).unwrap_or(Waiting::ParkLazy);
            let load = |readers| {
                move |padding| RingLoad {
                    waiting,
                    readers,
                    chunk: CHUNK,
                    capacity: 4096,
                    padding,
                    length: TURN,
                    pin: false,
                }
            };
            let loads: Vec<_> = SEED.into_iter().flat_map(|seed| PADDINGS.map(load(seed.readers))).collect();
            by_load(context, || RingCases::new(loads.clone(), table)).await
        })
    }
}

fn table(cases: &RingCases) -> Table {
    let [written, read, reads_failed, writes_failed, looks] = SEED_COLUMNS;
    let columns = [
        ("readers", ColumnUnit::Count),
        ("apart", ColumnUnit::Bytes),
        ("written/s", ColumnUnit::Amount),
        ("read/s", ColumnUnit::Amount),
        ("÷ packed", ColumnUnit::Ratio),
        ("reads failed", ColumnUnit::Percent),
        ("writes failed", ColumnUnit::Percent),
        ("looks", ColumnUnit::Count),
        ("cpu/item", ColumnUnit::Ns),
        ("turns", ColumnUnit::Count),
        written,
        read,
        reads_failed,
        writes_failed,
        looks,
    ];
    let mut table = Table::new("Cursors of readers side by side and apart", &columns);
    for (load, median) in cases.medians() {
        let packed = cases.written_per_sec(|other| other.padding == Padding::Packed && other.readers == load.readers);
        // The seed puts each reader on its own cache line.
        let seed = SEED.iter().find(|seed| seed.readers == load.readers && load.padding == Padding::Line);
        let [written, read, reads_failed, writes_failed, looks] = SeedFigures::cells(seed);
        table.row([
            (load.readers as u64).into(),
            (load.padding.bytes() as u64).into(),
            median.written_per_sec.into(),
            median.delivered_per_sec.into(),
            packed.map(|packed| median.written_per_sec / packed).into(),
            median.reads_failed_percent.into(),
            median.writes_failed_percent.into(),
            median.looks.into(),
            median.cpu_ns_per_item.into(),
            median.turns.into(),
            written,
            read,
            reads_failed,
            writes_failed,
            looks,
        ]);
    }
    table.note("chunks of 8 items of 4 bytes in a ring of 4,096; side by side, reader slots are 32 bytes apart");
    table.note(
        "seed: figures of the seed project for busy threads on 16 cores, for orientation; its looks are per run, ours \
         per turn",
    );
    table
}
