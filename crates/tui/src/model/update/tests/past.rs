//! The past: the cursor moves all views, pausing loses nothing, and the present comes back whole.

use rusm_protocol::{EventInfo, Events, History, HistorySeries, Past, SortKey, Topics};

use super::*;

/// A recorded instant: a frame, processes in all columns that the tests need, and events.
fn instant(id: u32, at_ms: u64) -> Past {
    let frame = Frame { captured_at_ns: at_ms * 1_000_000, uptime_ms: at_ms, ..Frame::default() };
    let row = |slot: u64, mailq: u64| {
        vec![Cell::Text(format!("<0.{slot}.1>")), Cell::Text(format!("worker_{slot}")), Cell::Count(mailq)]
    };
    let rows = rusm_protocol::Rows {
        columns: vec![Column::Pid, Column::Name, Column::MailboxLen],
        rows: vec![row(1, 5), row(2, 900), row(3, 40)],
        total: 1_000,
        ..Default::default()
    };
    let events =
        Events { events: vec![EventInfo { at_ms, seq: at_ms, ..EventInfo::default() }], noted: 1, ..Events::default() };
    Past {
        id,
        at_ms,
        oldest_ms: 10_000,
        newest_ms: 100_000,
        messages: vec![
            ServerMessage::Tick { frame: Box::new(frame) },
            ServerMessage::Rows(rows),
            ServerMessage::Events(events),
        ],
        ..Past::default()
    }
}

fn tick(model: &mut Model, at_ms: u64) -> Vec<Effect> {
    let frame = Frame { captured_at_ns: at_ms * 1_000_000, uptime_ms: at_ms, ..Frame::default() };
    update(model, Msg::Server(ServerMessage::Tick { frame: Box::new(frame) }), Duration::ZERO)
}

/// A model with a newest frame of the hundredth second.
fn watching(tab: Tab) -> Model {
    let mut model = attached(tab);
    tick(&mut model, 100_000);
    model
}

fn asked(effects: &[Effect]) -> Option<(u32, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send(ClientMessage::Past(view)) => Some((view.id, view.at_ms)),
        _ => None,
    })
}

/// Answers the request among these effects.
fn answer(model: &mut Model, effects: &[Effect]) -> u64 {
    let (id, at_ms) = asked(effects).expect("an instant is requested");
    update(model, Msg::Server(ServerMessage::Past(instant(id, at_ms))), Duration::ZERO);
    at_ms
}

fn shown_ms(model: &Model) -> u64 {
    model.frame().unwrap().captured_at_ns / 1_000_000
}

#[test]
fn a_greeting_of_a_node_with_a_past_is_answered_by_a_request_for_its_figures() {
    let mut model = Model::new(Start::default());
    drop(update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO));

    let effects = update(&mut model, Msg::Server(Demo::new(1).hello()), Duration::ZERO);

    assert!(effects.iter().any(|effect| matches!(effect, Effect::Send(ClientMessage::History(_)))), "{effects:?}");
}

#[test]
fn the_cursor_moves_in_seconds_and_minutes_and_shows_what_was_recorded() {
    let mut model = watching(Tab::Node);

    let back = typed(&mut model, "[");
    assert_eq!(answer(&mut model, &back), 99_000);
    assert_eq!((shown_ms(&model), model.past.shown_ms), (99_000, Some(99_000)));
    let minute = update(&mut model, Msg::Key(Key::char('{')), Duration::from_secs(1));
    assert_eq!(answer(&mut model, &minute), 39_000);
    let forward = update(&mut model, Msg::Key(Key::char(']')), Duration::from_secs(2));
    assert_eq!(answer(&mut model, &forward), 40_000);
    let before_all = update(&mut model, Msg::Key(Key::char('{')), Duration::from_secs(3));
    assert_eq!(answer(&mut model, &before_all), 10_000, "not before the oldest instant");

    assert_eq!(model.events.page(9).items.len(), 1, "only what had happened then");
    assert_eq!(model.top.as_ref().unwrap().rows.len(), 3);
}

#[test]
fn the_present_goes_on_meanwhile_and_comes_back_whole() {
    for key in ["G", " "] {
        let mut model = watching(Tab::Node);
        let back = typed(&mut model, "[");
        answer(&mut model, &back);

        for second in 101..130 {
            tick(&mut model, second * 1000);
        }
        assert_eq!(shown_ms(&model), 99_000, "the screen stands still");
        typed(&mut model, key);

        assert_eq!((shown_ms(&model), model.paused, model.past.shown_ms), (129_000, false, None));
        let columns = model.histories.msgs.columns(129_000, 60_000, 60);
        assert_eq!(columns.iter().filter(|value| value.is_some()).count(), 30, "the chart has no gap");
    }
}

