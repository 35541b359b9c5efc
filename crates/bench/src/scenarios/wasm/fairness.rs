//! Turns of bystander processes while guests that never yield occupy every core.
//!
//! ```text
//!   spinner ── an endless loop; preempted by the epoch, unless preemption=off
//!   bystander ── yields, and times the wait for its next turn ──▶ latency; longest gap; turns of each bystander
//! ```
//!
//! A guest bystander takes its turns in rows: a caller process requests each row, and the guest replies with the wait
//! before every turn. A native bystander takes and times its turns itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::{Context, ExitReason};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig, defaults as wasm_defaults};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::defaults;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::wasm::guests::{Code, Guests, message};

/// Number of turns per row that a caller requests from a guest.
const CALL_OPS: u64 = 16;
/// Epoch tick of the control run: long enough that a guest is hardly ever preempted.
const NO_PREEMPTION: Duration = Duration::from_secs(1);
/// Interval at which the owner of the spinners checks the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Timeout of a row of turns; after it the bystander counts as starved.
const CALL_WITHIN: Duration = Duration::from_mins(1);

/// The scenario `fairness`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fairness;

impl Scenario for Fairness {
    fn card(&self) -> Card {
        Card {
            id: "fairness",
            family: Family::Actors,
            label: "Fairness",
            description: "Bystander processes next to guests that never yield, one such guest on every core.",
            details: &[
                "One operation is a bystander's turn: it yields, waits, and runs again.",
                "Latency is that wait. The longest gap is the longest wait of any bystander.",
                "A good result: the longest gap is at most two epoch ticks for each spinner on a core, and Jain's \
                 index is at least 0.95. Measure it while no other program uses the machine.",
                "Jain's index of the bystanders' turns is 1 if all had the same number, and 1/n if one had them all. \
                 Minimum to mean shows the share of the bystander with the fewest turns. Both are in the table.",
                "With preemption=off an epoch lasts a second, so the node hardly ever preempts a guest. Compare with \
                 it to see the effect of preemption.",
                "Native code cannot be preempted, so the spinners are always guests. The parameter body sets what the \
                 bystanders are.",
                "Spinners and bystanders are pinned to cores, so that the figures show turns on a core. With \
                 placement=free two spinners may share a core, and the bystanders there get fewer turns.",
                "It does not measure the work of the spinners: they get all the time that the bystanders leave.",
            ],
            ops_label: "turns/s",
            latency_label: Some("wait for a turn"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "spinners",
                    description: "Guests that never yield; auto is one for each scheduler.",
                    kind: Kind::AutoCount { min: 1, max: 1_000 },
                },
                Parameter {
                    name: "bystanders",
                    description: "Number of bystander processes.",
                    kind: Kind::Count { min: 1, max: 10_000, default: defaults::BYSTANDERS },
                },
                Parameter {
                    name: "body",
                    description: "Kind of the bystanders: native processes, or instances of a WebAssembly module.",
                    kind: Kind::Choice { words: &["native", "module"] },
                },
                Parameter {
                    name: "placement",
                    description: "pinned: each process stays on one core. free: the runtime chooses.",
                    kind: Kind::Choice { words: &["pinned", "free"] },
                },
                Parameter {
                    name: "preemption",
                    description: "Preemption of spinners by the node; off is the control run.",
                    kind: Kind::Choice { words: &["on", "off"] },
                },
            ],
            source_file: file!(),
            timed: "turn",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    /// The guests beside the bystanders never yield.
    fn pauses(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let cores = context.schedulers() as u64;
            let spinners = context.params().auto_number("spinners").unwrap_or(cores);
            let bystanders = context.params().number("bystanders");
            let preempts = context.params().word("preemption") == "on";
            let tick = if preempts { wasm_defaults::TICK } else { NO_PREEMPTION };
            let is_native = context.params().word("body") == "native";
            let config = |capacity: u64, tick| WasmConfig { capacity: capacity as u32, tick, ..WasmConfig::default() };
            let pinned = context.params().word("placement") == "pinned";
            let place = move |index: u64| pinned.then_some((index % cores) as usize);
            let spun = Guests::start(context, config(spinners, tick)).await?;
            let spinner = spun.load(context, "spinner", Code::of(include_str!("guests/spinner.wat"), 0)).await?;
            let mut guest = None;
            if !is_native {
                let guests = Guests::start(context, config(bystanders, wasm_defaults::TICK)).await?;
                let module =
                    guests.load(context, "bystander", Code::of(include_str!("guests/bystander.wat"), 1)).await?;
                guest = Some((guests.wasm, module));
            }
            context.prepared();
            let tallies: Arc<[Tally]> = (0..bystanders).map(|_| Tally::default()).collect();
            let (stop, wasm) = (context.stop_flag(), spun.wasm.clone());
            let spinning = (0..spinners).map(place).collect();
            context.spawn_worker(move |ctx| keep_spinning(ctx, wasm, spinner, spinning, stop))?;
            for index in 0..bystanders {
                let bystander = Bystander {
                    index: index as usize,
                    tallies: Arc::clone(&tallies),
                    recorder: context.recorder(),
                    pace: context.pace(index, bystanders, context.duty()),
                };
                match &guest {
                    None => context.spawn_worker_on(place(index), |ctx| bystander.run(ctx))?,
                    Some((wasm, module)) => {
                        let (wasm, module) = (wasm.clone(), module.clone());
                        let place = place(index);
                        context.spawn_worker_on(place, move |ctx| bystander.caller(ctx, wasm, module, place))?
                    }
                };
            }
            let stopped = context.stopped().await;
            let bound = 2 * wasm_defaults::TICK * spinners.div_ceil(cores) as u32;
            context.tables().show(Shares::of(&tallies).table(preempts, bound));
            stopped?;
            context.ended().await
        })
    }
}

