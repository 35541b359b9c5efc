//! Makes one text safe to draw: no control characters, and a maximum length.

/// Maximum length of a text, in characters.
pub(super) const TEXT_MAX: usize = 2048;

/// Returns the text as one line without control characters.
pub(crate) fn line(text: &str) -> String {
    line_within(text, TEXT_MAX)
}

pub(super) fn line_within(text: &str, max: usize) -> String {
    text.chars().take(max).map(|c| if is_safe(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Returns true for plain characters that do not change the width of their neighbours.
pub(super) fn is_safe(c: char) -> bool {
    rusm_text::is_plain(c) && !matches!(c, '\t' | '\u{200c}' | '\u{200d}')
}

pub(super) fn clean(text: &mut String) {
    if text.len() > TEXT_MAX || !text.chars().all(is_safe) {
        *text = line(text);
    }
}

pub(super) fn clean_all<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    texts.into_iter().for_each(clean);
}
