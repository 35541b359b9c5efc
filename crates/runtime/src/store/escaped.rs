//! Text from a file as it may be shown: no control characters, and none that change the direction of what follows.

use std::fmt::Write;

/// Bytes of a key that a message shows at most.
const SHOWN: usize = 64;

/// Returns a key for a message: as text where it is text, otherwise in hexadecimal; long ones are cut off.
pub fn key(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(SHOWN)];
    let mut shown = match std::str::from_utf8(first) {
        Ok(text) if !text.is_empty() => text_escaped(text),
        _ => hex(first),
    };
    if first.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

/// Returns `0x` and the bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut shown, byte| {
        // Writing to a string does not fail.
        let _ok = write!(shown, "{byte:02x}");
        shown
    })
}

/// Returns text with control characters and marks of direction escaped.
pub fn text(text: &str) -> String {
    text_escaped(text)
}

/// Returns true if a terminal would obey the character, or show what follows it in another direction.
pub fn is_unsafe(one: char) -> bool {
    one.is_control() || matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn text_escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, one| {
        match one {
            '`' | '\\' => shown.extend(one.escape_default()),
            one if is_unsafe(one) => shown.extend(one.escape_unicode()),
            one => shown.push(one),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(key(b"user/ada"), "user/ada");
        assert_eq!(key("a\u{1b}[2J\u{202e}b\u{9b}".as_bytes()), "a\\u{1b}[2J\\u{202e}b\\u{9b}");
        assert_eq!(key(&[0xff, 0]), "0xff00");
        assert_eq!(key(&[b'a'; 100]).chars().count(), SHOWN + 1);
    }
}