#[test]
fn what_the_views_showed_is_put_back_even_if_nothing_new_arrived() {
    let mut model = watching(Tab::Topics);
    model.topics.newest = Some(Topics { total: 7, ..Topics::default() });
    let before = model.topics.clone();
    let back = typed(&mut model, "[");
    answer(&mut model, &back);
    assert_eq!(model.topics.newest, None, "no topics were recorded");

    typed(&mut model, "G");

    assert_eq!(model.topics, before);
}

#[test]
fn pausing_loses_nothing() {
    let (mut paused, mut live) = (watching(Tab::Events), watching(Tab::Events));
    typed(&mut paused, " ");
    for second in 101..=140 {
        for model in [&mut paused, &mut live] {
            tick(model, second * 1000);
            let event = EventInfo { seq: second, ..EventInfo::default() };
            let events = Events { noted: second, events: vec![event], ..Events::default() };
            update(model, Msg::Server(ServerMessage::Events(events)), Duration::ZERO);
        }
    }

    typed(&mut paused, " ");

    assert_eq!(paused.histories, live.histories);
    assert_eq!(paused.frame, live.frame);
    assert_eq!((paused.events.page(99).items.len(), live.events.page(99).items.len()), (40, 40), "all of them");
}

#[test]
fn a_key_on_a_frozen_screen_shows_what_was_recorded_then() {
    let mut model = watching(Tab::Node);
    typed(&mut model, " ");

    let effects = typed(&mut model, "3");
    answer(&mut model, &effects);

    assert_eq!(model.table.rows.as_ref().unwrap().rows.len(), 3);
    model.table.sort = SortKey { key: Column::MailboxLen, desc: true };
    typed(&mut model, "/worker_");
    assert_eq!(model.table.pid_at(0).as_deref(), Some("<0.2.1>"), "sorted by this observer");
    typed(&mut model, "3");
    assert_eq!(model.table.matched(), 1);
    assert!(!model.table.is_stale(), "nothing is waited for");
}

#[test]
fn a_process_of_the_past_is_shown_in_detail_or_is_said_to_be_unknown() {
    let mut model = watching(Tab::Processes);
    let back = typed(&mut model, "[");
    answer(&mut model, &back);

    press_all(&mut model, &[Key::plain(KeyCode::Down), Key::plain(KeyCode::Enter)]);
    let pane = model.detail.as_ref().unwrap();
    assert!(pane.process.as_ref().is_some_and(|process| process.name.as_deref() == Some("worker_1")), "{pane:?}");

    model.detail.as_mut().unwrap().pid = "<0.77.1>".to_owned();
    typed(&mut model, "j");
    assert!(model.past.lacks_detail);
}

#[test]
fn a_filter_that_the_past_cannot_answer_is_refused_in_one_line() {
    let mut model = watching(Tab::Processes);
    let back = typed(&mut model, "[");
    answer(&mut model, &back);

    typed(&mut model, "/links>3");
    assert!(model.table.refused.as_ref().is_some_and(|reason| reason.contains("not recorded")));
    assert_eq!(model.table.matched(), 3, "the rows stay");
}

#[test]
fn a_node_without_a_recorder_says_so_and_the_screen_goes_on() {
    let mut model = watching(Tab::Node);
    model.hello.as_mut().unwrap().node.features.clear();

    let effects = typed(&mut model, "[");

    assert_eq!((asked(&effects), model.paused), (None, false));
    assert!(model.status.as_ref().is_some_and(|status| status.text.contains("records no past")));
}

#[test]
fn a_refusal_returns_to_the_present() {
    let mut model = watching(Tab::Node);
    typed(&mut model, "[");

    let refusal = Past { id: 1, refusal: Some("nothing is recorded yet".to_owned()), ..Past::default() };
    update(&mut model, Msg::Server(ServerMessage::Past(refusal)), Duration::ZERO);

    assert!(!model.paused && !model.past.is_on());
    assert_eq!(model.status.as_ref().map(|status| status.text.as_str()), Some("no past: nothing is recorded yet"));
}

#[test]
fn what_changed_is_requested_at_both_ends_of_a_minute() {
    let mut model = watching(Tab::Node);

    let after = typed(&mut model, "D");
    let (id, at_ms) = asked(&after).unwrap();
    assert_eq!(at_ms, u64::MAX, "the newest instant");
    let before = update(&mut model, Msg::Server(ServerMessage::Past(instant(id, 100_000))), Duration::from_millis(100));
    assert_eq!(answer(&mut model, &before), 40_000);

    assert!(model.past.comparison.as_ref().is_some_and(|both| both.before.is_some() && both.after.is_some()));
    assert!(!model.paused, "the screen goes on");
    press_all(&mut model, &[Key::plain(KeyCode::Esc)]);
    assert_eq!(model.past.comparison, None);
}

