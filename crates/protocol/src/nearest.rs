//! Suggests the known name that a mistyped name most likely meant.

/// Returns the end of an error message about an unknown name: the nearest known name, or all known names.
///
/// ```
/// let known = ["run", "stop"];
///
/// assert_eq!(rusm_protocol::suggestion("runn", &known), "did you mean \"run\"?");
/// assert_eq!(rusm_protocol::suggestion("reboot", &known), "expected one of run, stop");
/// ```
pub fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}

/// Names longer than this get no suggestion.
const NAME_MAX_CHARS: usize = 64;
/// A prefix of at least this many characters matches the whole name.
const BEGINNING_CHARS: usize = 3;

/// Returns the nearest of `known`, if `name` is a prefix of it or at most a third of the characters would have to
/// change.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name: Vec<char> = name.chars().take(NAME_MAX_CHARS + 1).flat_map(char::to_lowercase).collect();
    if name.len() > NAME_MAX_CHARS {
        return None;
    }
    let near = |candidate: &&'a str| {
        let letters: Vec<char> = candidate.chars().collect();
        let changes = distance(&name, &letters);
        let begins = name.len() >= BEGINNING_CHARS && letters.starts_with(&name);
        (begins || changes <= name.len().max(letters.len()) / 3).then_some((changes, *candidate))
    };
    known.iter().filter_map(near).min_by_key(|(changes, _)| *changes).map(|(_, candidate)| candidate)
}

/// Returns the number of characters to insert, remove, replace or swap with the next one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut changes = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                changes = changes.min(before_last[j - 1] + 1);
            }
            row.push(changes);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_a_swap_and_a_beginning_find_the_name_they_meant() {
        let known = ["light", "balanced", "max", "mailbox_len", "memory_bytes"];

        assert_eq!(nearest("ligth", &known), Some("light"));
        assert_eq!(nearest("bal", &known), Some("balanced"));
        assert_eq!(nearest("Mailboxlen", &known), Some("mailbox_len"));
        assert_eq!(nearest("memory", &known), Some("memory_bytes"));
    }

    #[test]
    fn a_name_like_no_other_has_none_near() {
        let known = ["light", "max"];

        for name in ["", "m", "xyzzy", "\u{1b}[2J", &"light".repeat(1000)] {
            assert_eq!(nearest(name, &known), None, "{name:?}");
        }
    }

    #[test]
    fn the_distance_counts_changes_of_one_letter() {
        let of = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());

        assert_eq!((of("", "abc"), of("abc", ""), of("abc", "abc")), (3, 3, 0));
        assert_eq!((of("abc", "abd"), of("abc", "acb"), of("abc", "ab"), of("ab", "xyz")), (1, 1, 1, 3));
    }
}
