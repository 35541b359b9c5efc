//! Overrides of a setting, which are added in turn and removed in any order: the newest remaining override applies.
//!
//! ```text
//!   before ── A adds a ── B adds b ── A removes a ──▶ b applies ── B removes b ──▶ before applies
//! ```

/// The overrides, oldest first, and the value before the first one.
#[derive(Debug)]
pub(crate) struct OverrideStack<T> {
    before: Option<T>,
    wanted: Vec<(u64, T)>,
    last_id: u64,
}

impl<T: Copy> OverrideStack<T> {
    pub(crate) const fn new() -> Self {
        Self { before: None, wanted: Vec::new(), last_id: 0 }
    }

    /// Adds an override, which applies now, and returns its id. If it is the first one, stores `before`.
    pub(crate) fn add(&mut self, before: T, wanted: T) -> u64 {
        if self.wanted.is_empty() {
            self.before = Some(before);
        }
        self.last_id += 1;
        self.wanted.push((self.last_id, wanted));
        self.last_id
    }

    /// Removes an override; returns the value that must apply now, if it changes.
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let place = self.wanted.iter().position(|(known, _)| *known == id)?;
        self.wanted.remove(place);
        match self.wanted.last() {
            _ if place < self.wanted.len() => None,
            Some((_, newest)) => Some(*newest),
            None => self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_is_wanted_holds_and_in_the_end_what_was_before() {
        let mut layers = OverrideStack::new();
        let (first, second, third) = (layers.add(50, 1), layers.add(1, 2), layers.add(2, 3));

        assert_eq!(layers.remove(second), None);
        assert_eq!(layers.remove(third), Some(1));
        assert_eq!(layers.remove(first), Some(50));
        assert_eq!(layers.remove(first), None);
    }

    #[test]
    fn one_that_comes_after_all_are_gone_finds_what_is_then() {
        let mut layers = OverrideStack::new();
        let first = layers.add(50, 1);
        layers.remove(first);
        let again = layers.add(60, 1);

        assert_eq!(layers.remove(again), Some(60));
    }
}
