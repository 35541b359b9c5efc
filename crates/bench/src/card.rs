//! The description of a scenario, as data. Lists, observers and reports show it, and each scenario returns its own.

use std::fmt;

use rusm_protocol::{ScenarioMeta, Unit};

use crate::parameter::Parameter;

/// The description of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Id used in commands, in kebab-case.
    pub id: &'static str,
    /// Part of the runtime under load.
    pub family: Family,
    /// Name shown in menus.
    pub label: &'static str,
    /// Description in one sentence.
    pub description: &'static str,
    /// At least three sentences: what one operation is, how the figure is computed, and what it does not show.
    pub details: &'static [&'static str],
    /// Label of the rate, for example `spawns/s`.
    pub ops_label: &'static str,
    /// Label of the latency; `None` if the scenario does not measure it.
    pub latency_label: Option<&'static str>,
    /// Unit of the counted operations.
    pub unit: Unit,
    /// Parameters of the scenario.
    pub parameters: &'static [Parameter],
    /// Path of the scenario's source file in the repository.
    pub source_file: &'static str,
    /// Name of the timed interval, for example `round trip`.
    pub timed: &'static str,
    /// Number of operations in one timed interval: a round trip is two messages.
    pub ops_per_timed: u64,
    /// One interval in this many is timed, on average, until the warm-up has measured the cost of an operation.
    pub sampling: u32,
}

/// Part of the runtime that a scenario loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Processes, wasm, serving, the store, the cluster, and streams between processes.
    Actors,
    /// Timers and rings.
    Timing,
    /// Topics.
    Topics,
    /// Counters and limiters.
    Counters,
}

impl Family {
    /// Returns the word used on the wire and in lists.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Actors => "actors",
            Self::Timing => "timing",
            Self::Topics => "topics",
            Self::Counters => "counters",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Card {
    /// Returns a line that explains the sampling, if not every operation is timed.
    fn sampling_note(&self) -> Option<String> {
        let (timed, sampling) = (self.timed, self.sampling);
        let line = || {
            format!(
                "One {timed} in {sampling} is timed at first, then as many as the cost of the clock allows. The \
                 sampling rate is shown with the latency, live and in the report."
            )
        };
        (sampling > 1 && self.latency_label.is_some()).then(line)
    }

    /// Returns the metadata sent to observers, for a machine that can run the scenario: `Scenario::meta` replaces `real`,
    /// `real_after_phase` and `lacks`.
    pub fn meta(&self) -> ScenarioMeta {
        ScenarioMeta {
            id: self.id.to_owned(),
            label: self.label.to_owned(),
            description: self.description.to_owned(),
            details: self.details.iter().map(|line| (*line).to_owned()).chain(self.sampling_note()).collect(),
            real_after_phase: 1,
            real: true,
            unit: self.unit,
            ops_label: self.ops_label.to_owned(),
            latency_label: self.latency_label.map(str::to_owned),
            source: None,
            source_file: Some(self.source_file.to_owned()),
            family: self.family.word().to_owned(),
            parameters: self.parameters.iter().map(Parameter::meta).collect(),
            lacks: None,
            gates: Vec::new(),
        }
    }
}
