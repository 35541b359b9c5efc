//! Round trips between two threads that yield, two threads that sleep, and two processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rusm_protocol::Unit;
use rusm_runtime::{Context, Pid};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::usage::process_cpu;
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::now_ns;

/// Number of round trips in a turn.
const ROUNDS: u64 = 1_000;

/// Scenario that measures round trips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerSwitch;

impl Scenario for TimerSwitch {
    fn card(&self) -> Card {
        Card {
            id: "timer-switch",
            family: Family::Timing,
            label: "Context switch",
            description: "Round trips between two threads that yield, two that sleep, and two processes.",
            details: &[
                "One operation is a round trip: to the other side and back. Cases run in turn, so the rate of the \
                 whole run means nothing; compare the rows of the table. A turn is 1,000 round trips.",
                "Latency is that of one round trip, as the mean of a turn.",
                "Threads that yield pass a number on with sched_yield and stay busy. Threads that sleep wake each \
                 other by a futex. Processes send a message.",
                "The kernel places two threads on one core or on two, and that decides most of their figures. The seed \
                 project's row includes the creation of its thread.",
                "Goal: a round trip of processes takes at most half as long as one by futex.",
            ],
            ops_label: "round trips/s",
            latency_label: Some("a round trip, mean of a turn"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "turn",
            ops_per_timed: ROUNDS,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move { run_in_turn(context, Switches::default()).await })
    }
}

const NAMES: [&str; 3] = ["threads, yield", "threads, futex", "processes"];

#[derive(Default)]
struct Switches {
    walls_ns: [Vec<f64>; 3],
    cpus_ns: [Vec<f64>; 3],
}

impl Cases for Switches {
    fn count(&self) -> usize {
        NAMES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let cpu = process_cpu();
        let wall_ns = match case {
            0 => yields(),
            1 => sleeps(),
            _ => processes(context)?,
        };
        let cpu_ns = process_cpu().saturating_sub(cpu).as_nanos() as f64;
        self.walls_ns[case].push(wall_ns as f64);
        self.cpus_ns[case].push(cpu_ns);
        context.recorder.count(ROUNDS);
        context.recorder.latency((wall_ns / ROUNDS).max(1));
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Context switch, 1,000 round trips",
            &[
                ("between", ColumnUnit::Text),
                ("wall", ColumnUnit::Ns),
                ("CPU", ColumnUnit::Ns),
                ("a round trip", ColumnUnit::Ns),
                ("÷ futex", ColumnUnit::Ratio),
                ("turns", ColumnUnit::Count),
                ("seed wall", ColumnUnit::Ns),
                ("seed CPU", ColumnUnit::Ns),
            ],
        );
        let futex = median(&self.walls_ns[1]);
        for (index, name) in NAMES.iter().enumerate() {
            let wall = median(&self.walls_ns[index]);
            let seed = |ns: f64| if index == 0 { Cell::from(ns) } else { Cell::Missing };
            table.row([
                (*name).into(),
                wall.into(),
                median(&self.cpus_ns[index]).into(),
                wall.map(|wall| wall / ROUNDS as f64).into(),
                wall.zip(futex).map(|(wall, futex)| wall / futex).into(),
                (self.walls_ns[index].len() as u64).into(),
                seed(243_000.0),
                seed(224_000.0),
            ]);
        }
        table.note("Medians of all turns; CPU is that of the whole program. Gate: processes at most 0.5 of futex.");
        context.show(table);
    }
}

/// Returns the time of the round trips of two threads that yield until it is their turn, in nanoseconds.
fn yields() -> u64 {
    let number = AtomicU64::new(0);
    let hand_over = |mine: u64| {
        for _ in 0..ROUNDS {
            while number.load(Ordering::Acquire) % 2 != mine {
                thread::yield_now();
            }
            number.fetch_add(1, Ordering::Release);
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| hand_over(1));
        let before_ns = now_ns();
        hand_over(0);
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        now_ns() - before_ns
    })
}

/// Returns the time of the round trips of two threads that sleep until they are woken, in nanoseconds.
fn sleeps() -> u64 {
    let number = AtomicU64::new(0);
    let hand_over = |mine: u64, other: &thread::Thread| {
        for _ in 0..ROUNDS {
            while number.load(Ordering::Acquire) % 2 != mine {
                thread::park();
            }
            number.fetch_add(1, Ordering::Release);
            other.unpark();
        }
    };
    let me = thread::current();
    thread::scope(|scope| {
        let other = scope.spawn(|| hand_over(1, &me));
        let before_ns = now_ns();
        hand_over(0, other.thread());
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        now_ns() - before_ns
    })
}

/// Returns the time of the round trips of two processes that send each other a message, in nanoseconds.
fn processes(context: &CaseContext) -> Result<u64, RunError> {
    let (sender, receiver) = mpsc::channel();
    let ponger = context.runtime.spawn(|ctx: Context| async move {
        for _ in 0..ROUNDS {
            let from = ctx.receive_of::<Pid>().await;
            ctx.send(from, ()).await;
        }
    })?;
    context.runtime.spawn(move |ctx: Context| async move {
        let before_ns = now_ns();
        for _ in 0..ROUNDS {
            ctx.send(ponger, ctx.pid()).await;
            ctx.receive_of::<()>().await;
        }
        // The receiver is gone if the run is already over.
        sender.send(now_ns() - before_ns).ok();
    })?;
    receiver.recv().map_err(|_told_nothing| RunError::Lacks("a process was ended by another process".to_owned()))
}
