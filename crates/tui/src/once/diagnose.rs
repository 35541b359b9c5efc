//! Prints what is wrong in a node now, without a screen: its lints, and processes that hold up others.
//!
//! A node looks for problems only while an observer is attached, so this watches it for some seconds first.

use std::io::{self, Write};
use std::time::Duration;

use rusm_protocol::{
    ClientMessage, Frame, Hello, Lint, PROTOCOL_VERSION, ServerMessage, ViewWindow, WaitRow, Waits, WaitsView,
};
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use crate::cli::options::{Once, Options};
use crate::connection::Inbox;
use crate::exit::{Error, Exit};
use crate::model::message::{LinkEvent, Msg};
use crate::start;

/// Time for which the node is watched: longer than any lint but `memory_slope` needs.
const WATCH: Duration = Duration::from_secs(8);
/// Time from which on a wait counts as a problem of the process that is waited for.
const LONG_WAIT: Duration = Duration::from_secs(3);
/// Number of rows of waits that are read.
const WAITS_READ: u32 = 200;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    /// Id of the lint, or `long_wait`.
    id: String,
    /// Pid of the process; empty for the node.
    pid: String,
    name: String,
    text: String,
    advice: String,
}

/// Watches a node for some seconds and prints its problems, one a line.
///
/// # Errors
/// The errors of [`run`](crate::run).
pub(crate) async fn print(options: &Options, format: Once, out: &mut impl Write) -> Result<Exit, Error> {
    let inbox = Inbox::default();
    let outgoing = start::attach(options, &inbox).await?;
    let view = WaitsView { id: 1, window: ViewWindow { offset: 0, len: WAITS_READ }, hz: 1.0 };
    let (mut hello, mut frame, mut waits): (Option<Box<Hello>>, Option<Box<Frame>>, Option<Waits>) = (None, None, None);
    let until = Instant::now() + WATCH;
    loop {
        for msg in inbox.drain() {
            match msg {
                Msg::Link(LinkEvent::Lost { reason, fault, .. }) => return Err(Error::lost(reason, fault)),
                Msg::Malformed(what) => return Err(Error::Refused(what)),
                Msg::Server(ServerMessage::Hello(new)) => {
                    if new.protocol_version > PROTOCOL_VERSION {
                        let theirs = new.protocol_version;
                        return Err(Error::NewerProtocol { theirs, ours: PROTOCOL_VERSION });
                    }
                    let sent = outgoing.commands.try_send(ClientMessage::Waits { view: Some(view.clone()) });
                    tracing::trace!(?sent, "command");
                    hello = Some(new);
                }
                Msg::Server(ServerMessage::Tick { frame: new }) => frame = Some(new),
                Msg::Server(ServerMessage::Waits(new)) => waits = Some(new),
                _ => {}
            }
        }
        if timeout_at(until, inbox.ready()).await.is_err() {
            break;
        }
    }
    let Some(frame) = frame else {
        return Err(Error::Connect(format!("the node sent no frame within {} s", WATCH.as_secs())));
    };
    let problems = problems(&frame, waits.as_ref(), &options.hidden_lints);
    let text = match format {
        Once::Json | Once::AllViews => json(hello.as_deref(), &problems),
        Once::Text => text(hello.as_deref(), &frame, &problems),
    };
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) if problems.is_empty() => Ok(Exit::Done),
        Ok(()) => Ok(Exit::Problems),
        // The reader closed the pipe. End as SIGPIPE would, which Rust ignores by default.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Signal(Signal::PIPE.as_raw())),
        Err(error) => Err(Error::Output(error)),
    }
}

fn problems(frame: &Frame, waits: Option<&Waits>, hidden: &[String]) -> Vec<Problem> {
    let shown = frame.observer.lints.iter().filter(|lint| !hidden.contains(&lint.id));
    let lints = shown.map(|lint| Problem {
        id: lint.id.clone(),
        pid: lint.pid.clone(),
        name: lint.name.clone().unwrap_or_default(),
        text: lint.text.clone(),
        advice: Lint::of_id(&lint.id).map_or("", Lint::advice).to_owned(),
    });
    let mut problems: Vec<Problem> = lints.collect();
    problems.extend(waits.map(long_waits).unwrap_or_default());
    problems
}

/// Returns the root causes for which a process has waited for long; cycles are lints already.
fn long_waits(waits: &Waits) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut rows = waits.rows.as_slice();
    while let [root, rest @ ..] = rows {
        let below = rest.iter().take_while(|row| row.depth > root.depth).count();
        let (waiting, others) = rest.split_at(below);
        rows = others;
        let oldest = waiting.iter().max_by_key(|row| row.age_ms);
        if let Some(oldest) = oldest.filter(|oldest| root.cycle == 0 && is_long(oldest)) {
            problems.push(long_wait(root, oldest));
        }
    }
    problems
}

