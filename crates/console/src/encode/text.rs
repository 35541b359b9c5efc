//! Bounds on texts in messages.

/// Returns a text of at most `max_bytes` bytes, so that no process can enlarge a message without bound.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}
