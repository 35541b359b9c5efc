//! What a scenario says about itself, as data.

use std::fmt;

use rusm_protocol::{ScenarioMeta, Unit};

use crate::parameter::Parameter;

/// What a scenario says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The id that commands take, in kebab-case.
    pub id: &'static str,
    /// Which part of the runtime it loads.
    pub family: Family,
    /// The name on a menu.
    pub label: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// What one operation is, how the figure is made, what it does not mean; three or more.
    pub details: &'static [&'static str],
    /// What the operations are called, such as `spawns/s`.
    pub ops_label: &'static str,
    /// What the latency is of; `None` if there is none.
    pub latency_label: Option<&'static str>,
    /// What is counted.
    pub unit: Unit,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// The scenario's file in the repository.
    pub source_file: &'static str,
    /// What is timed, such as `round trip`.
    pub timed: &'static str,
    /// Operations that one timed thing consists of: a round trip is two messages.
    pub ops_per_timed: u64,
    /// One in this many is timed, on average, until the warm-up has shown what an operation costs.
    pub sampling: u32,
}

/// Which part of the runtime a scenario loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Processes, wasm and serving.
    Actors,
    /// Timers and rings.
    Timing,
    /// Topics.
    Topics,
    /// Counters and limiters.
    Counters,
}

impl Family {
    /// The word for it on the wire and in lists.
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
    /// How much of it is timed, where that is not all.
    fn sampled(&self) -> Option<String> {
        let (timed, sampling) = (self.timed, self.sampling);
        let line = || {
            format!(
                "At first one {timed} in {sampling} is timed, then as many as the clock leaves room for; how many is with the \
                 latency, live and in the report."
            )
        };
        (sampling > 1 && self.latency_label.is_some()).then(line)
    }

    /// What goes to observers.
    pub fn meta(&self) -> ScenarioMeta {
        ScenarioMeta {
            id: self.id.to_owned(),
            label: self.label.to_owned(),
            description: self.description.to_owned(),
            details: self.details.iter().map(|line| (*line).to_owned()).chain(self.sampled()).collect(),
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
        }
    }
}