fn is_long(row: &WaitRow) -> bool {
    row.age_ms.is_some_and(|age_ms| Duration::from_millis(age_ms) >= LONG_WAIT)
}

fn long_wait(root: &WaitRow, oldest: &WaitRow) -> Problem {
    let waiting =
        if root.waiters == 1 { "1 process waits".to_owned() } else { format!("{} processes wait", root.waiters) };
    let since = oldest.age_ms.unwrap_or(0) as f64 / 1e3;
    let (wait, does) = (oldest.wait.as_deref().unwrap_or("wait"), root.state.as_str());
    let does = if does.is_empty() { String::new() } else { format!("; it is {does}") };
    Problem {
        id: "long_wait".to_owned(),
        pid: root.pid.clone().unwrap_or_default(),
        name: root.name.clone().unwrap_or_default(),
        text: format!("{waiting} for it ({wait}), the longest for {since:.0} s or more{does}"),
        advice: "see W in rusm-top: who waits for whom".to_owned(),
    }
}

fn text(hello: Option<&Hello>, frame: &Frame, problems: &[Problem]) -> String {
    let mut lines: Vec<String> = problems.iter().map(line).collect();
    let hidden = frame.observer.lints_total.saturating_sub(frame.observer.lints.len() as u64);
    if hidden > 0 {
        lines.push(format!("and {hidden} more warnings"));
    }
    if lines.is_empty() {
        let name = hello.map_or("the node", |hello| hello.node.name.as_str());
        lines.push(format!("{name}: nothing found in {} s", WATCH.as_secs()));
    }
    lines.join("\n")
}

/// Formats a problem as one line: kind, process, cause, advice.
fn line(problem: &Problem) -> String {
    let Problem { id, pid, name, text, advice } = problem;
    let subject = match (pid.is_empty(), name.is_empty()) {
        (true, true) => "the node".to_owned(),
        (true, false) => name.clone(),
        (false, true) => pid.clone(),
        (false, false) => format!("{pid} {name}"),
    };
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    format!("{id}: {subject}: {text}{advice}")
}

fn json(hello: Option<&Hello>, problems: &[Problem]) -> String {
    let problem = |Problem { id, pid, name, text, advice }: &Problem| serde_json::json!({ "id": id, "pid": pid, "name": name, "text": text, "advice": advice });
    let problems: Vec<_> = problems.iter().map(problem).collect();
    serde_json::json!({
        "node": hello.map(|hello| &hello.node),
        "watched_ms": WATCH.as_millis() as u64,
        "problems": problems,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusm_protocol::LintInfo;

    fn row(depth: u32, slot: u32, wait: Option<&str>, age_ms: u64) -> WaitRow {
        WaitRow {
            depth,
            pid: Some(format!("<0.{slot}.1>")),
            state: "sleeping".to_owned(),
            wait: wait.map(str::to_owned),
            age_ms: wait.map(|_| age_ms),
            waiters: 2,
            ..WaitRow::default()
        }
    }

    #[test]
    fn lints_and_long_waits_are_one_line_each() {
        let mut frame = Frame::default();
        frame.observer.lints = vec![LintInfo {
            id: "stuck".to_owned(),
            pid: "<0.7.1>".to_owned(),
            name: Some("kv".to_owned()),
            text: "in one poll for 3.2 s".to_owned(),
            ..LintInfo::default()
        }];
        frame.observer.lints_total = 1;
        let cycle = WaitRow { cycle: 2, ..row(0, 1, None, 0) };
        let rows = vec![
            cycle,
            row(1, 2, Some("call"), 9_000),
            row(0, 5, None, 0),
            row(1, 6, Some("call"), 4_000),
            row(2, 7, Some("full"), 3_500),
            row(0, 8, None, 0),
            row(1, 9, Some("call"), 200),
        ];

        let found = problems(&frame, Some(&Waits { rows, ..Waits::default() }), &[]);

        assert_eq!(
            text(None, &frame, &found),
            "stuck: <0.7.1> kv: in one poll for 3.2 s; move blocking code to spawn_blocking, and let long loops yield\n\
             long_wait: <0.5.1>: 2 processes wait for it (call), the longest for 4 s or more; it is sleeping; see W in \
             rusm-top: who waits for whom"
        );
        assert!(json(None, &found).contains(r#""id":"long_wait""#));
    }

    #[test]
    fn a_healthy_node_has_no_problems() {
        let frame = Frame::default();

        assert_eq!(problems(&frame, None, &[]), []);
        assert_eq!(text(None, &frame, &[]), "the node: nothing found in 8 s");
    }
}
