//! No bytes make the keyboard dead, and their meaning does not depend on how they are cut.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::model::input::key::{Key, KeyCode, Mouse, MouseKind};
use crate::model::message::Msg;
use crate::terminal::Background;

/// Returns the inputs of bytes that come at once, followed by silence.
fn inputs(bytes: &[u8]) -> Vec<Input> {
    let mut parser = Parser::default();
    let mut inputs = parser.feed(bytes);
    inputs.extend(parser.give_up());
    inputs
}

fn chars(text: &str) -> Vec<Input> {
    text.chars().map(|c| Input::key(KeyCode::Char(c))).collect()
}

fn wheel(notches: i32) -> Msg {
    Msg::Mouse(Mouse { kind: MouseKind::Wheel(notches), x: 1, y: 1 })
}

#[test]
fn keys_are_read_as_terminals_send_them() {
    let plain = [
        ("\r", KeyCode::Enter),
        ("\t", KeyCode::Tab),
        ("\u{7f}", KeyCode::Backspace),
        ("\u{1b}", KeyCode::Esc),
        ("\u{1b}[A", KeyCode::Up),
        ("\u{1b}OB", KeyCode::Down),
        ("\u{1b}[1;2C", KeyCode::Right),
        ("\u{1b}[D", KeyCode::Left),
        ("\u{1b}[H", KeyCode::Home),
        ("\u{1b}[7~", KeyCode::Home),
        ("\u{1b}OF", KeyCode::End),
        ("\u{1b}[4~", KeyCode::End),
        ("\u{1b}[3~", KeyCode::Delete),
        ("\u{1b}[5~", KeyCode::PageUp),
        ("\u{1b}[6~", KeyCode::PageDown),
        ("\u{1b}[Z", KeyCode::BackTab),
        ("\u{1b}OP", KeyCode::F(1)),
        ("\u{1b}[[B", KeyCode::F(2)),
        ("\u{1b}[15~", KeyCode::F(5)),
        ("\u{1b}[17~", KeyCode::F(6)),
        ("\u{1b}[21~", KeyCode::F(10)),
        ("\u{1b}[24~", KeyCode::F(12)),
        ("\u{1b}[97;2u", KeyCode::Char('A')),
        ("\u{1b}[9;2u", KeyCode::BackTab),
        ("\u{1b}[27u", KeyCode::Esc),
        ("ü", KeyCode::Char('ü')),
        ("💡", KeyCode::Char('💡')),
    ];
    for (text, code) in plain {
        assert_eq!(inputs(text.as_bytes()), [Input::key(code)], "{text:?}");
    }
    let up = Key { code: KeyCode::Up, ctrl: true };
    let control = [("\u{3}", Key::ctrl('c')), ("\0", Key::ctrl(' ')), ("\u{1f}", Key::ctrl('7')), ("\u{1b}[1;5A", up)];
    for (text, key) in control {
        assert_eq!(inputs(text.as_bytes()), [Input::Key(key)], "{text:?}");
    }
}

#[test]
fn keys_with_alt_and_releases_of_keys_are_not_used() {
    for text in ["\u{1b}x", "\u{1b}ü", "\u{1b}\r", "\u{1b}[1;3A", "\u{1b}[97;9u", "\u{1b}[97;1:3u"] {
        assert_eq!(inputs(text.as_bytes()), [], "{text:?}");
    }
}

#[test]
fn escape_is_a_key_only_before_silence_or_another_escape() {
    let mut parser = Parser::default();

    assert_eq!((parser.feed(b"\x1b"), parser.patience().is_some()), (vec![], true));
    assert_eq!((parser.feed(b"[A"), parser.patience()), (vec![Input::key(KeyCode::Up)], None));
    assert_eq!(parser.feed(b"\x1b\x1b"), [Input::key(KeyCode::Esc)]);
    assert_eq!(parser.give_up(), Some(Input::key(KeyCode::Esc)));
}

#[test]
fn the_mouse_clicks_drags_and_turns_its_wheel() {
    let mouse = |kind, x, y| vec![Input::Mouse(Mouse { kind, x, y })];

    assert_eq!(inputs(b"\x1b[<0;8;3M"), mouse(MouseKind::Click, 7, 2));
    assert_eq!(inputs(b"\x1b[<32;500;3M"), mouse(MouseKind::Drag, 499, 2));
    assert_eq!(inputs(b"\x1b[<81;1;1M"), mouse(MouseKind::Wheel(1), 0, 0));
    assert_eq!(inputs(b"\x1b[M`!\""), mouse(MouseKind::Wheel(-1), 0, 1));
    for unused in ["\u{1b}[<0;8;3m", "\u{1b}[<2;8;3M", "\u{1b}[<99999;8;3M", "\u{1b}[<;;M", "\u{1b}[M\u{1}!!"] {
        assert_eq!(inputs(unused.as_bytes()), [], "{unused:?}");
    }
}

