//! A ticker on this thread for a few ticks: what became of its firings, how late they were, what they cost.

use rusm_runtime::ticker::{Account, Firings, Frequency, Measure, Spin, Ticker, TickerError, TickerOptions};
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::run::RunError;
use crate::spread::Spread;
use crate::turns::Desk;

/// What observers call a ticker of a case.
const LABEL: &str = "bench thread";
/// Ticks a second that are spun all the way.
const SPUN_HZ: u64 = 100_000;

/// What some ticks showed; sums of several turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) account: Account,
    pub(crate) lateness: Spread,
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) spun_ns: u64,
    /// CPU time of the work alone, where it was timed.
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

    /// Overruns in a hundred ticks.
    pub(crate) fn overruns_pct(&self) -> Option<f64> {
        self.pct_of_ticks(self.account.overruns)
    }

    /// So many in a hundred ticks.
    pub(crate) fn pct_of_ticks(&self, count: u64) -> Option<f64> {
        (self.account.ticks > 0).then(|| count as f64 / self.account.ticks as f64 * 100.0)
    }

    /// CPU time in a hundred parts of the time that passed.
    pub(crate) fn cpu_pct(&self) -> Option<f64> {
        (self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64 * 100.0)
    }

    /// CPU time of this thread for each firing.
    pub(crate) fn cpu_ns_per_firing(&self) -> Option<f64> {
        (self.account.fired > 0).then(|| self.cpu_ns as f64 / self.account.fired as f64)
    }

    /// Nanoseconds that were waited out awake before each tick.
    pub(crate) fn spun_ns_per_tick(&self) -> Option<f64> {
        (self.account.ticks > 0).then(|| self.spun_ns as f64 / self.account.ticks as f64)
    }

    /// A sum over all turns, for one of them.
    pub(crate) fn of_a_turn(&self, sum: u64) -> Option<f64> {
        (self.turns > 0).then(|| sum as f64 / self.turns as f64)
    }
}

/// CPU time of this thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

/// The monotonic clock in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Ticks until so many ticks were due; `None` if the run stopped before.
pub(crate) fn tick(
    desk: &mut Desk,
    frequency: Frequency,
    options: TickerOptions,
    ticks: u64,
    mut work: impl FnMut(Firings),
) -> Result<Option<Ticks>, RunError> {
    let mut ticker = Ticker::new(frequency, options)?.seen_by(&desk.runtime, LABEL);
    let (mut lateness, mut due) = (Spread::default(), 0);
    let (wall_ns, cpu_ns) = (now_ns(), thread_cpu_ns());
    while due < ticks {
        let firings = ticker.wait();
        work(firings);
        if let Some(late_ns) = firings.late_ns {
            lateness.add(late_ns);
            desk.recorder.latency(late_ns);
        }
        due = ticker.account().ticks;
        if desk.stops() {
            return Ok(None);
        }
    }
    let (cpu_ns, wall_ns) = (thread_cpu_ns() - cpu_ns, now_ns() - wall_ns);
    let account = ticker.account();
    desk.recorder.count(account.fired);
    desk.recorder.drop_ops(account.dropped);
    let report = ticker.report();
    if let Some(Err(why)) = report.realtime {
        return Err(RunError::Lacks(format!(
            "no SCHED_FIFO: {why}; set realtime=no, or allow it (ulimit -r, CAP_SYS_NICE)"
        )));
    }
    Ok(Some(Ticks { account, lateness, wall_ns, cpu_ns, spun_ns: report.spun_ns, turns: 1 }))
}

/// Nanoseconds of ticks of 100 kHz with `batch` empty firings each that nobody sleeps for, less what is spun.
pub(crate) fn net_of_spinning(desk: &Desk, batch: u64, measure: Measure, ticks: u64) -> Result<f64, RunError> {
    let spin = Spin::Fixed(Duration::from_nanos(1_000_000_000 / SPUN_HZ));
    let options = TickerOptions { tick_rate: Some(hz(SPUN_HZ)), spin, measure, ..TickerOptions::default() };
    let mut ticker = Ticker::new(hz(SPUN_HZ * batch), options)?;
    let before_ns = now_ns();
    let mut taken = 0;
    while taken < ticks && !desk.stops() {
        let firings = ticker.wait();
        for number in 0..firings.count {
            black_box(number);
        }
        taken += 1;
    }
    Ok((now_ns() - before_ns).saturating_sub(ticker.report().spun_ns) as f64)
}

impl From<TickerError> for RunError {
    /// What a scenario's own numbers brought about.
    fn from(error: TickerError) -> Self {
        Self::Lacks(error.to_string())
    }
}

/// A frequency that a scenario has written down.
///
/// # Panics
/// For one that does not exist: a mistake in the scenario.
pub(crate) fn hz(hz: u64) -> Frequency {
    Frequency::hz(hz).expect("a scenario's rates are within a ticker's")
}
