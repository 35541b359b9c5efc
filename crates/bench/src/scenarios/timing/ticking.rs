//! Runs a ticker on the current thread for some ticks: counts of its firings, their lateness and their cost.

use rusm_runtime::ticker::{Firings, Frequency, Measure, Spin, TickCounts, Ticker, TickerError, TickerOptions};
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::measure::histogram::NanosHistogram;
use crate::measure::usage::thread_cpu;
use crate::run::error::RunError;
use crate::scenarios::cases::CaseContext;

/// Label of a case's ticker for observers.
const LABEL: &str = "bench thread";
/// Tick rate of a ticker that spins through the whole period, in hertz.
const SPUN_HZ: u64 = 100_000;

/// Result of some ticks, summed over several turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) account: TickCounts,
    pub(crate) lateness: NanosHistogram,
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) spun_ns: u64,
    /// Number of turns.
    pub(crate) turns: u64,
}

impl Ticks {
    pub(crate) fn merge(&mut self, other: &Self) {
        let (sum, new) = (&mut self.account, &other.account);
        sum.ticks += new.ticks;
        sum.fired += new.fired;
        sum.dropped += new.dropped;
        sum.coalesced += new.coalesced;
        sum.overruns += new.overruns;
        sum.slipped_ns += new.slipped_ns;
        self.lateness.merge(&other.lateness);
        self.wall_ns += other.wall_ns;
        self.cpu_ns += other.cpu_ns;
        self.spun_ns += other.spun_ns;
        self.turns += 1;
    }

    /// Returns overruns as a percentage of ticks.
    pub(crate) fn overruns_pct(&self) -> Option<f64> {
        self.pct_of_ticks(self.account.overruns)
    }

    /// Returns `count` as a percentage of ticks.
    pub(crate) fn pct_of_ticks(&self, count: u64) -> Option<f64> {
        (self.account.ticks > 0).then(|| count as f64 / self.account.ticks as f64 * 100.0)
    }

    /// Returns CPU time as a percentage of wall time.
    pub(crate) fn cpu_pct(&self) -> Option<f64> {
        (self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64 * 100.0)
    }

    /// Returns the CPU time of this thread per firing.
    pub(crate) fn cpu_ns_per_firing(&self) -> Option<f64> {
        (self.account.fired > 0).then(|| self.cpu_ns as f64 / self.account.fired as f64)
    }

    /// Returns the time spent spinning before each tick, in nanoseconds.
    pub(crate) fn spun_ns_per_tick(&self) -> Option<f64> {
        (self.account.ticks > 0).then(|| self.spun_ns as f64 / self.account.ticks as f64)
    }

    /// Returns the mean per turn of a sum over all turns.
    pub(crate) fn of_a_turn(&self, sum: u64) -> Option<f64> {
        (self.turns > 0).then(|| sum as f64 / self.turns as f64)
    }
}

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    thread_cpu().as_nanos() as u64
}

/// Returns the monotonic clock in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Runs a ticker until `ticks` ticks were due. Returns `None` if the run stopped before.
pub(crate) fn tick(
    context: &mut CaseContext,
    frequency: Frequency,
    options: TickerOptions,
    ticks: u64,
    mut work: impl FnMut(Firings),
) -> Result<Option<Ticks>, RunError> {
    let mut ticker = Ticker::new(frequency, options)?.observed_by(&context.runtime, LABEL);
    let (mut lateness, mut due) = (NanosHistogram::default(), 0);
    let (wall_ns, cpu_ns) = (now_ns(), thread_cpu_ns());
    while due < ticks {
        let firings = ticker.wait();
        work(firings);
        if let Some(late_ns) = firings.late_ns {
            lateness.add(late_ns);
            context.recorder.latency(late_ns);
        }
        due = ticker.account().ticks;
        if context.stops() {
            return Ok(None);
        }
    }
    let (cpu_ns, wall_ns) = (thread_cpu_ns() - cpu_ns, now_ns() - wall_ns);
    let account = ticker.account();
    context.recorder.count(account.fired);
    context.recorder.drop_ops(account.dropped);
    let report = ticker.report();
    if let Some(Err(why)) = report.realtime {
        return Err(RunError::Lacks(format!(
            "cannot use SCHED_FIFO: {why}; set realtime=no, or allow it (ulimit -r, CAP_SYS_NICE)"
        )));
    }
    Ok(Some(Ticks { account, lateness, wall_ns, cpu_ns, spun_ns: report.spun_ns, turns: 1 }))
}

/// Returns the time of `ticks` ticks at 100 kHz with `batch` empty firings each, minus the time spent spinning. The
/// ticker never sleeps.
pub(crate) fn net_of_spinning(
    context: &CaseContext,
    batch: u64,
    measure: Measure,
    ticks: u64,
) -> Result<f64, RunError> {
    let spin = Spin::Fixed(Duration::from_nanos(1_000_000_000 / SPUN_HZ));
    let options = TickerOptions { tick_rate: Some(hz(SPUN_HZ)), spin, measure, ..TickerOptions::default() };
    let mut ticker = Ticker::new(hz(SPUN_HZ * batch), options)?;
    let before_ns = now_ns();
    let mut taken = 0;
    while taken < ticks && !context.stops() {
        let firings = ticker.wait();
        for number in 0..firings.count {
            black_box(number);
        }
        taken += 1;
    }
    Ok((now_ns() - before_ns).saturating_sub(ticker.report().spun_ns) as f64)
}

impl From<TickerError> for RunError {
    /// Converts an error caused by the scenario's own numbers.
    fn from(error: TickerError) -> Self {
        Self::Lacks(error.to_string())
    }
}

/// Returns the frequency for a constant of a scenario.
///
/// # Panics
/// If the frequency is not valid: a bug in the scenario.
pub(crate) fn hz(hz: u64) -> Frequency {
    Frequency::hz(hz).expect("the rates of a scenario are valid for a ticker")
}
