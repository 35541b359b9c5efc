//! Screens of results on Bench.

use super::*;

fn named(name: &str, size: Size, ascii: bool) -> String {
    let capabilities = if ascii { "_ascii" } else { "" };
    format!("{name}_{}x{}{capabilities}", size.width, size.height)
}

const SIZES: [(Size, bool); 6] = [
    (SMALL, false),
    (USUAL, false),
    (Size::new(97, 31), false),
    (LARGE, false),
    (Size::new(200, 50), false),
    (USUAL, true),
];

#[test]
fn the_history_of_results_at_every_size() {
    for (size, ascii) in SIZES {
        let mut watched = busy(Tab::Bench, size, ascii);
        let text = watched.press("Hjm").pass(1).text();

        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(named("results_history", size, ascii), text);
    }
}

#[test]
fn a_result_of_cases_in_turn_and_a_search_with_its_curve() {
    for (size, ascii) in SIZES {
        let mut watched = busy(Tab::Bench, size, ascii);
        watched.press("H\n").pass(1);
        insta::assert_snapshot!(named("results_turns", size, ascii), watched.text());

        watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
        let text = watched.press("j\n").pass(1).text();
        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(named("results_search", size, ascii), text);
    }
}

#[test]
fn two_results_side_by_side() {
    let mut watched = busy(Tab::Bench, LARGE, false);

    insta::assert_snapshot!("results_compared", watched.press("HGmkkc").pass(1).text());
}

#[test]
fn a_run_that_has_ended_leaves_its_result_on_the_screen() {
    for size in [USUAL, LARGE] {
        let mut watched = busy(Tab::Bench, size, false);
        insta::assert_snapshot!(named("results_after_the_end", size, false), watched.press("x").pass(2).text());
    }
}

#[test]
fn a_scenario_is_found_by_its_name() {
    let mut watched = busy(Tab::Bench, USUAL, false);

    insta::assert_snapshot!("bench_find", watched.press("/pong").text());
    assert_eq!(watched.press("\n").model.bench.selected, 1);
    assert!(watched.press("/xyz").text().contains("no match"));
}

#[test]
fn a_question_before_a_run_says_why() {
    let mut watched = busy(Tab::Bench, USUAL, false);
    let mut frame = watched.model.frame.clone().unwrap();
    frame.others_alive = 12_345;
    watched.feed(Msg::Server(ServerMessage::Tick { frame }));

    insta::assert_snapshot!("bench_ask", watched.press("r").text());
}

#[test]
fn the_run_dialog_of_each_kind() {
    for size in [USUAL, LARGE] {
        let mut watched = busy(Tab::Bench, size, false);
        watched.press("e");
        for kind in ["run", "sweep", "saturate", "soak", "ab"] {
            insta::assert_snapshot!(named(&format!("run_dialog_{kind}"), size, false), watched.text());
            watched.feed(Msg::Key(Key::plain(KeyCode::Right)));
        }
    }
}

#[test]
fn no_size_of_a_result_panics() {
    let mut watched = busy(Tab::Bench, LARGE, false);
    for keys in ["H", "H\n", "HGmkkc"] {
        watched.press(keys).pass(1);
        for width in (0..=200).step_by(17) {
            for height in (0..=60).step_by(7) {
                watched.feed(Msg::Resize(Size::new(width, height)));
                screen(&watched.model);
            }
        }
        watched.feed(Msg::Resize(LARGE));
        for _ in 0..3 {
            watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
        }
        watched.press("2");
    }
}
