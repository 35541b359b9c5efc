//! Many readers of one ring, by how both sides wait: the seed's contention benchmark, with its retries corrected.
//!
//! ```text
//!   for each number of readers: processes, threads that sleep, yield, …, threads that try again at once ──▶ again
//! ```

use rusm_protocol::Unit;
use rusm_runtime::ring::Padding;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::pinned::PIN;
use crate::scenarios::rings::cases::{RingCases, SEED_COLUMNS, SeedFigures, TURN, TurnResult, seed};
use crate::scenarios::rings::load::{RingLoad, Waiting};

const SEED: [SeedFigures; 5] = [
    seed(2, [30.9, 61.9], [95.0, 99.85], 1_240.0),
    seed(4, [19.4, 77.5], [96.5, 99.81], 571.0),
    seed(8, [13.5, 108.4], [99.0, 99.76], 251.0),
    seed(16, [17.5, 279.8], [99.36, 99.13], 77.9),
    seed(32, [0.98, 31.5], [99.997, 99.83], 25.9),
];

/// Scenario with many readers of one ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingContention;

impl Scenario for RingContention {
    fn card(&self) -> Card {
        Card {
            id: "ring-contention",
            family: Family::Timing,
            label: "Ring contention",
            description: "One writer and many readers of a ring, compared by the way in which they wait.",
            details: &[
                "One operation is an item read by one reader. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is from before a chunk is written until the first reader has read it, for one chunk in 256. \
                 At full speed that is the length of the queue in the ring.",
                "A failed write found the ring full, a failed read found it empty. Threads that retry at once fail \
                 nearly always and take the cores from threads that could make progress; the seed project's ring works \
                 like that.",
                "A look is the writer's slow path: it reads the position of every reader.",
                "The seed columns were measured on 16 cores. On this machine compare with the row of busy threads.",
                "Goal with 16 processes: 300 times the rate of busy threads, and less than 5 % of reads and writes \
                 fail.",
            ],
            ops_label: "items read/s",
            latency_label: Some("chunk written to read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "readers",
                    description: "Readers; auto runs the seed project's 2 to 32 in turn, and 1,000 processes.",
                    kind: Kind::AutoCount { min: 1, max: 1_000 },
                },
                Parameter {
                    name: "wait",
                    description: "Way in which the writer and the readers wait.",
                    kind: Kind::Choice {
                        words: &["all", "processes", "park-lazy", "park-eager", "spin-yield", "hybrid", "busy"],
                    },
                },
                Parameter {
                    name: "chunk",
                    description: "Items in one write.",
                    kind: Kind::Count { min: 1, max: 1_024, default: 16 },
                },
                PIN,
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
            let (params, wait) = (context.params(), context.params().word("wait"));
            let (chunk, pin) = (params.number("chunk") as usize, params.word("pin") == "yes");
            let readers = match params.auto_number("readers") {
                Some(readers) => vec![readers as usize],
                None => SEED.iter().map(|seed| seed.readers).collect(),
            };
            let mut loads = Vec::new();
            for waiting in Waiting::ALL.into_iter().filter(|waiting| wait == "all" || wait == waiting.word()) {
                for readers in &readers {
                    loads.push(load(waiting, *readers, chunk, pin));
                }
                if waiting == Waiting::Processes && readers.len() > 1 {
                    loads.push(load(waiting, 1_000, chunk, pin));
                }
            }
            by_load(context, || RingCases::new(loads.clone(), table)).await
        })
    }
}

fn load(waiting: Waiting, readers: usize, chunk: usize, pin: bool) -> RingLoad {
    RingLoad { waiting, readers, chunk, capacity: 4096, padding: Padding::Pair, length: TURN, pin }
}

fn table(cases: &RingCases) -> Table {
    let [written, read, reads_failed, writes_failed, looks] = SEED_COLUMNS;
    let columns = [
        ("wait", ColumnUnit::Text),
        ("readers", ColumnUnit::Count),
        ("written/s", ColumnUnit::Amount),
        ("read/s", ColumnUnit::Amount),
        ("÷ busy", ColumnUnit::Ratio),
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
    let mut table = Table::new("Contention of a ring of 4,096 items of 4 bytes", &columns);
    for (load, median) in cases.medians() {
        let busy = cases.written_per_sec(|other| other.waiting == Waiting::Busy && other.readers == load.readers);
        let seed = SEED.iter().find(|seed| seed.readers == load.readers && load.waiting == Waiting::Busy);
        let [written, read, reads_failed, writes_failed, looks] = SeedFigures::cells(seed);
        table.row([
            load.waiting.word().into(),
            (load.readers as u64).into(),
            median.written_per_sec.into(),
            median.delivered_per_sec.into(),
            busy.map(|busy| median.written_per_sec / busy).into(),
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
    let read = |readers| {
        let turn = cases.medians().find(|(load, _)| load.waiting == Waiting::Processes && load.readers == readers);
        turn.map(|(_, turn)| turn.delivered_per_sec)
    };
    if let (Some(crowd), Some(few)) = (read(1_000), read(16)) {
        table.note(format!("read by 1,000 processes ÷ by 16: {:.2} (at least 0.5)", crowd / few));
    }
    if let (Some(ours), Some(busy)) = (
        cases.written_per_sec(|load| load.waiting == Waiting::Processes && load.readers == 16),
        cases.written_per_sec(|load| load.waiting == Waiting::Busy && load.readers == 16),
    ) {
        table.note(format!("written for 16 processes ÷ for 16 busy threads: {:.0} (at least 300)", ours / busy));
    }
    let failed = |median: &TurnResult| median.reads_failed_percent.max(median.writes_failed_percent);
    let of_processes = cases.medians().filter(|(load, _)| load.waiting == Waiting::Processes && load.readers <= 32);
    if let Some(most) = of_processes.map(|(_, median)| failed(&median)).reduce(f64::max) {
        table.note(format!("reads or writes of up to 32 processes that failed: at most {most:.2} % (less than 5)"));
    }
    table.note("for the ratio to the disruptor crate (at least 3 for 16 readers) run ring-versus");
    table.note(
        "seed: figures of the seed project for busy threads on 16 cores, for orientation; its looks are per run, ours \
         per turn",
    );
    table
}
