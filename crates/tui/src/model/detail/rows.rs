//! The rows of the detail pane as text, in sections: the view places them, and the keys move among their links.

use rusm_protocol::{
    BondPage, Cell, DelaysInfo, EndedInfo, FactInfo, Inspection, LatencySnapshot, MailboxInfo, NamedPid, ProcessDetail,
    SupervisedInfo, TreeBranch, WaitsFor,
};

use crate::model::format;

/// The relation with processes that are read only on request.
pub(crate) const CHILDREN: &str = "children";

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

struct Rows(Vec<Row>);

impl Rows {
    fn head(&mut self, title: &'static str) {
        // The title of a section without rows is omitted.
        self.0.pop_if(|last| last.head.is_some());
        self.0.push(Row {
            head: Some(title),
            label: String::new(),
            value: String::new(),
            tone: Tone::Dim,
            link: None,
            wraps: false,
        });
    }

    fn fact(&mut self, label: &str, value: impl Into<String>, tone: Tone) {
        let (label, value) = (label.to_owned(), value.into());
        self.0.push(Row { head: None, label, value, tone, link: None, wraps: false });
    }

    fn text(&mut self, label: &str, value: impl Into<String>, tone: Tone) {
        self.fact(label, value, tone);
        if let Some(row) = self.0.last_mut() {
            row.wraps = true;
        }
    }

    fn link(&mut self, label: &str, process: &NamedPid) {
        let name = process.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        self.fact(label, format!("{name}{}", process.pid), Tone::Text);
        if let Some(row) = self.0.last_mut() {
            row.link = Some(process.pid.clone());
        }
    }
}

/// Everything that is known about a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) process: Option<&'a ProcessDetail>,
    pub(crate) inspection: Option<&'a Inspection>,
    /// True after the node has reported that the process does not exist any more.
    pub(crate) gone: bool,
    /// Relation that is shown by page.
    pub(crate) paged: Option<&'a str>,
}

/// Returns the rows of a process. `micro` is the prefix for a millionth that the terminal can show.
pub(crate) fn rows(subject: Subject<'_>, micro: &str) -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    let inspection = subject.inspection;
    let end = inspection.and_then(|inspection| inspection.ended.as_deref());
    match (subject.process, end) {
        (_, Some(end)) => ended(&mut rows, end, inspection.map_or(0, |inspection| inspection.at_ms), micro),
        (Some(process), None) => alive(&mut rows, process, inspection, subject.gone, micro),
        (None, None) => {}
    }
    if let Some(inspection) = inspection {
        family(&mut rows, subject.paged, inspection);
    }
    rows.0.pop_if(|last| last.head.is_some());
    rows.0
}

fn alive(rows: &mut Rows, process: &ProcessDetail, inspection: Option<&Inspection>, gone: bool, micro: &str) {
    let state = if process.stuck { "stuck" } else { process.state.as_str() };
    let tone = match state {
        _ if gone => Tone::Bad,
        "stuck" => Tone::Bad,
        "running" | "runnable" => Tone::Good,
        _ => Tone::Text,
    };
    rows.head("state");
    rows.fact("state", if gone { "ended" } else { state }, tone);
    if let Some(wait) = inspection.and_then(|inspection| inspection.waits.as_ref()) {
        waits(rows, wait);
    }
    rows.fact("kind", process.kind.clone(), Tone::Text);
    if let Some(module) = &process.module {
        rows.fact("module", module.clone(), Tone::Strong);
    }
    for fact in &process.facts {
        let (label, value) = described(fact);
        rows.fact(&label, value, Tone::Text);
    }
    rows.fact("age", format::age(process.age_ms), Tone::Text);
    if inspection.is_none() {
        rows.fact("parent", process.parent.clone().unwrap_or_else(|| "none".to_owned()), Tone::Text);
    }
    rows.head("work");
    rows.fact("reductions/s", or_dash(process.reds_per_sec, format::short), Tone::Strong);
    rows.fact("reductions", format::grouped(process.reductions), Tone::Text);
    rows.fact("busy", or_dash(process.busy_pct, format::percent), Tone::Strong);
    rows.fact("busy time", format::nanos(process.busy_ns, micro), Tone::Text);
    rows.head("mailbox");
    mailbox_counts(rows, process);
    if let Some(mailbox) = inspection.and_then(|inspection| inspection.mailbox.as_deref()) {
        mailbox_in_depth(rows, mailbox);
    }
    if let Some(delays) = inspection.and_then(|inspection| inspection.delays.as_deref()) {
        delay_rows(rows, delays, micro);
    }
    rows.head("memory");
    rows.fact("memory", format::bytes(process.memory_bytes), Tone::Strong);
    rows.fact("control block", format::bytes(process.control_block_bytes), Tone::Text);
    rows.fact("future", format::bytes(process.future_bytes), Tone::Text);
    rows.fact("messages", format::bytes(process.mailbox_bytes), Tone::Text);
    rows.head("identity");
    if let Some(label) = &process.label {
        rows.fact("label", label.clone(), Tone::Text);
    }
    if process.traps_exits {
        rows.fact("exit signals", "trapped", Tone::Text);
    }
    if let Some(inspection) = inspection {
        identity(rows, inspection);
    }
    if !process.future_type.is_empty() {
        rows.fact("runs", process.future_type.clone(), Tone::Dim);
    }
}

