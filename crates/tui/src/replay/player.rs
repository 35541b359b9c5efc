//! Replays a recording like a connection to a node: it sends the messages at their times, and answers requests about
//! the past from the file.

use std::time::Duration;

use rusm_protocol::{ClientMessage, ErrorCode, Frame, History, HistorySeries, Past, ServerMessage};

use super::index::Index;
use super::recording::{Entry, Line};
use crate::model::message::{LinkEvent, Msg};

/// Maximum number of messages that are sent at once, for a replay that is faster than its screen.
const BURST: usize = 256;
/// Points of the figures for charts are this far apart, in milliseconds.
const STEP_MS: u64 = 1000;
/// Time that the figures for charts cover, in milliseconds.
const SPAN_MS: u64 = 900_000;

/// Ids of the newest requests of the model. Recorded answers get them: in the recording they answered others.
#[derive(Clone, Copy, Debug, Default)]
struct Ids {
    view: u32,
    tree: u32,
    engines: u32,
    time: u32,
    stores: u32,
    topics: u32,
    causes: u32,
    cpu: u32,
    schedulers: u32,
    serve: u32,
    cluster: u32,
    inspect: u32,
    waits: u32,
    results: u32,
}

/// A recording that plays.
#[derive(Debug)]
pub(crate) struct Player {
    index: Index,
    next: usize,
    ids: Ids,
    /// Recorded time that has passed, as of `since`.
    passed: Duration,
    since: Duration,
    speed: f64,
}

impl Player {
    /// Creates a player at the start of a recording; `speed` is a factor.
    pub(crate) fn new(index: Index, speed: f64) -> Self {
        Self { index, next: 0, ids: Ids::default(), passed: Duration::ZERO, since: Duration::ZERO, speed }
    }

    /// Returns the recorded time at a time of the replay.
    fn recorded_time(&self, now: Duration) -> Duration {
        self.passed + now.saturating_sub(self.since).mul_f64(self.speed)
    }

    /// Returns the time at which the next message is due; `None` at the end.
    pub(crate) fn due(&self) -> Option<Duration> {
        let at = Duration::from_millis(self.index.at_ms(self.next)?);
        Some(self.since + at.saturating_sub(self.passed).div_f64(self.speed))
    }

    /// Returns the messages that are due. If there are too many, only the newest state is sent.
    pub(crate) fn poll(&mut self, now: Duration) -> Vec<Msg> {
        let time_ms = self.recorded_time(now).as_millis() as u64;
        let first = self.next;
        while self.index.at_ms(self.next).is_some_and(|at_ms| at_ms <= time_ms) {
            self.next += 1;
        }
        if self.next - first > BURST {
            return self.newest();
        }
        let entries: Vec<Entry> = (first..self.next).filter_map(|at| self.index.message(at)).collect();
        entries.into_iter().filter_map(|entry| self.msg(entry)).collect()
    }

    fn msg(&self, entry: Entry) -> Option<Msg> {
        Some(match entry.line {
            Line::Message(message) => Msg::Server(self.addressed(*message)),
            Line::Own(own) => Msg::OwnCost(own),
            Line::Connected => Msg::Link(LinkEvent::Connected),
            // The messages before contain the screen of that instant.
            Line::Lost => return None,
        })
    }

    /// Gives an answer the id of the model's own request. The greeting says that this node has a past: the file. The role
    /// stays, because screens depend on it; commands are refused.
    fn addressed(&self, mut message: ServerMessage) -> ServerMessage {
        match &mut message {
            ServerMessage::Rows(rows) => rows.id = self.ids.view,
            ServerMessage::Tree(tree) => tree.id = self.ids.tree,
            ServerMessage::Engines(engines) => engines.id = self.ids.engines,
            ServerMessage::Time(time) => time.id = self.ids.time,
            ServerMessage::Stores(stores) => stores.id = self.ids.stores,
            ServerMessage::Topics(topics) => topics.id = self.ids.topics,
            ServerMessage::Causes(causes) => causes.id = self.ids.causes,
            ServerMessage::Schedulers(schedulers) => schedulers.id = self.ids.schedulers,
            ServerMessage::Serve(serve) => serve.id = self.ids.serve,
            ServerMessage::Cluster(cluster) => cluster.id = self.ids.cluster,
            ServerMessage::Cpu(cpu) => cpu.id = self.ids.cpu,
            ServerMessage::Inspection(inspection) => inspection.id = self.ids.inspect,
            ServerMessage::Waits(waits) => waits.id = self.ids.waits,
            ServerMessage::Results(results) => results.id = self.ids.results,
            ServerMessage::Hello(hello) => {
                hello.node.features.retain(|feature| feature != "past");
                hello.node.features.push("past".to_owned());
            }
            _ => {}
        }
        message
    }

