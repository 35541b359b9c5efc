//! Engines on the wire: they run processes that are not native, such as WebAssembly guests. Here are their counters and
//! faults.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnginesView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of modules, of all engines together, those with the most instances first.
    #[serde(default)]
    pub window: ViewWindow,
    /// Fault to send in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultId>,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_engines_hz")]
    pub hz: f64,
}

const fn default_engines_hz() -> f64 {
    2.0
}

impl Default for EnginesView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), fault: None, hz: default_engines_hz() }
    }
}

/// Identifies a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultId {
    /// Index of its engine among the node's engines.
    pub engine: u32,
    /// Number of the fault in that engine, counted from 1.
    pub seq: u64,
}

/// State of the engines, and a window of the modules that they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Engines {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Engines that have run something on this node, up to eight, oldest first.
    pub engines: Vec<EngineInfo>,
    /// Number of modules in all engines.
    pub total: u64,
    /// Number of modules before the first one of this window.
    pub offset: u64,
    /// Modules of the window.
    pub modules: Vec<ModuleInfo>,
    /// The last faults, up to 16, newest first.
    pub faults: Vec<FaultInfo>,
    /// The fault that the view selects, in full; absent if it is no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Box<FaultDetail>>,
}

/// State of an engine; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineInfo {
    /// Kind of its instances, as in the row of a process: `wasm`.
    pub kind: String,
    /// Instance allocator: `pool`, `checked pool` (accesses are checked, for lack of address space), or `slabs`.
    pub room: String,
    /// Maximum number of live instances.
    pub capacity: u64,
    /// Number of live instances.
    pub live: u64,
    /// Number of instances started.
    pub started_total: u64,
    /// Number of starts refused for lack of capacity.
    pub refused_total: u64,
    /// Use of the resources that instances need: `memories`, `stacks`.
    pub slots: Vec<SlotsInfo>,
    /// Number of epochs; does not increase while nothing runs.
    pub ticks_total: u64,
    /// Length of an epoch, in microseconds.
    pub tick_us: u64,
    /// True if epochs are counted now.
    pub is_ticking: bool,
    /// Cache of compiled code on disk.
    pub cache: CacheInfo,
    /// Number of faults by kind.
    pub faults_total: Vec<CountInfo>,
    /// Number of requests refused to instances, by the missing capability.
    pub refusals_total: Vec<CountInfo>,
}

/// Use of a limited resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsInfo {
    /// Name of the resource.
    pub name: String,
    /// Number in use.
    pub used: u64,
    /// Maximum number.
    pub slots: u64,
}

/// A counter with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountInfo {
    /// Name of what is counted.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Cache of compiled code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheInfo {
    /// Number of entries.
    pub entries: u64,
    /// Size of all entries, in bytes.
    pub bytes: u64,
    /// Maximum size, in bytes; 0 if nothing is cached.
    pub max_bytes: u64,
    /// Number of modules found compiled.
    pub hits_total: u64,
    /// Number of modules compiled.
    pub misses_total: u64,
    /// Number of entries evicted to make room for others.
    pub evictions_total: u64,
    /// Number of entries found damaged.
    pub damaged_total: u64,
    /// Number of compiled modules that could not be stored because the directory is full, read-only or missing.
    pub unkept_total: u64,
}

/// A module, from which instances are created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleInfo {
    /// Name of the module.
    pub name: String,
    /// `component` or `module`, or either of them after the word `wasi`.
    pub kind: String,
    /// Index of its engine among the node's engines.
    pub engine: u32,
    /// Number of live instances of it.
    pub live: u64,
    /// Number of instances of it started.
    pub started_total: u64,
    /// Number of instances of it that ended by a fault.
    pub faults_total: u64,
}

/// A fault that ended an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultInfo {
    /// Identifies the fault.
    pub id: FaultId,
    /// Uptime of the node at that time, in milliseconds.
    pub at_ms: u64,
    /// Pid of the process that ended.
    pub pid: String,
    /// Module of the instance.
    pub module: String,
    /// Kind of the fault, for example `unreachable` or `stack overflow`.
    pub code: String,
    /// Function in which it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// A fault in full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultDetail {
    /// The fault itself.
    pub fault: FaultInfo,
    /// Functions that were running, innermost first, up to 32.
    pub backtrace: Vec<String>,
}
