//! The event loop around the pure core: it waits for keys, the node and the clock, passes each event to `update`,
//! executes the returned effects, and draws if something changed.

mod sources;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use rusm_protocol::PROTOCOL_VERSION;
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior};

use self::sources::{Next, Sources, other_node};
use crate::cli::config;
use crate::cli::options::Options;
use crate::connection::{ConnectionHandle, Inbox, picker};
use crate::exit::summary::summary;
use crate::exit::{Error, Exit};
use crate::export;
use crate::export::{Exporting, save};
use crate::model::Model;
use crate::model::message::{Effect, Export, LinkEvent, Msg, OwnCost, QuitReason};
use crate::model::update::update;
use crate::once;
use crate::once::{act, diagnose};
use crate::replay::index::Index;
use crate::replay::recording::Recording;
use crate::start;
use crate::terminal::signals::{self, SignalEvent, Signals};
use crate::terminal::{self, BackgroundQuery, Guard, QUERY, Screen, TerminalColors};

/// Interval at which ages and countdowns are updated.
const TICK: Duration = Duration::from_millis(100);

/// Minimum time between two draws triggered by keys.
const KEY_DRAW: Duration = Duration::from_millis(16);

/// Time for which the first frame waits for the background of the terminal.
const BACKGROUND_PATIENCE: Duration = Duration::from_millis(50);

/// Maximum number of input events handled at once.
const INPUT_MAX: usize = 512;

/// A write that blocks longer than this indicates a slow connection: the frame rate is halved.
const SLOW_WRITE: Duration = Duration::from_millis(50);

/// Maximum time between two draws, unless a lower frame rate is configured.
const SLOWEST_FRAME: Duration = Duration::from_secs(1);

/// Runs the observer until the user quits, on the current thread's tokio runtime.
///
/// It takes over the terminal while it runs and always restores it. A program that also runs the node should call this
/// on a thread with its own current-thread runtime.
///
/// # Errors
/// Returns [`Error`], which has a one-line message and an exit code.
pub async fn run(options: Options) -> Result<Exit, Error> {
    if let Some(format) = options.diagnose {
        return diagnose::print(&options, format, &mut io::stdout().lock()).await;
    }
    if let Some(export) = &options.export {
        return export::run(&options, export).await;
    }
    if !options.acts.is_empty() {
        return act::execute(&options, &mut io::stdout().lock()).await;
    }
    if options.once.is_some() {
        return once::print(&options, &mut io::stdout().lock()).await;
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NoTerminal { what: "stdout is not a terminal" });
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(Error::NoTerminal { what: "this terminal (TERM=dumb) cannot move the cursor" });
    }
    let first = Options { source: picker::pick(&options.source).await?, ..options };
    let mut sources = Sources::new(first);
    loop {
        let inbox = Inbox::default();
        let outgoing = start::attach(&sources.now, &inbox).await?;
        let mut event_loop = EventLoop::new(&sources.now, inbox, outgoing)?;
        let ended = event_loop.serve().await;
        let lines = summary(&event_loop.model, event_loop.start.elapsed());
        let next = event_loop.next.take();
        // The terminal is restored before anything is printed.
        drop(event_loop);
        if !matches!(ended, Ok(Exit::Done)) {
            return ended;
        }
        if !sources.advance(next) {
            if let Some(lines) = lines {
                drop(writeln!(io::stdout().lock(), "{lines}"));
            }
            return ended;
        }
    }
}

fn unwritable(path: &std::path::Path, error: &io::Error) -> Error {
    Error::Recording(format!("{}: {error}", path.display()))
}

/// State of the running screen.
struct EventLoop {
    model: Model,
    inbox: Inbox,
    outgoing: ConnectionHandle,
    signals: Signals,
    guard: Guard,
    screen: Screen<io::Stdout>,
    start: Instant,
    pace: Pace,
    drawn_at: Option<Instant>,
    reconnect: bool,
    recording: Option<Recording>,
    usage: UsageMeter,
    options: Options,
    background: BackgroundQuery,
    ending: Option<Result<Exit, Error>>,
    /// A trace that is being exported.
    exporting: Option<Exporting>,
    /// Next source to show.
    next: Option<Next>,
}

