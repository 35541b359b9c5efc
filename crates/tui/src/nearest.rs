//! Suggests the known word that is closest to a mistyped one.

/// Returns the word in `known` that is most similar to `word`, if it is similar enough.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|candidate| (strsim::jaro_winkler(word, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// Returns a hint about an unknown word: the most similar known word, or the list of all known words.
pub(crate) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean {near:?}?");
    }
    let all: Vec<&str> = known.into_iter().collect();
    format!("expected one of {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["spawn-storm", "ping-pong", "fan-in"];

    #[test]
    fn a_typo_finds_the_word_it_meant() {
        assert_eq!(suggestion("spwan-storm", KNOWN), "did you mean \"spawn-storm\"?");
    }

    #[test]
    fn a_word_like_no_other_gets_the_whole_list() {
        assert_eq!(suggestion("foo", KNOWN), "expected one of spawn-storm, ping-pong, fan-in");
    }
}
