//! A row of the detail pane, and how rows are added in sections.

use rusm_protocol::NamedPid;

use crate::model::format;

/// Urgency of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Text,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

/// A row of the pane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Title of a section; the other fields are empty.
    pub(crate) head: Option<&'static str>,
    pub(crate) label: String,
    pub(crate) value: String,
    pub(crate) tone: Tone,
    /// Process to which the row leads.
    pub(crate) link: Option<String>,
    /// True if a long value continues on further rows instead of being cut.
    pub(crate) wraps: bool,
}

impl Row {
    /// Returns the title of a section.
    pub(crate) fn title(title: &'static str) -> Self {
        Self { head: Some(title), ..Self::fact("", "", Tone::Dim) }
    }

    /// Returns a row without a link.
    pub(crate) fn fact(label: &str, value: &str, tone: Tone) -> Self {
        Self { head: None, label: label.to_owned(), value: value.to_owned(), tone, link: None, wraps: false }
    }
}

/// Rows that are being added.
#[derive(Debug, Default)]
pub(super) struct Rows(pub(super) Vec<Row>);

impl Rows {
    /// Begins a section.
    pub(super) fn head(&mut self, title: &'static str) {
        // The title of a section without rows is omitted.
        self.0.pop_if(|last| last.head.is_some());
        self.0.push(Row::title(title));
    }

    /// Adds a row.
    pub(super) fn fact(&mut self, label: &str, value: impl AsRef<str>, tone: Tone) {
        self.0.push(Row::fact(label, value.as_ref(), tone));
    }

    /// Adds a row whose value may need several lines.
    pub(super) fn text(&mut self, label: &str, value: impl AsRef<str>, tone: Tone) {
        self.fact(label, value, tone);
        if let Some(row) = self.0.last_mut() {
            row.wraps = true;
        }
    }

    /// Adds a row that leads to a process.
    pub(super) fn link(&mut self, label: &str, process: &NamedPid) {
        let name = process.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        self.fact(label, format!("{name}{}", process.pid), Tone::Text);
        if let Some(row) = self.0.last_mut() {
            row.link = Some(process.pid.clone());
        }
    }
}

/// Formats a rate, or `-` if it is not known yet.
pub(super) fn or_dash(rate: Option<f64>, text: fn(f64) -> String) -> String {
    rate.map_or_else(|| "-".to_owned(), text)
}

/// Formats a time in milliseconds.
pub(super) fn millis(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format::age(ms as u64) }
}
