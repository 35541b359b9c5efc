//! Invariants that hold after any sequence of messages.

use proptest::prelude::*;
use rusm_protocol::{Cell, Column, Frame, Hello, Inspection, KillReason, ReachInfo, Role, Rows, ServerMessage};

use super::*;
use crate::demo::Demo;
use crate::model::input::key::{Mouse, MouseKind, Size};
use crate::model::message::{Fault, QuitReason};
use crate::model::panes::table::Selection;
use crate::model::{Model, Start};

mod another_node;
mod bench;
mod memory;
mod past;
mod pauses;
mod refusals;

fn key() -> impl Strategy<Value = Key> {
    let code = prop_oneof![
        6 => proptest::char::range(' ', '~').prop_map(KeyCode::Char),
        1 => (1..12u8).prop_map(KeyCode::F),
        4 => proptest::sample::select(vec![
            KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::BackTab, KeyCode::Backspace, KeyCode::Delete,
            KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Home, KeyCode::End,
            KeyCode::PageUp, KeyCode::PageDown,
        ]),
    ];
    (code, proptest::bool::weighted(0.1)).prop_map(|(code, ctrl)| Key { code, ctrl })
}

/// A page that answers the newest view, with pids from a small set so that orders overlap.
fn page() -> impl Strategy<Value = (u64, u64, Vec<u16>)> {
    (0..50u64, 0..60u64, proptest::collection::vec(0..60u16, 0..40))
}

fn rows_of(model: &Model, (offset, matched, pids): (u64, u64, Vec<u16>)) -> ServerMessage {
    let cells = |pid: u16| vec![Cell::Text(format!("<0.{pid}.1>"))];
    ServerMessage::Rows(Rows {
        id: model.subscription.sent().map_or(0, |view| view.id),
        total: matched.max(offset),
        matched,
        offset,
        columns: vec![Column::Pid],
        rows: pids.into_iter().map(cells).collect(),
        ..Rows::default()
    })
}

