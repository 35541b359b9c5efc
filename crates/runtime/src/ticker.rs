//! Tickers: work that is due many times a second, on a grid that never drifts, with an account of every firing.
//!
//! ```text
//!   Frequency f, tick rate ──▶ K firings a tick ──▶ Grid: tick n at epoch + n·K/f, exactly
//!                                                     │
//!   process:  `rusm-ticker`, one for a runtime, sleeps until the first of all ticks ──▶ wakes the process ──▶ Firings
//!   thread:   Ticker::wait sleeps until the tick                                                          ──▶ Firings
//!                                                     │
//!                                                  Ledger: fired + dropped + coalesced = ⌊elapsed · f⌋
//! ```
//!
//! A tick that is woken late still fires; one whose time had passed before anybody waited for it is an *overrun*, and
//! [`Overrun`] says what becomes of it. Deadlines are instants of the monotonic clock, so setting the time of day changes
//! nothing, and a machine that stands still makes one large overrun. In virtual time
//! (`rusm_runtime::test`, feature `test`) the ticks of processes come at their exact instants.

mod alarm;
pub(crate) mod clock;
mod driver;
mod frequency;
mod gauge;
mod governor;
mod grid;
mod lead;
mod ledger;
mod observed;
mod process;
mod pulse;
mod thread;
#[cfg(feature = "test")]
mod virtual_time;

use std::num::NonZeroU8;
use std::time::Duration;

use thiserror::Error;

pub use crate::realtime::PRIORITY_MAX;
pub use clock::sleep_precise;
pub use frequency::{FREQUENCY_MAX_HZ, Frequency, FrequencyError, PERIOD_MAX};
pub use gauge::Lateness;
pub use ledger::{Account, Firings};
pub use observed::{TickerDriver, TickerReport};
pub use process::ProcessTicker;
pub use thread::Ticker;

pub(crate) use driver::Tickers;
pub(crate) use observed::{read_driver, read_tickers};
pub(crate) use process::sleep_by;
#[cfg(feature = "test")]
pub(crate) use virtual_time::attend;

/// The most ticks a second that a process may ask for.
pub const PROCESS_TICK_RATE_MAX_HZ: u64 = 1_000_000;

/// How a ticker ticks.
///
/// ```
/// use std::time::Duration;
/// use rusm_runtime::ticker::{Frequency, Overrun, TickerOptions};
///
/// // 48,000 firings a second, in at most 1,000 batches a second.
/// let options = TickerOptions {
///     tick_rate: Some(Frequency::hz(1_000)?),
///     overrun: Overrun::Burst { max: 4 },
///     ..TickerOptions::default()
/// };
/// # Ok::<(), rusm_runtime::ticker::FrequencyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickerOptions {
    /// The most ticks a second; what is due more often comes in batches of K = ⌈frequency / tick rate⌉. Default none, which
    /// is a batch of one. Fewer ticks cost less and make the firings of a batch late by up to a tick.
    pub tick_rate: Option<Frequency>,
    /// Spinning before a tick. Default off.
    pub spin: Spin,
    /// Without spinning: whether to ask the kernel for a wake-up earlier than the tick, by about as much as wake-ups take.
    /// Default yes; most come a little too early then, and wait out what is left: 0.5 µs in the mean, or a two-hundredth of the period if
    /// that is less, which the report counts as spun. The driver of processes always does, and waits out 0.2 µs.
    pub lead: bool,
    /// What becomes of ticks whose time had passed before anybody waited for them. Default dropped.
    pub overrun: Overrun,
    /// Whether lateness is measured. Default not; costs a clock read a tick, and 5 KiB.
    pub measure: Measure,
    /// When the first period begins. Default now.
    pub start: Start,
    /// The priority of `SCHED_FIFO` to ask for, 1 to 99. Default none. For processes it is the driver that gets it, and
    /// keeps it. Where it is not permitted the ticker goes on without, and its report says so.
    pub realtime: Option<NonZeroU8>,
    /// How much later than asked the kernel may wake a thread, to wake several at once. Default 1 ns, the least; a thread's
    /// own default is 50 µs, and a second the most. The driver of processes always has the least.
    pub slack: Duration,
}

impl Default for TickerOptions {
    fn default() -> Self {
        Self {
            tick_rate: None,
            spin: Spin::Off,
            lead: true,
            overrun: Overrun::Drop,
            measure: Measure::Off,
            start: Start::Now,
            realtime: None,
            slack: Duration::from_nanos(1),
        }
    }
}