#[test]
fn pasted_text_is_never_keys() {
    assert_eq!(inputs(b"\x1b[200~q\x1b[A\x03\x1b[201~k"), [vec![Input::pasted(b"q\x1b[A\x03")], chars("k")].concat());
    assert_eq!(inputs(b"\x1b[200~no end"), [Input::pasted(b"no end")]);

    let mut parser = Parser::default();
    assert_eq!(parser.feed(b"\x1b[200~no end"), []);
    assert_eq!(parser.feed(b"\x03"), [Input::Key(Key::ctrl('c'))], "alone, it is the key");
    assert_eq!(parser.feed(b"\x1b[200~"), []);
    for _ in 0..1000 {
        assert_eq!(parser.feed(&[b'x'; 1000]), []);
    }
    let Some(Input::Paste(text)) = parser.feed(b"\x1b[201~").pop() else { panic!("no text was pasted") };
    assert_eq!(text.len(), 64 * 1024);
}

#[test]
fn the_answer_for_the_background_may_come_in_pieces_and_end_with_a_bell() {
    let mut parser = Parser::default();

    assert_eq!(parser.feed(b"j\x1b]11;rgb:1c/"), chars("j"));
    assert_eq!(parser.feed(b"1c/1c\x07k"), [vec![Input::Background(Background::Dark)], chars("k")].concat());
    assert_eq!(inputs(b"\x1b]11;rgb:ffff/fafa/f0f0\x1b\\"), [Input::Background(Background::Light)]);
    assert_eq!(inputs(b"\x1b]11;rgb:ffff/fa"), [], "an answer without an end is not keys");
}

#[test]
fn answers_to_questions_that_were_not_asked_are_skipped_whole() {
    let answers = [
        "\u{1b}[?997;1n",
        "\u{1b}[?1;2c",
        "\u{1b}[?2026;2$y",
        "\u{1b}[>41;354;0c",
        "\u{1b}[12;40R",
        "\u{1b}[I\u{1b}[O",
        "\u{1b}]52;c;cQ==\u{1b}\\",
        "\u{1b}P>|term(1)q\u{1b}\\",
        "\u{1b}_Gi=1;OK\u{1b}\\",
    ];
    for answer in answers {
        assert_eq!(inputs(format!("{answer}j").as_bytes()), chars("j"), "{answer:?}");
    }
}

#[test]
fn keys_that_only_begin_like_a_sequence_are_keys() {
    assert_eq!(inputs(b"\x1b]q1"), chars("q1"));
    assert_eq!(inputs(b"\x1b[1\xe2\x82\xacq"), chars("€q"));
    assert_eq!(inputs(b"\xff\xc3q\xe2"), chars("q"));
}

#[test]
fn a_storm_of_wheel_events_is_one_message() {
    assert_eq!(coalesce(vec![wheel(1); 1000]), [wheel(1000)]);
}

#[test]
fn keys_are_never_merged() {
    let key = Msg::Key(Key::char('j'));

    assert_eq!(coalesce(vec![key.clone(), key.clone()]), [key.clone(), key]);
}

/// Returns random bytes, with many of those that sequences contain.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        proptest::sample::select(b"\x1b[]OP<?;:0123456789~uMmRn$q\\\x07\x03\xe2\x82".to_vec())
            .prop_map(|byte| vec![byte]),
        Just(b"\x1b[200~".to_vec()),
        Just(b"\x1b[201~".to_vec()),
    ];
    vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// Control-C has another meaning if it comes alone.
fn without_ctrl_c(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.retain(|byte| *byte != 3);
    bytes
}

proptest! {
    #[test]
    fn after_any_bytes_and_silence_a_key_is_a_key(bytes in bytes()) {
        let mut parser = Parser::default();
        parser.feed(&bytes);
        parser.give_up();

        prop_assert_eq!(parser.patience(), None);
        prop_assert_eq!(parser.feed(b"q"), chars("q"));
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut(bytes in bytes().prop_map(without_ctrl_c), cuts in vec(0..60_usize, 0..8)) {
        let mut parser = Parser::default();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut found = Vec::new();
        let mut at = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            found.extend(parser.feed(&bytes[at..cut]));
            at = cut;
        }
        found.extend(parser.give_up());

        prop_assert_eq!(found, inputs(&bytes));
    }

    #[test]
    fn what_is_held_is_bounded(bytes in bytes(), times in 1..2000_usize) {
        let mut parser = Parser::default();
        parser.feed(b"\x1b[");
        for _ in 0..times {
            parser.feed(&bytes);
        }

        prop_assert!(parser.held.len() <= 64 * 1024 + 6);
    }
}