    /// Handles a message of the model, and returns the answers.
    pub(crate) fn receive(&mut self, message: ClientMessage, now: Duration) -> Vec<Msg> {
        match message {
            ClientMessage::View(view) => self.ids.view = view.id,
            ClientMessage::Tree { view } => self.ids.tree = view.map_or(0, |view| view.id),
            ClientMessage::Engines { view } => self.ids.engines = view.map_or(0, |view| view.id),
            ClientMessage::Time { view } => self.ids.time = view.map_or(0, |view| view.id),
            ClientMessage::Stores { view } => self.ids.stores = view.map_or(0, |view| view.id),
            ClientMessage::Topics { view } => self.ids.topics = view.map_or(0, |view| view.id),
            ClientMessage::Schedulers { view } => self.ids.schedulers = view.map_or(0, |view| view.id),
            ClientMessage::Serve { view } => self.ids.serve = view.map_or(0, |view| view.id),
            ClientMessage::Cluster { view } => self.ids.cluster = view.map_or(0, |view| view.id),
            ClientMessage::Cpu { view } => self.ids.cpu = view.map_or(0, |view| view.id),
            ClientMessage::Causes { view } => self.ids.causes = view.map_or(0, |view| view.id),
            ClientMessage::Inspect { view } => self.ids.inspect = view.map_or(0, |view| view.id),
            ClientMessage::Waits { view } => self.ids.waits = view.map_or(0, |view| view.id),
            ClientMessage::Results { view } => self.ids.results = view.map_or(0, |view| view.id),
            ClientMessage::Past(view) if view.id == 0 => return self.jump(view.at_ms, now),
            ClientMessage::Past(view) => return vec![Msg::Server(self.past(view.id, view.at_ms))],
            command => {
                // Without an id, the recording has the answer that the node gave, for example to a request for the history.
                let refused = command.command_id().map(|id| {
                    let message = "this is a recording: it has only what the node sent then".to_owned();
                    Msg::Server(ServerMessage::Error { message, code: ErrorCode::Forbidden, id: Some(id) })
                });
                return refused.into_iter().collect();
            }
        }
        // The views of a node are refreshed a few times a second; a recording may have ended. The frame needs no id.
        let mut state = self.state();
        state.retain(|msg| !matches!(msg, Msg::Server(ServerMessage::Tick { .. } | ServerMessage::Events(_))));
        state
    }

    /// Returns the state of the node, and the figures of the messages that were skipped.
    fn newest(&mut self) -> Vec<Msg> {
        let history = Msg::Server(self.history(0));
        self.state().into_iter().chain([history]).collect()
    }

    fn state(&mut self) -> Vec<Msg> {
        let state = self.index.state(self.next);
        state.into_iter().map(|message| Msg::Server(self.addressed(message))).collect()
    }

    /// Continues at a later uptime.
    fn jump(&mut self, uptime_ms: u64, now: Duration) -> Vec<Msg> {
        let to = self.index.position(uptime_ms).max(self.next);
        if let Some(at_ms) = self.index.at_ms(to.min(self.index.len() - 1)) {
            (self.passed, self.since, self.next) = (Duration::from_millis(at_ms), now, to);
        }
        self.newest()
    }

    fn past(&mut self, id: u32, at_ms: u64) -> ServerMessage {
        let (oldest_ms, newest_ms) = self.index.span(self.next);
        let end = self.index.position(at_ms.max(oldest_ms)).min(self.next);
        let at_ms = self.index.uptime_ms(end.saturating_sub(1));
        let messages = self.index.state(end);
        ServerMessage::Past(Past { id, at_ms, oldest_ms, newest_ms, messages, ..Past::default() })
    }

