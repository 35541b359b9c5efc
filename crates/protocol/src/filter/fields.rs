//! The fields of a filter: one table for parsing, completion, and the reference.

use std::time::Duration;

/// A field of a process that a filter can compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterField {
    /// Name or label.
    Name,
    /// Module of a guest.
    Module,
    /// `native` or `wasm`.
    Kind,
    /// Profile of a guest.
    Profile,
    /// Last call of a guest to the host.
    HostCall,
    /// State.
    State,
    /// Pid.
    Pid,
    /// Slot of the process that spawned it.
    Parent,
    /// Number of messages that wait in the mailbox.
    Mailbox,
    /// Bytes of the messages that wait in the mailbox.
    MailboxBytes,
    /// Bytes of control block, future and mailbox.
    MemoryBytes,
    /// Bytes of linear memory; 0 for native processes.
    LinearBytes,
    /// Number of reductions.
    Reductions,
    /// Number of messages received.
    Messages,
    /// Number of links.
    Links,
    /// Number of processes that it monitors.
    Monitors,
    /// Age in milliseconds.
    AgeMs,
    /// Time inside polls, in nanoseconds.
    BusyNs,
    /// Reductions per second.
    RedsPerSec,
    /// Messages received per second.
    MsgsPerSec,
    /// Messages that arrived per second.
    ArrivalsPerSec,
    /// Share of one scheduler, in thousandths of a per cent.
    BusyMilliPct,
}

impl FilterField {
    /// Returns true if the field is a rate, for which each process must be read twice.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::RedsPerSec | Self::MsgsPerSec | Self::ArrivalsPerSec | Self::BusyMilliPct)
    }
}

/// Kind of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterValues {
    /// A text, where `*` stands for any text.
    Text,
    /// `native` or `wasm`.
    Kind,
    /// A state.
    State,
    /// A pid or a slot.
    Pid,
    /// A pid or a slot, of which the slots are compared.
    Slot,
    /// A number.
    Count,
    /// A size.
    Bytes,
    /// A duration, in milliseconds.
    Millis,
    /// A duration, in nanoseconds.
    Nanos,
    /// A share, in thousandths of a per cent.
    Percent,
}

impl FilterValues {
    /// Returns examples for messages and completion.
    pub const fn examples(self) -> &'static [&'static str] {
        match self {
            Self::Text => &[],
            Self::Kind => &["native", "wasm"],
            Self::State => &STATES,
            Self::Pid | Self::Slot => &["<0.17.1>"],
            Self::Count => &["12", "12k", "1.5M"],
            Self::Bytes => &["4096", "64KiB", "1.5MB"],
            Self::Millis | Self::Nanos => &["250ms", "10s", "5m"],
            Self::Percent => &["50", "99.5%"],
        }
    }

    pub(super) const fn article(self) -> &'static str {
        match self {
            Self::Bytes => "a size",
            Self::Millis | Self::Nanos => "a duration",
            Self::Percent => "a share",
            _ => "a number",
        }
    }
}

/// States that a filter knows; the last three are short forms.
pub const STATES: [&str; 10] =
    ["running", "runnable", "waiting", "sleeping", "io", "exiting", "stuck", "run", "wait", "sleep"];

/// A field, its names, and the kind of its values.
#[derive(Clone, Copy, Debug)]
pub struct FilterFieldInfo {
    /// The field.
    pub field: FilterField,
    /// Names of the field, the usual one first; the names of columns on the wire are among them.
    pub words: &'static [&'static str],
    /// Kind of its values.
    pub values: FilterValues,
    /// Explanation of the field, in a few words.
    pub about: &'static str,
}

const fn info(
    field: FilterField,
    words: &'static [&'static str],
    values: FilterValues,
    about: &'static str,
) -> FilterFieldInfo {
    FilterFieldInfo { field, words, values, about }
}

