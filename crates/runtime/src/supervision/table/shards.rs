//! A concurrent hash map in shards. Each shard has a lock, which also makes its counters exact.

use std::hash::{BuildHasher, Hash};
use std::thread::available_parallelism;

use crossbeam_utils::CachePadded;
use hashbrown::{DefaultHashBuilder, Equivalent, HashTable};
use parking_lot::{Mutex, MutexGuard};

/// Position of the bits of a hash that select the shard. A shard's table uses the lowest and the seven highest bits.
const SHARD_BITS: u32 = 48;

/// A shard with its lock, on cache lines of its own.
type LockedShard<K, V> = CachePadded<Mutex<Shard<K, V>>>;

pub(crate) struct Shards<K, V> {
    shards: Box<[LockedShard<K, V>]>,
    hasher: DefaultHashBuilder,
}

pub(crate) struct Shard<K, V> {
    entries: HashTable<(K, V)>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Number of entries of a map, and of operations on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardCounts {
    pub(crate) entries: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// A locked shard and the hash of one key.
pub(crate) struct Locked<'a, K, V> {
    shard: MutexGuard<'a, Shard<K, V>>,
    hash: u64,
    hasher: &'a DefaultHashBuilder,
}

impl<K: Eq + Hash, V> Shards<K, V> {
    pub(crate) fn new() -> Self {
        let cpus = available_parallelism().map_or(1, usize::from);
        let shards = (cpus * 16).next_power_of_two().clamp(16, 256);
        let new = || Mutex::new(Shard { entries: HashTable::new(), reads: 0, writes: 0 });
        Self { shards: (0..shards).map(|_| CachePadded::new(new())).collect(), hasher: DefaultHashBuilder::default() }
    }

    /// Locks the shard of a key.
    #[inline]
    pub(crate) fn lock<Q: Hash + ?Sized>(&self, key: &Q) -> Locked<'_, K, V> {
        let hash = self.hasher.hash_one(key);
        let shard = &self.shards[(hash >> SHARD_BITS) as usize & (self.shards.len() - 1)];
        Locked { shard: shard.lock(), hash, hasher: &self.hasher }
    }

    /// Calls `visit` with each entry, one locked shard after the other.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&K, &V)) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.reads += 1;
            for (key, value) in &shard.entries {
                visit(key, value);
            }
        }
    }

    /// Keeps the entries that `keep` accepts.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.writes += 1;
            shard.entries.retain(|(key, value)| keep(key, value));
        }
    }

    /// Removes all entries, and drops them without a lock.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let entries = std::mem::take(&mut shard.lock().entries);
            drop(entries);
        }
    }

    pub(crate) fn counts(&self) -> ShardCounts {
        self.shards.iter().fold(ShardCounts::default(), |sum, shard| {
            let shard = shard.lock();
            ShardCounts {
                entries: sum.entries + shard.entries.len() as u64,
                reads: sum.reads + shard.reads,
                writes: sum.writes + shard.writes,
            }
        })
    }
}

impl<K: Eq + Hash, V> Locked<'_, K, V> {
    /// Returns the value of a key, and counts a read.
    #[inline]
    pub(crate) fn read<Q: Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&V> {
        self.shard.reads += 1;
        self.shard.entries.find(self.hash, |(other, _)| key.equivalent(other)).map(|(_, value)| value)
    }

    /// Returns the value of a key, and counts a write.
    #[inline]
    pub(crate) fn write<Q: Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        self.shard.writes += 1;
        self.shard.entries.find_mut(self.hash, |(other, _)| key.equivalent(other)).map(|(_, value)| value)
    }

    /// Adds the entry of a new key.
    pub(crate) fn add(&mut self, key: K, value: V) -> &mut V {
        let Self { shard, hash, hasher } = self;
        let entry = shard.entries.insert_unique(*hash, (key, value), |(key, _)| hasher.hash_one(key));
        &mut entry.into_mut().1
    }

    /// Removes the entry of a key, and counts a write.
    pub(crate) fn remove<Q: Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<(K, V)> {
        self.shard.writes += 1;
        let entry = self.shard.entries.find_entry(self.hash, |(other, _)| key.equivalent(other)).ok()?;
        Some(entry.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_value_however_many_there_are() {
        let shards = Shards::new();
        for key in 0..10_000_u32 {
            shards.lock(&key).add(key, key * 2);
        }
        assert!((0..10_000).all(|key| shards.lock(&key).read(&key) == Some(&(key * 2))));
        assert_eq!(shards.counts(), ShardCounts { entries: 10_000, reads: 10_000, writes: 0 });
        for key in 0..5_000 {
            assert_eq!(shards.lock(&key).remove(&key), Some((key, key * 2)));
        }
        shards.retain(|key, _| key % 2 == 0);
        let mut sum = 0;
        shards.for_each(|_, _| sum += 1);
        assert_eq!(sum, 2_500);
        shards.clear();
        assert_eq!(shards.counts().entries, 0);
    }
}
