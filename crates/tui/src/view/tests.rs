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
fn the_detail_pane_stands_below_or_beside_the_table() {
    for size in [USUAL, LARGE] {
        let mut watched = busy(Tab::Processes, size, false);
        watched.press("jjj\n").pass(1);

        insta::assert_snapshot!(format!("detail_{}x{}", size.width, size.height), watched.text());
    }
}

#[test]
fn a_process_in_full_leads_along_its_links_and_back() {
    for (size, ascii) in [(SMALL, false), (USUAL, false), (LARGE, false), (Size::new(97, 31), false), (USUAL, true)] {
        let mut watched = busy(Tab::Processes, size, ascii);
        watched.press("jjj\n").pass(1);
        watched.press("\n").pass(1);
        let signs = if ascii { "_ascii" } else { "" };
        insta::assert_snapshot!(format!("process_{}x{}{signs}", size.width, size.height), watched.text());
    }
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("jjj\n").pass(1);
    watched.press("\n").pass(1);
    let first = watched.model.detail.clone().unwrap();

    watched.press("jj").pass(1);
    let wanted = watched.model.detail.as_ref().unwrap().links()[2].clone();
    watched.press("\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), Some(wanted));
    assert!(watched.text().contains("1 back"), "{}", watched.text());

    watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
    let pane = watched.pass(1).model.detail.as_ref().unwrap();
    assert_eq!((&pane.pid, pane.at, pane.in_full), (&first.pid, 2, true));
}

#[test]
fn the_process_that_holds_up_others_is_one_key_away_on_time_and_topics() {
    for tab in [Tab::Time, Tab::Topics] {
        let mut watched = busy(tab, USUAL, false);

        watched.press("\n").pass(1);
        assert_eq!(watched.model.tab, Tab::Processes, "{tab:?}: {}", watched.text());

        watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
        assert_eq!(watched.model.tab, tab);
    }
}

#[test]
fn a_process_that_has_ended_says_why() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("jjj\n").pass(1);
    watched.press("\nx").pass(1);
    watched.press("12\n").pass(2);

    let text = watched.text();
    assert!(text.contains("no route for 17") && text.contains("LAST FIGURES"), "{text}");
    insta::assert_snapshot!("process_ended", text);
}

#[test]
fn a_cause_is_read_in_full() {
    for (size, ascii) in [(USUAL, false), (USUAL, true)] {
        let mut watched = busy(Tab::Events, size, ascii);
        watched.press("cco").pass(1);
        insta::assert_snapshot!(if ascii { "cause_ascii" } else { "cause_80x24" }, watched.text());
        watched.press("\n").pass(1);
        assert_eq!(watched.model.tab, Tab::Processes);
        watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
        assert_eq!(watched.model.tab, Tab::Events);
    }
}

#[test]
fn a_child_that_keeps_dying_is_seen_in_full() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Tree, size, ascii);
        watched.press("jj").pass(1);

        let capabilities = if ascii { "_ascii" } else { "" };
        insta::assert_snapshot!(format!("tree_child_{}x{}{capabilities}", size.width, size.height), watched.text());
    }
}

#[test]
fn a_hundred_thousand_children_are_scrolled_to_their_end_and_closed_again() {
    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("Gk\n").pass(1);
    insta::assert_snapshot!("tree_many", watched.press("G").pass(1).text());

    watched.press("kkh").pass(1);
    assert_eq!(watched.model.tree.selected_row().map(|row| row.name.as_str()), Some("sessions"));
    watched.press("h").pass(1);
    assert_eq!(watched.model.tree.total(), 17);
}

#[test]
fn a_worker_of_the_tree_is_looked_into_and_ended_after_a_question() {
    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("jjj").pass(1);
    let pid = watched.model.tree.selected_row().and_then(|row| row.pid.clone()).unwrap();

    assert!(watched.press("x").text().contains(&format!("end {pid} kv_index?")));
    watched.press("q\n");

    assert_eq!(watched.model.tab, Tab::Processes);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), Some(pid));
    watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
    assert_eq!((watched.model.tab, watched.model.detail.is_none()), (Tab::Tree, true));
}

#[test]
fn a_trap_is_read_with_its_backtrace_and_a_module_leads_to_its_processes() {
    let mut watched = busy(Tab::Wasm, USUAL, false);
    insta::assert_snapshot!("wasm_trap", watched.press("l\n").pass(1).text());

    watched.press("qhj\n").pass(1);
    assert_eq!((watched.model.tab, watched.model.table.filter.as_str()), (Tab::Processes, "module=counter"));
    insta::assert_snapshot!("wasm_guest", watched.press("j\n").pass(1).text());
}

