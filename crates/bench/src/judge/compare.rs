//! Decides whether one report is better than another, and with what confidence.
//!
//! ```text
//!   before: six values ─┐ bootstrap of the ratio of medians ─▶ interval ─▶ beyond 0.90 or 1.10: better or worse
//!   after:  six values ─┘                                              ─▶ within 0.90 and 1.10: same
//!                                                                      ─▶ else, or another machine: inconclusive
//! ```
//!
//! Invariant: reports that cannot be compared never have the outcome "same".

mod comparison;
mod interleaved;
mod text;

pub use comparison::{CompareError, CompareOptions, Compared, Comparison, Outcome, THRESHOLD, compare};
pub(crate) use comparison::{check_threshold, deciding};
pub use interleaved::{Interleaved, Round, Side, order};
