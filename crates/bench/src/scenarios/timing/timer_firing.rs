//! Cost of the firings of a signal pipeline: seven small actors, one at a time and in batches of 1,024, native and in a
//! guest.

mod guest;
mod kernels;

use std::hint::black_box;
use std::sync::mpsc;

use rusm_protocol::Unit;
use rusm_wasm::WasmConfig;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::clock::ClockCost;
use crate::measure::histogram::NanosHistogram;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::now_ns;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES};
use guest::GuestActors;
use kernels::Signals;

/// Number of firings in a turn that are timed one by one.
const SINGLE: u64 = 2_000;
/// Number of firings in a batch.
const BATCH: u64 = 1_024;

/// Scenario that measures the cost of firings in a signal pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerFiring;

impl Scenario for TimerFiring {
    fn card(&self) -> Card {
        Card {
            id: "timer-firing",
            family: Family::Timing,
            label: "Actor firings",
            description: "Cost of one firing of each of seven signal actors, without the cost of the clock.",
            details: &[
                "One operation is a firing: mul(64), add, fft(256), fir(16), mean(64), c2r(256) or rms(64) on 32-bit \
                 floats. Cases run in turn, so the rate of the whole run means nothing; compare the rows of the table.",
                "Latency is that of one firing between two clock reads, over all actors. Most firings are shorter than \
                 the reads.",
                "Net is the time of 1,024 firings between two clock reads, divided by 1,024: the cost of the firing \
                 itself. The other columns time single firings, as the seed project does; they show mostly the clock.",
                "The fft is radix-2 with tables; c2r takes the real parts. A guest runs the same kernels as a module \
                 and times itself by calls to the node's clock. Its final signals are compared with those of native \
                 code, bit by bit.",
                "A good result is a low net time, and a guest close to native code (÷ native near 1).",
            ],
            ops_label: "firings/s",
            latency_label: Some("one firing with its clock reads"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "firing",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let config =
                WasmConfig { capacity: 8, parts_max: 2, memory_max_bytes: PAGE_BYTES, ..WasmConfig::default() };
            let guests = Guests::start(context, config).await?;
            let module = guests.load(context, "actors", Code::of(include_str!("../wasm/guests/actors.wat"), 1)).await?;
            context.prepared();
            run_in_turn(context, Firings::new(GuestActors { wasm: guests.wasm, module })).await
        })
    }
}

/// Name and function of an actor, and the seed's mean, p50 and p99.
type Actor = (&'static str, fn(&mut Signals), [f64; 3]);

const ACTORS: [Actor; 7] = [
    ("mul(N=64)", Signals::mul, [16.0, 20.0, 21.0]),
    ("add()", Signals::add, [15.0, 20.0, 21.0]),
    ("fft(N=256)", Signals::fft, [1_504.0, 1_473.0, 1_653.0]),
    ("fir(N=16)", Signals::fir, [16.0, 20.0, 21.0]),
    ("mean(N=64)", Signals::mean, [16.0, 20.0, 21.0]),
    ("c2r(N=256)", Signals::c2r, [16.0, 20.0, 21.0]),
    ("rms(N=64)", Signals::rms, [38.0, 40.0, 41.0]),
];

struct Firings {
    signals: Signals,
    single: [NanosHistogram; 7],
    batches_ns: [Vec<f64>; 7],
    guest: GuestActors,
    guest_single: [NanosHistogram; 7],
    guest_batches_ns: [Vec<f64>; 7],
    clock: ClockCost,
}

impl Firings {
    fn new(guest: GuestActors) -> Self {
        Self {
            signals: Signals::new(),
            single: Default::default(),
            batches_ns: Default::default(),
            guest,
            guest_single: Default::default(),
            guest_batches_ns: Default::default(),
            clock: ClockCost::measure(),
        }
    }
}

impl Cases for Firings {
    fn count(&self) -> usize {
        ACTORS.len()
    }

    fn run_turn(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (_, fire, _) = ACTORS[index];
        // Start anew, as in a guest: a signal that is scaled down repeatedly becomes subnormal, which is slow on most
        // processors.
        self.signals = Signals::new();
        for _ in 0..SINGLE {
            let before_ns = now_ns();
            fire(black_box(&mut self.signals));
            let ns = now_ns() - before_ns;
            self.single[index].add(ns);
            context.recorder.latency(ns.max(1));
        }
        let before_ns = now_ns();
        for _ in 0..BATCH {
            fire(black_box(&mut self.signals));
        }
        self.batches_ns[index].push((now_ns() - before_ns) as f64 / BATCH as f64);
        context.recorder.count(SINGLE + BATCH);
        self.fire_in_a_guest(index, context)
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Actor firings, native and in a guest",
            &[
                ("actor", ColumnUnit::Text),
                ("net", ColumnUnit::Ns),
                ("mean", ColumnUnit::Ns),
                ("p50", ColumnUnit::Ns),
                ("p99", ColumnUnit::Ns),
                ("firings", ColumnUnit::Count),
                ("guest net", ColumnUnit::Ns),
                ("÷ native", ColumnUnit::Ratio),
                ("guest mean", ColumnUnit::Ns),
                ("seed mean", ColumnUnit::Ns),
                ("seed p50", ColumnUnit::Ns),
                ("seed p99", ColumnUnit::Ns),
            ],
        );
        for (index, (name, _, [seed_mean, seed_p50, seed_p99])) in ACTORS.iter().enumerate() {
            let single = &self.single[index];
            let (net, in_guest) = (median(&self.batches_ns[index]), median(&self.guest_batches_ns[index]));
            table.row([
                (*name).into(),
                net.into(),
                single.mean().into(),
                single.percentile(50.0).into(),
                single.percentile(99.0).into(),
                single.len().into(),
                in_guest.into(),
                net.zip(in_guest).filter(|(net, _)| *net > 0.0).map(|(net, in_guest)| in_guest / net).into(),
                self.guest_single[index].mean().into(),
                (*seed_mean).into(),
                (*seed_p50).into(),
                (*seed_p99).into(),
            ]);
        }
        table.note(format!(
            "Net: median of batches of 1,024. The other columns: single firings, including a clock read of {:.1} ns.",
            self.clock.read_ns
        ));
        context.show(table);
    }
}

impl Firings {
    /// Fires in a guest. It is an error if the guest's final signals differ from those of native code.
    fn fire_in_a_guest(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let ((_, native, _), guest) = (ACTORS[index], self.guest.clone());
        let (sender, receiver) = mpsc::channel();
        context.runtime.spawn(move |ctx| async move {
            let fired = guest.fire(&ctx, index as u64, BATCH).await;
            // The receiver is gone if the run is already over.
            sender.send(fired).ok();
        })?;
        let fired = receiver.recv().unwrap_or_else(|_| Err("the guest of an actor ended".to_owned()));
        let fired = fired.map_err(RunError::Lacks)?;
        let mut signals = Signals::new();
        for _ in 0..guest::SINGLE + BATCH {
            native(&mut signals);
        }
        context.recorder.fail(u64::from(fired.signals != signals.bytes()));
        context.recorder.count(guest::SINGLE + BATCH);
        for ns in fired.single_ns {
            self.guest_single[index].add(ns);
        }
        self.guest_batches_ns[index].push(fired.batch_ns as f64 / BATCH as f64);
        Ok(())
    }
}
