//! One thread and rings of all sizes: the effect of the caches.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::rings::copy::{CopyCases, CopyMethod};

/// Ring capacities in items, with the seed's rates in items per second: one item at a time, and with its two copies.
const SEED: [(usize, Option<[f64; 2]>); 6] =
    [(64, None), (256, None), (1_024, None), (4_096, Some([4.16e9, 5.98e9])), (16_384, None), (65_536, None)];

/// Scenario with one thread and rings of all sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSize;

impl Scenario for RingSize {
    fn card(&self) -> Card {
        Card {
            id: "ring-size",
            family: Family::Timing,
            label: "Ring sizes",
            description: "Rings of 64 to 65,536 items on one thread, compared with a plain copy.",
            details: &[
                "One operation is an item of 4 bytes written and read. Cases run in turn, so the rate of the whole run \
                 means nothing; compare the medians in the table.",
                "Latency is the time to write and read one chunk, as the mean of 1,024 chunks.",
                "memcpy copies into and out of a buffer of the same size. A large ring costs more because it uses more \
                 of the cache, a small one because its position is published more often.",
                "A good result is a rate close to that of memcpy at every size.",
            ],
            ops_label: "items/s",
            latency_label: Some("chunk written and read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "chunk",
                    description: "Items in one write, rounded up to a power of two.",
                    kind: Kind::Count { min: 1, max: 64, default: 16 },
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
            let chunk = (context.params().number("chunk") as usize).next_power_of_two();
            by_load(context, || CopyCases::new(SEED.into_iter().map(|(capacity, _)| (capacity, chunk)), table)).await
        })
    }
}

fn table(cases: &CopyCases) -> Table {
    let mut table = Table::new(
        "Rings of all sizes on one thread",
        &[
            ("capacity", ColumnUnit::Count),
            ("memcpy", ColumnUnit::Amount),
            ("copies", ColumnUnit::Amount),
            ("÷ memcpy", ColumnUnit::Ratio),
            ("in place", ColumnUnit::Amount),
            ("per item", ColumnUnit::Amount),
            ("copies, cpu/item", ColumnUnit::Ns),
            ("seed per item", ColumnUnit::Amount),
            ("seed copies", ColumnUnit::Amount),
        ],
    );
    for size in cases.sizes() {
        let ns = |method| cases.ns_per_item(method, size);
        let rate = |method| ns(method).map(|ns| 1e9 / ns);
        let ratio = ns(CopyMethod::Copies).zip(ns(CopyMethod::Memcpy)).map(|(ns, memcpy)| memcpy / ns);
        let seed = SEED.iter().find(|(capacity, _)| *capacity == size.capacity).and_then(|(_, seed)| *seed);
        table.row([
            (size.capacity as u64).into(),
            rate(CopyMethod::Memcpy).into(),
            rate(CopyMethod::Copies).into(),
            ratio.into(),
            rate(CopyMethod::InPlace).into(),
            rate(CopyMethod::PerItem).into(),
            ns(CopyMethod::Copies).into(),
            seed.map(|seed| seed[0]).into(),
            seed.map(|seed| seed[1]).into(),
        ]);
    }
    table.note(format!("items per second of CPU time of the thread, median of {} turns", cases.turns()));
    table.note("seed: figure of the seed project on another machine, for orientation");
    table
}
