//! Benchmark scenarios that load a node, and the meter that counts and times their operations.
//!
//! ```text
//!   Request ─▶ Plan ─▶ Run ─▶ driver process ───────▶ Scenario::run(context)
//!                       │                                │ spawns workers
//!                       │                                ▼
//!                       │                             Recorder: counters in a cache line of its own, sampled latencies
//!                       ▼                                │
//!                    Sampler, every 100 ms ◀─────────────┘   warm-up cut, intervals, percentiles
//!                       ├─▶ Engine: data for observers (`Host`)
//!                       └─▶ Report: output for people and programs
//! ```
//!
//! A scenario is one file that implements [`Scenario`], and one line in [`catalogue`]. It accesses the node only
//! through its [`RunContext`]. Every operation is counted. A latency is timed from cause to effect, and only for as
//! many operations as keep the cost of the clock below 5 % of an operation; these are chosen at random distances.
//!
//! Invariant: measuring takes no lock on a path that runs once per operation, and no number in a report is invented.

pub use rusm_runtime::cgroup;

pub mod defaults;

mod card;
mod catalogue;
mod context;
mod gates;
mod judge;
mod live;
mod load;
mod measure;
mod parameter;
mod report;
mod run;
mod scenario;
mod scenarios;

pub use card::{Card, Family};
pub use catalogue::{catalogue, find};
pub use context::RunContext;
pub use judge::anomalies::Anomalies;
pub use judge::compare::{
    CompareError, CompareOptions, Compared, Comparison, Interleaved, Outcome, Round, Side, THRESHOLD, compare, order,
};
pub use judge::saturate::{
    Knees, LADDER, Level, SEARCHES, SaturateOptions, Saturation, Searches, SystemError, SystemUnderTest, Usl, UslPoint,
    fit_usl, knees, saturate, svg,
};
pub use judge::scenario_system::{LEVEL, ScenarioSystem};
pub use judge::soak::{Growth, Soak, SoakSample, SoakVerdict, run_soak};
pub use judge::sweep::{Axis, CELLS_MAX, GridError, Sweep, SweepCell, cells, parse_grid, run_sweep};
pub use live::engine::Engine;
pub use load::{Load, LoadError, LoadOptions, LoadProtocol, SearchOptions, find_max};
pub use measure::allocations::CountingAllocator;
pub use measure::interval::{Interval, Rates};
pub use measure::meter::{Meter, Probe, Recorder, Stamp};
pub use measure::pace::Pace;
pub use measure::schedule::{Rate, RateError, Schedule};
pub use measure::steady::SteadyRule;
pub use parameter::{Kind, Parameter, ParameterError, Params, parse_assignment};
pub use report::document::{Document, DocumentError, DocumentKind, Origin, SCHEMA_VERSION};
pub use report::figure::{Better, CPU, Figure, P99, RATE};
pub use report::history::{ENTRIES_MAX, Entry, History, HistoryError, history_text};
pub use report::listing::{card_text, list_json, list_text};
pub use report::machine::{Fitness, Machine};
pub use report::table::{Cell, Column, ColumnUnit, Table, Tables};
pub use report::{LatencyReport, LoopKind, OpenLoopReport, Report, Verdict, WarmUpReport};
pub use run::error::RunError;
pub use run::flags::StopFlag;
pub use run::headless::{HeadlessError, HeadlessOptions, RUNS_MAX, run_headless, run_headless_on, run_plan};
pub use run::plan::{Plan, Request, RequestError};
pub use run::profile::{Profile, Share, Workers};
pub use run::recipe::Recipe;
pub use run::series::run_series;
pub use scenario::{Scenario, ScenarioRun};
#[cfg(feature = "cluster")]
pub use scenarios::cluster::member::MemberSettings;
#[cfg(feature = "cluster")]
pub use scenarios::cluster::served::{ClusterNodeArgs, serve_cluster_node};
pub use scenarios::counters::flags::{PRESET, forget_preset};
pub use scenarios::counters::harness::{HARNESS, fill_from_harness};
