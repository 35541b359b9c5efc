//! Tickers: periodic work on a grid that never drifts, up to many times a second, with an account of every firing.
//!
//! ```text
//!   Frequency f, tick rate ──▶ K firings a tick ──▶ Grid: tick n at epoch + n·K/f, exactly
//!                                                     │
//!   process:  `rusm-ticker`, one per runtime, sleeps until the first of all ticks ──▶ wakes the process ──▶ Firings
//!   thread:   Ticker::wait sleeps until the tick                                                        ──▶ Firings
//!                                                     │
//!                                                  Ledger: fired + dropped + coalesced = ⌊elapsed · f⌋
//! ```
//!
//! A tick with a late wake-up still fires. If the time of a tick had passed before its process or thread waited for it,
//! the tick is an *overrun*, which is handled as [`Overrun`] selects. Deadlines use the monotonic clock: changing the
//! time of day does not matter, and a suspended machine causes one large overrun. In virtual time
//! (`rusm_runtime::test`, feature `test`) the ticks of processes come at their exact instants.

pub(crate) mod clock;
pub(crate) mod driver;
mod early_wake;
mod frequency;
mod governor;
mod grid;
mod ledger;
mod metrics;
mod observed;
mod options;
mod process;
mod sleep_word;
mod thread;
#[cfg(feature = "test")]
mod virtual_time;
mod wake_signal;

pub use crate::time::realtime::PRIORITY_MAX;
pub use clock::sleep_precise;
pub use frequency::{FREQUENCY_MAX_HZ, Frequency, FrequencyError, PERIOD_MAX};
pub use ledger::{Firings, TickCounts};
pub use metrics::Lateness;
pub use observed::{TickerDriver, TickerReport};
pub use options::{Epoch, Measure, Overrun, PROCESS_TICK_RATE_MAX_HZ, Spin, Start, TickerError, TickerOptions};
pub use process::ProcessTicker;
pub use thread::Ticker;

pub(crate) use observed::{read_driver, read_tickers};
pub(crate) use process::sleep_through_driver;
#[cfg(feature = "test")]
pub(crate) use virtual_time::drive_virtual;
