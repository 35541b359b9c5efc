//! Tests of the scenarios, the engine, load tests and reports, through the public API, in one program.
//!
//! The tests that count allocations are a program of their own, because its allocator is global.

mod counters;
mod engine;
mod loadtest;
mod measurements;
mod own_scenario;
mod scenarios;
mod schema;
mod serving;

use std::time::Duration;

use rusm_bench::SteadyRule;

/// Warm-up of runs in tests that do not check figures.
const WARM_UP: SteadyRule = SteadyRule { min: Duration::from_millis(100), max: Duration::from_millis(100) };
