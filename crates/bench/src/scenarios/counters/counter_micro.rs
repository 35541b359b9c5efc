//! CPU time of each counter operation, by number of threads and stripes ("lanes" in the table).
//!
//! ```text
//!   case ──▶ a runtime with as many schedulers as the case needs ──▶ one pinned process per thread
//!        ──▶ 10 ms of operations without yielding ──▶ CPU time of the threads ÷ operations ──▶ next case ──▶ again
//! ```
//!
//! The measured time is the CPU time of the threads and not wall time, so other load on the machine does not count. The
//! read operations change the counter now and then, as in the benchmarks of the seed (the earlier project that
//! `docs/counters.md` describes): otherwise the compiler would move the read out of the loop.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::counter::{CommitOptions, Counters, Limiter, MemoryStore, Quota, Vsa};
use rusm_runtime::{Config, Runtime};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::usage::thread_cpu;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::rings::cases::median;

/// Number of operations between two checks of the end flag.
const BATCH: u64 = 1_024;
/// Number of keys in the get-or-create rows; in the skewed row, one operation in ten goes to the hot key.
const KEYS: usize = 128;
/// A budget that is never used up.
const PLENTY: i64 = 1 << 60;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "threads",
        description: "Threads; auto runs 1 and 2 in turn.",
        kind: Kind::AutoCount { min: 1, max: 64 },
    },
    Parameter {
        name: "turn",
        description: "Length of one turn of a case.",
        kind: Kind::Time {
            min: Duration::from_millis(1),
            max: Duration::from_secs(1),
            default: Duration::from_millis(10),
        },
    },
];

/// The measured operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    AtomicAdd,
    Update,
    Available,
    State,
    TryConsume,
    TryConsumeDenied,
    ConsumeRefund,
    GetOrCreate,
    GetOrCreateHot,
    LimiterAdmits,
    LimiterDenies,
}

impl Operation {
    const ALL: [Self; 11] = [
        Self::AtomicAdd,
        Self::Update,
        Self::Available,
        Self::State,
        Self::TryConsume,
        Self::TryConsumeDenied,
        Self::ConsumeRefund,
        Self::GetOrCreate,
        Self::GetOrCreateHot,
        Self::LimiterAdmits,
        Self::LimiterDenies,
    ];

    /// Returns the text of three columns of the table: the name of the operation, and the figures for `seed` and `Go`.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::AtomicAdd => ("atomic add, one line", "16–20 ns", "17 ns"),
            Self::Update => ("update", "35–42 ns", "53–90 ns"),
            Self::Available => ("available", "15–22 ns", "14–17 ns"),
            Self::State => ("state", "13–18 ns", "6.6–8.3 ns"),
            Self::TryConsume => ("try_consume", "95–105 ns", "33–37 ns"),
            Self::TryConsumeDenied => ("try_consume, denied", "–", "–"),
            Self::ConsumeRefund => ("consume + refund", "180–200 ns", "66–70 ns"),
            Self::GetOrCreate => ("get-or-create, 128 keys", "–", "–"),
            Self::GetOrCreateHot => ("get-or-create, 10 % hot", "–", "–"),
            Self::LimiterAdmits => ("limiter, admits", "–", "–"),
            Self::LimiterDenies => ("limiter, denies", "–", "–"),
        }
    }
}

/// The scenario `counter-micro`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterMicro;