#[derive(Clone, Debug)]
enum Step {
    Msg(Msg),
    Page((u64, u64, Vec<u16>)),
    DemoSays(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let mouse = (any::<i8>(), 0..200u16, 0..60u16, any::<bool>()).prop_map(|(notches, x, y, click)| {
        let kind = if click { MouseKind::Click } else { MouseKind::Wheel(notches.into()) };
        Msg::Mouse(Mouse { kind, x, y })
    });
    let lost = (0..9u32).prop_map(|attempt| LinkEvent::Lost {
        reason: "gone".to_owned(),
        fault: Fault::Connection,
        attempt,
        retry_in: Duration::from_secs(1),
    });
    let error = any::<Option<u64>>().prop_map(|id| ServerMessage::Error {
        message: "no".to_owned(),
        code: rusm_protocol::ErrorCode::Failed,
        id,
    });
    prop_oneof![
        12 => key().prop_map(|key| Step::Msg(Msg::Key(key))),
        2 => mouse.prop_map(Step::Msg),
        1 => ".{0,20}".prop_map(|text| Step::Msg(Msg::Paste(text))),
        1 => (0..200u16, 0..100u16).prop_map(|(w, h)| Step::Msg(Msg::Resize(Size::new(w, h)))),
        2 => Just(Step::Msg(Msg::Tick)),
        1 => Just(Step::Msg(Msg::Link(LinkEvent::Connected))),
        1 => Just(Step::Msg(Msg::Link(LinkEvent::Connecting))),
        1 => lost.prop_map(|event| Step::Msg(Msg::Link(event))),
        1 => error.prop_map(|error| Step::Msg(Msg::Server(error))),
        1 => any::<u64>().prop_map(|id| Step::Msg(Msg::Server(ServerMessage::Ack { id }))),
        4 => page().prop_map(Step::Page),
        3 => (0..5_000u64).prop_map(Step::DemoSays),
    ]
}

/// Returns a model that is attached to a node.
fn attached(tab: Tab) -> Model {
    let mut model = Model::new(Start { tab, ..Start::default() });
    update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
    update(&mut model, Msg::Server(Demo::new(1).hello()), Duration::ZERO);
    model
}

/// Connects to a node that says `hello`.
fn connect(model: &mut Model, hello: Box<Hello>) {
    update(model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
    update(model, Msg::Server(ServerMessage::Hello(hello)), Duration::ZERO);
}

fn press_all(model: &mut Model, keys: &[Key]) -> Vec<Effect> {
    keys.iter().flat_map(|&key| update(model, Msg::Key(key), model.now)).collect()
}

fn typed(model: &mut Model, text: &str) -> Vec<Effect> {
    press_all(model, &text.chars().map(Key::char).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_model_stays_valid_and_drawable(steps in proptest::collection::vec(step(), 0..60)) {
        let mut model = attached(Tab::Node);
        let mut demo = Demo::new(2);
        for (n, step) in steps.into_iter().enumerate() {
            let now = Duration::from_millis(n as u64 * 60);
            let messages = match step {
                Step::Msg(msg) => vec![msg],
                Step::Page(page) => vec![Msg::Server(rows_of(&model, page))],
                Step::DemoSays(ms) => demo.poll(Duration::from_millis(ms)).into_iter().map(Msg::Server).collect(),
            };
            for msg in messages {
                let is_quit_key = matches!(&msg, Msg::Key(key) if [Key::char('q'), Key::ctrl('c')].contains(key));
                // The command palette has a line that quits, too.
                let is_quit_line = matches!(model.overlay, Some(Overlay::Palette(_)));
                let effects = update(&mut model, msg, now);
                let quits = effects.iter().any(|effect| matches!(effect, Effect::Quit(_)));
                prop_assert!(!quits || is_quit_key || is_quit_line);
                for effect in effects {
                    if let Effect::Send(message) = effect {
                        demo.receive(message, now);
                    }
                }
            }
            let table = &model.table;
            if table.rows.is_some() {
                prop_assert!(table.cursor < table.matched().max(1));
                prop_assert!(table.top <= table.matched().saturating_sub(1) || table.top == 0);
            }
            if let Selection::Here(pid) = &table.selection {
                prop_assert_eq!(table.pid_at(table.cursor), Some(pid.clone()));
            }
        }
        crate::replay::screen(&model);
    }

    #[test]
    fn the_selection_follows_its_pid_through_any_order(
        first in Just((0..40u16).collect::<Vec<_>>()).prop_shuffle(),
        then in Just((0..40u16).collect::<Vec<_>>()).prop_shuffle(),
        at in 0..15usize,
    ) {
        let mut model = attached(Tab::Processes);
        let page = rows_of(&model, (0, 40, first.clone()));
        update(&mut model, Msg::Server(page), Duration::ZERO);
        press_all(&mut model, &vec![Key::char('j'); at + 1]);

        let page = rows_of(&model, (0, 40, then));
        update(&mut model, Msg::Server(page), Duration::ZERO);

        let expected = format!("<0.{}.1>", first[at]);
        prop_assert_eq!(model.table.selected(), Some(expected.as_str()));
        prop_assert_eq!(model.table.pid_at(model.table.cursor), Some(expected));
    }

    #[test]
    fn text_fields_swallow_letters(text in "[a-zA-Z0-9?/ <>=*]{1,40}") {
        let mut model = attached(Tab::Processes);
        typed(&mut model, "/");

        let effects = typed(&mut model, &text);

        prop_assert!(effects.iter().all(|effect| matches!(effect, Effect::Send(_))));
        prop_assert_eq!(&model.table.filter, text.trim());
        prop_assert!(model.overlay.is_none() && model.tab == Tab::Processes);
    }
}

#[test]
fn control_c_leaves_the_field_and_types_nothing() {
    let mut model = attached(Tab::Processes);
    typed(&mut model, "/kv");

    let effects = press_all(&mut model, &[Key::ctrl('c')]);

    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Quit(_))));
    assert_eq!((model.table.filter.as_str(), model.table.field.is_none()), ("", true));
}

#[test]
fn an_applied_filter_is_cleared_by_escape() {
    let mut model = attached(Tab::Processes);
    typed(&mut model, "/kv");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert_eq!(model.table.filter, "kv");

    press_all(&mut model, &[Key::plain(KeyCode::Esc)]);

    assert_eq!(model.table.filter, "");
}

