//! Finds the known name that a mistyped name most likely meant, for error messages.

/// Names longer than this get no suggestion: they may come from outside, and a comparison takes quadratic time.
const NAME_MAX_CHARS: usize = 64;

/// Smallest similarity of a suggestion, from 0 (nothing in common) to 1 (equal).
const SIMILARITY_MIN: f64 = 0.8;

/// Returns the candidate that is most similar to `word`, or `None` if no candidate is similar enough.
///
/// Upper and lower case are equal. The Jaro–Winkler similarity favours a common prefix and tolerates swapped letters.
///
/// ```
/// let known = ["light", "balanced", "max"];
///
/// assert_eq!(rusm_text::nearest("ligth", known), Some("light"));
/// assert_eq!(rusm_text::nearest("bal", known), Some("balanced"));
/// assert_eq!(rusm_text::nearest("xyzzy", known), None);
/// ```
pub fn nearest<'a, S>(word: &str, candidates: impl IntoIterator<Item = &'a S>) -> Option<&'a str>
where
    S: AsRef<str> + ?Sized + 'a,
{
    if word.chars().nth(NAME_MAX_CHARS).is_some() {
        return None;
    }
    let word = word.to_lowercase();
    let similarity = |candidate: &str| strsim::jaro_winkler(&word, &candidate.to_lowercase());
    candidates
        .into_iter()
        .map(|candidate| (similarity(candidate.as_ref()), candidate.as_ref()))
        .filter(|(similarity, _)| *similarity > SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Returns the last part of an error message about an unknown name: the [nearest] known name, or the list of all of
/// them.
///
/// ```
/// let known = ["run", "stop"];
///
/// assert_eq!(rusm_text::suggestion("runn", &known), "did you mean \"run\"?");
/// assert_eq!(rusm_text::suggestion("reboot", &known), "expected one of run, stop");
/// ```
pub fn suggestion<'a, S>(word: &str, known: impl IntoIterator<Item = &'a S> + Clone) -> String
where
    S: AsRef<str> + ?Sized + 'a,
{
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean {near:?}?");
    }
    let all: Vec<&str> = known.into_iter().map(AsRef::as_ref).collect();
    if all.is_empty() {
        return "none exist".to_owned();
    }
    format!("expected one of {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_a_swap_and_a_beginning_find_the_name_they_meant() {
        let known = ["light", "balanced", "max", "mailbox_len", "memory_bytes", "ping-pong", "RUSM_TICK_HZ"];
        let cases = [
            ("ligth", "light"),
            ("bal", "balanced"),
            ("maximum", "max"),
            ("Mailboxlen", "mailbox_len"),
            ("memory", "memory_bytes"),
            ("pingpong", "ping-pong"),
            ("rusm_tickhz", "RUSM_TICK_HZ"),
        ];
        for (word, meant) in cases {
            assert_eq!(nearest(word, known), Some(meant), "{word}");
        }
    }

    #[test]
    fn a_name_like_no_other_has_none_near() {
        let known = ["light", "max"];

        for name in ["", "m", "xyzzy", "\u{1b}[2J", &"light".repeat(1000)] {
            assert_eq!(nearest(name, known), None, "{name:?}");
        }
    }

    #[test]
    fn a_name_like_no_other_gets_the_whole_list() {
        assert_eq!(suggestion("xyzzy", ["light", "max"]), "expected one of light, max");
        assert_eq!(suggestion("xyzzy", &["light".to_owned()]), "expected one of light");
        assert_eq!(suggestion("xyzzy", [""; 0]), "none exist");
    }

    #[test]
    fn a_typo_finds_the_word_it_meant() {
        let known = ["spawn-storm", "ping-pong", "fan-in"];

        assert_eq!(suggestion("spwan-storm", known), "did you mean \"spawn-storm\"?");
        assert_eq!(suggestion("foo", known), "expected one of spawn-storm, ping-pong, fan-in");
    }
}
