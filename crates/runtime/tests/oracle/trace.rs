//! Traces: the state of all actors after each step of a script, on one line, and what two traces must have in common.
//!
//! ```text
//!   r2=ok n0=1 a0=1|2||m.1.2,d.1.x3.1 a1=!x3;...
//!   │     │    │  │ │ │└ mailbox      └ ended
//!   │     │    │  └─┴─┴ links, monitors, monitored by
//!   │     │    └ actor, if it changed
//!   │     └ holder of the name
//!   └ result of an operation
//! ```
//!
//! Signals of one actor must arrive in the order in which it sent them, and all of one step before all of the next.
//! No order is guaranteed between two actors in one step, nor between the exit signal and the down messages that
//! one end sends to one actor.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

use crate::script::{Actor, Number, Script};

/// An entry of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    Message { from: String, number: Number },
    Exit { from: String, reason: String },
    Down { from: String, reason: String, number: Number },
}

impl Entry {
    fn from(&self) -> &str {
        match self {
            Self::Message { from, .. } | Self::Exit { from, .. } | Self::Down { from, .. } => from,
        }
    }

    /// Returns the exit reason in the entry, if it has one.
    fn reason(&self) -> Option<&str> {
        match self {
            Self::Message { .. } => None,
            Self::Exit { reason, .. } | Self::Down { reason, .. } => Some(reason),
        }
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { from, number } => write!(f, "m.{from}.{number}"),
            Self::Exit { from, reason } => write!(f, "e.{from}.{reason}"),
            Self::Down { from, reason, number } => write!(f, "d.{from}.{reason}.{number}"),
        }
    }
}

/// Text that is not part of a valid trace.
#[derive(Debug)]
#[expect(dead_code, reason = "shown when a result is unwrapped")]
pub(crate) struct ParseTraceError(String);

impl FromStr for Entry {
    type Err = ParseTraceError;

    fn from_str(text: &str) -> Result<Self, ParseTraceError> {
        let number = |digits: &str| digits.parse().ok().ok_or_else(|| ParseTraceError(text.to_owned()));
        match text.split('.').collect::<Vec<_>>()[..] {
            ["m", from, digits] => Ok(Self::Message { from: from.to_owned(), number: number(digits)? }),
            ["e", from, reason] => Ok(Self::Exit { from: from.to_owned(), reason: reason.to_owned() }),
            ["d", from, reason, digits] => {
                Ok(Self::Down { from: from.to_owned(), reason: reason.to_owned(), number: number(digits)? })
            }
            _ => Err(ParseTraceError(text.to_owned())),
        }
    }
}

/// State of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ended(String),
    Alive {
        /// Links, monitors, and monitors of other actors on it; sorted, as text.
        bonds: [String; 3],
        mail: Vec<Entry>,
    },
}

impl Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(reason) => write!(f, "!{reason}"),
            Self::Alive { bonds, mail } => {
                let mail: Vec<String> = mail.iter().map(Entry::to_string).collect();
                write!(f, "{}|{}", bonds.join("|"), mail.join(","))
            }
        }
    }
}

impl FromStr for State {
    type Err = ParseTraceError;

    fn from_str(text: &str) -> Result<Self, ParseTraceError> {
        if let Some(reason) = text.strip_prefix('!') {
            return Ok(Self::Ended(reason.to_owned()));
        }
        let [links, monitors, monitored_by, mail] = text.split('|').collect::<Vec<_>>()[..] else {
            return Err(ParseTraceError(text.to_owned()));
        };
        let mail = mail.split(',').filter(|entry| !entry.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self::Alive { bonds: [links, monitors, monitored_by].map(str::to_owned), mail })
    }
}

/// State after one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// Results of the operations.
    pub(crate) results: BTreeMap<Number, String>,
    /// Holders of the names.
    pub(crate) names: BTreeMap<String, String>,
    /// States of all actors, including the dead ones.
    pub(crate) states: BTreeMap<Actor, State>,
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, result) in &self.results {
            write!(f, "r{number}={result} ")?;
        }
        for (name, holder) in self.names.iter().filter(|(_, holder)| *holder != "-") {
            write!(f, "{name}={holder} ")?;
        }
        for (actor, state) in &self.states {
            write!(f, "a{actor}={state} ")?;
        }
        Ok(())
    }
}

/// States after each step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace(pub(crate) Vec<Step>);

impl FromStr for Trace {
    type Err = ParseTraceError;

    fn from_str(line: &str) -> Result<Self, ParseTraceError> {
        let mut steps = Vec::new();
        let mut states = BTreeMap::new();
        for text in line.split(';') {
            let mut step = Step::default();
            for field in text.split_ascii_whitespace() {
                let garbled = || ParseTraceError(field.to_owned());
                let (key, value) = field.split_once('=').ok_or_else(garbled)?;
                if key.starts_with('n') {
                    step.names.insert(key.to_owned(), value.to_owned());
                    continue;
                }
                let (kind, number) = key.split_at_checked(1).ok_or_else(garbled)?;
                let number: Number = number.parse().ok().ok_or_else(garbled)?;
                match kind {
                    "r" => drop(step.results.insert(number, value.to_owned())),
                    "a" => drop(states.insert(number as Actor, value.parse()?)),
                    _ => return Err(garbled()),
                }
            }
            step.states.clone_from(&states);
            steps.push(step);
        }
        Ok(Self(steps))
    }
}

/// Returns the first step after which two traces of a script differ.
pub(crate) fn difference(script: &Script, ours: &Trace, theirs: &Trace) -> Option<usize> {
    (0..script.steps.len()).find(|step| normalised(script, ours, *step) != normalised(script, theirs, *step))
}

/// Returns the part of a step that must be equal on both sides.
fn normalised(script: &Script, trace: &Trace, index: usize) -> Option<Step> {
    let mut step = trace.0.get(index)?.clone();
    let nothing = Step::default();
    let before = index.checked_sub(1).and_then(|before| trace.0.get(before)).unwrap_or(&nothing);
    // An actor that ends in a step may do so before or after it has replied.
    for order in &script.steps[index] {
        if matches!(step.states.get(&order.actor), Some(State::Ended(_)) | None) {
            step.results.remove(&order.number);
        }
    }
    for (actor, state) in &mut step.states {
        if let State::Alive { mail, .. } = state {
            let known: &[Entry] = match before.states.get(actor) {
                Some(State::Alive { mail, .. }) => mail,
                _ => &[],
            };
            *mail = news(known, mail);
        }
    }
    Some(step)
}

/// Returns the entries that were added to or removed from a mailbox that contained `known`; the added ones by sender,
/// in the order of each sender.
fn news(known: &[Entry], mail: &[Entry]) -> Vec<Entry> {
    let mut gone = Vec::new();
    let mut left = mail;
    for entry in known {
        match left.split_first() {
            Some((first, rest)) if first == entry => left = rest,
            _ => gone.push(entry.clone()),
        }
    }
    gone.sort();
    let mut senders: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    for entry in left {
        senders.entry(entry.from()).or_default().push(entry.clone());
    }
    for entries in senders.values_mut() {
        sort_last_signals(entries);
    }
    gone.into_iter().chain(senders.into_values().flatten()).collect()
}

/// Sorts the entries that may be the signals of one end: the last ones, as far as they have the same reason.
fn sort_last_signals(entries: &mut [Entry]) {
    let Some(reason) = entries.last().and_then(Entry::reason) else { return };
    let others = entries.iter().rposition(|entry| entry.reason() != Some(reason));
    let reason_starts = others.map_or(0, |other| other + 1);
    entries[reason_starts..].sort();
}