fn waits(rows: &mut Rows, wait: &WaitsFor) {
    let since = wait.since_ms.map(|ms| format!(" {}{}", if wait.is_minimum { ">= " } else { "" }, format::age(ms)));
    let subject = wait.subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
    rows.fact("waits for", format!("{}{subject}{}", wait.on, since.unwrap_or_default()), Tone::Text);
    if let Some(process) = &wait.process {
        let label = if wait.on == "reply" { "  call to" } else { "  of" };
        rows.link(label, process);
    }
}

fn mailbox_counts(rows: &mut Rows, process: &ProcessDetail) {
    let (len, capacity) = (process.mailbox_len, process.mailbox_capacity);
    let of_capacity = match capacity {
        0 => format::grouped(len),
        capacity => format!("{} of {}", format::grouped(len), format::grouped(capacity)),
    };
    let tone = match len {
        0 => Tone::Text,
        len if capacity > 0 && len >= capacity => Tone::Bad,
        _ => Tone::Strong,
    };
    rows.fact("mailbox", of_capacity, tone);
    rows.fact("messages/s", or_dash(process.msgs_per_sec, format::short), Tone::Text);
    rows.fact("messages", format::grouped(process.messages), Tone::Text);
}

fn mailbox_in_depth(rows: &mut Rows, mailbox: &MailboxInfo) {
    if let Some(full_ms) = mailbox.full_ms {
        rows.fact("full for", format::age(full_ms), Tone::Bad);
    }
    if mailbox.waiting_senders > 0 {
        rows.fact("wait for room", format::grouped(mailbox.waiting_senders), Tone::Warn);
    }
    if let Some(oldest_ms) = mailbox.oldest_ms {
        let least = if mailbox.oldest_is_minimum { ">= " } else { "" };
        rows.fact("oldest", format!("{least}{}", millis(oldest_ms)), Tone::Strong);
    }
    if let (Some(into), Some(out)) = (mailbox.in_per_sec, mailbox.out_per_sec) {
        rows.fact("in/s  out/s", format!("{}  {}", format::short(into), format::short(out)), Tone::Text);
    }
    if !mailbox.senders.is_empty() {
        rows.head("senders");
        for sender in &mailbox.senders {
            let share = format::percent(sender.pct);
            match &sender.process {
                Some(process) => rows.link(&share, process),
                None => rows.fact(&share, "outside", Tone::Text),
            }
        }
        let others = mailbox.senders_total.saturating_sub(mailbox.senders.len() as u64);
        if others > 0 {
            rows.fact("others", format::grouped(others), Tone::Dim);
        }
        let sampled = format!("{} of {}", format::grouped(mailbox.sampled), format::grouped(mailbox.seen));
        rows.fact("noted", sampled, Tone::Dim);
    }
    let Some(preview) = mailbox.preview.as_ref().filter(|preview| !preview.is_empty()) else { return };
    rows.head("next messages");
    for message in preview {
        let bytes = if message.bytes > 0 { format::bytes(message.bytes) } else { String::new() };
        match &message.value {
            Some(value) => rows.fact(short_type(&message.kind), value.clone(), Tone::Text),
            None => rows.fact(short_type(&message.kind), bytes, Tone::Dim),
        }
    }
    if let Some(age_ms) = mailbox.preview_age_ms.filter(|ms| *ms >= 2000) {
        rows.fact("seen", format!("{} ago", format::age(age_ms)), Tone::Dim);
    }
}