#[test]
fn a_bucket_is_looked_into_page_by_page() {
    let mut watched = busy(Tab::Store, USUAL, false);
    watched.press("jj\n").pass(2);
    watched.press("j");
    insta::assert_snapshot!("store_keys", watched.text());

    watched.press("n").pass(2);
    assert!(watched.text().contains("page 2"));
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert!(watched.text().contains("Enter opens a bucket"));
}

#[test]
fn one_kind_of_memory_is_drawn_large() {
    let mut watched = busy(Tab::Sched, LARGE, false);
    watched.press("jjj").pass(1);
    insta::assert_snapshot!("sched_kind", watched.text());

    watched.press("g");
    assert!(watched.text().contains("│ resident"), "{}", watched.text());
}

#[test]
fn schedulers_of_a_large_machine_are_counted_beyond_the_rows_that_fit() {
    let mut watched = busy(Tab::Sched, USUAL, false);
    let mut schedulers = watched.model.sched.newest.clone().unwrap();
    let one = schedulers.schedulers[0].clone();
    schedulers.schedulers = (0..200).map(|number| rusm_protocol::SchedulerInfo { number, ..one.clone() }).collect();
    (schedulers.total, schedulers.idle) = (256, None);
    watched.feed(Msg::Server(ServerMessage::Schedulers(schedulers)));

    insta::assert_snapshot!("sched_many", watched.text());
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
    assert!(text.contains("Supervisor <0.2.2> · 1 child"), "{text}");
    assert!(text.contains("POLICY") && text.contains("BUDGET") && text.contains("  2 of 100, 10 s"), "{text}");
}

#[test]
fn overlays() {
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
    assert!(watched.press("q5?").text().contains("next lint") && watched.text().contains("half a page down"));
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
fn a_lint_leads_to_its_process() {
    let mut watched = busy(Tab::Events, LARGE, false);

    watched.press("\n").pass(1);

    assert_eq!(watched.model.tab(), Tab::Processes);
    insta::assert_snapshot!("lint_detail", watched.text());
}

#[test]
fn the_row_of_a_process_with_a_lint_is_marked() {
    let mut watched = busy(Tab::Processes, USUAL, false);

    watched.press("Q").pass(3);

    let text = watched.text();
    assert_eq!(text.lines().filter(|line| line.starts_with("│!")).count(), 1, "{text}");
    insta::assert_snapshot!("processes_marked", text);
}

#[test]
fn a_hidden_kind_of_lint_leaves_header_list_and_rows_and_comes_back() {
    let mut watched = busy(Tab::Events, USUAL, false);
    let shows = |watched: &Fixture| [" 1 lint ", "mailbox_growing  "].map(|text| watched.text().contains(text));

    assert_eq!(shows(&watched), [true, true]);
    watched.press("h").pass(9);
    assert_eq!(shows(&watched), [false, false]);
    watched.press("\n");
    assert_eq!(watched.model.tab(), Tab::Events, "there is nothing to go to");
    watched.press("H").pass(9);
    assert_eq!(shows(&watched), [true, true]);
}

#[test]
fn help_on_events_lists_the_keys_of_lints() {
    let text = busy(Tab::Events, LARGE, false).press("?").text();

    for (key, help) in [
        ("n", "select the next lint"),
        ("N", "select the previous lint"),
        ("h", "hide all lints of this kind"),
        ("H", "show the hidden lints"),
    ] {
        assert!(text.contains(&format!("  {key:<14}{help}")), "{key}: {text}");
    }
}

#[test]
fn an_event_is_selected_and_read_in_full() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Events, size, ascii);
        watched.press("jjjjjjj").pass(5);
        let name =
            |what: &str| format!("events_{what}_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" });

        insta::assert_snapshot!(name("selected"), watched.text());
        insta::assert_snapshot!(name("open"), watched.press("\n").pass(2).text());
        let pid = watched.model.events.opened().map(|(item, _)| item.processes()[0].1.to_owned());
        watched.press("1").pass(1);
        assert_eq!(watched.model.tab(), Tab::Processes);
        assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), pid);
    }
}

#[test]
fn the_past_is_marked_in_the_header_of_every_view() {
    for &tab in Tab::ALL {
        let mut watched = busy(tab, USUAL, false);

        watched.press("[[").pass(3);

        let text = watched.text();
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("PAST 22:1")), "{tab:?}: {text}");
        assert!(text.contains("(-"), "{text}");
    }
}

