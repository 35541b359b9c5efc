//! Screen snapshots at the sizes that matter, and checks that no other size panics.

use std::time::Duration;

use rusm_protocol::{ClientMessage, Hello, ServerMessage};

use crate::demo::Demo;
use crate::model::input::key::{Key, KeyCode, Mouse, MouseKind, Size};
use crate::model::message::{Effect, Fault, LinkEvent, Msg};
use crate::model::tab::Tab;
use crate::model::update::update;
use crate::model::{Capabilities, Model, Start};
use crate::once::lines;
use crate::replay::screen;

mod details;
mod disorder;
mod marks;
mod nodes;
mod overlays;
mod questions;
mod results;

const SMALL: Size = Size::new(60, 15);
const USUAL: Size = Size::new(80, 24);
const LARGE: Size = Size::new(140, 45);

/// A model attached to a demo node, with a simulated clock.
struct Fixture {
    model: Model,
    demo: Demo,
    now: Duration,
}

impl Fixture {
    fn new(start: Start) -> Self {
        let mut watched = Self { model: Model::new(start), demo: Demo::new(1), now: Duration::from_secs(40) };
        watched.feed(Msg::Link(LinkEvent::Connected));
        let hello = watched.demo.hello();
        watched.feed(Msg::Server(hello));
        watched
    }

    fn feed(&mut self, msg: Msg) {
        for effect in update(&mut self.model, msg, self.now) {
            if let Effect::Send(message) = effect {
                for answer in self.demo.receive(message, self.now) {
                    self.feed(Msg::Server(answer));
                }
            }
        }
    }

    /// Advances the clock in steps of a tenth of a second.
    fn pass(&mut self, seconds: u64) -> &mut Self {
        for _ in 0..seconds * 10 {
            self.now += Duration::from_millis(100);
            for message in self.demo.poll(self.now) {
                self.feed(Msg::Server(message));
            }
            self.feed(Msg::Tick);
        }
        self
    }

    fn press(&mut self, keys: &str) -> &mut Self {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                c => KeyCode::Char(c),
            };
            self.feed(Msg::Key(Key::plain(code)));
        }
        self
    }

    fn text(&self) -> String {
        lines(&screen(&self.model))
    }
}

fn busy(tab: Tab, size: Size, ascii: bool) -> Fixture {
    let capabilities = Capabilities { ascii, color: true };
    let mut watched = Fixture::new(Start { tab, size, capabilities, demo: true, ..Start::default() });
    watched.pass(30);
    watched
}

fn bare(size: Size) -> Model {
    Model::new(Start { size, target: "unix:/run/rusm/kv.sock".to_owned(), ..Start::default() })
}

#[test]
fn every_view_at_every_size() {
    for &tab in Tab::ALL {
        for size in [SMALL, USUAL, LARGE] {
            let name = format!("{}_{}x{}", tab.id(), size.width, size.height);
            insta::assert_snapshot!(name, busy(tab, size, false).text());
        }
    }
}

#[test]
fn every_view_in_ascii() {
    for &tab in Tab::ALL {
        let text = busy(tab, USUAL, true).text();

        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(format!("{}_ascii", tab.id()), text);
    }
}

#[test]
fn a_node_that_says_nothing_yet() {
    insta::assert_snapshot!(lines(&screen(&bare(USUAL))));
}

#[test]
fn a_node_without_scenarios_profiles_or_processes() {
    for &tab in Tab::ALL {
        let mut model = Model::new(Start { tab, size: USUAL, ..Start::default() });
        let hello = Hello {
            scenarios: Vec::new(),
            profiles: Vec::new(),
            instance_capacity: 0,
            protocol_version: 1,
            role: rusm_protocol::Role::Observe,
            node: rusm_protocol::NodeInfo { name: "app".to_owned(), build: "debug".to_owned(), ..Default::default() },
        };
        update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
        let unknown = lines(&screen(&model));
        assert!(unknown.contains('◌') && !unknown.contains('●'), "not live before the greeting: {unknown}");
        update(&mut model, Msg::Server(ServerMessage::Hello(Box::new(hello))), Duration::ZERO);
        update(&mut model, Msg::Server(ServerMessage::Tick { frame: Box::default() }), Duration::ZERO);

        insta::assert_snapshot!(format!("{}_empty", tab.id()), lines(&screen(&model)));
    }
}

