//! The screen of a model depends on the newest state of the node, and not on how it got there.

use proptest::prelude::*;

use super::*;
use crate::replay::{Recorded, line, play, read};

/// Views without a chart: a chart has a gap where a frame is lost.
const TABS: [Tab; 7] = [Tab::Processes, Tab::Tree, Tab::Events, Tab::Wasm, Tab::Time, Tab::Store, Tab::Topics];
/// Length of a session, and its end without disorder, in steps of a tenth of a second.
const STEPS: usize = 120;
const ORDERLY: usize = 40;

/// Fate of a message on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    IsLost,
    IsRepeated,
    /// Arrives after some later ones.
    IsLate(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Arrives),
        1 => Just(Fate::IsLost),
        1 => Just(Fate::IsRepeated),
        1 => (1_usize..12).prop_map(Fate::IsLate),
    ]
}

fn start(tab: Tab) -> Start {
    Start { tab, size: USUAL, demo: true, ..Start::default() }
}

/// Records a session: all messages of the node with their times, and the model at its end.
fn session(tab: Tab) -> (Vec<Recorded>, Fixture) {
    let mut watched = Fixture { model: Model::new(start(tab)), demo: Demo::new(1), now: Duration::from_secs(40) };
    let mut tape = Vec::new();
    let mut send = |watched: &mut Fixture, msg: Msg| {
        let mut waiting = vec![msg];
        while let Some(msg) = waiting.pop() {
            if let Msg::Server(message) = &msg {
                tape.push(Recorded { at: watched.now, message: message.clone() });
            }
            for effect in update(&mut watched.model, msg, watched.now) {
                if let Effect::Send(message) = effect {
                    waiting.extend(watched.demo.receive(message, watched.now).into_iter().map(Msg::Server));
                }
            }
        }
    };
    send(&mut watched, Msg::Link(LinkEvent::Connected));
    let hello = watched.demo.hello();
    send(&mut watched, Msg::Server(hello));
    for _ in 0..STEPS {
        watched.now += Duration::from_millis(100);
        for message in watched.demo.poll(watched.now) {
            send(&mut watched, Msg::Server(message));
        }
        send(&mut watched, Msg::Tick);
    }
    (tape, watched)
}

/// Returns the model that has received a tape. As from a node, answers have the ids of the model's own requests.
fn received(tab: Tab, tape: &[Recorded]) -> Model {
    let mut model = Model::new(start(tab));
    let mut ids = [0; 7];
    update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
    for Recorded { at, message } in tape {
        let mut message = message.clone();
        match &mut message {
            ServerMessage::Rows(rows) => rows.id = ids[0],
            ServerMessage::Tree(tree) => tree.id = ids[1],
            ServerMessage::Engines(engines) => engines.id = ids[2],
            ServerMessage::Time(time) => time.id = ids[3],
            ServerMessage::Stores(stores) => stores.id = ids[4],
            ServerMessage::Topics(topics) => topics.id = ids[5],
            ServerMessage::Causes(causes) => causes.id = ids[6],
            _ => {}
        }
        let mut effects = update(&mut model, Msg::Server(message), *at);
        effects.extend(update(&mut model, Msg::Tick, *at));
        for effect in effects {
            match effect {
                Effect::Send(ClientMessage::View(view)) => ids[0] = view.id,
                Effect::Send(ClientMessage::Tree { view: Some(view) }) => ids[1] = view.id,
                Effect::Send(ClientMessage::Engines { view: Some(view) }) => ids[2] = view.id,
                Effect::Send(ClientMessage::Time { view: Some(view) }) => ids[3] = view.id,
                Effect::Send(ClientMessage::Stores { view: Some(view) }) => ids[4] = view.id,
                Effect::Send(ClientMessage::Topics { view: Some(view) }) => ids[5] = view.id,
                Effect::Send(ClientMessage::Causes { view: Some(view) }) => ids[6] = view.id,
                _ => {}
            }
        }
    }
    model
}

/// Returns the lines of a screen after a tape that differ from the live one.
fn differences(mut model: Model, live: &Fixture) -> Vec<String> {
    let tab = model.tab();
    update(&mut model, Msg::Tick, live.now);
    let pairs = [lines(&screen(&model)), live.text()];
    let [then, now] = pairs.each_ref().map(|text| text.lines());
    then.zip(now).filter(|(then, now)| then != now).map(|(then, now)| format!("{tab:?}:\n{then}\n{now}")).collect()
}

/// Delivers a tape whose first part is disturbed.
fn delivered(tape: &[Recorded], fates: &[Fate]) -> Vec<Recorded> {
    let end = tape.last().map_or(Duration::ZERO, |last| last.at);
    let calm = end.saturating_sub(Duration::from_millis(100 * ORDERLY as u64));
    let mut arrivals: Vec<(usize, Recorded)> = Vec::new();
    for (at, recorded) in tape.iter().enumerate() {
        let is_hello = matches!(recorded.message, ServerMessage::Hello(_));
        let fate = fates.get(at % fates.len()).filter(|_| recorded.at < calm && !is_hello);
        match fate {
            None | Some(Fate::Arrives) => arrivals.push((at, recorded.clone())),
            Some(Fate::IsLost) => {}
            Some(Fate::IsRepeated) => arrivals.extend([(at, recorded.clone()), (at, recorded.clone())]),
            Some(Fate::IsLate(by)) => arrivals.push((at + by, recorded.clone())),
        }
    }
    arrivals.sort_by_key(|(at, _)| *at);
    // Time goes on, whatever a message says.
    let mut now = Duration::ZERO;
    arrivals
        .into_iter()
        .map(|(_, recorded)| {
            now = now.max(recorded.at);
            Recorded { at: now, ..recorded }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn lost_repeated_and_late_messages_end_in_the_same_screen(
        fates in proptest::collection::vec(fate(), 61..67),
    ) {
        for tab in TABS {
            let (tape, live) = session(tab);

            let differences = differences(received(tab, &delivered(&tape, &fates)), &live);

            prop_assert!(differences.is_empty(), "{}", differences.join("\n"));
        }
    }
}

#[test]
fn a_replayed_session_ends_in_the_screens_of_the_live_one() {
    for &tab in Tab::ALL {
        let (tape, live) = session(tab);
        let file: Vec<String> = tape.iter().map(line).collect();

        let differences = differences(play(start(tab), &read(&file.join("\n")).unwrap()), &live);

        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
