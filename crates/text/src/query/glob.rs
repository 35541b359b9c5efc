//! Patterns in which `*` stands for any text.

/// Returns true if a pattern, in which `*` stands for any text, matches the whole text.
///
/// ```
/// assert!(rusm_text::matches_glob("kv*", "kv_writer"));
/// assert!(!rusm_text::matches_glob("kv", "kv_writer"));
/// ```
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else { return text == pattern };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in
            [("kv*", "kv_writer"), ("*writer", "kv_writer"), ("k*_*r", "kv_writer"), ("*", ""), ("kv", "kv"), ("", "")]
        {
            assert!(matches_glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("kv", "kvs"), ("kv*x", "kv_writer"), ("a*a", "a"), ("", "x")] {
            assert!(!matches_glob(pattern, text), "{pattern} {text}");
        }
    }
}