#[test]
fn lines_of_the_log_stand_between_the_events_and_are_filtered_by_level_and_text() {
    let mut watched = busy(Tab::Events, USUAL, false);

    insta::assert_snapshot!("events_log", watched.press("L").pass(3).text());
    watched.press("lll").pass(1);
    assert!(watched.text().contains("warn and above") && !watched.text().contains("is paid"));
    watched.press("ll/name~kv").pass(1);
    assert!(!watched.text().contains("ws_session"), "{}", watched.text());
    insta::assert_snapshot!("events_filter_refused", watched.press(" and knd=crash").pass(1).text());
    watched.press("\n");
    assert!(watched.model.events.filter.field.is_some(), "a filter with an error stays in the field");
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert!(watched.text().contains("ws_session"));
}

#[test]
fn the_palette_finds_lines_by_a_few_letters_and_runs_them() {
    let mut watched = busy(Tab::Node, USUAL, false);
    insta::assert_snapshot!("palette", watched.press(":").text());
    insta::assert_snapshot!("palette_found", watched.press("vto").text());
    watched.press("\n");
    assert_eq!(watched.model.tab(), Tab::Topics);

    watched.press(":filter mem>\n");
    assert!(watched.text().contains("a value is missing after mem>"), "{}", watched.text());
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    watched.press(":sort -age\n").pass(2);
    assert_eq!(watched.model.tab(), Tab::Processes);
    assert!(watched.text().contains("by age"), "{}", watched.text());
    watched.press(":goto <0.5>\n").pass(2);
    assert_eq!(watched.model.table.selected(), Some("<0.5.1>"));
    watched.press(":goto <0.17.1>\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.as_str()), Some("<0.17.1>"));
    insta::assert_snapshot!("palette_ascii", busy(Tab::Node, USUAL, true).press(":run").text());
}

#[test]
fn help_has_the_keys_of_the_view_the_commands_and_the_terms() {
    let mut watched = busy(Tab::Topics, LARGE, false);
    let top = watched.press("?").text();
    let rest = watched.press("jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj").text();

    assert!(top.contains("help: Topics") && rest.contains("commands, after :"), "{rest}");
    assert!(rest.contains("goto PID or NAME") && rest.contains("dead letter"), "{rest}");
}

#[test]
fn a_filter_is_completed_and_its_error_marked() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    insta::assert_snapshot!("filter_completed", watched.press("/m\t\t").pass(1).text());
    watched.press(">10k or st\t=w\t").pass(1);
    assert!(watched.text().contains("mailq>10k or state=waiting"), "{}", watched.text());
}

#[test]
fn who_waits_for_whom_is_listed_over_any_view_and_leads_to_the_process() {
    for (size, ascii) in [(SMALL, false), (USUAL, false), (USUAL, true), (LARGE, false)] {
        let mut watched = busy(Tab::Tree, size, ascii);
        watched.press("W").pass(1);
        watched.press("j");
        let text = watched.text();
        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(
            format!("waits_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" }),
            text
        );
    }

    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("W").pass(1);
    watched.press("jj\n");
    assert_eq!(watched.model.tab, Tab::Processes);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.as_str()), Some("<0.52.1>"));
    assert_eq!(watched.model.overlay, None);
}

#[test]
fn a_trace_runs_for_ten_seconds_and_is_filtered() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("j\nt").pass(3);
    insta::assert_snapshot!("trace_80x24", watched.text());
    watched.press("/send\n").pass(1);
    insta::assert_snapshot!("trace_filtered", watched.text());
    watched.pass(9);
    assert!(watched.text().contains("over: its time has passed"), "{}", watched.text());
    watched.press("t").pass(1);
    assert!(watched.text().contains("runs for "), "{}", watched.text());
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert_eq!(watched.model.overlay, None);

    for (size, ascii) in [(SMALL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Processes, size, ascii);
        watched.press("j\nt").pass(3);
        let text = watched.text();
        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(
            format!("trace_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" }),
            text
        );
    }
}

#[test]
fn an_instant_of_the_past_and_what_changed_in_the_minute_before() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Node, size, ascii);
        let name = format!("{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" });
        watched.pass(60);

        insta::assert_snapshot!(format!("past_{name}"), watched.press("{]]").pass(2).text());
        let changes = watched.press("D").pass(1).text();
        assert!(!ascii || changes.is_ascii(), "{changes}");
        insta::assert_snapshot!(format!("changes_{name}"), changes);
    }
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
    let first = |watched: &Fixture| watched.model.topics.topic_at(0).map(|topic| topic.name.clone());
    assert_eq!(first(&watched).as_deref(), Some("audit"));

    watched.press("s").pass(1);
    assert_eq!(first(&watched).as_deref(), Some("orders"), "the fullest one");
    insta::assert_snapshot!("topics_by_fill", watched.text());
    let pid = watched.model.topics.topic_at(0).and_then(|topic| topic.receivers[1].slowest.clone());
    watched.press("g\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), pid);
}