    fn history(&mut self, id: u32) -> ServerMessage {
        let newest_ms = self.index.uptime_ms(self.next.saturating_sub(1));
        let wanted: Vec<usize> = self
            .index
            .frames(self.next, STEP_MS)
            .into_iter()
            .filter(|at| self.index.uptime_ms(*at) + SPAN_MS >= newest_ms)
            .collect();
        let frames: Vec<_> = wanted
            .into_iter()
            .filter_map(|at| match self.index.message(at)?.server()? {
                ServerMessage::Tick { frame } => Some(frame),
                _ => None,
            })
            .collect();
        let series = |name: &str, of: &dyn Fn(&Frame) -> f64| HistorySeries {
            name: name.to_owned(),
            points: frames.iter().map(|frame| of(frame)).collect(),
        };
        ServerMessage::History(History {
            id,
            at_ms: frames.iter().map(|frame| frame.captured_at_ns / 1_000_000).collect(),
            series: vec![
                series("ops_per_sec", &|frame| frame.ops_per_sec),
                series("messages_per_sec", &|frame| frame.observer.messages_per_sec),
                series("cpu_pct", &|frame| frame.observer.cpu_pct),
                series("rss_bytes", &|frame| frame.observer.memory.rss_bytes as f64),
                series("crashed_total", &|frame| frame.observer.crashed_total as f64),
                series("killed_total", &|frame| frame.observer.killed_total as f64),
                series("linked_total", &|frame| frame.observer.linked_total as f64),
            ],
            runs: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::demo::Demo;
    use crate::model::input::key::{Key, Size};
    use crate::model::message::Effect;
    use crate::model::tab::Tab;
    use crate::model::update::update;
    use crate::model::{Model, Start};
    use crate::once::lines;
    use crate::replay::recording::header;
    use crate::replay::screen;

    const STEP: Duration = Duration::from_millis(100);

    fn start(tab: Tab) -> Start {
        Start { tab, size: Size::new(140, 45), ..Start::default() }
    }

    /// Watches the demo for some seconds. Returns the recording, and the screen after each step.
    fn watched(tab: Tab, steps: u32) -> (Vec<u8>, Vec<String>) {
        let (mut demo, mut model) = (Demo::new(1), Model::new(start(tab)));
        let mut file = (header("demo") + "\n").into_bytes();
        let mut screens = Vec::new();
        let mut feed = |model: &mut Model, demo: &mut Demo, first: Msg, now: Duration| {
            let mut queue = vec![first];
            while let Some(msg) = queue.pop() {
                if let Some(entry) = Entry::of(&msg, now) {
                    file.extend((entry.line() + "\n").into_bytes());
                }
                for effect in update(model, msg, now) {
                    if let Effect::Send(message) = effect {
                        queue.extend(demo.receive(message, now).into_iter().map(Msg::Server));
                    }
                }
            }
        };
        feed(&mut model, &mut demo, Msg::Link(LinkEvent::Connected), Duration::ZERO);
        let hello = demo.hello();
        feed(&mut model, &mut demo, Msg::Server(hello), Duration::ZERO);
        for step in 1..=steps {
            let now = STEP * step;
            for message in demo.poll(now) {
                feed(&mut model, &mut demo, Msg::Server(message), now);
            }
            feed(&mut model, &mut demo, Msg::Tick, now);
            screens.push(lines(&screen(&model)));
        }
        (file, screens)
    }

    fn player(recording: &[u8]) -> Player {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(recording).unwrap();
        Player::new(Index::open(file.path()).unwrap(), 1.0)
    }

    fn feed(model: &mut Model, player: &mut Player, first: Msg, now: Duration) {
        let mut queue = vec![first];
        while let Some(msg) = queue.pop() {
            for effect in update(model, msg, now) {
                if let Effect::Send(message) = effect {
                    queue.extend(player.receive(message, now));
                }
            }
        }
    }

    #[test]
    fn a_replay_shows_the_screens_that_were_recorded() {
        for &tab in Tab::ALL {
            let (recording, screens) = watched(tab, 60);
            let (mut player, mut model) = (player(&recording), Model::new(start(tab)));

            for (step, expected) in (1..).zip(&screens) {
                let now = STEP * step;
                for msg in player.poll(now) {
                    feed(&mut model, &mut player, msg, now);
                }
                feed(&mut model, &mut player, Msg::Tick, now);
                if step > 20 {
                    let shown = lines(&screen(&model));
                    assert_eq!(without_head(&shown), without_head(expected), "{tab:?} at step {step}");
                }
            }
            assert_eq!(player.due(), None, "it plays to its end");
        }
    }

    /// Returns a screen without its first row, which names the role of the connection.
    fn without_head(screen: &str) -> String {
        screen.lines().skip(1).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_keys_of_the_past_work_on_a_recording() {
        let (recording, _) = watched(Tab::Node, 200);
        let (mut player, mut model) = (player(&recording), Model::new(start(Tab::Node)));
        let mut now = Duration::ZERO;
        for _ in 0..200 {
            now += STEP;
            for msg in player.poll(now) {
                feed(&mut model, &mut player, msg, now);
            }
        }
        let newest = model.frame().unwrap().captured_at_ns;

        for _ in 0..5 {
            now += STEP;
            feed(&mut model, &mut player, Msg::Key(Key::char('[')), now);
        }
        now += STEP;
        feed(&mut model, &mut player, Msg::Tick, now);

        let shown = model.frame().unwrap().captured_at_ns;
        assert_eq!((newest - shown) / 1_000_000_000, 5);
        assert!(lines(&screen(&model)).contains("PAST"));
        feed(&mut model, &mut player, Msg::Key(Key::char('G')), now);
        assert_eq!(model.frame().unwrap().captured_at_ns, newest);
    }

    #[test]
    fn a_command_to_a_recording_is_refused_in_one_line() {
        let (recording, _) = watched(Tab::Node, 10);

        let answers = player(&recording).receive(ClientMessage::Stop { id: Some(4) }, Duration::ZERO);

        assert!(
            matches!(&answers[..], [Msg::Server(ServerMessage::Error { id: Some(4), message, .. })] if message.contains("recording"))
        );
    }

    #[test]
    fn a_fast_replay_skips_to_the_newest_state() {
        let (recording, _) = watched(Tab::Processes, 400);
        let mut player = player(&recording);
        player.speed = 1_000.0;

        let sent = player.poll(Duration::from_millis(40)).len();

        assert!((1..10).contains(&sent), "{sent}");
    }
}
