//! Escaping of external text, before it reaches a log, a terminal or an error message.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// Returns true if a terminal shows the character unchanged: the character does not control the terminal, end a line,
/// or change the direction of the surrounding text, and it is not invisible.
///
/// A tab is plain. So are the joiners U+200C and U+200D, which many scripts need.
pub const fn is_plain(character: char) -> bool {
    !matches!(
        character,
        // Control characters except the tab.
        '\0'..='\u{8}' | '\n'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Line separators, and marks that change the text direction.
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        // Invisible characters.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns the text with every character that is not [plain](is_plain) replaced by a Rust escape, such as `\n` or
/// `\u{1b}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_all_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(escaped(text).to_string())
}

/// Returns true if every character is [plain](is_plain).
pub fn is_all_plain(text: &str) -> bool {
    text.chars().all(is_plain)
}

/// Wraps a value so that it is displayed [escaped](escape).
pub const fn escaped<T: Display>(value: T) -> Escaped<T> {
    Escaped(value)
}

/// Wrapper returned by [`escaped`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { out: f, style: Style::Rust }, "{}", self.0)
    }
}

impl<T> Escaped<T> {
    /// Limits the displayed text to `bytes_max` bytes. A shortened text ends in `…`.
    pub const fn within(self, bytes_max: usize) -> Shortened<T> {
        Shortened { escaped: self, bytes_max }
    }
}

/// Wrapper returned by [`Escaped::within`].
///
/// ```
/// assert_eq!(rusm_text::escaped("a\nlong line").within(9).to_string(), "a\\nlon…");
/// assert_eq!(rusm_text::escaped("a line").within(9).to_string(), "a line");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shortened<T> {
    escaped: Escaped<T>,
    bytes_max: usize,
}

impl<T: Display> Display for Shortened<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut limited = Limited { out: f, left: self.bytes_max, kept: String::new(), is_full: false };
        let written = write!(limited, "{}", self.escaped);
        let Limited { kept, is_full, .. } = limited;
        if is_full {
            return f.write_char('…');
        }
        f.write_str(&kept).and(written)
    }
}

/// A writer that stops at a byte limit. It holds back the last bytes, to leave room for `…`.
struct Limited<'a, W: ?Sized> {
    out: &'a mut W,
    left: usize,
    kept: String,
    is_full: bool,
}

impl<W: Write + ?Sized> Write for Limited<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const SIGN: usize = '…'.len_utf8();
        let text = std::mem::take(&mut self.kept) + text;
        let end = text.floor_char_boundary(self.left.saturating_sub(SIGN).min(text.len()));
        self.out.write_str(&text[..end])?;
        self.left -= end;
        self.kept.push_str(&text[end..]);
        self.is_full = self.kept.len() > self.left;
        if self.is_full { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Appends `text` to a string, escaped as in a JSON string. If `text` is valid JSON on one line, the result is
/// equivalent JSON.
///
/// ```
/// let mut line = String::new();
/// rusm_text::escape_json_into(&mut line, "{\"word\":\"\u{7f}\u{202e}\"}");
/// assert_eq!(line, r#"{"word":"\u007f\u202e"}"#);
/// ```
pub fn escape_json_into(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    _ = Escaping { out, style: Style::Json }.write_str(text);
}

#[derive(Clone, Copy)]
enum Style {
    Rust,
    Json,
}

/// A writer that escapes the text passing through it.
struct Escaping<'a, W: ?Sized> {
    out: &'a mut W,
    style: Style,
}

impl<W: Write + ?Sized> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| !is_plain(*character)) {
            self.out.write_str(&text[plain_from..at])?;
            match self.style {
                Style::Rust => write!(self.out, "{}", character.escape_default())?,
                Style::Json => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        write!(self.out, "\\u{unit:04x}")?;
                    }
                }
            }
            plain_from = at + character.len_utf8();
        }
        self.out.write_str(&text[plain_from..])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped() {
        let cases = [
            ("red \u{1b}[31m", r"red \u{1b}[31m"),
            ("a\nb\rc\td\0", "a\\nb\\rc\td\\u{0}"),
            ("\u{7}\u{7f}\u{9b}2J", r"\u{7}\u{7f}\u{9b}2J"),
            ("\u{202e}gpj.exe\u{2066}\u{200f}", r"\u{202e}gpj.exe\u{2066}\u{200f}"),
            ("line\u{2028}\u{2029}\u{85}", r"line\u{2028}\u{2029}\u{85}"),
            ("\u{200b}\u{feff}\u{e0041}\u{ad}", r"\u{200b}\u{feff}\u{e0041}\u{ad}"),
        ];
        for (text, shown) in cases {
            assert_eq!(escape(text), shown);
        }
    }

    #[test]
    fn text_of_any_script_stays_as_it_is() {
        for text in ["", "plain", r#"a "quoted" \n word"#, "Grüße", "日本語", "नमस्ते", "می‌خواهم", "👩‍🚀", "→ ▁▂▃ …"]
        {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn escaped_text_has_one_line_of_plain_characters(text in any::<String>()) {
            let shown = escape(&text);

            prop_assert!(shown.chars().all(is_plain), "{shown:?}");
            prop_assert_eq!(escape(&shown), shown.clone(), "escaping again changes nothing");
        }

        #[test]
        fn shortened_text_is_within_its_bytes_and_whole_if_it_fits(text in any::<String>(), bytes_max in 3..80_usize) {
            let (whole, shown) = (escape(&text), escaped(&text).within(bytes_max).to_string());

            prop_assert!(shown.len() <= bytes_max, "{} bytes", shown.len());
            if whole.len() <= bytes_max {
                prop_assert_eq!(shown, whole);
            } else {
                prop_assert!(shown.ends_with('…') && whole.starts_with(&shown[..shown.len() - '…'.len_utf8()]));
            }
        }

        #[test]
        fn escaped_json_is_the_same_json(text in any::<String>()) {
            let mut line = String::new();
            escape_json_into(&mut line, &serde_json::to_string(&text).unwrap());

            prop_assert!(line.chars().all(is_plain), "{line:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