impl EventLoop {
    fn new(options: &Options, inbox: Inbox, outgoing: ConnectionHandle) -> Result<Self, Error> {
        // Install the handlers before taking the terminal: otherwise a signal could end the program without restoring
        // it.
        let signals = Signals::take().map_err(Error::Terminal)?;
        let guard = Guard::take(options.mouse).map_err(Error::Terminal)?;
        let size = terminal::size();
        let start = start::start(options, size, outgoing.over_ssh);
        let recording = match &options.record {
            Some(path) => Some(Recording::create(path, &start.target).map_err(|error| unwritable(path, &error))?),
            None => None,
        };
        let frame_time = Duration::from_secs_f64(1.0 / start.frame_hz);
        let mut screen = Screen::new(io::stdout(), size, start.capabilities.ascii);
        let mut background = BackgroundQuery::default();
        if TerminalColors::from_env(options.color).is_open(options) {
            screen.send(QUERY).map_err(Error::Terminal)?;
            background = BackgroundQuery::asked();
        }
        Ok(Self {
            screen,
            model: Model::new(start),
            inbox,
            outgoing,
            signals,
            guard,
            start: Instant::now(),
            pace: Pace { frame_time, fastest: frame_time },
            drawn_at: None,
            reconnect: options.reconnect,
            recording,
            usage: UsageMeter::new(),
            options: options.clone(),
            background,
            ending: None,
            exporting: None,
            next: None,
        })
    }

    async fn serve(&mut self) -> Result<Exit, Error> {
        let mut events = EventStream::new().ready_chunks(INPUT_MAX);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut is_dirty = true;
        let mut by_key = true;
        // A terminal that knows its background answers at once: then the first frame has its final colours.
        let first_at = Instant::now() + if self.background.is_open() { BACKGROUND_PATIENCE } else { Duration::ZERO };
        loop {
            let gap = if by_key { KEY_DRAW } else { self.pace.frame_time };
            let first_at = if self.background.is_open() { first_at } else { Instant::now() };
            let draw_at = self.drawn_at.map_or(first_at, |at| at + gap);
            tokio::select! {
                burst = events.next() => {
                    let Some(burst) = burst else { return Ok(Exit::Signal(Signal::HUP.as_raw())) };
                    by_key = true;
                    self.input(burst)?;
                }
                () = self.inbox.ready() => {
                    for msg in self.inbox.drain() {
                        self.feed(msg)?;
                    }
                }
                _ = ticks.tick() => {
                    if let Some(own) = self.usage.read(&self.outgoing.received_bytes, self.screen.drawn_bytes()) {
                        self.feed(Msg::OwnCost(own))?;
                    }
                    self.feed(Msg::Tick)?;
                }
                signal = self.signals.next() => match signal {
                    SignalEvent::Stop => self.stop(false)?,
                    SignalEvent::Continue => self.resume()?,
                    SignalEvent::End(signal) => return Ok(Exit::Signal(signal.as_raw())),
                },
                saved = export::finished(&mut self.exporting) => self.feed(Msg::Saved(saved))?,
                () = tokio::time::sleep_until(draw_at), if is_dirty => {}
            }
            if let Some(ending) = self.ending.take() {
                return ending;
            }
            is_dirty |= self.model.take_dirty();
            if is_dirty && Instant::now() >= draw_at {
                self.draw()?;
                (is_dirty, by_key) = (false, false);
            }
        }
    }