#[test]
fn leaving_the_rows_tells_the_node_to_stop_them() {
    let mut model = attached(Tab::Processes);

    let effects = typed(&mut model, "2");

    assert_eq!(effects[0], Effect::Send(ClientMessage::SetObserverDetail { enabled: false }));
}

#[test]
fn d_turns_the_row_stream_off_and_on() {
    let mut model = attached(Tab::Processes);

    let off = typed(&mut model, "d");
    let on = typed(&mut model, "d");

    assert_eq!(off, [Effect::Send(ClientMessage::SetObserverDetail { enabled: false })]);
    assert!(matches!(
        on[..],
        [Effect::Send(ClientMessage::SetObserverDetail { enabled: true }), Effect::Send(ClientMessage::View(_))]
    ));
}

#[test]
fn a_new_connection_is_told_everything_again() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    let lost = LinkEvent::Lost {
        reason: "gone".to_owned(),
        fault: Fault::Connection,
        attempt: 0,
        retry_in: Duration::from_secs(1),
    };
    update(&mut model, Msg::Link(lost), Duration::from_secs(1));

    let effects = update(&mut model, Msg::Link(LinkEvent::Connected), Duration::from_secs(2));

    let watched = effects.iter().any(|e| matches!(e, Effect::Send(ClientMessage::Watch { .. })));
    let detailed = effects.iter().any(|e| matches!(e, Effect::Send(ClientMessage::Detail { pid: Some(_) })));
    let viewed = effects.iter().any(|e| matches!(e, Effect::Send(ClientMessage::View(_))));
    assert!(watched && detailed && viewed, "{effects:?}");
}

#[test]
fn a_process_is_ended_only_after_the_question() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);

    let requested = typed(&mut model, "jx");
    let early = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    counted(&mut model, 3);
    let take_command = press_all(&mut model, &[Key::plain(KeyCode::Tab), Key::plain(KeyCode::Enter)]);

    assert!(matches!(&requested[..], [Effect::Send(ClientMessage::Inspect { view: Some(view) })] if view.reach));
    assert_eq!(early, [], "the node has not said yet what ends with it");
    let expected = ClientMessage::Kill { pid: "<0.1.1>".to_owned(), reason: KillReason::Kill, text: None, id: Some(1) };
    assert!(take_command.contains(&Effect::Send(expected)), "{take_command:?}");
}

/// Answers the request about the process that is about to be ended: `ends` others end with it.
fn counted(model: &mut Model, ends: u64) {
    let reach = Some(ReachInfo { ends, ..ReachInfo::default() });
    let answer = Inspection { id: 1, pid: "<0.1.1>".to_owned(), is_alive: true, reach, ..Inspection::default() };
    update(model, Msg::Server(ServerMessage::Inspection(Box::new(answer))), Duration::ZERO);
}

#[test]
fn the_number_is_typed_before_many_processes_end() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    typed(&mut model, "jx");
    counted(&mut model, 999_998);
    let kills = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Send(ClientMessage::Kill { .. })));

    let without = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    typed(&mut model, "99999");
    let wrong = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    typed(&mut model, "8");
    let right = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

    assert_eq!([kills(&without), kills(&wrong), kills(&right)], [false, false, true]);
    assert!(model.overlay.is_none());
}

#[test]
fn a_process_that_left_the_page_cannot_be_ended_by_mistake() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    typed(&mut model, "j");
    let page = rows_of(&model, (0, 3, vec![7, 8, 9]));
    update(&mut model, Msg::Server(page), Duration::ZERO);

    typed(&mut model, "x");

    assert!(model.overlay.is_none());
    assert!(model.status.is_some_and(|status| status.text.starts_with("<0.1.1> has left this page")));
}

#[test]
fn the_answer_to_a_command_is_shown_with_what_it_was_about() {
    let mut model = attached(Tab::Bench);
    typed(&mut model, "r");
    let refusal = ServerMessage::Error {
        message: "needs the control role".to_owned(),
        code: rusm_protocol::ErrorCode::Forbidden,
        id: Some(1),
    };

    update(&mut model, Msg::Server(refusal), Duration::from_secs(1));
    let shown = model.status.clone();
    update(&mut model, Msg::Tick, Duration::from_secs(12));

    assert_eq!(shown.map(|status| status.text).as_deref(), Some("run spawn-storm: needs the control role"));
    assert_eq!(model.status, None);
}

