//! One thread that writes and reads chunks of all sizes: the size from which copying pays off, and the overhead of the
//! ring.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::numbers::grouped;
use crate::report::table::{ColumnUnit, Table};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::rings::copy::{CopyCases, CopyMethod};

/// Chunk sizes, with the seed's rates in items per second: one item at a time, and with its two copies.
const SEED: [(usize, Option<[f64; 2]>); 6] = [
    (1, Some([980e6, 335e6])),
    (4, None),
    (16, None),
    // The seed's documentation gives this only as "38 % more" than before.
    (64, Some([10.9e9, 15e9])),
    (256, None),
    (1_024, Some([2.53e9, 19.2e9])),
];

/// Chunk sizes, with the minimum rate of copies through the ring as a part of memcpy's rate.
const GATES: [(usize, f64); 3] = [(1, 0.8), (64, 0.9), (1_024, 0.95)];

/// Scenario with one thread and chunks of all sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingChunk;

impl Scenario for RingChunk {
    fn card(&self) -> Card {
        Card {
            id: "ring-chunk",
            family: Family::Timing,
            label: "Ring chunks",
            description: "Chunks of 1 to 1,024 items through a ring on one thread, compared with a plain copy.",
            details: &[
                "One operation is an item written and read. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is the time to write and read one chunk, as the mean of 1,024 chunks.",
                "memcpy copies into and out of a buffer of the same size: no ring that copies can be faster. In place \
                 is one copy in and none out.",
                "The seed project lost two thirds of its rate at chunk 1 when it replaced single items by copies. Our \
                 ring copies a single item without a call.",
                "Goal: copies ÷ memcpy is at least 0.8 at chunk 1, 0.9 at chunk 64 and 0.95 at chunk 1,024.",
            ],
            ops_label: "items/s",
            latency_label: Some("chunk written and read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "capacity",
                    description: "Items that the ring holds, rounded up to a power of two.",
                    kind: Kind::Count { min: 1_024, max: 1 << 20, default: 1 << 16 },
                },
                LOAD,
            ],
            source_file: file!(),
            timed: "lap of 1,024 chunks",
            ops_per_timed: 1_024,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let capacity = (context.params().number("capacity") as usize).next_power_of_two();
            by_load(context, || CopyCases::new(SEED.into_iter().map(|(chunk, _)| (capacity, chunk)), table)).await
        })
    }
}

fn table(cases: &CopyCases) -> Table {
    let capacity = cases.sizes().next().map_or(0, |size| size.capacity);
    let mut table = Table::new(
        &format!("Chunks through a ring of {} items on one thread", grouped(capacity as u64)),
        &[
            ("chunk", ColumnUnit::Count),
            ("memcpy", ColumnUnit::Amount),
            ("copies", ColumnUnit::Amount),
            ("÷ memcpy", ColumnUnit::Ratio),
            ("in place", ColumnUnit::Amount),
            ("÷ memcpy ", ColumnUnit::Ratio),
            ("per item", ColumnUnit::Amount),
            ("copies, cpu/item", ColumnUnit::Ns),
            ("gate", ColumnUnit::Ratio),
            ("seed per item", ColumnUnit::Amount),
            ("seed copies", ColumnUnit::Amount),
        ],
    );
    for size in cases.sizes() {
        let ns = |method| cases.ns_per_item(method, size);
        let rate = |method| ns(method).map(|ns| 1e9 / ns);
        let ratio = |method| ns(method).zip(ns(CopyMethod::Memcpy)).map(|(ns, memcpy)| memcpy / ns);
        let seed = SEED.iter().find(|(chunk, _)| *chunk == size.chunk).and_then(|(_, seed)| *seed);
        table.row([
            (size.chunk as u64).into(),
            rate(CopyMethod::Memcpy).into(),
            rate(CopyMethod::Copies).into(),
            ratio(CopyMethod::Copies).into(),
            rate(CopyMethod::InPlace).into(),
            ratio(CopyMethod::InPlace).into(),
            rate(CopyMethod::PerItem).into(),
            ns(CopyMethod::Copies).into(),
            GATES.iter().find(|(chunk, _)| *chunk == size.chunk).map(|(_, least)| *least).into(),
            seed.map(|seed| seed[0]).into(),
            seed.map(|seed| seed[1]).into(),
        ]);
    }
    table.note(format!("items per second of CPU time of the thread, median of {} turns", cases.turns()));
    table.note("gate: required minimum of copies ÷ memcpy");
    table.note(
        "seed: figures of the seed project on another machine, for orientation; at 64 derived from its \"38 % \
                more\" than before",
    );
    table
}
