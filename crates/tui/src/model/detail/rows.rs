//! The rows of the detail pane as text, in sections: the view places them, and the keys move among their links.

use rusm_protocol::{
    BacktraceInfo, BondPage, Cell, EndedInfo, FactInfo, Inspection, NamedPid, PollInfo, ProcessDetail, SupervisedInfo,
    TreeBranch, WaitsFor,
};

use crate::model::detail::mailbox;
use crate::model::detail::row::{Row, Rows, Tone, millis, or_dash};
use crate::model::format;

/// The relation with processes that are read only on request.
pub(crate) const CHILDREN: &str = "children";

/// Shortest poll that is shown, in milliseconds.
const LONG_POLL_MS: f64 = 100.0;
/// Age after which a backtrace says nothing about the present, in milliseconds.
const BACKTRACE_AGE_MAX_MS: u64 = 10_000;

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
    if let Some(poll) = inspection.and_then(|inspection| inspection.poll.as_deref()) {
        long_poll(rows, poll);
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
    if let Some(found) = inspection.and_then(|inspection| inspection.backtrace.as_deref()) {
        backtrace(rows, found);
    }
    rows.head("work");
    rows.fact("reductions/s", or_dash(process.reds_per_sec, format::short), Tone::Strong);
    rows.fact("reductions", format::grouped(process.reductions), Tone::Text);
    rows.fact("busy", or_dash(process.busy_pct, format::percent), Tone::Strong);
    // Every process has a control block: without one, this is what the node recorded of the past.
    let is_recorded = process.control_block_bytes == 0;
    if !is_recorded {
        rows.fact("busy time", format::nanos(process.busy_ns, micro), Tone::Text);
    }
    rows.head("mailbox");
    mailbox::counts(rows, process);
    if let Some(mailbox) = inspection.and_then(|inspection| inspection.mailbox.as_deref()) {
        mailbox::in_depth(rows, mailbox);
    }
    if let Some(delays) = inspection.and_then(|inspection| inspection.delays.as_deref()) {
        mailbox::delays(rows, delays, micro);
    }
    rows.head("memory");
    rows.fact("memory", format::bytes(process.memory_bytes), Tone::Strong);
    if !is_recorded {
        rows.fact("control block", format::bytes(process.control_block_bytes), Tone::Text);
        rows.fact("future", format::bytes(process.future_bytes), Tone::Text);
        rows.fact("messages", format::bytes(process.mailbox_bytes), Tone::Text);
    }
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

/// Adds a poll that lasts so long that other processes notice; shorter ones would flicker.
fn long_poll(rows: &mut Rows, poll: &PollInfo) {
    if poll.at_most_ms < LONG_POLL_MS {
        return;
    }
    rows.fact("in one poll", format!("<= {} on s{}", millis(poll.at_most_ms), poll.scheduler), Tone::Warn);
    let doing = match (poll.doing.as_deref(), &poll.system_call) {
        (Some("system_call"), Some(name)) => format!("in system call {name}"),
        (Some("system_call"), None) => "in a system call".to_owned(),
        (Some(doing), _) => doing.to_owned(),
        (None, _) => return,
    };
    rows.fact("its thread", doing, Tone::Warn);
}

/// Adds the functions in which a guest was interrupted, innermost first, unless that was long ago.
fn backtrace(rows: &mut Rows, found: &BacktraceInfo) {
    if found.age_ms > BACKTRACE_AGE_MAX_MS || found.frames.is_empty() {
        return;
    }
    rows.head("backtrace");
    for (at, frame) in found.frames.iter().enumerate() {
        rows.text(if at == 0 { "in" } else { "by" }, frame, if at == 0 { Tone::Strong } else { Tone::Text });
    }
    if found.age_ms >= 2000 {
        rows.fact("seen", format!("{} ago", format::age(found.age_ms)), Tone::Dim);
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
        (by, None, None) => rows.fact("by", by, Tone::Text),
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
    fn a_recorded_process_has_no_zeros_for_what_was_not_recorded() {
        let labels = |process: &ProcessDetail| -> Vec<String> {
            let subject = Subject { process: Some(process), ..Subject::default() };
            rows(subject, "u").into_iter().map(|row| row.label).collect()
        };
        let recorded = ProcessDetail { memory_bytes: 900, ..ProcessDetail::default() };

        let past = labels(&recorded);
        let present = labels(&ProcessDetail { control_block_bytes: 192, ..recorded });

        let missing: Vec<_> = present.into_iter().filter(|label| !past.contains(label)).collect();
        assert_eq!(missing, ["busy time", "control block", "future"]);
        assert!(past.contains(&"memory".to_owned()), "{past:?}");
    }

    #[test]
    fn a_long_poll_shows_its_scheduler_and_thread_and_a_guest_its_functions() {
        let poll = |at_most_ms| PollInfo {
            scheduler: 1,
            at_most_ms,
            doing: Some("system_call".to_owned()),
            system_call: Some("flock".to_owned()),
        };
        let backtrace = BacktraceInfo { frames: vec!["digest".to_owned(), "run".to_owned()], age_ms: 300 };
        let values = |at_most_ms, backtrace: &BacktraceInfo| {
            let inspection = Inspection {
                poll: Some(Box::new(poll(at_most_ms))),
                backtrace: Some(Box::new(backtrace.clone())),
                ..Inspection::default()
            };
            let process = ProcessDetail::default();
            let subject = Subject { process: Some(&process), inspection: Some(&inspection), ..Subject::default() };
            let told = |row: &Row| ["in one poll", "its thread", "in", "by"].contains(&row.label.as_str());
            rows(subject, "u").into_iter().filter(told).map(|row| row.value).collect::<Vec<_>>()
        };

        assert_eq!(values(3_200.5, &backtrace), ["<= 3s on s1", "in system call flock", "digest", "run"]);
        assert_eq!(values(2.0, &backtrace), ["digest", "run"], "a short poll would only flicker");
        assert!(values(2.0, &BacktraceInfo { age_ms: 60_000, ..backtrace }).is_empty());
    }
}
