//! Finds the limits of a system: capacity, highest stable rate, and highest rate within a latency objective.
//!
//! ```text
//!   closed loop ─▶ capacity ─▶ open-loop ladder, 10 to 130 %, in random order ─▶ which levels are stable
//!                                                                            ├─▶ bisect to 2 % ─▶ a stable rate
//!                                                                            └─▶ bisect to 2 % ─▶ max_rate_under_slo
//!   search again four times, from 10 % around that rate ─▶ max_stable_rate: the median, if all are within 5 % of it
//!   closed loops of 1, 2, 4 … workers ─▶ Universal Scalability Law, with residuals
//! ```
//!
//! A level is stable if its backlog does not grow (the confidence interval of the Theil–Sen slope contains zero or
//! less), at least 99 % of the offered operations were done, and nothing was dropped. An unstable level proves nothing
//! if other processes disturbed it or if it stalled once: it is offered again. The logic accesses the system only
//! through [`SystemUnderTest`], so its tests need no real one.

mod chart;
mod knee;
mod level;
mod search;
mod searches;
mod system;
mod text;
mod usl;

pub use chart::svg;
pub use knee::{Knees, knees};
pub use level::Level;
pub use search::{LADDER, Saturation, saturate};
pub use searches::Searches;
pub use system::{SEARCHES, SaturateOptions, SystemError, SystemUnderTest};
pub(crate) use system::{bisect, offer_undisturbed};
pub use usl::{Usl, UslPoint, fit_usl};
