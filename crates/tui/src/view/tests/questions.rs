//! The path of each question of an operator leads to a screen that answers it, from any view.

use super::*;
use crate::model::input::keymap::KeyMap;
use crate::model::input::questions::QUESTIONS;

/// Texts that the answer to each question contains, in the order of the questions.
const ANSWERS: [&[&str]; 8] = [
    &["by cpu ▼"],
    &["by mailbox length ▼", "in/s  out/s", "from 31 %", "http_request"],
    &["disk full", "kv::Disk::write"],
    &["what changed in 1m00", "mailboxes"],
    &["memory by kind", "resident"],
    &["READY", "OLDEST", "NOW", "FOR"],
    &["handled", "p99"],
    &["who waits for whom"],
];

#[test]
fn three_keys_lead_from_any_view_to_the_answer_of_each_question() {
    for &tab in Tab::ALL {
        for size in [USUAL, LARGE] {
            let start = busy(tab, size, false);
            for (question, answer) in QUESTIONS.iter().zip(ANSWERS) {
                let (model, demo) = (start.model.clone(), start.demo.clone());
                let mut watched = Fixture { model, demo, now: start.now };
                for key in question.keys(&KeyMap::default()) {
                    watched.press(if key == "enter" { "\n" } else { &key }).pass(2);
                }

                let text = watched.text();
                for expected in answer {
                    assert!(text.contains(expected), "{}: no {expected:?} on {tab:?}:\n{text}", question.text);
                }
            }
        }
    }
}