/// Returns the last segment of a path of Rust.
fn short_type(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    let start = path.rfind("::").map_or(0, |at| at + 2);
    &name[start..]
}

fn delay_rows(rows: &mut Rows, delays: &DelaysInfo, micro: &str) {
    rows.head("delays p50 p99 max");
    for (label, of) in [("ready to run", delays.scheduling), ("poll", delays.poll), ("sent to done", delays.handling)] {
        rows.fact(label, percentiles(of, micro), Tone::Text);
    }
    let count = format::grouped(delays.scheduling.count.max(delays.poll.count));
    rows.fact("samples", count, Tone::Dim);
}

fn percentiles(latency: LatencySnapshot, micro: &str) -> String {
    if latency.count == 0 {
        return "-".to_owned();
    }
    [latency.p50_ns, latency.p99_ns, latency.max_ns].map(|ns| format::nanos(ns, micro)).join("  ")
}

fn identity(rows: &mut Rows, inspection: &Inspection) {
    let more = inspection.names.iter().skip(1).cloned().collect::<Vec<_>>();
    if !more.is_empty() {
        rows.fact("other names", more.join(" "), Tone::Text);
    }
    if inspection.groups_total > 0 {
        let groups = format!("{}: {}", format::grouped(inspection.groups_total), inspection.groups.join(" "));
        rows.fact("groups", groups, Tone::Text);
    }
    if inspection.timers > 0 {
        rows.fact("timers", format::grouped(inspection.timers), Tone::Text);
    }
}

fn ended(rows: &mut Rows, end: &EndedInfo, now_ms: u64, micro: &str) {
    rows.head("ended");
    rows.fact("state", format!("ended {} ago", format::age(now_ms.saturating_sub(end.at_ms))), Tone::Bad);
    rows.text("reason", end.reason.clone(), Tone::Strong);
    match (end.by.as_str(), &end.by_process, &end.by_observer) {
        ("link", Some(process), _) => rows.link("by link to", process),
        (_, Some(process), _) => rows.link("by", process),
        (_, None, Some(observer)) => rows.fact("by observer", observer.clone(), Tone::Text),
        (by, None, None) => rows.fact("by", by.to_owned(), Tone::Text),
    }
    rows.fact("at", format::moment(end.at_ms), Tone::Text);
    rows.fact("lived", format::age(end.age_ms), Tone::Text);
    if let Some(parent) = &end.parent {
        rows.link("parent", parent);
    }
    rows.head("last figures");
    rows.fact("reductions", format::grouped(end.reductions), Tone::Text);
    rows.fact("busy time", format::nanos(end.busy_ns, micro), Tone::Text);
    rows.fact("messages", format::grouped(end.messages), Tone::Text);
    let tone = if end.mailbox_len > 0 { Tone::Warn } else { Tone::Text };
    rows.fact("left in mailbox", format::grouped(end.mailbox_len), tone);
    rows.fact("memory", format::bytes(end.memory_bytes), Tone::Text);
    if !end.future_type.is_empty() {
        rows.fact("ran", end.future_type.clone(), Tone::Dim);
    }
}

/// Adds the relations of the process: its supervisor, its ancestors and its bonds.
fn family(rows: &mut Rows, paged: Option<&str>, inspection: &Inspection) {
    if let Some(info) = &inspection.supervised {
        supervised(rows, info, inspection.at_ms);
    }
    if let Some(branch) = &inspection.supervises {
        rows.head("supervises");
        let children = format!("{} run, {} wait, {} ended", branch.running, branch.waiting, branch.ended);
        rows.fact("children", children, Tone::Text);
        budget(rows, branch);
    }
    if !inspection.ancestors.is_empty() {
        rows.head("ancestors");
        for (at, ancestor) in inspection.ancestors.iter().enumerate() {
            rows.link(if at == 0 { "parent" } else { "" }, ancestor);
        }
    }
    for page in &inspection.bonds {
        bonds(rows, paged, page);
    }
}

