//! Finds the known name closest to a mistyped one, for error messages.

/// Returns the name in `known` that is closest to `name`, or `None` if no name is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.7).then_some(best.1)
}

/// Returns the last part of an error message about an unknown name: the closest known name, or the list of all of them.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(name, known.clone()) {
        return format!("did you mean {near:?}?");
    }
    let all: Vec<&str> = known.into_iter().collect();
    if all.is_empty() {
        return "there are none".to_owned();
    }
    format!("expected one of {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_name_it_meant() {
        let known = ["spawn-storm", "ping-pong", "fan-in"];

        assert_eq!(nearest("spwan-storm", known), Some("spawn-storm"));
        assert_eq!(nearest("pingpong", known), Some("ping-pong"));
    }

    #[test]
    fn a_name_like_no_other_gets_the_whole_list() {
        assert_eq!(suggestion("xyzzy", ["light", "max"]), "expected one of light, max");
        assert_eq!(suggestion("xyzzy", []), "there are none");
    }
}
