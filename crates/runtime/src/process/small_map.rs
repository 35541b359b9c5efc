//! A map that is a short list while it is small, which it nearly always is.

use std::collections::HashMap;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Largest number of entries of a list that is searched linearly.
const FEW: usize = 8;

/// A map that allocates nothing for its first two entries, and hashes beyond the eighth.
#[derive(Debug)]
pub(crate) enum SmallMap<K, V> {
    Few(SmallVec<[(K, V); 2]>),
    Many(HashMap<K, V, FxBuildHasher>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl<K: Eq + Hash + Copy, V> SmallMap<K, V> {
    /// Inserts a value, and returns the previous value of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Self::Few(few) => {
                if let Some(entry) = few.iter_mut().find(|entry| entry.0 == key) {
                    return Some(std::mem::replace(&mut entry.1, value));
                }
                few.push((key, value));
                if few.len() > FEW {
                    *self = Self::Many(std::mem::take(few).into_iter().collect());
                }
                None
            }
            Self::Many(many) => many.insert(key, value),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match self {
            Self::Few(few) => few.iter().find(|entry| entry.0 == *key).map(|entry| &entry.1),
            Self::Many(many) => many.get(key),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Self::Few(few) => {
                let index = few.iter().position(|entry| entry.0 == *key)?;
                Some(few.swap_remove(index).1)
            }
            Self::Many(many) => {
                let removed = many.remove(key);
                if many.is_empty() {
                    *self = Self::default();
                }
                removed
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&K, &V)> + '_> {
        match self {
            Self::Few(few) => Box::new(few.iter().map(|entry| (&entry.0, &entry.1))),
            Self::Many(many) => Box::new(many.iter()),
        }
    }

    /// Removes all entries, and frees the memory of a large map.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Few(few) if few.is_empty() && !few.spilled() => {}
            _ => *self = Self::default(),
        }
    }

    /// Removes all entries, and passes each of them to `each`.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(K, V)) {
        match std::mem::take(self) {
            Self::Few(few) => few.into_iter().for_each(|(key, value)| each(key, value)),
            Self::Many(many) => many.into_iter().for_each(|(key, value)| each(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_a_map_at_every_size() {
        for entries in [0_u32, 1, 2, 3, 8, 9, 100] {
            let mut map = SmallMap::default();
            for key in 0..entries {
                assert_eq!(map.insert(key, key * 2), None);
                assert_eq!(map.insert(key, key), Some(key * 2));
                assert_eq!((map.get(&key), map.get(&entries)), (Some(&key), None));
            }
            assert_eq!(map.len(), entries as usize);
            assert_eq!((map.get(&0), map.get(&entries)), ((entries > 0).then_some(&0), None));
            assert_eq!(map.remove(&entries), None);
            for key in (0..entries).step_by(2) {
                assert_eq!(map.remove(&key), Some(key));
            }
            let odd: BTreeMap<u32, u32> = (1..entries).step_by(2).map(|key| (key, key)).collect();
            assert_eq!(map.iter().map(|(key, value)| (*key, *value)).collect::<BTreeMap<_, _>>(), odd);
            let mut drained = BTreeMap::new();
            map.drain(|key, value| assert_eq!(drained.insert(key, value), None));
            assert_eq!((drained, map.len()), (odd, 0));
            for key in 0..entries {
                map.insert(key, key);
            }
            map.clear();
            assert!(matches!(&map, SmallMap::Few(few) if few.is_empty() && !few.spilled()));
        }
    }
}