fn supervised(rows: &mut Rows, info: &SupervisedInfo, now_ms: u64) {
    rows.head("supervisor");
    rows.link("supervisor", &info.supervisor);
    rows.fact("child", format!("{} {}", info.child, info.restart), Tone::Text);
    let tone = if info.restarts_total > 0 { Tone::Strong } else { Tone::Text };
    rows.fact("restarts", format::grouped(info.restarts_total), tone);
    budget(rows, &info.budget);
    if info.ends.is_empty() {
        return;
    }
    rows.head("earlier ends");
    for end in &info.ends {
        let ago = format!("{} ago", format::age(now_ms.saturating_sub(end.at_ms)));
        match &end.pid {
            Some(pid) => rows.link(&ago, &NamedPid { pid: pid.clone(), name: None }),
            None => rows.fact(&ago, "did not start", Tone::Bad),
        }
        rows.text("", end.reason.clone(), Tone::Dim);
    }
}

fn budget(rows: &mut Rows, branch: &TreeBranch) {
    let used = format!("{} of {}, {}", branch.used, branch.allowed, format::age(branch.period_ms));
    let tone = if branch.used > 0 && branch.used + 1 >= branch.allowed { Tone::Warn } else { Tone::Text };
    rows.fact("budget used", used, tone);
    rows.fact("strategy", branch.strategy.replace('_', " "), Tone::Dim);
}

fn bonds(rows: &mut Rows, paged: Option<&str>, page: &BondPage) {
    let (title, label) = match page.bond.as_str() {
        "links" => ("links", "links"),
        "monitors" => ("monitors", "monitors"),
        "monitored_by" => ("monitored by", "monitored by"),
        _ => ("children", "children"),
    };
    rows.head(title);
    let shown = page.processes.len() as u64;
    let total = format::grouped(page.total);
    let range = if shown == page.total || shown == 0 {
        total
    } else {
        format!("{}-{} of {total}", format::grouped(page.offset + 1), format::grouped(page.offset + shown))
    };
    let is_paged = paged == Some(page.bond.as_str());
    rows.fact(label, range, if is_paged { Tone::Strong } else { Tone::Text });
    for process in &page.processes {
        rows.link("", process);
    }
}

/// Formats a rate, or `-` if it is not known yet.
fn or_dash(rate: Option<f64>, text: fn(f64) -> String) -> String {
    rate.map_or_else(|| "-".to_owned(), text)
}

fn millis(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format::age(ms as u64) }
}

/// Formats a fact that the body of the process reports. The suffix of its name determines the unit.
fn described(fact: &FactInfo) -> (String, String) {
    let (name, is_bytes) = match fact.name.strip_suffix("_bytes") {
        Some(name) => (name, true),
        None => (fact.name.strip_suffix("_total").unwrap_or(&fact.name), false),
    };
    let value = match &fact.value {
        Cell::Text(text) if text.is_empty() => "-".to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Count(count) if is_bytes => format::bytes(*count),
        Cell::Count(count) => format::grouped(*count),
        Cell::Rate(rate) => format::short(*rate),
        Cell::Empty(()) => "-".to_owned(),
    };
    (name.replace('_', " "), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_shown_with_its_reason_its_origin_and_its_last_figures() {
        let by = NamedPid { pid: "<0.9.1>".to_owned(), name: Some("reaper".to_owned()) };
        let end = EndedInfo {
            reason: "killed".to_owned(),
            by: "process".to_owned(),
            by_process: Some(by),
            at_ms: 4_000,
            mailbox_len: 3,
            ..EndedInfo::default()
        };
        let inspection = Inspection { at_ms: 9_000, ended: Some(Box::new(end)), ..Inspection::default() };

        let rows = rows(Subject { inspection: Some(&inspection), ..Subject::default() }, "u");

        let value = |label: &str| rows.iter().find(|row| row.label == label).map(|row| row.value.as_str());
        assert_eq!(value("state"), Some("ended 5s ago"));
        assert_eq!((value("reason"), value("by")), (Some("killed"), Some("reaper <0.9.1>")));
        assert_eq!(value("left in mailbox"), Some("3"));
        assert_eq!(rows.iter().filter_map(|row| row.link.as_deref()).collect::<Vec<_>>(), ["<0.9.1>"]);
    }

    #[test]
    fn a_type_is_shown_by_its_last_segment() {
        assert_eq!(short_type("shop::orders::Order"), "Order");
        assert_eq!(short_type("alloc::vec::Vec<shop::Order>"), "Vec<shop::Order>");
        assert_eq!(short_type("u64"), "u64");
    }
}
