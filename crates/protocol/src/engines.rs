//! Engines on the wire: what runs bodies of another kind, such as guests of WebAssembly, and what became of them.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// What a client sees of the node's engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnginesView {
    /// Echoed in the answers, so that a client can drop those to a view that it has left.
    pub id: u32,
    /// Which modules, of all engines together, those with the most instances first.
    #[serde(default)]
    pub window: ViewWindow,
    /// The fault that is looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultId>,
    /// Refreshes a second, 1–10.
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

/// Which fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultId {
    /// The place of its engine among the node's.
    pub engine: u32,
    /// Counts the faults of that engine, from 1.
    pub seq: u64,
}

/// How the engines do, and a window of what they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Engines {
    /// The view that this answers.
    pub id: u32,
    /// Counts this client's windows.
    pub seq: u64,
    /// The node's uptime when it looked, in milliseconds.
    pub at_ms: u64,
    /// CPU time of looking, in microseconds.
    pub cost_us: f64,
    /// Engines that have run something on this node, up to eight, the oldest first.
    pub engines: Vec<EngineInfo>,
    /// Modules of all engines.
    pub total: u64,
    /// Modules before the first one here.
    pub offset: u64,
    /// The window of modules.
    pub modules: Vec<ModuleInfo>,
    /// The last faults, up to 16, the newest first.
    pub faults: Vec<FaultInfo>,
    /// The fault that the view looks into, unless it is forgotten by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Box<FaultDetail>>,
}

/// One engine; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineInfo {
    /// The kind of its instances, as in a process's row: `wasm`.
    pub kind: String,
    /// Where they live: `pool`, `checked pool` if there was no address space to spare accesses their checks, or `slabs`.
    pub room: String,
    /// Instances that may live at once.
    pub capacity: u64,
    /// Instances that live.
    pub live: u64,
    /// Instances ever started.
    pub started_total: u64,
    /// Starts that found no room.
    pub refused_total: u64,
    /// What instances are made of: `memories`, `stacks`.
    pub slots: Vec<SlotsInfo>,
    /// Epochs counted; they stand still while nothing runs.
    pub ticks_total: u64,
    /// How long an epoch is, in microseconds.
    pub tick_us: u64,
    /// Whether epochs are counted now.
    pub is_ticking: bool,
    /// Compiled code that is kept on disk.
    pub cache: CacheInfo,
    /// Faults by what happened.
    pub faults_total: Vec<CountInfo>,
    /// What instances asked for and were not allowed, by the capability that it takes.
    pub refusals_total: Vec<CountInfo>,
}

/// How much of something is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsInfo {
    /// Of what.
    pub name: String,
    /// In use.
    pub used: u64,
    /// There are.
    pub slots: u64,
}

/// Something counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountInfo {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Compiled code that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheInfo {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that may be kept; 0 if nothing is.
    pub max_bytes: u64,
    /// Modules that were found compiled.
    pub hits_total: u64,
    /// Modules that were compiled.
    pub misses_total: u64,
    /// Entries that made room for others.
    pub evictions_total: u64,
    /// Entries that were not as they had been written.
    pub damaged_total: u64,
    /// What was compiled and not kept: the directory is full, read-only or not there.
    pub unkept_total: u64,
}

/// What instances are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleInfo {
    /// Its name.
    pub name: String,
    /// `component`, `module`, and either with `wasi` before it.
    pub kind: String,
    /// The place of its engine among the node's.
    pub engine: u32,
    /// Instances of it that live.
    pub live: u64,
    /// Instances of it ever started.
    pub started_total: u64,
    /// Instances of it that ended by a fault.
    pub faults_total: u64,
}

/// How an instance came to its end by a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultInfo {
    /// Which one.
    pub id: FaultId,
    /// The node's uptime then, in milliseconds.
    pub at_ms: u64,
    /// Whose end it was.
    pub pid: String,
    /// What it was made from.
    pub module: String,
    /// What happened: `unreachable`, `stack overflow`.
    pub code: String,
    /// The function in which it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// A fault in full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultDetail {
    /// The fault itself.
    pub fault: FaultInfo,
    /// The functions that were running, the innermost first, up to 32.
    pub backtrace: Vec<String>,
}
