//! Options of a ticker, and their validation.

use std::num::NonZeroU8;
use std::time::Duration;

use thiserror::Error;

use super::clock;
use super::frequency::Frequency;
use super::grid::Grid;
use crate::time::nanos;
use crate::time::realtime::PRIORITY_MAX;

/// Largest number of ticks a second for a process.
pub const PROCESS_TICK_RATE_MAX_HZ: u64 = 1_000_000;

/// Options of a ticker.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
/// use rusm::ticker::{Frequency, Overrun, TickerOptions};
///
/// // 48,000 firings a second, in at most 1,000 batches a second.
/// let options = TickerOptions {
///     tick_rate: Some(Frequency::hz(1_000)?),
///     overrun: Overrun::Burst { max: 4 },
///     ..TickerOptions::default()
/// };
/// # Ok::<(), rusm::ticker::FrequencyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickerOptions {
    /// Largest number of ticks a second. More frequent firings come in batches of K = ⌈frequency / tick rate⌉. Default
    /// none: a batch of one. Fewer ticks cost less, but the firings of a batch are late by up to a tick.
    pub tick_rate: Option<Frequency>,
    /// Spinning before a tick. Default off.
    pub spin: Spin,
    /// Without spinning: asks the kernel to wake the thread before the tick, by about the usual wake-up latency.
    /// Default true. Most wake-ups are then a little early, and the thread spins for the rest: 0.5 µs on average, or
    /// 1/200 of the period if that is less. The report counts this as spun. The driver for processes always wakes
    /// early, and spins for 0.2 µs.
    pub early_wake: bool,
    /// Handling of ticks that had passed before their process or thread waited for them. Default: drop them.
    pub overrun: Overrun,
    /// Measurement of lateness. Default off. It costs a clock read per tick, and 5 KiB.
    pub measure: Measure,
    /// Start of the first period. Default now.
    pub start: Start,
    /// The `SCHED_FIFO` priority to request, 1 to 99. Default none. For processes, the driver gets the priority and
    /// keeps it. If it is not permitted, the ticker runs without it, and its report says so.
    pub realtime: Option<NonZeroU8>,
    /// Timer slack: how late the kernel may wake a thread, to wake several at once. Default 1 ns, the smallest value;
    /// at most one second. A thread's default is 50 µs. The driver for processes always has the smallest value.
    pub slack: Duration,
}

impl Default for TickerOptions {
    fn default() -> Self {
        Self {
            tick_rate: None,
            spin: Spin::Off,
            early_wake: true,
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
    /// Sleep until this time before the tick, then spin. At most one period. On busy cores this makes ticks later.
    Fixed(Duration),
    /// Spin for the measured lateness of wake-ups, 40 µs at most. Do not spin after a preemption.
    Governed,
}

/// Handling of ticks that had passed before their process or thread waited for them. Each of them is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// Drops them. The next batch comes with the next tick.
    #[default]
    Drop,
    /// Fires the newest `max` of them at once in one batch, and drops older ones.
    Burst {
        /// Largest number of ticks in such a batch.
        max: u32,
    },
    /// Fires one tick at once for all of them. The others are counted as coalesced.
    Skip,
    /// Fires one tick at once, and delays all following ticks by its lateness.
    Slip,
}

/// Selects whether a ticker measures how late its batches begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// No measurement.
    #[default]
    Off,
    /// Each batch has its lateness, and the report has percentiles.
    Lateness,
}

/// Start of a ticker's first period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// When the ticker is created.
    #[default]
    Now,
    /// At a shared instant, so that several tickers are in phase regardless of when each was created. Ticks before the
    /// creation of a ticker are not due.
    At(Epoch),
}

/// An instant at which tickers start in phase; see [`Start::At`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// Returns the instant after `delay`, for [`Ticker`](super::Ticker)s. Processes use an instant of their runtime's clock instead:
    /// [`Handle::epoch_after`](crate::Handle::epoch_after).
    pub fn after(delay: Duration) -> Self {
        Self(clock::now_ns().saturating_add(nanos(delay)))
    }

    /// Returns the time from an earlier epoch to this one, or zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Error returned when a ticker cannot be created.
