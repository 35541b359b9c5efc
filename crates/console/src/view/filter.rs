//! The filter of a process table: `name=kv* and mailq>10 and state!=waiting`, or any other text to search for.
//!
//! Conditions on numbers are evaluated from a process's counters alone. Names are looked up only for processes that
//! have one. Free text never formats a pid: text that parses as a pid or as a slot number is compared as a number.

use std::fmt;

use rusm_protocol::suggestion;

use rusm_runtime::Pid;
use rusm_runtime::observe::{self, BodyInfo, ProcessRef, ProcessState};

/// Conditions that must all hold; an empty list matches every process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter(Vec<Condition>);

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Number(Field, Comparison, u64),
    State(bool, String),
    Name(bool, Pattern),
    Module(bool, Pattern),
    Kind(bool, String),
    Pid(bool, Option<u32>, u32),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Mailbox,
    Memory,
    Reductions,
    Messages,
    AgeMs,
    BusyMs,
    Parent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// A pattern in which `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<String>);

/// Error returned when a filter cannot be parsed; the text says what is wrong and what is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterError(String);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const FIELDS: [&str; 12] =
    ["name", "module", "kind", "pid", "state", "parent", "mailq", "mem", "reds", "msgs", "age", "busy"];

const STATES: [&str; 10] =
    ["running", "runnable", "waiting", "sleeping", "io", "exiting", "stuck", "run", "wait", "sleep"];