impl Scenario for CounterMicro {
    fn card(&self) -> Card {
        Card {
            id: "counter-micro",
            family: Family::Counters,
            label: "Counter operations",
            description: "CPU time of each operation of a counter and of a limiter, by threads and by lanes.",
            details: &[
                "One operation is what its row says, done by a process on its own scheduler. Cases run in turn, so the \
                 rate of the whole run means nothing; compare the medians in the table.",
                "The figure is CPU time per operation, so it grows with the number of threads only where they slow \
                 each other down. Latency is the same figure, as the mean of a batch of 1,024.",
                "Each scheduler counts in its own lane, and a read adds up all lanes. Rows with more lanes than \
                 threads show the cost of a read on a machine with that many cores.",
                "Read operations change the counter once in 64 times, so that the compiler cannot reuse one read for \
                 all.",
                "The column seed has figures of the seed project with 20 threads on an i9-12900HK. The column Go was \
                 measured with 2 threads on the machine of this project's figures.",
                "Goal: at most 16 ns for try_consume and 10 ns for available.",
            ],
            ops_label: "ops/s",
            latency_label: Some("one operation"),
            unit: Unit::Count,
            parameters: PARAMETERS,
            source_file: file!(),
            timed: "batch",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let threads =
                context.params().auto_number("threads").map_or_else(|| vec![1, 2], |count| vec![count as usize]);
            let turn = context.params().time("turn");
            let mut cases = Vec::new();
            for threads in &threads {
                let lanes = |lanes: usize| lanes.max(threads + 1);
                let row = |operation, lanes| Case { operation, threads: *threads, lanes, turn, ns: Vec::new() };
                cases.extend(Operation::ALL.map(|operation| row(operation, lanes(0))));
                cases.extend([8, 16, 32, 64].map(|count| row(Operation::Available, lanes(count))));
                cases.extend([8, 64].map(|count| row(Operation::State, lanes(count))));
            }
            run_in_turn(context, Micro { cases }).await
        })
    }
}

struct Case {
    operation: Operation,
    threads: usize,
    lanes: usize,
    turn: Duration,
    /// CPU time per operation in each turn, in nanoseconds.
    ns: Vec<f64>,
}

struct Micro {
    cases: Vec<Case>,
}

impl Cases for Micro {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, number: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[number];
        let (ops, cpu) = case.measure()?;
        let ns = cpu.as_nanos() as f64 / ops as f64;
        context.recorder.count(ops);
        context.recorder.latency(ns.max(1.0) as u64);
        case.ns.push(ns);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let columns = [
            ("operation", ColumnUnit::Text),
            ("threads", ColumnUnit::Count),
            ("lanes", ColumnUnit::Count),
            ("cpu/op", ColumnUnit::Ns),
            ("least", ColumnUnit::Ns),
            ("turns", ColumnUnit::Count),
            ("seed", ColumnUnit::Text),
            ("Go", ColumnUnit::Text),
        ];
        let mut table = Table::new("CPU time of operations", &columns);
        for case in self.cases.iter().filter(|case| !case.ns.is_empty()) {
            let (name, seed, go) = case.operation.words();
            table.row([
                name.into(),
                (case.threads as u64).into(),
                (case.lanes as u64).into(),
                median(case.ns.clone()).into(),
                case.ns.iter().copied().fold(f64::INFINITY, f64::min).into(),
                (case.ns.len() as u64).into(),
                seed.into(),
                go.into(),
            ]);
        }
        context.show(table);
    }
}

