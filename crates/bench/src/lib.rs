//! Benchmark scenarios that load a node, and the meter that counts and times their operations.
//!
//! ```text
//!   Request ─▶ Plan ─▶ Run ─▶ driver process ───────▶ Scenario::run(stage)
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
//! through its [`Stage`]. Every operation is counted. A latency is timed from cause to effect, and only for as many
//! operations as keep the cost of the clock below 5 % of an operation; these are chosen at random distances.
//!
//! Invariant: measuring takes no lock on a path that runs once per operation, and no number in a report is invented.

pub use rusm_runtime::cgroup;

mod allocations;
mod background;
mod card;
mod catalogue;
mod clock;
mod compare;
mod component_storm;
mod counter_flags;
mod counter_load;
mod counter_micro;
mod counter_oracle;
mod counter_redb;
mod counter_summary;
mod counter_sweep;
mod counter_variants;
mod crypto_ops;
mod cyclictest;
mod document;
mod document_text;
mod duty;
mod engine;
mod fairness;
mod fan_in;
mod fault_recovery;
mod figure;
mod guests;
mod headless;
mod history;
mod interval;
mod kv_ground;
mod kv_storm;
mod kv_versus;
mod latency;
mod listing;
mod live_bytes;
mod live_cap;
mod load;
mod machine;
mod meter;
mod module_storm;
mod nearest;
mod orphans;
mod pace;
mod parameter;
mod parked;
mod ping_pong;
mod pinned;
mod pipe_live;
mod plan;
mod profile;
mod pubsub_fanout;
mod recipe;
mod report;
mod report_text;
mod ring_cases;
mod ring_chunk;
mod ring_contention;
mod ring_copy;
mod ring_footprint;
mod ring_load;
mod ring_rivals;
mod ring_sharing;
mod ring_size;
mod ring_slow;
mod ring_versus;
mod ring_wake;
mod run;
mod sampler;
mod saturate;
mod scenario;
mod scenario_bed;
mod schedule;
mod series;
mod signs;
mod soak;
mod spawn_storm;
mod spread;
mod stage;
mod stamp;
mod statistics;
mod steady;
mod stream_pipe;
mod sweep;
mod table;
mod ticking;
mod timer_empty;
mod timer_firing;
mod timer_jitter;
mod timer_kfactor;
mod timer_path;
mod timer_share;
mod timer_start;
mod timer_sweep;
mod timer_switch;
mod timer_tasks;
mod topic_churn;
mod topic_durable;
mod topic_fanout;
mod topic_firehose;
mod topic_gather;
mod topic_herd;
mod topic_load;
mod topic_micro;
mod topic_mix;
mod topic_payload;
mod topic_rival;
mod topic_saturation;
mod topic_soak;
mod topic_throughput;
mod turns;
mod usage;
mod wasm_storm;

pub use allocations::CountingAllocator;
pub use card::{Card, Family};
pub use catalogue::{catalogue, find};
pub use compare::{
    CompareError, CompareOptions, Compared, Comparison, Interleaved, Outcome, Round, Side, THRESHOLD, compare, order,
};
pub use counter_flags::{HARNESS, PRESET, fill_from_harness, forget_preset};
pub use document::{Document, DocumentError, Kind as DocumentKind, Origin, SCHEMA_VERSION};
pub use engine::Engine;
pub use figure::{Better, CPU, Figure, P99, RATE};
pub use headless::{HeadlessError, HeadlessOptions, run_headless, run_headless_on, run_plan};
pub use history::{ENTRIES_MAX, Entry, History, HistoryError, history_text};
pub use interval::{Interval, Rates};
pub use listing::{card_text, list_json, list_text};
pub use load::{Load, LoadError, LoadOptions, LoadProtocol, SearchOptions, find_max};
pub use machine::{Fitness, Machine};
pub use meter::{Meter, Probe, Recorder, Stamp};
pub use pace::Pace;
pub use parameter::{Kind, Parameter, ParameterError, Params, parse_assignment};
pub use plan::{Plan, Request, RequestError};
pub use profile::{Profile, Share, Workers};
pub use recipe::Recipe;
pub use report::{LatencyReport, LoopKind, OpenLoopReport, Report, Verdict, WarmUpReport};
pub use run::RunError;
pub use saturate::{
    Bed, BedError, Knees, LADDER, Level, SEARCHES, SaturateOptions, Saturation, Searches, Usl, UslPoint, fit_usl,
    knees, saturate, svg,
};
pub use scenario::{Scenario, ScenarioRun};
pub use scenario_bed::{LEVEL, ScenarioBed};
pub use schedule::{Rate, RateError, Schedule};
pub use series::{RUNS_MAX, run_series};
pub use signs::Signs;
pub use soak::{Growth, Soak, SoakSample, SoakVerdict, run_soak};
pub use stage::{Stage, StopFlag};
pub use steady::SteadyRule;
pub use sweep::{Axis, CELLS_MAX, GridError, Sweep, SweepCell, cells, parse_grid, run_sweep};
pub use table::{Cell, Column, ColumnUnit, Table, Tables};

/// Default values, used by the code, the help texts and the documentation.
pub mod defaults {
    use std::time::Duration;

    use crate::profile::Profile;

    /// Resource profile.
    pub const PROFILE: Profile = Profile::Balanced;
    /// Number of runs of a recipe: the smallest number whose minimum and maximum enclose the median at 95 % confidence.
    pub const RUNS: u32 = 6;
    /// Length of a headless measurement after the warm-up.
    pub const DURATION: Duration = Duration::from_secs(5);
    /// Minimum length of a warm-up.
    pub const WARM_UP_MIN: Duration = Duration::from_secs(1);
    /// Maximum length of a warm-up. After it the run is measured anyway, and the report says that it was not steady.
    pub const WARM_UP_MAX: Duration = Duration::from_secs(5);
    /// Seed of all random choices.
    pub const SEED: u64 = 1;
    /// Maximum number of live processes of a storm, per core.
    pub const LIVE_CAP_PER_CORE: u64 = 1_000;
    /// Number of processes that a spawner of a storm starts before it yields.
    pub const SPAWN_BURST: u64 = 64;
    /// Number of guest instances that a spawner of a storm starts before it yields.
    pub const WASM_BURST: u64 = 16;
    /// Number of bytes hashed per digest.
    pub const DIGEST_BYTES: u64 = 32;
    /// Number of bystander processes next to guests that never yield.
    pub const BYSTANDERS: u64 = 64;
    /// Number of processes parked in `receive` in scenarios that measure many parked processes.
    pub const PARKED: u64 = 1_000_000;
    /// Time between two readings of the meter.
    pub const INTERVAL: Duration = Duration::from_millis(100);
}