impl Filter {
    /// Parses a filter.
    pub(crate) fn parse(text: &str) -> Result<Self, FilterError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > 1024 {
            return Err(FilterError(format!("filter of {} bytes is over the limit of 1024", text.len())));
        }
        text.split(" and ").map(|part| condition(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if every process matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the process matches.
    pub(crate) fn matches_process(&self, seen: &ProcessRef<'_>, now_ms: u64) -> bool {
        self.0.iter().all(|condition| condition.holds(seen, now_ms))
    }
}

fn condition(text: &str) -> Result<Condition, FilterError> {
    let Some(at) = text.find(['=', '<', '>', '!']).filter(|at| *at > 0) else {
        return Ok(free_text(text));
    };
    let (name, rest) = text.split_at(at);
    let (comparison, value) = [
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| rest.strip_prefix(sign).map(|value| (comparison, value.trim())))
    .ok_or_else(|| FilterError(format!("filter condition {text:?} has no comparison: use =, !=, <, <=, > or >=")))?;
    let equality = || match comparison {
        Comparison::Equal => Ok(true),
        Comparison::NotEqual => Ok(false),
        _ => Err(FilterError(format!("filter field {:?} supports only = and !=", name.trim()))),
    };
    let number = |field| parse_number(field, value).map(|number| Condition::Number(field, comparison, number));
    match name.trim() {
        "name" | "label" => Ok(Condition::Name(equality()?, Pattern::new(value))),
        "module" => Ok(Condition::Module(equality()?, Pattern::new(value))),
        "kind" => Ok(Condition::Kind(equality()?, value.to_owned())),
        "state" if STATES.contains(&value) => Ok(Condition::State(equality()?, value.to_owned())),
        "state" => Err(FilterError(format!("unknown state {value:?}: {}", suggestion(value, &STATES)))),
        "pid" => {
            let (slot, generation) = parse_pid(value)
                .ok_or_else(|| FilterError(format!("filter value {value:?} is not a pid such as <0.17.1>")))?;
            Ok(Condition::Pid(equality()?, generation, slot))
        }
        "parent" => match parse_pid(value) {
            Some((slot, _)) => Ok(Condition::Number(Field::Parent, comparison, u64::from(slot))),
            None => Err(FilterError(format!("filter value {value:?} is not a pid such as <0.17.1>"))),
        },
        "mailq" | "mailbox_len" => number(Field::Mailbox),
        "mem" | "memory_bytes" => number(Field::Memory),
        "reds" => number(Field::Reductions),
        "msgs" | "messages" => number(Field::Messages),
        "age" => number(Field::AgeMs),
        "busy" => number(Field::BusyMs),
        unknown => Err(FilterError(format!("unknown filter field {unknown:?}: {}", suggestion(unknown, &FIELDS)))),
    }
}

/// Parses `12`, `12k`, `1.5M` or `2G`; times take `ms`, `s`, `m` or `h`, and are in seconds without a unit.
fn parse_number(field: Field, value: &str) -> Result<u64, FilterError> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_time = matches!(field, Field::AgeMs | Field::BusyMs);
    let factor = match (&value[digits.len()..], is_time) {
        ("", false) | ("ms", true) => 1.0,
        ("k" | "K", false) | ("" | "s", true) => 1e3,
        ("M", false) => 1e6,
        ("G", false) => 1e9,
        ("m", true) => 6e4,
        ("h", true) => 3.6e6,
        _ => f64::NAN,
    };
    let number = digits.trim().parse::<f64>().unwrap_or(f64::NAN) * factor;
    if number.is_finite() && number >= 0.0 {
        return Ok(number as u64);
    }
    let example = if is_time { "250ms, 10s or 5m" } else { "12, 12k or 1.5M" };
    Err(FilterError(format!("filter value {value:?} is not a number such as {example}")))
}

/// Parses a pid; returns the slot and, if given, the generation.
fn parse_pid(value: &str) -> Option<(u32, Option<u32>)> {
    if let Ok(pid) = value.parse::<Pid>() {
        return Some((pid.slot(), Some(pid.generation())));
    }
    value.trim_start_matches("<0.").trim_start_matches('<').trim_end_matches('>').parse().ok().map(|slot| (slot, None))
}

fn free_text(text: &str) -> Condition {
    match parse_pid(text) {
        Some((slot, generation)) => Condition::Pid(true, generation, slot),
        None => Condition::Text(text.to_lowercase()),
    }
}

impl Condition {
    fn holds(&self, seen: &ProcessRef<'_>, now_ms: u64) -> bool {
        match self {
            Self::Number(field, comparison, value) => comparison.holds(field.of(seen, now_ms), *value),
            Self::State(wanted, state) => is_state(seen, state) == *wanted,
            Self::Pid(wanted, generation, slot) => {
                let same = seen.slot() == *slot && generation.is_none_or(|generation| generation == seen.generation());
                same == *wanted
            }
            Self::Name(wanted, pattern) => {
                let (name, label) = observe::names(seen);
                let matches = [name, label].into_iter().flatten().any(|called| pattern.matches(&called));
                matches == *wanted
            }
            Self::Module(wanted, pattern) => {
                let module = observe::body_info_of(seen).and_then(|body_info| body_info.source());
                module.is_some_and(|module| pattern.matches(&module)) == *wanted
            }
            Self::Kind(wanted, kind) => {
                let body_info = observe::body_info_of(seen);
                (body_info.as_deref().map_or("native", BodyInfo::kind) == kind) == *wanted
            }
            Self::Text(text) => {
                let (name, label) = observe::names(seen);
                [name, label].into_iter().flatten().any(|called| called.to_lowercase().contains(text))
            }
        }
    }
}

fn is_state(seen: &ProcessRef<'_>, state: &str) -> bool {
    let is = seen.state();
    match state {
        "stuck" => seen.is_stuck(),
        "run" => is == ProcessState::Running,
        "wait" => is == ProcessState::Waiting,
        "sleep" => is == ProcessState::Sleeping,
        word => is.word() == word,
    }
}

impl Field {
    fn of(self, seen: &ProcessRef<'_>, now_ms: u64) -> u64 {
        match self {
            Self::Mailbox => seen.mailbox_len(),
            Self::Memory => seen.memory_bytes(),
            Self::Reductions => seen.reductions(),
            Self::Messages => seen.messages(),
            Self::AgeMs => now_ms.saturating_sub(u64::from(seen.spawned_ms())),
            Self::BusyMs => seen.busy_ns() / 1_000_000,
            Self::Parent => u64::from(seen.parent_slot()),
        }
    }
}

impl Comparison {
    const fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::GreaterOrEqual => left >= right,
            Self::Greater => left > right,
        }
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self(text.split('*').map(ToOwned::to_owned).collect())
    }

    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.0[..] else {
            return self.0.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        for part in middle {
            match rest.find(part.as_str()) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_filters() {
        let words = [
            "name=",
            "kv*",
            " and ",
            "mailq>",
            "memory<=",
            "state!=waiting",
            "age",
            "<0.1.1>",
            "*",
            "ms",
            "kB",
            "=",
            "!",
        ];
        let target = rusm_fuzz::Fuzz::new("filter").words(&words);
        let target =
            target.seed("name=kv* and mailq>10 and state!=waiting").seed("pid=<0.17.1> and age>5s and busy<1ms");
        target.seed("module=*shop* and memory>=64kB").run(|input| {
            if let Err(error) = Filter::parse(&String::from_utf8_lossy(input)) {
                let line = error.to_string();
                assert!(line.chars().all(|character| !character.is_control()), "{line:?}");
            }
        });
    }

    #[test]
    fn a_filter_reads_into_its_conditions() {
        let filter = Filter::parse("name=kv* and mailq>1.5k and age<=250ms").unwrap();

        assert_eq!(
            filter.0,
            [
                Condition::Name(true, Pattern::new("kv*")),
                Condition::Number(Field::Mailbox, Comparison::Greater, 1500),
                Condition::Number(Field::AgeMs, Comparison::LessOrEqual, 250),
            ]
        );
    }

    #[test]
    fn text_that_reads_as_a_pid_is_compared_as_one() {
        assert_eq!(Filter::parse("<0.17.3>").unwrap().0, [Condition::Pid(true, Some(3), 17)]);
        assert_eq!(Filter::parse("17").unwrap().0, [Condition::Pid(true, None, 17)]);
        assert_eq!(Filter::parse("Writer").unwrap().0, [Condition::Text("writer".to_owned())]);
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        let error = |text: &str| Filter::parse(text).unwrap_err().to_string();

        assert!(error("colour=red").starts_with("unknown filter field \"colour\": expected one of name, module"));
        assert_eq!(error("mailqq>1"), "unknown filter field \"mailqq\": did you mean \"mailq\"?");
        assert_eq!(error("state=waitng"), "unknown state \"waitng\": did you mean \"waiting\"?");
        assert!(error("mailq>many").contains("\"many\" is not a number such as 12"));
        assert!(error("state>run").contains("supports only = and !="));
        assert!(error(&"x".repeat(2000)).contains("over the limit of 1024"));
    }

    #[test]
    fn a_star_stands_for_anything() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).matches(text);

        assert!(matches("kv*", "kv_writer") && matches("*writer", "kv_writer") && matches("k*_*r", "kv_writer"));
        assert!(matches("kv", "kv") && !matches("kv", "kvs") && !matches("kv*x", "kv_writer") && matches("*", ""));
    }
}