#[test]
fn a_lost_connection_lies_over_the_last_frame() {
    let mut watched = busy(Tab::Node, USUAL, false);
    let reason = "nothing listens at unix:/run/rusm/kv.sock: is the node running?".to_owned();
    watched.feed(Msg::Link(LinkEvent::Lost {
        reason,
        fault: Fault::Connection,
        attempt: 2,
        retry_in: Duration::from_millis(1200),
    }));

    insta::assert_snapshot!(watched.text());
}

#[test]
fn a_short_notice_leaves_the_view_whole() {
    let mut watched = busy(Tab::Topics, USUAL, false);
    let before = watched.text();

    watched.feed(Msg::Server(ServerMessage::Error {
        message: "no process <0.9.1>".to_owned(),
        code: rusm_protocol::ErrorCode::Unknown,
        id: None,
    }));

    let text = watched.text();
    let body = |text: &str| text.lines().take(23).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&text), body(&before));
    assert!(text.lines().last().unwrap().ends_with("✗ no process <0.9.1>"), "{text}");
    assert!(text.contains("? help"), "{text}");
}

#[test]
fn a_supervisor_without_a_name_is_shown_by_its_pid() {
    let mut watched = busy(Tab::Tree, LARGE, false);
    let mut rows = watched.model.tree.rows.clone().unwrap();
    (rows.rows[0].name, rows.rows[0].pid) = (String::new(), Some("<0.2.2>".to_owned()));
    let branch = rows.rows[0].branch.as_mut().unwrap();
    (branch.running, branch.waiting, branch.ended) = (1, 0, 0);
    (branch.used, branch.allowed, branch.period_ms) = (2, 100, 10_000);
    watched.press("d");
    watched.model.tree.rows = Some(rows);

    let text = watched.text();
    let row = text.lines().find(|line| line.contains("Supervisor · 1 child"));
    assert!(row.is_some_and(|row| row.contains("<0.2.2>")), "{text}");
    assert!(text.contains("POLICY") && text.contains("BUDGET") && text.contains("  2 of 100, 10 s"), "{text}");
}

#[test]
fn what_lies_over_the_process_table() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    insta::assert_snapshot!("filter", watched.press("/name=kv*").pass(1).text());
    watched.press("\njj");
    insta::assert_snapshot!("kill", watched.press("x").pass(1).text());
    watched.press("q");
    assert!(watched.press("X").text().contains("of name=kv*?"), "{}", watched.text());
    watched.press("q");
    insta::assert_snapshot!("sort_menu", watched.press("s").text());
    watched.press("q");
    insta::assert_snapshot!("help", watched.press("?").text());
    assert!(watched.press("q5?").text().contains("next lint"));
    assert!(watched.press("jjjjjjjj").text().contains("half a page down"), "{}", watched.text());
    watched.press("q2");
    insta::assert_snapshot!("run_dialog", watched.press("P\t").text());
}

#[test]
fn what_is_refused_is_shown_where_it_was_asked_for() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    insta::assert_snapshot!("filter_refused", watched.press("/foo>>1").pass(1).text());
    insta::assert_snapshot!("filter_not_kept", watched.press("\n").pass(1).text());

    let mut model = busy(Tab::Bench, USUAL, false).press("P").model.clone();
    update(&mut model, Msg::Key(Key::plain(KeyCode::Enter)), Duration::from_secs(70));
    let message =
        "parameter spawners of spawn-storm: \"zz\" is no number from 1 to 64, and auto is not a word of this node";
    let id = Some(1);
    let refusal = ServerMessage::Error { message: message.to_owned(), code: rusm_protocol::ErrorCode::OutOfRange, id };
    update(&mut model, Msg::Server(refusal), Duration::from_secs(71));
    insta::assert_snapshot!("run_refused", lines(&screen(&model)));
}

