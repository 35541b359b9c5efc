//! Our ring and rings of other crates, in turn and under the same load.

use rusm_protocol::Unit;
use rusm_runtime::ring::Padding;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::rings::cases::{TURN, TurnResult};
use crate::scenarios::rings::load::{RingLoad, Waiting};
use crate::scenarios::rings::rivals::Rival;

/// Maximum number of turns kept per case.
const KEPT: usize = 1_000;

/// Scenario that compares our ring with those of other crates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingVersus;

impl Scenario for RingVersus {
    fn card(&self) -> Card {
        Card {
            id: "ring-versus",
            family: Family::Timing,
            label: "Ring versus others",
            description: "The same stream of numbers through our ring, other rings, broadcast channels, and a plain \
                          copy.",
            details: &[
                "One operation is an item read by one reader. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is from before a chunk is written until the first reader has read it, for our ring only.",
                "memcpy is one thread that copies each chunk in once and out once for each reader. No ring that copies \
                 can be faster on one core; on several cores it can.",
                "Rings that read in place, and disruptor, check each item where it is. The others copy a chunk and \
                 check its first item.",
                "async-broadcast and tokio's broadcast take single items, whatever the chunk size.",
                "tokio's broadcast never waits: items that its readers miss are written but not read, so compare its \
                 reads.",
                "Readers that spin take the cores from others as soon as there are more readers than cores.",
                "Goal: with 16 readers 3 times the rate of the better disruptor at chunk 16, and half the rate of \
                 memcpy at chunk 64.",
            ],
            ops_label: "items read/s",
            latency_label: Some("chunk written to read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "readers",
                    description: "Readers; auto runs 1, 2, 4 and 16 in turn.",
                    kind: Kind::AutoCount { min: 1, max: 64 },
                },
                Parameter {
                    name: "chunk",
                    description: "Items in one write, rounded up to a power of two.",
                    kind: Kind::Count { min: 1, max: 1_024, default: 16 },
                },
                LOAD,
            ],
            source_file: file!(),
            timed: "256th chunk",
            ops_per_timed: 4_096,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let chunk = (context.params().number("chunk") as usize).next_power_of_two();
            let readers = match context.params().auto_number("readers") {
                Some(readers) => vec![readers as usize],
                None => vec![1, 2, 4, 16],
            };
            let load = |readers| RingLoad {
                waiting: Waiting::Processes,
                readers,
                chunk,
                capacity: 4096,
                padding: Padding::Pair,
                length: TURN,
                pin: false,
            };
            let case = |readers| move |rival| (rival, load(readers), Vec::new());
            let cases: Vec<_> = readers.into_iter().flat_map(|readers| Rival::ALL.map(case(readers))).collect();
            by_load(context, || Versus { cases: cases.clone() }).await
        })
    }
}

struct Versus {
    cases: Vec<(Rival, RingLoad, Vec<TurnResult>)>,
}

impl Versus {
    fn median(&self, rival: Rival, readers: usize) -> Option<TurnResult> {
        let case = self.cases.iter().find(|(other, load, _)| *other == rival && load.readers == readers)?;
        (!case.2.is_empty()).then(|| TurnResult::median(&case.2))
    }
}

impl Cases for Versus {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (rival, load, turns) = &mut self.cases[case];
        let Some(outcome) = rival.run(&context.runtime, &context.stop_flag(), *load)? else { return Ok(()) };
        context.recorder.count(outcome.delivered);
        context.recorder.fail(outcome.wrong);
        outcome.latencies_ns.iter().for_each(|ns| context.recorder.latency((*ns).max(1)));
        if turns.len() < KEPT {
            turns.push(TurnResult::of(&outcome));
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Our ring of 4,096 items of 4 bytes compared with others",
            &[
                ("readers", ColumnUnit::Count),
                ("ring", ColumnUnit::Text),
                ("written/s", ColumnUnit::Amount),
                ("read/s", ColumnUnit::Amount),
                ("cpu/item", ColumnUnit::Ns),
                ("ours ÷ it", ColumnUnit::Ratio),
                ("turns", ColumnUnit::Count),
            ],
        );
        for (rival, load, turns) in &self.cases {
            if turns.is_empty() {
                continue;
            }
            let median = TurnResult::median(turns);
            let ours = self.median(Rival::Ours, load.readers).map(|ours| ours.delivered_per_sec);
            table.row([
                (load.readers as u64).into(),
                rival.word().into(),
                median.written_per_sec.into(),
                median.delivered_per_sec.into(),
                median.cpu_ns_per_item.into(),
                ours.map(|ours| ours / median.delivered_per_sec).into(),
                median.turns.into(),
            ]);
        }
        let ratio = |ours, rival| {
            let (ours, theirs) = (self.median(ours, 16)?, self.median(rival, 16)?);
            Some(ours.delivered_per_sec / theirs.delivered_per_sec)
        };
        for (what, ours) in [("ours", Rival::Ours), ("ours in place", Rival::OursInPlace)] {
            let others = [Rival::DisruptorSleep, Rival::DisruptorBusy].into_iter();
            let disruptor = others.filter_map(|other| ratio(ours, other)).reduce(f64::min);
            if let (Some(disruptor), Some(memcpy)) = (disruptor, ratio(ours, Rival::Memcpy)) {
                table.note(format!(
                    "16 readers, {what} ÷ the better disruptor: {disruptor:.2} (at least 3 at chunk 16); ÷ memcpy: {memcpy:.2} (aim 0.5 at chunk 64, quiet)"
                ));
            }
        }
        table.note("medians of turns of 30 ms each, by items read");
        context.show(table);
    }
}
