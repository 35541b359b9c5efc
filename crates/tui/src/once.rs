//! Prints frames without a screen, for scripts and for terminals that cannot draw.

pub(crate) mod act;
pub(crate) mod diagnose;
pub(crate) mod json;

use std::io::{self, Write};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use rusm_protocol::{Cell, Column, ErrorCode, Frame, PROTOCOL_VERSION, Rows, ServerMessage};
use rustix::process::Signal;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::cli::options::{Once, Options};
use crate::connection::{ConnectionHandle, Inbox};
use crate::exit::{Error, Exit};
use crate::model::input::key::Size;
use crate::model::input::keys::Action;
use crate::model::message::{Effect, LinkEvent, Msg, QuitReason};
use crate::model::panes::columns;
use crate::model::tab::Tab;
use crate::model::update::update;
use crate::model::{Capabilities, Model};
use crate::start;
use crate::view;

/// Size of the printed frame, in cells.
const SIZE: Size = Size::new(120, 40);

/// Time to wait for the data of a tab that a node may not have. Every node has rows of processes and a tree: these are
/// awaited until the deadline.
const OPTIONAL_DATA_PATIENCE: Duration = Duration::from_secs(1);

/// Additional time to wait for the data of a requested run.
const RUN_PATIENCE: Duration = Duration::from_secs(30);

/// Minimum duration of a requested run before its frame is printed.
const RUN_FOR: Duration = Duration::from_secs(2);

/// Minimum time between two views of `--all-views`: a node accepts 20 commands per second, and each view takes two or three.
const VIEW_PACE: Duration = Duration::from_millis(200);

/// Time between two frames of `--batch` without `--interval`.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Prints frames, the first one after all requests have been answered.
///
/// # Errors
/// The errors of [`run`](crate::run), every refusal of the node, and [`Error::Scenario`] or [`Error::Inconclusive`] for
/// the requested run.
pub(crate) async fn print(options: &Options, out: &mut impl Write) -> Result<Exit, Error> {
    let asks_for_rows = !options.filter.is_empty() || options.sort != columns::BY_CPU;
    if asks_for_rows && options.tab != Tab::Processes {
        let tab = options.tab.id();
        return Err(Error::Usage(format!("--filter and --sort do not apply to --tab {tab}: remove --tab")));
    }
    let inbox = Inbox::default();
    let outgoing = start::attach(options, &inbox).await?;
    let mut start = start::start(options, SIZE, outgoing.over_ssh);
    start.capabilities = Capabilities { color: false, ..start.capabilities };
    let mut model = Model::new(start);
    model.events.with_log = matches!(options.once, Some(Once::Json | Once::AllViews));
    let mut printer = Printer {
        options,
        inbox,
        outgoing,
        model,
        began: Instant::now(),
        earlier: EarlierRuns::default(),
        collected: Map::new(),
    };
    printer.complete(options.tab, Instant::now()).await?;
    let mut left = options.frames;
    loop {
        if options.once == Some(Once::AllViews) {
            printer.collect().await?;
        }
        match printer.write(out) {
            Ok(()) => {}
            // The reader closed the pipe. End as SIGPIPE would, which Rust ignores by default.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Signal(Signal::PIPE.as_raw())),
            Err(error) => return Err(Error::Output(error)),
        }
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            return Ok(Exit::Done);
        }
        printer.follow(Instant::now() + options.interval.unwrap_or(BATCH_INTERVAL)).await?;
    }
}

/// An observer that prints instead of drawing.
struct Printer<'a> {
    options: &'a Options,
    inbox: Inbox,
    outgoing: ConnectionHandle,
    model: Model,
    began: Instant,
    earlier: EarlierRuns,
    /// Data of the views that were shown, for `--all-views`.
    collected: Map<String, Value>,
}

