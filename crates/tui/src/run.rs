//! The event loop around the pure core: it waits for keys, the nodes and the clock, passes each event to `update`,
//! executes the returned effects, and draws if something changed.

mod effects;
mod nodes;
mod sources;
mod usage;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior};

use self::nodes::{Nodes, Watched};
use self::sources::{Next, Sources};
use self::usage::UsageMeter;
use crate::cli::options::{Options, Source};
use crate::connection::{ConnectionHandle, Inbox, Target, picker};
use crate::exit::summary::summary;
use crate::exit::{Error, Exit};
use crate::export;
use crate::export::Exporting;
use crate::model::Model;
use crate::model::input::key::Size;
use crate::model::message::{LinkEvent, Msg};
use crate::model::update::update;
use crate::once;
use crate::once::{act, diagnose};
use crate::replay::recording::Recording;
use crate::start;
use crate::terminal::signals::{self, SignalEvent, Signals};
use crate::terminal::{self, Guard, Input, Keyboard, Output, QUERY, Screen, TerminalColors};

/// Interval at which ages and countdowns are updated.
const TICK: Duration = Duration::from_millis(100);

/// Minimum time between two draws triggered by keys.
const KEY_DRAW: Duration = Duration::from_millis(16);

/// Time for which the first frame waits for the background of the terminal.
const BACKGROUND_PATIENCE: Duration = Duration::from_millis(50);

/// A write that blocks longer than this indicates a slow connection: the frame rate is halved.
const SLOW_WRITE: Duration = Duration::from_millis(50);

/// Maximum time between two draws, unless a lower frame rate is configured.
const SLOWEST_FRAME: Duration = Duration::from_secs(1);

/// Executes what needs no screen.
async fn without_screen(options: &Options) -> Result<Exit, Error> {
    let out = &mut io::stdout().lock();
    if let Some(format) = options.diagnose {
        diagnose::print(options, format, out).await
    } else if let Some(export) = &options.export {
        export::run(options, export).await
    } else if options.acts.is_empty() {
        once::print(options, out).await
    } else {
        act::execute(options, out).await
    }
}