impl Case {
    /// Returns the number of operations and the CPU time of the threads that did them.
    fn measure(&self) -> Result<(u64, Duration), RunError> {
        // The counter has one stripe per scheduler, and one for all other threads.
        let config = Config { schedulers: self.lanes - 1, ..Config::default() };
        let runtime = Runtime::start(config).map_err(|error| RunError::Lacks(error.to_string()))?;
        let counters = Counters::<Vsa, MemoryStore>::start(&runtime, MemoryStore::new(), CommitOptions::default());
        let counters = Arc::new(counters.map_err(|error| RunError::Lacks(error.to_string()))?);
        let budget = if self.operation == Operation::TryConsumeDenied { 0 } else { PLENTY };
        let names: Arc<[String]> = (0..KEYS).map(|key| format!("key-{key}")).collect();
        let counter = counters.counter("key", budget).map_err(|error| RunError::Lacks(error.to_string()))?;
        let admits = self.operation == Operation::LimiterAdmits;
        let (rate, burst) = if admits { (1e8, 1 << 31) } else { (1_000.0, 100) };
        let quota = Quota::per_sec(rate, burst).map_err(|error| RunError::Lacks(error.to_string()))?;
        let fixture = Fixture {
            counters,
            counter,
            names,
            next: Arc::default(),
            shared: Arc::default(),
            limiter: Limiter::new(quota),
            ready: Arc::default(),
            over: Arc::default(),
            threads: self.threads,
        };
        let (sender, receiver) = mpsc::channel();
        for thread in 0..self.threads {
            let (fixture, sender, operation) = (fixture.clone(), sender.clone(), self.operation);
            runtime.spawn_pinned(thread, move |_| async move { sender.send(fixture.work(operation)) })?;
        }
        drop(sender);
        std::thread::park_timeout(self.turn);
        fixture.over.store(true, Ordering::Relaxed);
        let (mut ops, mut cpu) = (0, Duration::ZERO);
        for (done, took) in receiver {
            (ops, cpu) = (ops + done, cpu + took);
        }
        drop(fixture);
        runtime.shutdown(Duration::from_secs(1));
        Ok((ops, cpu))
    }
}

/// Objects shared by the threads of a case.
#[derive(Clone)]
struct Fixture {
    counters: Arc<Counters<Vsa, MemoryStore>>,
    counter: Arc<Vsa>,
    names: Arc<[String]>,
    /// Spreads requests over the keys, as in the seed's benchmarks.
    next: Arc<AtomicUsize>,
    shared: Arc<AtomicI64>,
    limiter: Limiter,
    ready: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    threads: usize,
}

impl Fixture {
    fn work(&self, operation: Operation) -> (u64, Duration) {
        self.ready.fetch_add(1, Ordering::Relaxed);
        // Start together: otherwise the first thread would run alone, and its figure would not show contention. If
        // the machine runs fewer threads at a time, the end of the turn ends the wait.
        while self.ready.load(Ordering::Relaxed) < self.threads && !self.over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        let start = thread_cpu();
        let mut ops = 0;
        loop {
            self.batch(operation);
            ops += BATCH;
            if self.over.load(Ordering::Relaxed) {
                return (ops, thread_cpu().saturating_sub(start));
            }
        }
    }

    /// Does one batch of an operation. Each arm has a loop of its own, so that the loop contains no branch on the
    /// operation.
    fn batch(&self, operation: Operation) {
        let (counter, limiter) = (&*self.counter, &self.limiter);
        match operation {
            Operation::AtomicAdd => (0..BATCH).for_each(|_| {
                self.shared.fetch_add(1, Ordering::Relaxed);
            }),
            Operation::Update => (0..BATCH).for_each(|_| counter.add(1)),
            Operation::Available => (0..BATCH).for_each(|number| {
                if number % 64 == 0 {
                    counter.add(1);
                }
                black_box(counter.available());
            }),
            Operation::State => (0..BATCH).for_each(|number| {
                if number % 64 == 0 {
                    counter.add(1);
                }
                black_box(counter.state());
            }),
            Operation::TryConsume | Operation::TryConsumeDenied => {
                (0..BATCH).for_each(|_| {
                    black_box(counter.try_consume(1));
                });
            }
            Operation::ConsumeRefund => (0..BATCH).for_each(|_| {
                black_box(counter.try_consume(1));
                black_box(counter.refund(1));
            }),
            Operation::GetOrCreate => (0..BATCH).for_each(|_| {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                drop(black_box(self.counters.counter(&self.names[next % KEYS], 0)));
            }),
            Operation::GetOrCreateHot => (0..BATCH).for_each(|_| {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                let key = if next.is_multiple_of(10) { 0 } else { next % KEYS };
                drop(black_box(self.counters.counter(&self.names[key], 0)));
            }),
            Operation::LimiterAdmits | Operation::LimiterDenies => (0..BATCH).for_each(|_| {
                black_box(limiter.try_acquire(1).is_ok());
            }),
        }
    }
}
