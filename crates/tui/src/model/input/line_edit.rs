//! A single-line text field with the usual readline keys.

use crate::model::input::key::{Key, KeyCode};

/// Maximum length of the text, in characters.
const TEXT_MAX: usize = 256;

/// A text field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEdit {
    chars: Vec<char>,
    cursor: usize,
    /// True while the text is an unedited suggestion, which typing replaces.
    suggested: bool,
}

impl LineEdit {
    /// Creates a field that contains `text`, with the cursor at its end.
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().take(TEXT_MAX).collect();
        Self { cursor: chars.len(), chars, suggested: false }
    }

    /// Creates a field with a suggested value, which the user can keep, edit or overwrite.
    pub(crate) fn with_suggestion(text: &str) -> Self {
        Self { suggested: true, ..Self::new(text) }
    }

    /// Returns the text of the field.
    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Returns the number of characters before the cursor.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Inserts pasted text, without unprintable characters.
    pub(crate) fn insert(&mut self, text: &str) {
        if std::mem::take(&mut self.suggested) {
            *self = Self::default();
        }
        for c in text.chars().filter(|c| !c.is_control()) {
            if self.chars.len() < TEXT_MAX {
                self.chars.insert(self.cursor, c);
                self.cursor += 1;
            }
        }
    }

    /// Handles a key. Returns false if the field does not use it.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        match (key.code, key.ctrl) {
            (KeyCode::Char('a'), true) | (KeyCode::Home, _) => self.cursor = 0,
            (KeyCode::Char('e'), true) | (KeyCode::End, _) => self.cursor = self.chars.len(),
            (KeyCode::Char('b'), true) | (KeyCode::Left, _) => self.cursor = self.cursor.saturating_sub(1),
            (KeyCode::Char('f'), true) | (KeyCode::Right, _) => self.cursor = (self.cursor + 1).min(self.chars.len()),
            (KeyCode::Char('u'), true) => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            (KeyCode::Char('k'), true) => self.chars.truncate(self.cursor),
            (KeyCode::Char('w'), true) => self.erase_word(),
            (KeyCode::Backspace, _) | (KeyCode::Char('h'), true) => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.chars.remove(self.cursor);
                }
            }
            (KeyCode::Delete, _) | (KeyCode::Char('d'), true) => {
                if self.cursor < self.chars.len() {
                    self.chars.remove(self.cursor);
                }
            }
            (KeyCode::Char(c), false) => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => return false,
        }
        self.suggested = false;
        true
    }

    /// Replaces the characters from `start` to the cursor.
    pub(crate) fn replace_before(&mut self, start: usize, text: &str) {
        let start = start.min(self.cursor);
        self.chars.drain(start..self.cursor);
        self.cursor = start;
        self.suggested = false;
        self.insert(text);
    }

    fn erase_word(&mut self) {
        let head = &self.chars[..self.cursor];
        let word_end = head.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
        let word_start = head[..word_end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
        self.chars.drain(word_start..self.cursor);
        self.cursor = word_start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[Key]) -> String {
        let mut field = LineEdit::new("name=kv and mailq>0");
        for &key in keys {
            field.press(key);
        }
        field.text()
    }

    #[test]
    fn a_word_is_erased_with_the_blanks_behind_it() {
        assert_eq!(typed(&[Key::ctrl('w')]), "name=kv and ");
        assert_eq!(typed(&[Key::ctrl('w'), Key::ctrl('w')]), "name=kv ");
    }

    #[test]
    fn text_goes_in_at_the_cursor() {
        assert_eq!(typed(&[Key::ctrl('a'), Key::char('!')]), "!name=kv and mailq>0");
    }

    #[test]
    fn erasing_in_an_empty_field_does_nothing() {
        assert_eq!(typed(&[Key::ctrl('u'), Key::plain(KeyCode::Backspace), Key::ctrl('w')]), "");
    }

    #[test]
    fn pasted_line_ends_are_dropped() {
        let mut field = LineEdit::default();

        field.insert("a\nb\u{1b}[31m");

        assert_eq!(field.text(), "ab[31m");
    }

    #[test]
    fn what_is_typed_takes_the_place_of_a_suggestion_that_nobody_has_touched() {
        let after = |keys: &[Key]| {
            let mut field = LineEdit::with_suggestion("1000");
            for key in keys {
                assert!(field.press(*key));
            }
            field.text()
        };
        let (two, end, back) = (Key::char('2'), Key::plain(KeyCode::End), Key::plain(KeyCode::Backspace));

        assert_eq!(after(&[]), "1000");
        assert_eq!(after(&[two, two]), "22");
        assert_eq!(after(&[end, two]), "10002");
        assert_eq!(after(&[back, two]), "1002");
    }
}