/// Spinning before a tick: precise, at the cost of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Sleep until the tick.
    #[default]
    Off,
    /// Sleep until so long before the tick, and spin from there; at most one period. On busy cores it makes ticks later.
    Fixed(Duration),
    /// Spin for as long as the kernel's wake-ups are late, 40 µs at most, and not at all after a preemption.
    Governed,
}

/// What becomes of ticks whose time had passed before anybody waited for them; each is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// They are lost; the next batch comes with the next tick.
    #[default]
    Drop,
    /// They are made up for at once in one batch, the newest `max` ticks of them; what is older is dropped.
    Burst {
        /// Ticks that one batch makes up for at most.
        max: u32,
    },
    /// One tick fires at once and stands for all of them, which are counted as coalesced.
    Skip,
    /// One tick fires at once, and all that follow move by as much as it was late.
    Slip,
}

/// Whether a ticker measures how late its batches begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// No.
    #[default]
    Off,
    /// Each batch knows it, and the report has percentiles.
    Lateness,
}

/// When a ticker's first period begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// When it is made.
    #[default]
    Now,
    /// At an instant that several share, so that they are in phase whenever each of them comes. For one that comes later,
    /// what lies before its first tick is not due.
    At(Epoch),
}

/// An instant at which tickers start in phase; see [`Start::At`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Epoch {
    /// The instant that comes after `delay`, for [`Ticker`]s; processes take that of their runtime's clock,
    /// [`Handle::epoch_after`](crate::Handle::epoch_after).
    pub fn after(delay: Duration) -> Self {
        Self(clock::now_ns().saturating_add(nanos(delay)))
    }

    /// How long after an earlier one it is; none if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Why there is no such ticker.
