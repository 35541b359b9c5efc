//! A hash map of names that grows in small steps.
//!
//! A hash map that grows moves all of its entries at once. A million names of 255 bytes, which guests may have, take
//! hundreds of milliseconds to move, and the scheduler runs no process meanwhile. Here only one of many parts grows at a
//! time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Number of parts: with a million names, each moves a few thousand when it grows.
const PARTS: usize = 256;

/// Values by name.
#[derive(Debug)]
pub(crate) struct NameMap<V> {
    /// Selects the part. Its key is random: otherwise a guest could choose names that are all in the same part.
    hasher: RandomState,
    /// Empty until the first name.
    parts: Vec<HashMap<Arc<str>, V>>,
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), parts: Vec::new() }
    }
}

impl<V> NameMap<V> {
    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.get_key_value(name).map(|(_, value)| value)
    }

    /// Returns a name, as it is stored, and its value.
    pub(crate) fn get_key_value(&self, name: &str) -> Option<(&Arc<str>, &V)> {
        // The parts are created with the first name.
        if self.parts.is_empty() {
            return None;
        }
        self.parts[self.index(name)].get_key_value(name)
    }

    /// Returns the part of the map that has this name, or to which it is to be added.
    pub(crate) fn part_mut(&mut self, name: &str) -> &mut HashMap<Arc<str>, V> {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, HashMap::new);
        }
        let index = self.index(name);
        &mut self.parts[index]
    }

    /// Returns all names with their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.parts.iter().flatten()
    }

    fn index(&self, name: &str) -> usize {
        self.hasher.hash_one(name) as usize % PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_with_its_value_until_it_is_removed() {
        let mut map = NameMap::default();
        assert_eq!((map.get("0"), map.iter().count()), (None, 0));

        for number in 0..5_000 {
            let name: Arc<str> = number.to_string().into();
            assert_eq!(map.part_mut(&name).insert(Arc::clone(&name), number), None);
        }
        assert_eq!(map.part_mut("17").remove("17"), Some(17));

        assert!((0..5_000).all(|number| map.get(&number.to_string()) == Some(&number).filter(|number| **number != 17)));
        assert_eq!(map.iter().count(), 4_999);
    }

    #[test]
    fn no_part_has_a_large_share_of_the_names() {
        let mut map = NameMap::default();
        for number in 0..100 * PARTS {
            let name: Arc<str> = number.to_string().into();
            map.part_mut(&name).insert(name, number);
        }

        let largest = map.parts.iter().map(HashMap::len).max().unwrap();
        assert!(largest < 200, "{largest} names of 25,600");
    }
}