#[test]
fn a_crash_before_this_observer_attached_is_found() {
    let mut model = watching(Tab::Events);
    let series = |name: &str, points: Vec<f64>| HistorySeries { name: name.to_owned(), points };
    let history = History {
        id: 1,
        at_ms: vec![20_000, 21_000, 22_000, 23_000],
        series: vec![series("crashed_total", vec![0.0, 0.0, 7.0, 7.0]), series("cpu_pct", vec![50.0; 4])],
        runs: Vec::new(),
    };
    update(&mut model, Msg::Server(ServerMessage::History(history)), Duration::ZERO);

    let effects = typed(&mut model, "(");

    assert_eq!(answer(&mut model, &effects), 23_000, "the first views with it");
    let chart = model.histories.cpu.columns(100_000, 600_000, 600);
    assert!(chart.iter().flatten().any(|cores| (*cores - 0.5).abs() < 1e-9), "charts have their past");
}

#[test]
fn another_node_ends_the_past_and_must_be_confirmed() {
    let mut model = watching(Tab::Processes);
    let back = typed(&mut model, "[");
    answer(&mut model, &back);
    let ServerMessage::Hello(mut hello) = Demo::new(1).hello() else { unreachable!("it says hello") };
    (hello.node.name, hello.node.os_pid) = ("shop".to_owned(), 812);

    connect(&mut model, hello);

    assert!(!model.past.is_on() && !model.paused && model.frame.is_none());
    assert!(matches!(&model.overlay, Some(Overlay::OtherNode { node, .. }) if node == "shop, pid 812"));
    typed(&mut model, "x");
    assert!(matches!(model.overlay, Some(Overlay::OtherNode { .. })), "no key reaches the other node");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert_eq!(model.overlay, None);
}

#[test]
fn a_node_that_has_restarted_is_announced() {
    let mut model = watching(Tab::Node);
    let ServerMessage::Hello(mut hello) = Demo::new(1).hello() else { unreachable!("it says hello") };
    hello.node.os_pid = 813;

    connect(&mut model, hello);

    assert_eq!(model.status.map(|status| status.text).as_deref(), Some("demo has restarted: pid 813, before pid 4242"));
}

#[test]
fn the_exported_span_ends_with_what_is_shown_and_is_as_long_as_the_charts() {
    let mut model = watching(Tab::Node);
    let span = |effects: &[Effect]| match effects {
        [Effect::ExportTrace { name, until_ms, last }] => (name.clone(), *until_ms, last.as_secs()),
        _ => panic!("{effects:?}"),
    };

    let now = span(&update(&mut model, Msg::Key(Key::ctrl('e')), Duration::ZERO));
    typed(&mut model, "-");
    let back = typed(&mut model, "[");
    let shown = answer(&mut model, &back);
    let then = span(&update(&mut model, Msg::Key(Key::ctrl('e')), Duration::ZERO));

    assert_eq!(now, ("rusm-trace-40s-100s.json".to_owned(), 100_000, 60));
    assert_eq!((then.1, then.2), (shown, 300));
}

#[test]
fn a_new_connection_in_the_past_requests_the_views_of_the_present_again() {
    let asks = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::Send(ClientMessage::Topics { view: Some(_) })))
    };
    let mut model = watching(Tab::Topics);
    update(&mut model, Msg::Tick, Duration::from_secs(1));
    let back = typed(&mut model, "[");
    answer(&mut model, &back);
    let hello = model.hello.clone().expect("it is attached");
    connect(&mut model, hello);

    let mut effects = typed(&mut model, "G");
    effects.extend(update(&mut model, Msg::Tick, Duration::from_secs(9)));

    assert!(asks(&effects), "{effects:?}");
}

#[test]
fn a_run_of_the_present_is_asked_about_in_the_past_and_on_a_frozen_screen() {
    let running = |paused| {
        let frame = Frame {
            captured_at_ns: 101_000_000_000,
            uptime_ms: 101_000,
            running: true,
            paused,
            scenario: Some("spawn-storm".to_owned()),
            ..Frame::default()
        };
        Msg::Server(ServerMessage::Tick { frame: Box::new(frame) })
    };
    let mut model = watching(Tab::Bench);
    let back = typed(&mut model, "[");
    answer(&mut model, &back);
    update(&mut model, running(false), Duration::from_secs(1));

    typed(&mut model, "x");

    assert!(matches!(&model.overlay, Some(crate::model::overlay::Overlay::Ask { .. })), "{:?}", model.overlay);
    let mut frozen = watching(Tab::Bench);
    typed(&mut frozen, " ");
    for paused in [true, false] {
        update(&mut frozen, running(!paused), Duration::from_secs(1));
        let effects = typed(&mut frozen, "z");
        let sent =
            |effect: &Effect| matches!(effect, Effect::Send(ClientMessage::Pause { paused: p, .. }) if *p == paused);
        assert!(effects.iter().any(sent), "{effects:?}");
    }
}