/// All fields.
pub const FILTER_FIELDS: [FilterFieldInfo; 22] = [
    info(FilterField::Name, &["name", "label"], FilterValues::Text, "registered name or label"),
    info(FilterField::Module, &["module"], FilterValues::Text, "module of a guest"),
    info(FilterField::Kind, &["kind"], FilterValues::Kind, "native or wasm"),
    info(FilterField::Profile, &["profile"], FilterValues::Text, "profile of a guest"),
    info(FilterField::HostCall, &["call", "last_host_call"], FilterValues::Text, "last call of a guest to the host"),
    info(FilterField::State, &["state"], FilterValues::State, "state"),
    info(FilterField::Pid, &["pid"], FilterValues::Pid, "pid or slot"),
    info(FilterField::Parent, &["parent"], FilterValues::Slot, "process that spawned it"),
    info(FilterField::Mailbox, &["mailq", "mailbox_len"], FilterValues::Count, "messages that wait"),
    info(FilterField::MemoryBytes, &["mem", "memory_bytes"], FilterValues::Bytes, "memory"),
    info(FilterField::LinearBytes, &["linear", "linear_memory_bytes"], FilterValues::Bytes, "linear memory of a guest"),
    info(FilterField::Reductions, &["reds"], FilterValues::Count, "reductions since the spawn"),
    info(FilterField::RedsPerSec, &["reds/s", "reds_per_sec"], FilterValues::Count, "reductions per second"),
    info(FilterField::Messages, &["msgs", "messages"], FilterValues::Count, "messages received since the spawn"),
    info(FilterField::MsgsPerSec, &["msgs/s", "msgs_per_sec"], FilterValues::Count, "messages received per second"),
    info(
        FilterField::ArrivalsPerSec,
        &["in/s", "arrivals_per_sec"],
        FilterValues::Count,
        "messages that arrived per second",
    ),
    info(FilterField::BusyNs, &["busy"], FilterValues::Nanos, "time inside polls since the spawn"),
    info(
        FilterField::BusyMilliPct,
        &["busy%", "busy_pct", "cpu", "cpu%"],
        FilterValues::Percent,
        "share of one scheduler",
    ),
    info(FilterField::AgeMs, &["age", "age_ms"], FilterValues::Millis, "time since the spawn"),
    info(FilterField::Links, &["links"], FilterValues::Count, "linked processes"),
    info(FilterField::Monitors, &["monitors"], FilterValues::Count, "monitored processes"),
    info(FilterField::MailboxBytes, &["mailbox_bytes"], FilterValues::Bytes, "size of the messages that wait"),
];

/// Returns the field with a name, whatever its case.
pub(super) fn field_of(word: &str) -> Option<&'static FilterFieldInfo> {
    FILTER_FIELDS.iter().find(|info| info.words.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Parses a number, a size, a duration or a share.
pub(super) fn parse_value(values: FilterValues, text: &str) -> Option<u64> {
    let value = match values {
        FilterValues::Millis => duration(text)?.as_secs_f64() * 1e3,
        FilterValues::Nanos => duration(text)?.as_secs_f64() * 1e9,
        FilterValues::Percent => text.trim_end_matches('%').parse::<f64>().ok()? * 1e3,
        FilterValues::Bytes => scaled(text, &SIZES)?,
        _ => scaled(text, &COUNTS)?,
    };
    // A limit that is not a whole number in the unit of the field is rounded.
    (value.is_finite() && value >= 0.0).then_some(value.round() as u64)
}

/// Factors of a count by their suffixes.
const COUNTS: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
/// Factors of a size by their suffixes. A suffix comes before those that it ends in.
const SIZES: [(&str, f64); 14] = [
    ("KiB", 1024.0),
    ("MiB", 1024.0 * 1024.0),
    ("GiB", 1024.0 * 1024.0 * 1024.0),
    ("TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
];

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let found = units.iter().find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|digits| (digits, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1.0));
    // `f64` also parses "inf" and "nan".
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.').then_some(())?;
    Some(digits.replace('_', "").parse::<f64>().ok()? * factor)
}

fn duration(text: &str) -> Option<Duration> {
    rusm_text::parse_duration(text)
}