/// Runs the observer until the user quits, on the current thread's tokio runtime.
///
/// It takes over the terminal while it runs and always restores it. A program that also runs the node should call this
/// on a thread with its own current-thread runtime.
///
/// # Errors
/// Returns [`Error`], which has a one-line message and an exit code.
pub async fn run(options: Options) -> Result<Exit, Error> {
    if options.needs_no_screen() {
        // Without something to remove at the end, a signal ends the program as it ends any other.
        if options.export.is_none() && !matches!(options.source, Source::Node(Target::Ssh(_))) {
            return without_screen(&options).await;
        }
        let mut signals = Signals::take().map_err(Error::Terminal)?;
        signals::end_if_blocked().map_err(Error::Terminal)?;
        return tokio::select! {
            done = without_screen(&options) => done,
            signal = signals.end() => Ok(Exit::Signal(signal.as_raw())),
        };
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NoTerminal { what: "stdout is not a terminal" });
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(Error::NoTerminal { what: "this terminal (TERM=dumb) cannot move the cursor" });
    }
    let first = Options { source: picker::pick(&options.source).await?, ..options };
    // Install the handlers before taking the terminal: otherwise a signal could end the program without restoring it.
    let mut signals = Signals::take().map_err(Error::Terminal)?;
    let mut sources = Sources::new(first);
    let output = Output::start().map_err(Error::Terminal)?;
    let mut failure = None;
    loop {
        let inbox = Inbox::default();
        let attached = tokio::select! {
            attached = start::attach(&sources.now, &inbox) => attached,
            signal = signals.end() => return Ok(Exit::Signal(signal.as_raw())),
        };
        let outgoing = match attached {
            Ok(outgoing) => outgoing,
            Err(error) => {
                // Return to the earlier source; its screen shows the error.
                if !sources.advance(None) {
                    return Err(error);
                }
                failure = Some(error.to_string());
                continue;
            }
        };
        let mut event_loop = EventLoop::new(&sources.now, &output, inbox, outgoing)?;
        if let Some(failure) = failure.take() {
            event_loop.feed(0, Msg::Saved(Err(failure)))?;
        }
        tokio::select! {
            attached = event_loop.attach_beside() => attached?,
            signal = signals.end() => return Ok(Exit::Signal(signal.as_raw())),
        }
        let ended = event_loop.serve(&mut signals).await;
        let lines = summary(event_loop.nodes.first(), event_loop.start.elapsed());
        let next = event_loop.next.take();
        // The terminal is restored before anything is printed.
        drop(event_loop);
        if !matches!(ended, Ok(Exit::Done)) {
            return ended;
        }
        if !sources.advance(next) {
            // Writing to a terminal that reads nothing would block the program.
            if let Some(lines) = lines.filter(|_| output.is_idle()) {
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
    nodes: Nodes,
    guard: Guard,
    output: Output,
    screen: Screen<Output>,
    start: Instant,
    pace: Pace,
    drawn_at: Option<Instant>,
    reconnect: bool,
    recording: Option<Recording>,
    usage: UsageMeter,
    options: Options,
    /// True while the terminal has not answered the question for its background.
    awaits_background: bool,
    ending: Option<Result<Exit, Error>>,
    /// A trace that is being exported.
    exporting: Option<Exporting>,
    /// Next source to show.
    next: Option<Next>,
}

impl EventLoop {
    fn new(options: &Options, output: &Output, inbox: Inbox, outgoing: ConnectionHandle) -> Result<Self, Error> {
        let guard = Guard::take(output, options.mouse).map_err(Error::Terminal)?;
        let size = terminal::size();
        let start = start::start(options, size, outgoing.over_ssh);
        let recording = match &options.record {
            Some(path) => Some(Recording::create(path, &start.target).map_err(|error| unwritable(path, &error))?),
            None => None,
        };
        let frame_time = Duration::from_secs_f64(1.0 / start.frame_hz);
        let mut screen = Screen::new(output.clone(), size, start.capabilities.ascii);
        let awaits_background = TerminalColors::from_env(options.color).is_open(options);
        if awaits_background {
            screen.send(QUERY).map_err(Error::Terminal)?;
        }
        Ok(Self {
            output: output.clone(),
            screen,
            nodes: Nodes::new(
                Watched { source: options.source.clone(), model: Model::new(start), inbox, outgoing },
                size,
            ),
            guard,
            start: Instant::now(),
            pace: Pace { frame_time, fastest: frame_time },
            drawn_at: None,
            reconnect: options.reconnect,
            recording,
            usage: UsageMeter::new(),
            options: options.clone(),
            awaits_background,
            ending: None,
            exporting: None,
            next: None,
        })
    }

    /// Attaches to the other nodes. The screen names nodes that cannot be reached.
    async fn attach_beside(&mut self) -> Result<(), Error> {
        for target in self.options.beside.clone() {
            let inbox = self.nodes.get(0).inbox.beside();
            let options = Options { source: Source::Node(target.clone()), run: None, ..self.options.clone() };
            match start::attach(&options, &inbox).await {
                Ok(outgoing) => {
                    let model = Model::new(start::start(&options, terminal::size(), outgoing.over_ssh));
                    self.nodes.push(Watched { source: options.source, model, inbox, outgoing });
                }
                Err(error) => self.feed(0, Msg::Saved(Err(format!("without {target}: {error}"))))?,
            }
        }
        self.fit()
    }

    async fn serve(&mut self, signals: &mut Signals) -> Result<Exit, Error> {
        let mut keyboard = Keyboard::open().map_err(Error::Terminal)?;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut is_dirty = true;
        let mut by_key = true;
        // A terminal that knows its background answers at once: then the first frame has its final colours.
        let first_at = Instant::now() + if self.awaits_background { BACKGROUND_PATIENCE } else { Duration::ZERO };
        loop {
            let gap = if by_key { KEY_DRAW } else { self.pace.frame_time };
            let first_at = if self.awaits_background { first_at } else { Instant::now() };
            let draw_at = self.drawn_at.map_or(first_at, |at| at + gap);
            tokio::select! {
                inputs = keyboard.next() => {
                    let Some(inputs) = inputs else { return Ok(Exit::Signal(Signal::HUP.as_raw())) };
                    by_key = true;
                    self.input(inputs.map_err(Error::Terminal)?)?;
                }
                () = self.nodes.ready() => {
                    for node in self.nodes.indices() {
                        for msg in self.nodes.get(node).inbox.drain() {
                            self.feed(node, msg)?;
                        }
                    }
                }
                _ = ticks.tick() => {
                    if let Some(own) = self.usage.read(self.nodes.received_bytes(), self.screen.drawn_bytes()) {
                        self.feed_all(&Msg::OwnCost(own))?;
                    }
                    self.feed_all(&Msg::Tick)?;
                }
                signal = signals.next() => match signal {
                    SignalEvent::Stop => self.stop(false)?,
                    SignalEvent::Continue => self.resume()?,
                    SignalEvent::Resize => self.resize(terminal::size())?,
                    SignalEvent::End(signal) => return Ok(Exit::Signal(signal.as_raw())),
                },
                saved = export::finished(&mut self.exporting) => self.feed_focused(Msg::Saved(saved))?,
                () = async { tokio::join!(tokio::time::sleep_until(draw_at), self.output.idle()); }, if is_dirty => {}
            }
            if let Some(ending) = self.ending.take() {
                return ending;
            }
            is_dirty |= self.nodes.take_dirty();
            if is_dirty && Instant::now() >= draw_at && self.output.is_idle() {
                self.draw()?;
                (is_dirty, by_key) = (false, false);
            }
        }
    }

    /// Handles inputs, merged where possible.
    fn input(&mut self, inputs: Vec<Input>) -> Result<(), Error> {
        let messages = inputs.into_iter().map(|input| match input {
            Input::Key(key) => Msg::Key(key),
            Input::Mouse(mouse) => Msg::Mouse(mouse),
            Input::Paste(text) => Msg::Paste(text),
            Input::Background(background) => {
                self.awaits_background = false;
                let palette = TerminalColors::from_env(self.options.color).palette(&self.options, Some(background));
                Msg::Theme(Box::new(palette))
            }
        });
        terminal::coalesce(messages.collect()).into_iter().try_for_each(|msg| self.take(msg))
    }

    /// Passes an input to the nodes that it is for.
    fn take(&mut self, msg: Msg) -> Result<(), Error> {
        match msg {
            Msg::Theme(_) => return self.feed_all(&msg),
            Msg::Mouse(mouse) => {
                if let Some(msg) = self.nodes.mouse(mouse) {
                    self.feed_focused(msg)?;
                }
            }
            _ => self.feed_focused(msg)?,
        }
        self.nodes.follow();
        self.fit()
    }

    fn resize(&mut self, size: Size) -> Result<(), Error> {
        self.screen.resize(size);
        self.nodes.resize(size);
        self.fit()?;
        self.screen.repaint();
        Ok(())
    }

    /// Tells each node the size of its part of the screen.
    fn fit(&mut self) -> Result<(), Error> {
        for (node, size) in self.nodes.sizes().into_iter().enumerate() {
            if self.nodes.get(node).model.size != size {
                self.feed(node, Msg::Resize(size))?;
            }
        }
        Ok(())
    }

    fn feed_focused(&mut self, msg: Msg) -> Result<(), Error> {
        self.feed(self.nodes.focus(), msg)
    }

    fn feed_all(&mut self, msg: &Msg) -> Result<(), Error> {
        self.nodes.indices().try_for_each(|node| self.feed(node, msg.clone()))
    }

    fn feed(&mut self, node: usize, msg: Msg) -> Result<(), Error> {
        if let (Msg::Link(LinkEvent::Lost { reason, fault, .. }), false) = (&msg, self.reconnect) {
            self.ending = Some(Err(Error::lost(reason.clone(), *fault)));
            return Ok(());
        }
        // In whole milliseconds, as in a recording, so that a replay has equal times.
        let now = Duration::from_millis(self.start.elapsed().as_millis() as u64);
        if let Some(error) = self.recording.as_mut().and_then(|recording| recording.write(&msg, now).err()) {
            self.recording = None;
            let text = format!("the recording has ended: {error}");
            update(&mut self.nodes.get(node).model, Msg::Malformed(text), now);
        }
        for effect in update(&mut self.nodes.get(node).model, msg, now) {
            self.execute(node, effect)?;
        }
        Ok(())
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
        self.resize(terminal::size())
    }

    fn draw(&mut self) -> Result<(), Error> {
        match self.nodes.shown() {
            Some(nodes) => self.screen.draw_nodes(&nodes, self.nodes.indices().len()),
            None => self.screen.draw(&self.nodes.focused().model),
        }
        .map_err(Error::Terminal)?;
        self.pace.drawn_in(self.output.took());
        self.drawn_at = Some(Instant::now());
        Ok(())
    }
}

/// Time between two draws, adapted to the time that the frame before took to be written: doubled after a slow write, and gradually reduced again after fast ones.
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