#[test]
fn a_long_notice_is_shown_in_full_and_the_keys_stay() {
    let mut watched = busy(Tab::Node, USUAL, false);
    let known: Vec<String> = (0..20).map(|n| format!("scenario-{n}")).collect();
    let message = format!("unknown scenario \"x\": expected one of {}", known.join(", "));

    watched.feed(Msg::Server(ServerMessage::Error { message, code: rusm_protocol::ErrorCode::Unknown, id: None }));

    insta::assert_snapshot!(watched.text());
}

#[test]
fn a_scenario_that_the_card_has_no_room_for_is_read_in_full() {
    let mut watched = busy(Tab::Bench, USUAL, false);
    let mut hello = watched.model.hello.clone().unwrap();
    hello.scenarios[0].details = vec![
        "One operation is a process spawned, run, exited and reaped: it counts when its slot is free again.".to_owned(),
        "Latency is from before the spawn call to the child's first instruction.".to_owned(),
    ];
    watched.feed(Msg::Server(ServerMessage::Hello(hello)));

    insta::assert_snapshot!("bench_card", watched.text());
    insta::assert_snapshot!("bench_about", watched.press("i").text());
}

#[test]
fn rows_that_are_off_and_a_screen_that_is_paused() {
    let mut watched = busy(Tab::Processes, USUAL, false);

    insta::assert_snapshot!(watched.press("d ").text());
}

#[test]
fn two_runs_are_compared() {
    let mut watched = busy(Tab::Bench, LARGE, false);
    watched.press("x").pass(1);
    watched.press("pr").pass(6);

    insta::assert_snapshot!(watched.text());
}

#[test]
fn a_machine_of_many_cores_fits() {
    let mut watched = busy(Tab::Node, USUAL, false);
    let mut frame = watched.model.frame.clone().unwrap();
    frame.observer.scheduler_load = (0..192u8).map(|n| f32::from(n) / 192.0).collect();
    watched.feed(Msg::Server(ServerMessage::Tick { frame }));

    insta::assert_snapshot!(watched.text());
}

#[test]
fn a_terminal_that_is_too_small_says_so() {
    let mut model = bare(Size::new(59, 15));
    assert!(lines(&screen(&model)).starts_with("terminal too small: need 60x15, have 59x15"));

    update(&mut model, Msg::Resize(Size::new(20, 5)), Duration::ZERO);

    assert_eq!(lines(&screen(&model)).trim_end(), "terminal too small:\nneed 60x15, have\n20x5");
    update(&mut model, Msg::Resize(Size::new(7, 9)), Duration::ZERO);
    assert_eq!(lines(&screen(&model)).trim_end(), "termina\nl too\nsmall:\nneed\n60x15,\nhave\n7x9");
}

#[test]
fn no_size_panics() {
    for &tab in Tab::ALL {
        let mut watched = busy(tab, LARGE, false);
        if tab == Tab::Processes {
            watched.press("jjj\n").pass(1);
        }
        let overlays = ["?", "s", "P", "x"].iter().cycle();
        let widths = (0..=200).step_by(19).chain([58, 59, 60, 61, 79, 80, 109, 110, 111]);
        let heights = (0..=200).step_by(17).chain([14, 15, 16, 17, 20, 21, 32, 33]);
        let sizes = widths.flat_map(|width| heights.clone().map(move |height| Size::new(width, height)));
        for (size, overlay) in sizes.zip(overlays) {
            watched.feed(Msg::Resize(size));
            screen(&watched.model);
            watched.press(overlay);
            screen(&watched.model);
            watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
        }
    }
}

#[test]
fn a_frame_that_lags_behind_a_resize_does_not_panic() {
    let watched = busy(Tab::Node, LARGE, false);
    for (width, height) in [(60, 15), (80, 24), (200, 100), (100, 20)] {
        let backend = ratatui::backend::TestBackend::new(width, height);
        let Ok(mut terminal) = ratatui::Terminal::new(backend);

        let Ok(_) = terminal.draw(|frame| super::draw(frame, &watched.model));
    }
}

#[test]
fn made_up_data_is_labelled_on_every_view() {
    for &tab in Tab::ALL {
        for size in [SMALL, USUAL, LARGE] {
            assert!(busy(tab, size, false).text().contains("DEMO"), "{tab:?} at {size:?}");
        }
    }
}