    /// Handles a burst of events, merged where possible.
    fn input(&mut self, burst: Vec<io::Result<Event>>) -> Result<(), Error> {
        let mut messages = Vec::with_capacity(burst.len());
        let mut fault = None;
        let mut events = Vec::with_capacity(burst.len());
        for event in burst {
            match event {
                Ok(event) => events.push(event),
                Err(error) => fault = Some(error),
            }
        }
        let (events, background) = self.background.filter(events);
        if let Some(background) = background {
            let palette = TerminalColors::from_env(self.options.color).palette(&self.options, Some(background));
            messages.push(Msg::Theme(Box::new(palette)));
        }
        messages.extend(events.into_iter().filter_map(terminal::message));
        terminal::coalesce(messages).into_iter().try_for_each(|msg| self.feed(msg))?;
        match fault {
            // Handle the events read before the terminal failed first: they may contain the quit key.
            Some(fault) if self.ending.is_none() => Err(Error::Terminal(fault)),
            _ => Ok(()),
        }
    }

    fn feed(&mut self, msg: Msg) -> Result<(), Error> {
        if let Msg::Resize(size) = msg {
            self.screen.resize(size);
        }
        if let (Msg::Link(LinkEvent::Lost { reason, fault, .. }), false) = (&msg, self.reconnect) {
            self.ending = Some(Err(Error::lost(reason.clone(), *fault)));
            return Ok(());
        }
        // In whole milliseconds, as in a recording, so that a replay has equal times.
        let now = Duration::from_millis(self.start.elapsed().as_millis() as u64);
        if let Some(error) = self.recording.as_mut().and_then(|recording| recording.write(&msg, now).err()) {
            self.recording = None;
            let text = format!("the recording has ended: {error}");
            update(&mut self.model, Msg::Malformed(text), now);
        }
        for effect in update(&mut self.model, msg, now) {
            self.execute(effect)?;
        }
        Ok(())
    }

    fn execute(&mut self, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::Send(message) => {
                // If the queue is full, the node does not read: the connection task will detect that and report it.
                let sent = self.outgoing.commands.try_send(message);
                tracing::trace!(?sent, "command");
            }
            Effect::Retry => self.outgoing.retry.notify_one(),
            Effect::Copy(text) => {
                let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(text);
                let mut bytes = String::new();
                if crossterm::Command::write_ansi(&command, &mut bytes).is_ok() {
                    self.screen.send(bytes.as_bytes()).map_err(Error::Terminal)?;
                }
            }
            Effect::Save { name, export } => {
                let text = match export {
                    Export::Text(text) => text,
                    Export::Screen => once::lines(&crate::replay::screen(&self.model)),
                    Export::Picture => crate::picture::svg(&crate::replay::screen(&self.model), &crate::picture::DARK),
                };
                self.feed(Msg::Saved(save::save(&name, &text)))?;
            }
            Effect::ExportTrace { .. } if self.exporting.is_some() => {
                self.feed(Msg::Saved(Err("the last export is not complete yet".to_owned())))?;
            }
            Effect::ExportTrace { name, until_ms, last } => {
                let options = self.options.clone();
                let saved = async move { export::save_span(&options, &name, until_ms, last).await };
                self.exporting = Some(Box::pin(saved));
            }
            Effect::OpenRecording(path) => match self.openable(&path) {
                Ok(()) => {
                    self.next = Some(Next::Recording(path));
                    self.ending = Some(Ok(Exit::Done));
                }
                Err(why) => self.feed(Msg::Saved(Err(why)))?,
            },
            Effect::Attach(node) => match other_node(&self.options, &self.model, &node) {
                Some(target) => {
                    self.next = Some(Next::Node(target));
                    self.ending = Some(Ok(Exit::Done));
                }
                None => self.feed(Msg::Saved(Err(format!("attach to {node} itself: only sockets lead there"))))?,
            },
            Effect::SaveColumns { key, columns } => {
                let saved = match &self.options.config_file {
                    Some(path) => config::columns::save(path, key, &columns)
                        .map(|()| path.display().to_string())
                        .map_err(|error| error.to_string()),
                    None => Err("chosen for now only: there is no place for a config file".to_owned()),
                };
                self.feed(Msg::Saved(saved))?;
            }
            Effect::Repaint => self.screen.repaint(),
            // Ctrl-Z stops the whole job, as the terminal would.
            Effect::Suspend => self.stop(true)?,
            Effect::Quit(QuitReason::Requested) => self.ending = Some(Ok(Exit::Done)),
            Effect::Quit(QuitReason::NewerProtocol { theirs }) => {
                self.ending = Some(Err(Error::NewerProtocol { theirs, ours: PROTOCOL_VERSION }));
            }
        }
        Ok(())
    }

    /// Checks that a recording can be shown.
    fn openable(&self, path: &Path) -> Result<(), String> {
        if self.options.record.is_some() {
            return Err("this screen is being recorded: open the recording with --replay".to_owned());
        }
        Index::open(path).map(drop)
    }

    /// Restores the terminal, stops the process, and takes the terminal again after the process is continued.
    fn stop(&mut self, whole_job: bool) -> Result<(), Error> {
        self.guard.leave();
        let stopped = signals::stop(whole_job);
        tracing::debug!(?stopped, "continued");
        self.resume()
    }

    fn resume(&mut self) -> Result<(), Error> {
        self.guard.enter().map_err(Error::Terminal)?;
        let size = terminal::size();
        self.screen.resize(size);
        self.feed(Msg::Resize(size))
    }

    fn draw(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        self.screen.draw(&self.model).map_err(Error::Terminal)?;
        self.pace.drawn_in(began.elapsed());
        self.drawn_at = Some(Instant::now());
        Ok(())
    }
}

