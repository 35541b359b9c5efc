//! Measurements on the runtime of a live node, for its observers.
//!
//! ```text
//!   console ── measure / stop / set_profile ──▶ Engine ──▶ EngineShared: wanted ──▶ driver thread: Measurement, run by run
//!           ◀── sample, results, report ────────────────── EngineShared ◀── run, sheet, kept results ──┘
//!                                                               └ saved results ◀── history thread ◀── file
//! ```

pub(crate) mod driver;
pub(crate) mod encode;
pub(crate) mod engine;
pub(crate) mod kept;
pub(crate) mod measurement;
pub(crate) mod memory_guard;
pub(crate) mod page;
pub(crate) mod saved;
pub(crate) mod sheet;
pub(crate) mod state;
