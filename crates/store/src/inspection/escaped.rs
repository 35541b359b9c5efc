//! Formats keys of a store for messages: as escaped text, or in hexadecimal.

use std::fmt::Write;

/// Maximum number of bytes of a key that a message shows.
const SHOWN: usize = 64;

/// Formats a key for a message: as text if it is text, otherwise in hexadecimal; long keys are cut off.
pub fn key(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(SHOWN)];
    let mut shown = match std::str::from_utf8(first) {
        Ok(text) if !text.is_empty() => rusm_text::escape(text).into_owned(),
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