/// Starts the spinners, and kills them when the run stops.
async fn keep_spinning(
    ctx: Context,
    wasm: Wasm,
    spinner: Module,
    places: Vec<Option<usize>>,
    stop: StopFlag,
) -> Result<(), RunError> {
    ctx.set_label("keeper");
    let mut pids = Vec::new();
    for place in places {
        let started =
            wasm.spawn_from(&ctx, &spinner, &placed(GuestOptions::default().linked().label("spinner"), place));
        pids.push(started.map_err(|error| RunError::Lacks(error.to_string()))?.0);
    }
    while !stop.is_set() {
        ctx.sleep(LOOK_EVERY).await;
    }
    for pid in pids {
        ctx.unlink(pid);
        ctx.exit(pid, ExitReason::Killed);
    }
    Ok(())
}

/// Pins a guest to the given scheduler, if there is one.
fn placed(guest: GuestOptions, place: Option<usize>) -> GuestOptions {
    match place {
        Some(scheduler) => guest.pinned(scheduler),
        None => guest,
    }
}

/// Counters of one bystander, written only by that bystander.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    turns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Tally {
    fn turn(&self, gap_ns: u64) {
        // Relaxed: there is one writer, and the reader only sums.
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if gap_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(gap_ns, Ordering::Relaxed);
        }
    }
}

struct Bystander {
    index: usize,
    tallies: Arc<[Tally]>,
    recorder: Recorder,
    pace: Pace,
}

impl Bystander {
    /// Takes turns as a native process.
    async fn run(mut self, ctx: Context) {
        ctx.set_label("bystander");
        while self.pace.next_batch(&ctx, 1).await.is_some() {
            let stamp = self.pace.begin(&mut self.recorder);
            let began = Instant::now();
            ctx.yield_now().await;
            self.tallies[self.index].turn(began.elapsed().as_nanos() as u64);
            self.recorder.end(stamp);
            self.recorder.count(1);
        }
    }

