//! Descriptions of the scenarios that a node can run.

use serde::{Deserialize, Serialize};

use crate::views::results::GateInfo;

/// A scenario, as offered to a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioMeta {
    /// Id that `run` takes, in kebab-case.
    pub id: String,
    /// Name in the menu.
    pub label: String,
    /// Description, in one sentence.
    pub description: String,
    /// Definition of one operation, how the figure is calculated, and what it does not mean.
    pub details: Vec<String>,
    /// Development phase of the predecessor since which the scenario was real; here 1 if `real`, else 0.
    pub real_after_phase: u8,
    /// True if a run would measure the runtime: false if `lacks` names a requirement, and for simulated scenarios.
    pub real: bool,
    /// Unit of the operations.
    pub unit: Unit,
    /// Label of the operations, for example `spawns/s`.
    pub ops_label: String,
    /// Label of the latency; `null` if the scenario measures no latency.
    pub latency_label: Option<String>,
    /// Program text; always empty here, see `source_file`.
    pub source: Option<String>,
    /// Source file in the repository.
    pub source_file: Option<String>,
    /// Family of the scenario, for example `actors`.
    pub family: String,
    /// Parameters that can be set.
    pub parameters: Vec<ParameterMeta>,
    /// Requirement that this machine lacks to run the scenario; `null` if it can run.
    pub lacks: Option<String>,
    /// Limits for its figures, without values; empty if the node is older.
    pub gates: Vec<GateInfo>,
}

/// The unit that a scenario counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations.
    #[default]
    Count,
    /// Bytes.
    Bytes,
}

/// A parameter of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParameterMeta {
    /// Name that `--param` takes.
    pub name: String,
    /// Description, in one sentence.
    pub description: String,
    /// Value if the parameter is not set.
    pub default: String,
    /// Valid values, for display: `1–1000` or `same, other`.
    pub range: String,
}

/// A resource profile, as offered to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceProfileMeta {
    /// Id that `set_resource_profile` takes.
    pub id: String,
    /// Name in the menu.
    pub label: String,
    /// Description, in one sentence.
    pub description: String,
}