/// Time between two draws: doubled after a slow write, and gradually reduced again after fast ones.
#[derive(Clone, Copy, Debug)]
struct Pace {
    frame_time: Duration,
    fastest: Duration,
}

impl Pace {
    fn drawn_in(&mut self, took: Duration) {
        let slowest = self.fastest.max(SLOWEST_FRAME);
        self.frame_time = if took > SLOW_WRITE {
            (self.frame_time * 2).min(slowest)
        } else {
            (self.frame_time * 15 / 16).max(self.fastest)
        };
    }
}

/// Measures the resource usage of this observer, once per second.
struct UsageMeter {
    read_at: Instant,
    cpu: Duration,
    received_bytes: u64,
    drawn_bytes: u64,
}

impl UsageMeter {
    fn new() -> Self {
        Self { read_at: Instant::now(), cpu: thread_cpu(), received_bytes: 0, drawn_bytes: 0 }
    }

    fn read(&mut self, received: &AtomicU64, drawn_bytes: u64) -> Option<OwnCost> {
        let elapsed = self.read_at.elapsed();
        if elapsed < Duration::from_secs(1) {
            return None;
        }
        let (cpu, received_bytes) = (thread_cpu(), received.load(Ordering::Relaxed));
        let per_sec = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
        let own = OwnCost {
            cpu_pct: cpu.saturating_sub(self.cpu).as_secs_f64() / elapsed.as_secs_f64() * 100.0,
            received_bytes_per_sec: per_sec(received_bytes, self.received_bytes),
            drawn_bytes_per_sec: per_sec(drawn_bytes, self.drawn_bytes),
        };
        *self = Self { read_at: Instant::now(), cpu, received_bytes, drawn_bytes };
        Some(own)
    }
}

/// Returns the CPU time of this thread, which runs the socket, the model and the drawing.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_slow_for_a_while_gets_all_frames_again() {
        let fastest = Duration::from_millis(100);
        let mut pace = Pace { frame_time: fastest, fastest };

        (0..9).for_each(|_| pace.drawn_in(SLOW_WRITE * 2));
        let slow = pace.frame_time;
        (0..40).for_each(|_| pace.drawn_in(Duration::from_millis(1)));

        assert_eq!((slow, pace.frame_time), (SLOWEST_FRAME, fastest));
    }
}
