//! CPU time and number of ended processes, by kind and parent: what short-lived processes used is not lost with them.
//!
//! ```text
//!   process ends ──▶ cache of its scheduler ──▶ group (kind, parent): ended + 1, busy + its time
//!                      └─ unknown ──▶ map of the scheduler, under a lock
//! ```
//!
//! Only the owning scheduler writes and removes groups. Their number is bounded: groups of ended parents are merged
//! first, then further parents share a group per kind, and further kinds share one group.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxHashMapSeed, FxSeededState};

use crate::observe::body_info::BodyInfo;
use crate::process::header::bump;
use crate::process::pid::Pid;

/// Maximum number of groups of one scheduler. Group 0 is shared by the kinds that find no other group.
const GROUPS_MAX: usize = 512;
/// Number of groups that the cache of a scheduler remembers.
const CACHED: usize = 64;
/// Number of failed searches for room after which groups of ended parents are merged again.
const SWEEP_INTERVAL: u32 = 4_096;

/// Kind of a process, for sums over many of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessKind {
    /// The label that the process has set.
    Label(Arc<str>),
    /// The source of its body, for example a module.
    Module(Arc<str>),
    /// The Rust type of its future.
    Future(&'static str),
    /// One of the kinds beyond the maximum number.
    Other,
}

impl ProcessKind {
    /// Returns the kind by the label or the source of the body; `None` if the process has neither.
    pub(crate) fn of(label: Option<Arc<str>>, body_info: Option<&dyn BodyInfo>) -> Option<Self> {
        label.map(Self::Label).or_else(|| body_info?.source().map(Self::Module))
    }
}

/// Kind and parent of ended processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) kind: ProcessKind,
    /// [`Pid::NONE`] for processes spawned from outside, and for those whose parents share a group.
    pub(crate) parent: Pid,
}

/// Counters of a group, which only its scheduler writes.
#[derive(Default)]
struct Group {
    ended: AtomicU64,
    busy_ns: AtomicU64,
}

struct Keys {
    /// With a random seed: programs and guests choose the labels.
    numbers: FxHashMapSeed<GroupKey, u16>,
    free: Vec<u16>,
    /// Number of failed searches until the next merge.
    until_sweep: u32,
}

/// Ended processes of one scheduler.
pub(crate) struct EndedProcesses {
    keys: Mutex<Keys>,
    groups: Box<[Group; GROUPS_MAX]>,
}

/// Counters of the ended processes of one kind and parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedGroup {
    /// Kind of the processes.
    pub kind: ProcessKind,
    /// Their parent; `None` if they were spawned from outside, or if their parents share this group.
    pub parent: Option<Pid>,
    /// Number of processes that have ended.
    pub ended: u64,
    /// CPU time that they used, in nanoseconds.
    pub busy_ns: u64,
}

impl Default for EndedProcesses {
    fn default() -> Self {
        let free = (1..GROUPS_MAX as u16).rev().collect();
        let numbers = HashMap::with_hasher(FxSeededState::with_seed(RandomState::new().hash_one(0) as usize));
        Self {
            keys: Mutex::new(Keys { numbers, free, until_sweep: 0 }),
            groups: Box::new(std::array::from_fn(|_| Group::default())),
        }
    }
}

impl EndedProcesses {
    /// Adds an ended process to a group. Called by the owning scheduler only.
    #[inline]
    pub(crate) fn add(&self, group: u16, busy_ns: u64) {
        let group = &self.groups[usize::from(group)];
        bump(&group.ended, 1);
        // Most processes of a storm end without having been sampled.
        if busy_ns != 0 {
            bump(&group.busy_ns, busy_ns);
        }
    }

    /// Returns the number of a group, and true if others were merged, so that cached numbers are not valid any more.
    /// Called by the owning scheduler only.
    #[cold]
    pub(crate) fn number(&self, key: GroupKey, is_alive: impl Fn(Pid) -> bool) -> (u16, bool) {
        let mut keys = self.keys.lock();
        if let Some(number) = keys.numbers.get(&key) {
            return (*number, false);
        }
        let mut merged = false;
        if keys.free.is_empty() {
            keys.until_sweep = keys.until_sweep.saturating_sub(1);
            if keys.until_sweep == 0 {
                merged = self.merge_ended_parents(&mut keys, is_alive);
                keys.until_sweep = SWEEP_INTERVAL;
            }
        }
        if let Some(number) = keys.free.pop() {
            keys.numbers.insert(key, number);
            return (number, merged);
        }
        let shared = GroupKey { parent: Pid::NONE, ..key };
        (keys.numbers.get(&shared).copied().unwrap_or(0), merged)
    }

    /// Moves the counters of groups whose parent has ended to the group of their kind without a parent.
    fn merge_ended_parents(&self, keys: &mut Keys, is_alive: impl Fn(Pid) -> bool) -> bool {
        let over = |key: &GroupKey| key.parent != Pid::NONE && !is_alive(key.parent);
        let ended: Vec<(GroupKey, u16)> = keys.numbers.extract_if(|key, _| over(key)).collect();
        for (key, number) in &ended {
            let shared = GroupKey { kind: key.kind.clone(), parent: Pid::NONE };
            let from = &self.groups[usize::from(*number)];
            match keys.numbers.get(&shared) {
                None => drop(keys.numbers.insert(shared, *number)),
                Some(to) => {
                    let to = &self.groups[usize::from(*to)];
                    for (from, to) in [(&from.ended, &to.ended), (&from.busy_ns, &to.busy_ns)] {
                        bump(to, from.swap(0, Ordering::Relaxed));
                    }
                    keys.free.push(*number);
                }
            }
        }
        !ended.is_empty()
    }