#[derive(Debug, Error)]
pub enum TickerError {
    /// One tick would stand for more than a billion firings.
    #[error("{frequency} at a tick rate of {tick_rate} is a batch of {batch} firings, over {BATCH_MAX}")]
    Batch {
        /// The frequency.
        frequency: Frequency,
        /// The tick rate.
        tick_rate: Frequency,
        /// The firings of one tick.
        batch: u64,
    },
    /// More ticks a second than processes can have; set [`TickerOptions::tick_rate`].
    #[error(
        "{frequency} in batches of {batch} is over {PROCESS_TICK_RATE_MAX_HZ} ticks a second: set a lower tick rate"
    )]
    TickRate {
        /// The frequency.
        frequency: Frequency,
        /// The firings of one tick.
        batch: u64,
    },
    /// Spinning for longer than a period is waiting without sleep.
    #[error("a spin of {spin:?} is longer than the period of {period:?}")]
    Spin {
        /// The spin asked for.
        spin: Duration,
        /// The time between two ticks.
        period: Duration,
    },
    /// A burst makes up for one tick at least.
    #[error("a burst of 0 ticks never fires: drop them, or make up for at least 1")]
    Burst,
    /// Later than a thread may be woken to save energy.
    #[error("a timer slack of {slack:?} is over {SLACK_MAX:?}")]
    Slack {
        /// The slack asked for.
        slack: Duration,
    },
    /// The priorities of `SCHED_FIFO` end at 99.
    #[error("realtime priority {priority} is not in 1–{PRIORITY_MAX}")]
    Priority {
        /// The priority asked for.
        priority: u8,
    },
    /// The system refuses the driver's thread.
    #[error("no thread for tickers: {0}")]
    Thread(#[from] std::io::Error),
    /// The runtime has ended.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// The most firings that one tick stands for.
const BATCH_MAX: u64 = 1_000_000_000;

/// The most by which the kernel may be asked to wake a thread late.
const SLACK_MAX: Duration = Duration::from_secs(1);

/// What a ticker was made with, checked.
#[derive(Clone, Copy, Debug)]
struct Plan {
    frequency: Frequency,
    options: TickerOptions,
    grid: grid::Grid,
}

impl Plan {
    fn of(frequency: Frequency, options: TickerOptions) -> Result<Self, TickerError> {
        let batch = options.tick_rate.map_or(1, |tick_rate| frequency.batch(tick_rate));
        if let Some(tick_rate) = options.tick_rate.filter(|_| batch > BATCH_MAX) {
            return Err(TickerError::Batch { frequency, tick_rate, batch });
        }
        let grid = grid::Grid::new(frequency, batch);
        let period = Duration::from_nanos(grid.next_ns());
        if let Spin::Fixed(spin) = options.spin {
            if spin > period {
                return Err(TickerError::Spin { spin, period });
            }
            if spin > period / 2 {
                tracing::debug!("a spin of {spin:?} in each period of {period:?} takes more than half a core");
            }
        }
        if options.overrun == (Overrun::Burst { max: 0 }) {
            return Err(TickerError::Burst);
        }
        if options.slack > SLACK_MAX {
            return Err(TickerError::Slack { slack: options.slack });
        }
        if let Some(priority) = options.realtime.map(NonZeroU8::get).filter(|priority| *priority > PRIORITY_MAX) {
            return Err(TickerError::Priority { priority });
        }
        Ok(Self { frequency, options, grid })
    }

    /// The same for a process.
    fn of_process(frequency: Frequency, options: TickerOptions) -> Result<Self, TickerError> {
        let plan = Self::of(frequency, options)?;
        let batch = plan.grid.batch();
        if frequency.as_hz() > PROCESS_TICK_RATE_MAX_HZ as f64 * batch as f64 {
            return Err(TickerError::TickRate { frequency, batch });
        }
        Ok(plan)
    }

    fn measures(&self) -> bool {
        self.options.measure == Measure::Lateness
    }

    fn epoch_ns(&self, now_ns: u64) -> u64 {
        match self.options.start {
            Start::Now => now_ns,
            Start::At(Epoch(ns)) => ns,
        }
    }

    /// The account of one that begins now, and its epoch.
    fn ledger(&self, now_ns: u64) -> (ledger::Ledger, u64) {
        let epoch_ns = self.epoch_ns(now_ns);
        let joined = self.grid.due(now_ns.saturating_sub(epoch_ns));
        (ledger::Ledger::new(self.grid, self.options.overrun, joined), epoch_ns)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(hz: u64, options: TickerOptions) -> String {
        Plan::of_process(Frequency::hz(hz).unwrap(), options).unwrap_err().to_string()
    }

    #[test]
    fn a_ticker_that_cannot_be_is_refused_by_its_number() {
        let default = TickerOptions::default();
        let spin = Spin::Fixed(Duration::from_micros(101));
        let tick_rate = Some(Frequency::ratio(1, 86_400).unwrap());

        assert_eq!(
            refused(1_000_001, default),
            "1 MHz in batches of 1 is over 1000000 ticks a second: set a lower tick rate"
        );
        assert_eq!(
            refused(10_000, TickerOptions { spin, ..default }),
            "a spin of 101µs is longer than the period of 100µs"
        );
        assert_eq!(
            refused(1_000_000, TickerOptions { tick_rate, ..default }),
            "1 MHz at a tick rate of 1/86400 Hz is a batch of 86400000000 firings, over 1000000000"
        );
        assert_eq!(
            refused(1, TickerOptions { overrun: Overrun::Burst { max: 0 }, ..default }),
            "a burst of 0 ticks never fires: drop them, or make up for at least 1"
        );
        assert_eq!(
            refused(1, TickerOptions { realtime: NonZeroU8::new(100), ..default }),
            "realtime priority 100 is not in 1–99"
        );
        assert_eq!(
            refused(1, TickerOptions { slack: Duration::from_millis(1_001), ..default }),
            "a timer slack of 1.001s is over 1s"
        );
    }

    #[test]
    fn a_tick_rate_over_the_frequency_changes_nothing() {
        let tick_rate = Some(Frequency::hz(FREQUENCY_MAX_HZ).unwrap());

        let plan =
            Plan::of_process(Frequency::hz(10).unwrap(), TickerOptions { tick_rate, ..TickerOptions::default() });

        assert_eq!(plan.unwrap().grid.batch(), 1);
    }

    #[test]
    fn one_that_comes_late_begins_with_the_next_tick_in_phase() {
        let start = Start::At(Epoch(5_000));
        let plan =
            Plan::of(Frequency::hz(1_000_000).unwrap(), TickerOptions { start, ..TickerOptions::default() }).unwrap();

        let (mut ledger, epoch_ns) = plan.ledger(9_300);

        assert_eq!((epoch_ns, ledger.next_ns()), (5_000, 5_000));
        assert_eq!(ledger.take(5, true, || 5_000).map(|firings| firings.first), Some(4));
        assert_eq!(plan.ledger(4_000).0.next_ns(), 1_000);
    }
}
