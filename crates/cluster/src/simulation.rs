//! A network under a seed: the same seed gives the same run, packet by packet.
//!
//! ```text
//!   seed ──▶ Plan ──▶ World: nodes with sessions and processes ◀──▶ Network: loss, duplicates, old packets, partitions
//!                       │
//!                       └──▶ Ledger of each session: what was sent, what arrived ──▶ a violation, or a report
//! ```
//!
//! Each node has a clock of its own speed, processes that send, and processes that take their messages late or never.
//! In the last part of a run the faults stop, so that everything has to arrive.

mod agenda;
mod clock;
mod label;
mod ledger;
mod name_world;
mod network;
mod node;
mod plan;
mod rng;
mod world;

pub use ledger::Violation;
pub use name_world::{NameReport, check_names};
pub use plan::Plan;
pub use rng::Rng;
pub use world::{Report, run};

use crate::session::Fault;

/// Runs the plan of a seed, perhaps with a planted bug.
///
/// # Errors
/// [`Violation`] if a node saw what must not happen.
pub fn check(seed: u64, fault: Option<Fault>) -> Result<Report, Violation> {
    run(&Plan::from_seed(seed), fault)
}

#[cfg(test)]
mod tests;