    /// Returns all groups with an ended process.
    pub(crate) fn read(&self) -> Vec<EndedGroup> {
        let keys = self.keys.lock();
        let other = GroupKey { kind: ProcessKind::Other, parent: Pid::NONE };
        let known = keys.numbers.iter().map(|(key, number)| (key, *number));
        let read = |(key, number): (&GroupKey, u16)| {
            let group = &self.groups[usize::from(number)];
            EndedGroup {
                kind: key.kind.clone(),
                parent: (key.parent != Pid::NONE).then_some(key.parent),
                ended: group.ended.load(Ordering::Relaxed),
                busy_ns: group.busy_ns.load(Ordering::Relaxed),
            }
        };
        known.chain([(&other, 0)]).map(read).filter(|group| group.ended > 0).collect()
    }
}

/// Groups that a scheduler used recently, by type of the future and parent.
pub(crate) struct EndedCache {
    entries: [Cell<CachedGroup>; CACHED],
}

/// Number of the group of a future's type and of the slot and generation of a parent.
#[derive(Clone, Copy)]
struct CachedGroup {
    future: usize,
    parent: (u32, u32),
    number: u16,
}

impl CachedGroup {
    const NONE: Self = Self { future: 0, parent: (0, 0), number: 0 };
}

impl Default for EndedCache {
    fn default() -> Self {
        Self { entries: [const { Cell::new(CachedGroup::NONE) }; CACHED] }
    }
}

impl EndedCache {
    #[inline]
    fn entry(&self, future: usize, parent: (u32, u32)) -> &Cell<CachedGroup> {
        &self.entries[((future >> 4) ^ parent.0 as usize) % CACHED]
    }

    /// Returns the group of a future's type and a parent, if it is cached.
    #[inline]
    pub(crate) fn get(&self, future: usize, parent: (u32, u32)) -> Option<u16> {
        let known = self.entry(future, parent).get();
        (known.future == future && known.parent == parent).then_some(known.number)
    }

    /// Remembers the group of a future's type and a parent.
    pub(crate) fn insert(&self, future: usize, parent: (u32, u32), number: u16) {
        self.entry(future, parent).set(CachedGroup { future, parent, number });
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.entries.iter().for_each(|entry| entry.set(CachedGroup::NONE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &'static str, parent: u32) -> GroupKey {
        let parent = if parent == 0 { Pid::NONE } else { Pid::local(parent, 1) };
        GroupKey { kind: ProcessKind::Future(kind), parent }
    }

    fn sums(ended: &EndedProcesses) -> (u64, u64) {
        ended.read().iter().fold((0, 0), |(ended, busy), group| (ended + group.ended, busy + group.busy_ns))
    }

    #[test]
    fn a_million_parents_of_two_kinds_need_few_groups_and_lose_nothing() {
        let ended = EndedProcesses::default();
        for parent in 1..=1_000_000_u32 {
            let kind = ["a", "b"][parent as usize % 2];
            let (number, _) = ended.number(key(kind, parent), |pid| pid.slot() + 100 > parent);
            ended.add(number, u64::from(parent % 3));
        }

        let groups = ended.read();
        assert!(groups.len() <= GROUPS_MAX, "{}", groups.len());
        assert_eq!(sums(&ended), (1_000_000, 1_000_000));
        let kind = |name| ProcessKind::Future(name);
        let of = |kind: &ProcessKind| groups.iter().filter(|group| group.kind == *kind).map(|group| group.ended).sum();
        assert_eq!((of(&kind("a")), of(&kind("b"))), (500_000, 500_000));
    }

    #[test]
    fn kinds_beyond_the_maximum_share_a_group() {
        let ended = EndedProcesses::default();
        for number in 0..2 * GROUPS_MAX {
            let kind = ProcessKind::Label(number.to_string().into());
            let (group, _) = ended.number(GroupKey { kind, parent: Pid::NONE }, |_| true);
            ended.add(group, 1);
        }

        assert_eq!(sums(&ended), (2 * GROUPS_MAX as u64, 2 * GROUPS_MAX as u64));
        let other = ended.read().into_iter().find(|group| group.kind == ProcessKind::Other).unwrap();
        assert_eq!(other.ended as usize, GROUPS_MAX + 1);
    }

    #[test]
    fn a_merge_makes_cached_numbers_invalid() {
        let (ended, cache) = (EndedProcesses::default(), EndedCache::default());
        let parent = (1, 1);
        let (number, _) = ended.number(key("a", 1), |_| true);
        cache.insert(7 << 4, parent, number);
        assert_eq!((cache.get(7 << 4, parent), cache.get(7 << 4, (0, 0))), (Some(number), None));

        let merged = (2..=GROUPS_MAX as u32).any(|parent| ended.number(key("a", parent), |_| false).1);

        assert!(merged, "the caller is told to clear its cache");
        cache.clear();
        assert_eq!(cache.get(7 << 4, parent), None);
    }
}