impl Printer<'_> {
    /// Shows the views that this node has, one after the other, and collects their data. The others have `null`.
    async fn collect(&mut self) -> Result<(), Error> {
        for &tab in Tab::ALL {
            let began = Instant::now();
            if self.model.offers(Action::Show(tab)) {
                self.model.tab = tab;
                self.apply(Msg::Tick)?;
                self.complete(tab, began).await?;
                self.follow(began + VIEW_PACE).await?;
            }
            self.collected.extend(json::data(&self.model, tab));
        }
        Ok(())
    }

    /// Waits until all data of a view has arrived, which was requested at `began`.
    async fn complete(&mut self, tab: Tab, began: Instant) -> Result<(), Error> {
        let options = self.options;
        while !is_complete(&self.model, tab, options, &self.earlier, began.elapsed())? {
            let is_running = options.run.is_some() && self.model.hello().is_some();
            let wait = options.timeout + if is_running { RUN_PATIENCE } else { Duration::ZERO };
            let (patience, deadline) = (began + OPTIONAL_DATA_PATIENCE, began + wait);
            let until = if Instant::now() < patience { patience } else { deadline };
            if timeout_at(until, self.inbox.ready()).await.is_err() && until == deadline {
                return Err(too_late(&self.model, options, wait));
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Applies what arrives until an instant.
    async fn follow(&mut self, until: Instant) -> Result<(), Error> {
        while timeout_at(until, self.inbox.ready()).await.is_ok() {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Error> {
        for msg in self.inbox.drain() {
            self.earlier.receive(&msg, self.model.hello().is_some() && self.model.commands.is_empty());
            let refused = match &msg {
                Msg::Link(LinkEvent::Lost { reason, fault, .. }) => return Err(Error::lost(reason.clone(), *fault)),
                Msg::Malformed(what) => return Err(Error::Refused(what.clone())),
                // The errors of a recording answer the commands of another observer.
                Msg::Server(ServerMessage::Error { code, id, .. }) if !self.model.replay => Some((*code, id.is_some())),
                _ => None,
            };
            self.apply(msg)?;
            if let Some((code, is_answer)) = refused {
                return Err(refusal(&self.model, self.options, code, is_answer));
            }
        }
        Ok(())
    }

    /// Updates the model, and executes the effects that need no screen.
    fn apply(&mut self, msg: Msg) -> Result<(), Error> {
        for effect in update(&mut self.model, msg, self.began.elapsed()) {
            match effect {
                Effect::Send(message) => {
                    let sent = self.outgoing.commands.try_send(message);
                    tracing::trace!(?sent, "command");
                }
                Effect::Quit(QuitReason::NewerProtocol { theirs }) => {
                    return Err(Error::NewerProtocol { theirs, ours: PROTOCOL_VERSION });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes one frame. Frames of text are separated by a form feed, as pages are.
    fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.model.status = None;
        match self.options.once {
            Some(Once::Json) => writeln!(out, "{}", json::view(&self.model, self.options.tab))?,
            Some(Once::AllViews) => writeln!(out, "{}", json::all(&self.model, &self.collected))?,
            _ if self.options.frames == Some(1) => writeln!(out, "{}", text(&self.model))?,
            _ => writeln!(out, "{}\n\u{c}", text(&self.model))?,
        }
        out.flush()
    }
}

/// Converts a refusal of the node to an error: a usage error if an argument is unknown to the node.
fn refusal(model: &Model, options: &Options, code: ErrorCode, is_answer: bool) -> Error {
    let notice = model.status.as_ref().map(|status| status.text.clone()).unwrap_or_default();
    // An error without an id is about the filter, or about a message that an older node does not know.
    let is_ours = is_answer || !options.filter.is_empty();
    match code {
        ErrorCode::Unknown | ErrorCode::OutOfRange | ErrorCode::Malformed if is_ours => Error::Usage(notice),
        ErrorCode::Failed | ErrorCode::Other if is_answer && options.run.is_some() => Error::Scenario(notice),
        _ => Error::Refused(notice),
    }
}

/// The run that the frames showed before the node accepted the commands. Its results and its error are not those of the
/// requested run.
#[derive(Debug, Default)]
struct EarlierRuns {
    run: Option<(u64, Option<String>)>,
    /// Number of frames received after the last answer.
    frames: u32,
}

/// Number of frames after the last answer from which on a frame certainly shows the new state: the node may have made
/// the first ones before it.
const FRAMES_SETTLED: u32 = 3;

impl EarlierRuns {
    /// Records a message. `is_answered` is true if all commands have been answered.
    fn receive(&mut self, msg: &Msg, is_answered: bool) {
        let Msg::Server(ServerMessage::Tick { frame }) = msg else { return };
        if is_answered {
            self.frames += 1;
        } else {
            self.run = Some((frame.run_id, frame.run_error.clone()));
        }
    }

    /// Returns true if a frame shows the previous run.
    fn is_shown_in(&self, frame: &Frame) -> bool {
        self.run.as_ref().is_some_and(|(run_id, _)| *run_id == frame.run_id)
    }

    /// Returns the error of the requested run. A run that cannot be started leaves the previous run in the frame, and
    /// may fail with the same error.
    fn failed<'a>(&self, frame: &'a Frame) -> Option<&'a String> {
        let is_old = self.run.as_ref().is_some_and(|(_, error)| *error == frame.run_error) && self.is_shown_in(frame);
        frame.run_error.as_ref().filter(|_| !is_old || self.frames >= FRAMES_SETTLED)
    }
}

/// Returns true if all data of a view has arrived.
fn is_complete(
    model: &Model,
    tab: Tab,
    options: &Options,
    earlier: &EarlierRuns,
    waited: Duration,
) -> Result<bool, Error> {
    let (Some(frame), Some(_)) = (model.frame(), model.hello()) else { return Ok(false) };
    let is_patient = waited < OPTIONAL_DATA_PATIENCE;
    // A recording has only what its observer asked for.
    let is_due = is_patient || !model.replay;
    let is_awaited = match tab {
        Tab::Processes => model.rows().map_or(is_due, |rows| is_patient && !has_rates(rows)),
        Tab::Tree => is_due && !model.has_tree(),
        Tab::Wasm => is_patient && !model.has_engines(),
        Tab::Time => is_patient && !model.has_time(),
        Tab::Store => is_patient && !model.has_stores(),
        Tab::Topics => is_patient && !model.has_topics(),
        Tab::Events => is_patient && !model.has_events(),
        Tab::Node => is_patient && (model.top.is_none() || !has_memory_uses(frame)),
        Tab::Cpu => is_patient && !model.has_cpu(),
        Tab::Sched => is_patient && !(model.has_schedulers() && has_memory_uses(frame)),
        Tab::Serve => is_patient && !model.has_servers(),
        Tab::Cluster => is_patient && !model.has_cluster(),
        Tab::Bench => is_patient && model.has_scenarios() && !model.has_results(),
    };
    if is_awaited || !model.commands.is_empty() {
        return Ok(false);
    }
    if options.run.is_none() {
        return Ok(true);
    }
    if let Some(error) = earlier.failed(frame) {
        return Err(Error::Scenario(error.clone()));
    }
    let runs = frame.scenario == options.run && frame.running && !frame.warming_up && !earlier.is_shown_in(frame);
    Ok(runs && Duration::from_millis(frame.run_ms) >= RUN_FOR && frame.latency_window.count + frame.ops_total > 0)
}

/// Returns true if the node has sampled the processes of a page twice, or has none of them.
fn has_rates(rows: &Rows) -> bool {
    let cpu = rows.columns.iter().position(|column| *column == Column::BusyPct);
    cpu.is_none_or(|cpu| {
        rows.rows.is_empty() || rows.rows.iter().any(|row| matches!(row.get(cpu), Some(Cell::Rate(_))))
    })
}

/// Returns true if the node has measured its memory by use, which an idle one begins with its first observer.
const fn has_memory_uses(frame: &Frame) -> bool {
    frame.observer.memory.uses.is_some()
}

fn too_late(model: &Model, options: &Options, waited: Duration) -> Error {
    let seconds = waited.as_secs_f64();
    if model.replay && model.frame().is_none() {
        let missing = if model.hello().is_none() { "hello" } else { "frame" };
        return Error::Recording(format!(
            "{}: the recording is damaged: no {missing} can be read from it",
            model.target
        ));
    }
    let missing = match (&options.run, model.commands.front()) {
        _ if model.hello().is_none() => "sent no hello".to_owned(),
        _ if model.frame().is_none() => "sent no frame".to_owned(),
        (_, Some((_, about))) => format!("did not answer \"{about}\""),
        (Some(scenario), _) => return Error::Inconclusive(format!("{scenario} had no results within {seconds} s")),
        _ => "sent no rows".to_owned(),
    };
    Error::Connect(format!("the node {missing} within {seconds} s"))
}

fn text(model: &Model) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(SIZE.width, SIZE.height));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, model));
    lines(terminal.backend().buffer())
}

/// Returns the cells of a screen as lines, without trailing blanks.
pub(crate) fn lines(buffer: &Buffer) -> String {
    let rows = buffer.content().chunks(usize::from(buffer.area.width).max(1));
    let lines: Vec<String> = rows
        .map(|row| {
            let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;

    /// Returns the outcome of a requested run for these frames before and after its answer, as (id, error, is running).
    fn outcome(before: (u64, Option<&str>, bool), after: &[(u64, Option<&str>, bool)]) -> Result<bool, String> {
        let options = Options { run: Some("spawn-storm".to_owned()), tab: Tab::Bench, ..Options::default() };
        let mut model = Model::new(start::start(&options, SIZE, false));
        let mut earlier = EarlierRuns::default();
        let tick = |&(run_id, error, running): &(u64, Option<&str>, bool)| {
            let frame = Frame {
                scenario: running.then(|| "spawn-storm".to_owned()),
                running,
                run_id,
                run_ms: 60_000,
                ops_total: 9,
                run_error: error.map(str::to_owned),
                ..Frame::default()
            };
            Msg::Server(ServerMessage::Tick { frame: Box::new(frame) })
        };
        let hello = [Msg::Link(LinkEvent::Connected), Msg::Server(Demo::new(1).hello()), tick(&before)];
        let answer = Msg::Server(ServerMessage::Ack { id: 1 });
        for msg in hello.into_iter().chain([answer]).chain(after.iter().map(tick)) {
            earlier.receive(&msg, model.hello().is_some() && model.commands.is_empty());
            update(&mut model, msg, Duration::ZERO);
        }
        is_complete(&model, options.tab, &options, &earlier, OPTIONAL_DATA_PATIENCE).map_err(|error| error.to_string())
    }

    #[test]
    fn a_previous_run_is_not_taken_for_the_requested_run() {
        let (ran, failed) = ((7, None, true), (7, Some("out of memory"), false));

        assert_eq!(outcome(ran, &[]), Ok(false));
        assert_eq!(outcome(ran, &[ran, (8, None, true)]), Ok(true));
        assert_eq!(outcome(failed, &[failed]), Ok(false));
        assert_eq!(outcome(failed, &[failed, (8, None, true)]), Ok(true));
        assert!(outcome(failed, &[failed, failed, failed]).unwrap_err().contains("out of memory"), "it fails again");
        assert!(outcome(ran, &[(7, Some("no room"), false)]).unwrap_err().contains("no room"));
    }
}