#[test]
fn a_parameter_that_was_changed_is_sent_and_the_others_are_not() {
    let mut model = attached(Tab::Bench);
    typed(&mut model, "P");
    press_all(&mut model, &[Key::plain(KeyCode::BackTab), Key::ctrl('u')]);
    typed(&mut model, "99");

    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

    let [Effect::Send(ClientMessage::Run { params, scenario, .. })] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(scenario, "spawn-storm");
    assert_eq!(params.iter().collect::<Vec<_>>(), [(&"live_cap".to_owned(), &"99".to_owned())]);
}

#[test]
fn a_newer_protocol_ends_the_observer() {
    let mut model = Model::new(Start::default());
    let hello = Hello {
        scenarios: Vec::new(),
        profiles: Vec::new(),
        instance_capacity: 0,
        protocol_version: rusm_protocol::PROTOCOL_VERSION + 1,
        role: Role::Observe,
        node: rusm_protocol::NodeInfo::default(),
    };

    let effects = update(&mut model, Msg::Server(ServerMessage::Hello(Box::new(hello))), Duration::ZERO);

    assert_eq!(effects, [Effect::Quit(QuitReason::NewerProtocol { theirs: rusm_protocol::PROTOCOL_VERSION + 1 })]);
}

#[test]
fn a_paused_screen_stands_still_and_asks_for_nothing() {
    let mut model = attached(Tab::Node);
    typed(&mut model, " ");
    model.take_dirty();

    let frame = Frame { seq: 9, ..Frame::default() };
    let effects =
        update(&mut model, Msg::Server(ServerMessage::Tick { frame: Box::new(frame) }), Duration::from_secs(1));

    assert!(effects.is_empty() && !model.take_dirty() && model.frame.is_none());
}

#[test]
fn scrolling_to_the_end_of_a_million_rows_asks_for_that_page() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 1_000_000, (0..54).collect()));
    update(&mut model, Msg::Server(page), Duration::ZERO);

    let effects = update(&mut model, Msg::Key(Key::char('G')), Duration::from_secs(1));

    let [Effect::Send(ClientMessage::View(view))] = &effects[..] else { panic!("{effects:?}") };
    assert!(view.window.offset + u64::from(view.window.len) >= 1_000_000);
    assert_eq!((model.table.cursor, &model.table.selection), (999_999, &Selection::Awaited));
}

#[test]
fn moving_inside_the_page_asks_the_node_for_nothing() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 1_000_000, (0..54).collect()));
    update(&mut model, Msg::Server(page), Duration::ZERO);

    let effects: Vec<Effect> =
        (1..20).flat_map(|n| update(&mut model, Msg::Key(Key::char('j')), Duration::from_secs(n))).collect();

    assert_eq!(effects, []);
}

#[test]
fn a_click_on_a_heading_sorts_and_on_a_row_selects() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 54, (0..54).collect()));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    let click = |x, y| Msg::Mouse(Mouse { kind: MouseKind::Click, x, y });

    update(&mut model, click(20, 3), Duration::ZERO);
    update(&mut model, click(20, 6), Duration::ZERO);

    assert_eq!(model.table.sort.key, Column::Name);
    assert_eq!(model.table.cursor, 2);
    assert_eq!(model.table.selected(), Some("<0.2.1>"));
}

#[test]
fn a_node_that_says_nothing_is_silent_after_three_seconds() {
    let mut model = Model::new(Start::default());
    let tick = || Msg::Server(ServerMessage::Tick { frame: Box::default() });
    drop(update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO));
    drop(update(&mut model, tick(), Duration::from_secs(1)));

    drop(update(&mut model, Msg::Tick, Duration::from_millis(3_900)));
    assert_eq!(model.silence(), None);
    drop(update(&mut model, Msg::Tick, Duration::from_secs(4)));
    assert_eq!(model.silence(), Some(Duration::from_secs(3)));
    drop(update(&mut model, tick(), Duration::from_secs(5)));
    assert_eq!(model.silence(), None);
}
