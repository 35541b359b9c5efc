//! Questions of an operator, each with the keys that lead to its answer from any view: for the help and the README.

use rusm_protocol::Column;

use crate::model::input::keymap::KeyMap;
use crate::model::input::keys::{Action, Context, bindings};
use crate::model::tab::Tab;

/// Maximum number of keys of a path.
pub const KEYS_MAX: usize = 3;

/// A question, and the way to its answer.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The question, in lower case.
    pub text: &'static str,
    /// The actions that lead to the answer, each with its context.
    pub path: &'static [(Context, Action)],
    /// Place of the answer on the screen.
    pub answer: &'static str,
}

const fn show(tab: Tab) -> (Context, Action) {
    (Context::Global, Action::Show(tab))
}

/// All questions.
pub static QUESTIONS: [Question; 8] = [
    Question {
        text: "which process uses my CPU",
        path: &[show(Tab::Processes)],
        answer: "the first rows; ended processes are in the CPU view",
    },
    Question {
        text: "whose mailbox grows, and who sends to it",
        path: &[
            show(Tab::Processes),
            (Context::Processes, Action::SortBy(Column::MailboxLen)),
            (Context::Processes, Action::Open),
        ],
        answer: "the first row; the rows `in/s out/s` and `from`",
    },
    Question {
        text: "why did this crash, and how often",
        path: &[show(Tab::Events), (Context::Events, Action::Cause(1)), (Context::Events, Action::OpenCause)],
        answer: "count, reason, backtrace and last state of the cause",
    },
    Question {
        text: "what changed in the last minute",
        path: &[(Context::Global, Action::Changes)],
        answer: "figures, mailboxes, CPU and failures, before and now",
    },
    Question {
        text: "where is the memory",
        path: &[show(Tab::Sched)],
        answer: "kinds of memory by size, with their last minute",
    },
    Question {
        text: "which scheduler is blocked, and by whom",
        path: &[show(Tab::Sched)],
        answer: "the columns READY, OLDEST, NOW and FOR",
    },
    Question {
        text: "how late are messages handled",
        path: &[show(Tab::Node)],
        answer: "the column `handled` of the latency panel",
    },
    Question {
        text: "who waits for whom",
        path: &[(Context::Global, Action::Waits)],
        answer: "root causes first, with cycles marked",
    },
];

impl Question {
    /// Returns the keys of the path; an action without a key is left out.
    pub fn keys(&self, map: &KeyMap) -> Vec<String> {
        let key = |(context, action): &(Context, Action)| {
            let binding = bindings(*context).find(|binding| binding.action == *action)?;
            map.keys(binding).first().map(|key| key.text())
        };
        self.path.iter().filter_map(key).collect()
    }
}

/// Formats the questions as Markdown, for the README.
pub fn markdown() -> String {
    let mut out = String::from("| Question | Keys | Answer |\n|---|---|---|\n");
    for question in &QUESTIONS {
        let keys: Vec<String> = question.keys(&KeyMap::default()).iter().map(|key| format!("`{key}`")).collect();
        let row = format!("| {} | {} | {} |\n", question.text, keys.join(" "), question.answer);
        out.push_str(&row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_a_path_of_at_most_three_keys() {
        for question in &QUESTIONS {
            let keys = question.keys(&KeyMap::default());

            assert_eq!(keys.len(), question.path.len(), "{}: an action without a key", question.text);
            assert!((1..=KEYS_MAX).contains(&keys.len()), "{}: {keys:?}", question.text);
        }
    }
}