    /// Lets a guest take the turns and records the times that it reports.
    async fn caller(mut self, ctx: Context, wasm: Wasm, module: Module, place: Option<usize>) -> Result<(), RunError> {
        ctx.set_label("clerk");
        let guest = placed(GuestOptions::default().linked().label("bystander"), place);
        let (guest, _) = wasm.spawn_from(&ctx, &module, &guest).map_err(|error| RunError::Lacks(error.to_string()))?;
        while let Some(turns) = self.pace.next_batch(&ctx, CALL_OPS).await {
            // Only for the lag of an open loop: the guest times its turns itself.
            self.pace.begin_batch(&mut self.recorder, turns);
            match ctx.call::<_, Bytes>(guest, message(&[turns]), CALL_WITHIN).await {
                Ok(gaps) if gaps.len() as u64 == 8 * turns => {
                    for gap in gaps.chunks_exact(8) {
                        let gap_ns = u64::from_le_bytes(gap.try_into().unwrap_or_default());
                        self.recorder.latency(gap_ns);
                        self.tallies[self.index].turn(gap_ns);
                    }
                    self.recorder.count(turns);
                }
                _ => self.recorder.fail(turns),
            }
        }
        ctx.unlink(guest);
        ctx.exit(guest, ExitReason::Killed);
        Ok(())
    }
}

/// Distribution of the turns among the bystanders.
#[derive(Clone, Copy, Debug)]
struct Shares {
    bystanders: u64,
    turns_min: u64,
    turns_mean: f64,
    jain: f64,
    longest_ns: u64,
}

impl Shares {
    fn of(tallies: &[Tally]) -> Self {
        let turns: Vec<u64> = tallies.iter().map(|tally| tally.turns.load(Ordering::Relaxed)).collect();
        let sum: f64 = turns.iter().map(|turns| *turns as f64).sum();
        let squares: f64 = turns.iter().map(|turns| (*turns as f64).powi(2)).sum();
        let count = turns.len() as f64;
        Self {
            bystanders: turns.len() as u64,
            turns_min: turns.iter().copied().min().unwrap_or(0),
            turns_mean: sum / count,
            // Without any turns all shares are equal.
            jain: if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) },
            longest_ns: tallies.iter().map(|tally| tally.longest_ns.load(Ordering::Relaxed)).max().unwrap_or(0),
        }
    }

    fn table(&self, preempts: bool, bound: Duration) -> Table {
        let columns = [
            ("preemption", ColumnUnit::Text),
            ("bystanders", ColumnUnit::Count),
            ("fewest turns", ColumnUnit::Count),
            ("mean turns", ColumnUnit::Count),
            ("min/mean", ColumnUnit::Ratio),
            ("Jain index", ColumnUnit::Ratio),
            ("longest gap", ColumnUnit::Ns),
            ("2 ticks × spinners", ColumnUnit::Ns),
        ];
        let mut table = Table::new("Turns of the bystanders", &columns);
        table.row([
            if preempts { "on" } else { "off" }.into(),
            self.bystanders.into(),
            self.turns_min.into(),
            self.turns_mean.into(),
            (self.turns_min as f64 / self.turns_mean).into(),
            self.jain.into(),
            self.longest_ns.into(),
            (bound.as_nanos() as u64).into(),
        ]);
        table.note("A gap includes time in which other programs used the core. The table includes the warm-up.");
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(turns: &[u64]) -> Shares {
        let tallies: Vec<Tally> = turns
            .iter()
            .map(|turns| Tally { turns: AtomicU64::new(*turns), longest_ns: AtomicU64::new(10 * turns) })
            .collect();
        Shares::of(&tallies)
    }

    #[test]
    fn the_index_is_one_for_equal_shares_and_one_nth_for_a_single_winner() {
        let index = |turns: &[u64]| (shares(turns).jain * 100.0).round() as u64;

        assert_eq!([index(&[5, 5, 5, 5]), index(&[0, 0, 0, 8]), index(&[0, 0])], [100, 25, 100]);
        assert_eq!((shares(&[3, 1, 8]).turns_min, shares(&[3, 1, 8]).longest_ns), (1, 80));
    }
}
