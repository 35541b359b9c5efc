//! An event or a log line, with its level and the processes that it names.

use rusm_protocol::{EventInfo, LogLine};

/// Urgency of an event or a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) const ALL: [Self; 5] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word().eq_ignore_ascii_case(word))
    }

    /// Returns the level of a kind of event.
    pub(crate) fn of_event(kind: &str) -> Self {
        match kind {
            "restart" => Self::Info,
            "stuck" | "refused" | "killed" | "link" => Self::Warn,
            _ => Self::Error,
        }
    }

    /// Returns the next higher level; the lowest after the highest.
    pub(crate) fn next(self) -> Self {
        Self::ALL.into_iter().find(|level| *level > self).unwrap_or(Self::Trace)
    }
}

/// Position of an item in time: its time, whether it is a log line, and its number.
pub(crate) type ItemKey = (u64, bool, u64);

/// An event or a log line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item<'a> {
    Event(&'a EventInfo),
    Line(&'a LogLine),
}

impl<'a> Item<'a> {
    pub(crate) fn key(self) -> ItemKey {
        match self {
            Self::Event(event) => (event.at_ms, false, event.seq),
            Self::Line(line) => (line.at_ms, true, line.seq),
        }
    }

    pub(crate) fn level(self) -> Level {
        match self {
            Self::Event(event) => Level::of_event(&event.kind),
            Self::Line(line) => Level::parse(&line.level).unwrap_or(Level::Info),
        }
    }

    /// Returns the kind of the event; `None` for a line.
    pub(crate) fn kind(self) -> &'a str {
        match self {
            Self::Event(event) => &event.kind,
            Self::Line(_) => "",
        }
    }

    pub(crate) fn pid(self) -> &'a str {
        match self {
            Self::Event(event) => &event.pid,
            Self::Line(line) => line.pid.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the name of the process, or the part of the program that wrote the line.
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Event(event) => event.name.as_deref().unwrap_or_default(),
            Self::Line(line) => line.module.as_deref().unwrap_or(&line.target),
        }
    }

    /// Returns the reason of the event, or the text of the line.
    pub(crate) fn text(self) -> &'a str {
        match self {
            Self::Event(event) => event.reason.as_deref().unwrap_or_default(),
            Self::Line(line) => &line.text,
        }
    }

    /// Returns the processes that the item names, the most interesting first, with their roles.
    pub(crate) fn processes(self) -> Vec<(&'static str, &'a str)> {
        let Self::Event(event) = self else {
            return Some(("process", self.pid())).filter(|(_, pid)| !pid.is_empty()).into_iter().collect();
        };
        let has_children = event.old.is_some() || matches!(event.kind.as_str(), "restart_failed" | "gave_up");
        let has_children = has_children || event.kind == "child_lost";
        let own = if has_children { "supervisor" } else { "process" };
        let all =
            [("new child", event.new.as_deref()), (own, Some(event.pid.as_str())), ("old child", event.old.as_deref())];
        all.into_iter().filter_map(|(role, pid)| pid.filter(|pid| !pid.is_empty()).map(|pid| (role, pid))).collect()
    }
}