#[test]
fn without_colours_no_cell_has_one() {
    let capabilities = Capabilities { ascii: false, color: false };
    let mut watched = Fixture::new(Start { capabilities, size: LARGE, ..Start::default() });
    watched.pass(5);

    let screen = screen(&watched.model);

    let plain = ratatui::style::Color::Reset;
    assert!(screen.content().iter().all(|cell| cell.fg == plain && cell.bg == plain));
}

#[test]
fn the_watch_rate_is_asked_for_once_connected() {
    let mut model = bare(USUAL);

    let effects = update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);

    assert_eq!(effects, [Effect::Send(ClientMessage::Watch { frame_hz: 10.0 })]);
}

#[test]
fn charts_of_five_and_ten_minutes_have_a_ruler() {
    let mut watched = busy(Tab::Node, LARGE, false);
    assert!(watched.text().contains("-30 s"), "{}", watched.text());

    watched.pass(300).press("-");
    assert!(watched.text().contains("-4 min"), "{}", watched.text());

    insta::assert_snapshot!("chart_of_ten_minutes", watched.press("-").text());
}

#[test]
fn another_node_is_named_before_keys_reach_it() {
    let mut watched = busy(Tab::Node, USUAL, false);
    let mut hello = watched.model.hello.clone().unwrap();
    (hello.node.name, hello.node.os_pid) = ("shop".to_owned(), 812);

    watched.feed(Msg::Server(ServerMessage::Hello(hello)));

    insta::assert_snapshot!("another_node", watched.text());
}

#[test]
fn a_child_is_restarted_and_the_own_node_ended_only_after_a_question() {
    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("jjjR").pass(1);
    insta::assert_snapshot!("ask_restart", watched.text());
    watched.press("n");
    assert!(watched.model.overlay.is_none());

    let start = Start { size: USUAL, demo: true, owns_node: true, ..Start::default() };
    let mut own = Fixture::new(start);
    own.pass(2).press("q");
    insta::assert_snapshot!("ask_end", own.text());
    let quits = update(&mut own.model, Msg::Key(Key::char('y')), Duration::from_secs(9));
    assert!(quits.iter().any(|effect| matches!(effect, Effect::Quit(_))), "{quits:?}");
}

#[test]
fn a_followed_process_stays_in_view_wherever_the_order_moves_it() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("jjF").pass(1);
    let pid = watched.model.table.selected().map(str::to_owned).unwrap();

    for key in ["M", "A", "P", "Q"] {
        watched.press(key).pass(3);
        assert_eq!(watched.model.table.selected(), Some(&*pid), "sorted by {key}");
        assert!(watched.text().contains(&pid), "sorted by {key}: {}", watched.text());
    }
    assert!(watched.model.table.follow);
    watched.press("/name=nobody\n").pass(3);
    assert!(!watched.model.table.follow, "a filter excludes it");
}

#[test]
fn the_scrollbar_is_dragged_to_the_end_of_a_million() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    let drag = |y| Msg::Mouse(Mouse { kind: MouseKind::Drag, x: 79, y });

    watched.feed(drag(21));
    watched.pass(1);
    assert_eq!(watched.model.table.top, 1_000_000 - u64::from(watched.model.visible_rows()));
    insta::assert_snapshot!("processes_end", watched.text());
    watched.feed(drag(3));
    watched.pass(1);
    assert_eq!(watched.model.table.top, 0);
}

#[test]
fn topics_are_sorted_by_a_figure_and_lead_to_the_process_that_holds_them_up() {
    let mut watched = busy(Tab::Topics, USUAL, false);
    let first = |watched: &Fixture| watched.model.topics.row(0).map(|topic| topic.name.clone());
    assert_eq!(first(&watched).as_deref(), Some("orders"), "the fullest one");
    insta::assert_snapshot!("topics_by_fill", watched.text());

    watched.press("ssssss").pass(1);
    assert_eq!(first(&watched).as_deref(), Some("audit"), "by name");
    watched.press("s").pass(1);
    let pid = watched.model.topics.row(0).and_then(|topic| topic.receivers[1].slowest.clone());
    watched.press("g\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), pid);
}
