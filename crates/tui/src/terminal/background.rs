//! Asks the terminal for its background, and takes the answer out of the input.
//!
//! ```text
//!   QUERY ──▶ terminal ──▶ ESC ] 1 1 ; r g b : ffff / ffff / ffff ESC \   read as keys: alt-], 1, 1, ;, …, alt-\
//! ```
//!
//! Only the first frame waits for the answer, and not for long. Keys that only look like an answer are given back, so no
//! key is lost, and an answer that comes late never becomes keys.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::Background;

/// Asks for the background (OSC 11).
pub(crate) const QUERY: &[u8] = b"\x1b]11;?\x1b\\";

/// Beginning of an answer.
const ANSWER: &str = "11;";
/// Maximum length of an answer, in keys.
const ANSWER_MAX: usize = 32;

/// Finds the answer among the events of the terminal.
#[derive(Debug, Default)]
pub(crate) struct BackgroundQuery {
    /// True from the question to its answer.
    is_open: bool,
    /// Events that may be the beginning of an answer.
    held: Vec<Event>,
    text: String,
}

impl BackgroundQuery {
    pub(crate) fn asked() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Returns true until the terminal has answered.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes an answer out of a burst of events. Returns the other events, and the background.
    pub(crate) fn filter(&mut self, burst: Vec<Event>) -> (Vec<Event>, Option<Background>) {
        if !self.is_open {
            return (burst, None);
        }
        let mut others = Vec::with_capacity(burst.len());
        let mut background = None;
        for event in burst {
            match self.step(&event) {
                Step::Part => self.held.push(event),
                Step::End if self.text.starts_with(ANSWER) => {
                    background = parse(&self.text);
                    *self = Self::default();
                }
                Step::End | Step::Other => {
                    others.append(&mut self.held);
                    self.text.clear();
                    others.push(event);
                }
            }
        }
        (others, background)
    }

    fn step(&mut self, event: &Event) -> Step {
        let Event::Key(KeyEvent { code, modifiers, .. }) = event else { return Step::Other };
        let is_alt = modifiers.contains(KeyModifiers::ALT);
        let is_ctrl = modifiers.contains(KeyModifiers::CONTROL);
        match (code, self.held.is_empty()) {
            (KeyCode::Char(']'), true) if is_alt => Step::Part,
            // The end is ST, which is ESC \, or BEL, which is Control-G.
            (KeyCode::Char('\\'), false) if is_alt => Step::End,
            (KeyCode::Char('g'), false) if is_ctrl => Step::End,
            (KeyCode::Char(c), false) if !is_alt && !is_ctrl && self.held.len() < ANSWER_MAX && is_part(*c) => {
                self.text.push(*c);
                Step::Part
            }
            _ => Step::Other,
        }
    }
}

enum Step {
    /// Not part of an answer.
    Other,
    /// Part of an answer.
    Part,
    /// Last key of an answer.
    End,
}

fn is_part(c: char) -> bool {
    c.is_ascii_hexdigit() || ";:/rgba".contains(c)
}

/// Parses `11;rgb:ffff/ffff/ffff`; a channel has one to four digits.
fn parse(text: &str) -> Option<Background> {
    let (_, color) = text.strip_prefix(ANSWER)?.split_once(':')?;
    let mut channels = color.split('/').map(|digits| {
        let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1).filter(|most| *most > 0)?;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most))
    });
    let [red, green, blue] = [channels.next()??, channels.next()??, channels.next()??];
    let luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    Some(if luminance > 0.5 { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys as which the parser of the terminal reads these bytes.
    fn keys(text: &str) -> Vec<Event> {
        let mut out = Vec::new();
        let mut alt = KeyModifiers::NONE;
        for c in text.chars() {
            match c {
                '\u{1b}' => alt = KeyModifiers::ALT,
                '\u{7}' => out.push(Event::Key(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL))),
                c => {
                    out.push(Event::Key(KeyEvent::new(KeyCode::Char(c), alt)));
                    alt = KeyModifiers::NONE;
                }
            }
        }
        out
    }

    #[test]
    fn the_answer_is_taken_out_of_the_keys_around_it() {
        let mut query = BackgroundQuery::asked();

        let (others, background) = query.filter(keys("j\u{1b}]11;rgb:ffff/fafa/f0f0\u{1b}\\k"));

        assert_eq!((others, background), (keys("jk"), Some(Background::Light)));
        assert_eq!(query.filter(keys("\u{1b}]1")), (keys("\u{1b}]1"), None), "no further answer is due");
    }

    #[test]
    fn an_answer_may_come_in_pieces_and_end_with_a_bell() {
        let mut query = BackgroundQuery::asked();

        assert_eq!(query.filter(keys("\u{1b}]11;rgb:1c/")), (vec![], None));
        assert_eq!(query.filter(keys("1c/1c\u{7}")), (vec![], Some(Background::Dark)));
    }

    #[test]
    fn keys_that_only_begin_like_an_answer_are_given_back() {
        let mut query = BackgroundQuery::asked();

        assert_eq!(query.filter(keys("\u{1b}]1")), (vec![], None));
        assert_eq!(query.filter(keys("q")), (keys("\u{1b}]1q"), None));
        assert_eq!(query.filter(keys("1q")), (keys("1q"), None));
        assert_eq!(query.filter(keys("\u{1b}]\u{1b}\\")), (keys("\u{1b}]\u{1b}\\"), None));
        assert!(query.is_open());
    }

    #[test]
    fn a_malformed_answer_tells_nothing() {
        for text in ["11;rgb:", "11;rgb:f/f", "11;rgb:/f/f", "12;rgb:f/f/f", "", "11;rgb:fffffffff/f/f"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("11;rgba:0000/0000/0000/ffff"), Some(Background::Dark));
    }
}
