//! What a node says about the scenarios that it can run.

use serde::{Deserialize, Serialize};

/// A scenario as a person chooses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioMeta {
    /// The id that `run` takes, in kebab-case.
    pub id: String,
    /// The name on the menu.
    pub label: String,
    /// One sentence.
    pub description: String,
    /// What one operation is, how the figure is made, what it does not mean.
    pub details: Vec<String>,
    /// The ancestor's phase after which its scenario was real; always 1 here.
    pub real_after_phase: u8,
    /// Whether it runs on the real engine; always true here.
    pub real: bool,
    /// What is counted.
    pub unit: Unit,
    /// What the operations are called, such as `spawns/s`.
    pub ops_label: String,
    /// What the latency is of; `null` if there is none.
    pub latency_label: Option<String>,
    /// The program text; empty here, `source_file` leads to it.
    pub source: Option<String>,
    /// The file in the repository.
    pub source_file: Option<String>,
    /// The family, such as `actors`.
    pub family: String,
    /// What can be set.
    pub parameters: Vec<ParameterMeta>,
    /// What this machine lacks to run it; `null` if it can run.
    pub lacks: Option<String>,
}

/// What a scenario counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations.
    #[default]
    Count,
    /// Bytes.
    Bytes,
}

/// One thing that can be set about a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParameterMeta {
    /// The name that `--param` takes.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// The value when nothing is said.
    pub default: String,
    /// The values allowed, for a person: `1–1000` or `same, other`.
    pub range: String,
}

/// A resource profile as a person chooses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceProfileMeta {
    /// The id that `set_resource_profile` takes.
    pub id: String,
    /// The name on the menu.
    pub label: String,
    /// One sentence.
    pub description: String,
}