#[derive(Debug, Error)]
pub enum TickerError {
    /// One tick would contain more than a billion firings.
    #[error("{frequency} at a tick rate of {tick_rate} is a batch of {batch} firings, over the limit of {BATCH_MAX}")]
    Batch {
        /// The frequency.
        frequency: Frequency,
        /// The tick rate.
        tick_rate: Frequency,
        /// The number of firings in one tick.
        batch: u64,
    },
    /// More ticks a second than a process may have; set [`TickerOptions::tick_rate`].
    #[error(
        "{frequency} in batches of {batch} is over {PROCESS_TICK_RATE_MAX_HZ} ticks a second: set a lower tick rate"
    )]
    TickRate {
        /// The frequency.
        frequency: Frequency,
        /// The number of firings in one tick.
        batch: u64,
    },
    /// The spin is longer than a period: the ticker would never sleep.
    #[error("a spin of {spin:?} is longer than the period of {period:?}")]
    Spin {
        /// The requested spin.
        spin: Duration,
        /// The time between two ticks.
        period: Duration,
    },
    /// A burst must contain at least one tick.
    #[error("a burst of 0 ticks never fires: use at least 1, or the overrun policy Drop")]
    Burst,
    /// The timer slack is too large.
    #[error("a timer slack of {slack:?} is over the limit of {SLACK_MAX:?}")]
    Slack {
        /// The requested slack.
        slack: Duration,
    },
    /// The priority is above 99, the highest of `SCHED_FIFO`.
    #[error("realtime priority {priority} is not between 1 and {PRIORITY_MAX}")]
    Priority {
        /// The requested priority.
        priority: u8,
    },
    /// The system cannot create the thread of the driver.
    #[error("cannot start the thread for tickers: {0}")]
    Thread(#[from] std::io::Error),
    /// The runtime has ended.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// Largest number of firings in one tick.
const BATCH_MAX: u64 = 1_000_000_000;

/// Largest timer slack.
const SLACK_MAX: Duration = Duration::from_secs(1);

/// Validated options of a ticker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) frequency: Frequency,
    pub(super) options: TickerOptions,
    pub(super) grid: Grid,
}

impl Plan {
    pub(super) fn of(frequency: Frequency, options: TickerOptions) -> Result<Self, TickerError> {
        let batch = options.tick_rate.map_or(1, |tick_rate| frequency.batch(tick_rate));
        if let Some(tick_rate) = options.tick_rate.filter(|_| batch > BATCH_MAX) {
            return Err(TickerError::Batch { frequency, tick_rate, batch });
        }
        let grid = Grid::new(frequency, batch);
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

    /// Like `of`, for a process.
    pub(super) fn of_process(frequency: Frequency, options: TickerOptions) -> Result<Self, TickerError> {
        let plan = Self::of(frequency, options)?;
        let batch = plan.grid.batch();
        if frequency.as_hz() > PROCESS_TICK_RATE_MAX_HZ as f64 * batch as f64 {
            return Err(TickerError::TickRate { frequency, batch });
        }
        Ok(plan)
    }

    pub(super) fn measures(&self) -> bool {
        self.options.measure == Measure::Lateness
    }

    pub(super) fn epoch_ns(&self, now_ns: u64) -> u64 {
        match self.options.start {
            Start::Now => now_ns,
            Start::At(Epoch(ns)) => ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ticker::frequency::FREQUENCY_MAX_HZ;

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
            "1 MHz at a tick rate of 1/86400 Hz is a batch of 86400000000 firings, over the limit of 1000000000"
        );
        assert_eq!(
            refused(1, TickerOptions { overrun: Overrun::Burst { max: 0 }, ..default }),
            "a burst of 0 ticks never fires: use at least 1, or the overrun policy Drop"
        );
        assert_eq!(
            refused(1, TickerOptions { realtime: NonZeroU8::new(100), ..default }),
            "realtime priority 100 is not between 1 and 99"
        );
        assert_eq!(
            refused(1, TickerOptions { slack: Duration::from_millis(1_001), ..default }),
            "a timer slack of 1.001s is over the limit of 1s"
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
