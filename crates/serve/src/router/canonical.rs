//! The one spelling of a path that routes and folders know (RFC 3986, 6.2.2).

use std::borrow::Cow;

/// Returns the one spelling of a path: only what needs an escape has one, with its digits in capitals. An escaped slash
/// stays one, and a `%` without two digits means itself.
pub(super) fn canonical(path: &str) -> Cow<'_, str> {
    if path.bytes().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let mut canonical = String::with_capacity(path.len() + 8);
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = if *first == b'%' { escape(after) } else { None };
        rest = if escaped.is_some() { &after[2..] } else { after };
        let byte = escaped.unwrap_or(*first);
        if is_plain(byte) && !(escaped.is_some() && byte == b'/') {
            canonical.push(char::from(byte));
        } else {
            canonical.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    Cow::Owned(canonical)
}

/// Returns true for a character of a path that needs no escape (RFC 3986, 3.3).
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
                | b'/'
        )
}

/// Returns the byte that two digits stand for.
fn escape(digits: &[u8]) -> Option<u8> {
    let &[high, low, ..] = digits else { return None };
    let digit = |byte| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// Returns a digit in capitals.
const fn digit(half: u8) -> char {
    b"0123456789ABCDEF"[half as usize] as char
}
