//! Compares a store with a simple map under random sequences of operations, including time, restarts and power cuts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::disk::Disk;
use bytes::Bytes;
use proptest::prelude::*;
use rusm_store::{Clock, Durability, Store, StoreConfig, StoreError};

const BUCKETS: [&str; 2] = ["a", "b"];

/// A key from a small set, so that operations collide.
type Key = (usize, u8);

#[derive(Clone, Debug)]
enum Change {
    Put(Key, Vec<u8>, Option<u16>),
    Delete(Key),
}

#[derive(Clone, Debug)]
enum Step {
    Change(Change, Durability),
    CompareAndSet(Key, Option<Vec<u8>>, Option<Vec<u8>>),
    /// A compare-and-set that expects the current value.
    Replace(Key, Option<Vec<u8>>),
    Append(Key, u8),
    Transaction(Vec<Change>, bool),
    Scan(usize, Option<u8>, Option<u8>, usize),
    Sleep(u16),
    Sweep,
    Restart,
    /// A power cut after a sync, so no write may be missing.
    PowerCut,
}

fn key() -> impl Strategy<Value = Key> {
    (0..BUCKETS.len(), 0..8_u8)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => prop::collection::vec(any::<u8>(), 0..4), 1 => prop::collection::vec(any::<u8>(), 5000)]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (key(), value(), prop::option::of(1..50_u16)).prop_map(|(key, value, time)| Change::Put(key, value, time)),
        1 => key().prop_map(Change::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop_oneof![Just(Durability::None), Just(Durability::Eventual), Just(Durability::Immediate)];
    let maybe = || prop::option::of(value());
    prop_oneof![
        8 => (change(), durability).prop_map(|(change, durability)| Step::Change(change, durability)),
        2 => (key(), maybe(), maybe()).prop_map(|(key, old, new)| Step::CompareAndSet(key, old, new)),
        3 => (key(), maybe()).prop_map(|(key, new)| Step::Replace(key, new)),
        2 => (key(), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        3 => (prop::collection::vec(change(), 0..6), any::<bool>()).prop_map(|(all, ends)| Step::Transaction(all, ends)),
        3 => (0..BUCKETS.len(), prop::option::of(0..8_u8), prop::option::of(0..8_u8), 1..6_usize)
            .prop_map(|(bucket, prefix, after, limit)| Step::Scan(bucket, prefix, after, limit)),
        3 => (1..60_u16).prop_map(Step::Sleep),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
        1 => Just(Step::PowerCut),
    ]
}

/// The expected contents of a store.
#[derive(Clone, Default)]
struct Model {
    now_ms: u64,
    /// Values and their expiry times.
    rows: BTreeMap<Key, (Vec<u8>, Option<u64>)>,
}

impl Model {
    fn forget_what_is_over(&mut self) {
        let now_ms = self.now_ms;
        self.rows.retain(|_, (_, expiry_ms)| expiry_ms.is_none_or(|at| at > now_ms));
    }

    fn get(&self, key: Key) -> Option<&Vec<u8>> {
        self.rows.get(&key).map(|(value, _)| value)
    }

    fn set(&mut self, key: Key, value: Option<Vec<u8>>) {
        match value {
            Some(value) => _ = self.rows.insert(key, (value, None)),
            None => _ = self.rows.remove(&key),
        }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(key, value, time) => {
                let expiry_ms = time.map(|time| self.now_ms + u64::from(time));
                self.rows.insert(*key, (value.clone(), expiry_ms));
            }
            Change::Delete(key) => _ = self.rows.remove(key),
        }
    }
}

struct Real {
    disk: Disk,
    clock: Clock,
    store: Store,
}

impl Real {
    fn new(disk: Disk, clock: Clock) -> Self {
        let (again, config) = (disk.clone(), StoreConfig { clock: clock.clone(), ..StoreConfig::default() });
        let store = Store::open_on("a disk in memory", move || Ok(again.clone()), config).unwrap();
        Self { disk, clock, store }
    }

    fn bucket(&self, key: Key) -> rusm_store::Bucket {
        self.store.bucket(BUCKETS[key.0]).unwrap()
    }

    fn change(&self, change: &Change, durability: Durability) {
        match change.clone() {
            Change::Put(key, value, None) => {
                self.bucket(key).put([key.1], value).durability(durability).wait().unwrap();
            }
            Change::Put(key, value, Some(time)) => {
                let time = Duration::from_millis(time.into());
                self.bucket(key).put_for([key.1], value, time).durability(durability).wait().unwrap();
            }
            Change::Delete(key) => _ = self.bucket(key).delete([key.1]).durability(durability).wait().unwrap(),
        }
    }

    fn transaction(&self, changes: Vec<Change>, ends_well: bool) {
        let buckets = BUCKETS.map(|name| self.store.bucket(name).unwrap());
        let all = self.store.transaction(move |tx| {
            for change in changes {
                match change {
                    Change::Put(key, value, None) => tx.put(&buckets[key.0], [key.1], value)?,
                    Change::Put(key, value, Some(time)) => {
                        tx.put_for(&buckets[key.0], [key.1], value, Duration::from_millis(time.into()))?;
                    }
                    Change::Delete(key) => tx.delete(&buckets[key.0], [key.1])?,
                }
            }
            if ends_well { Ok(()) } else { Err(StoreError::Full) }
        });
        assert_eq!(all.wait().is_ok(), ends_well);
    }

    fn restart(self) -> Self {
        let Self { disk, clock, store } = self;
        store.close();
        Self::new(disk, clock)
    }

    fn power_cut(self) -> Self {
        self.store.sync().wait().unwrap();
        let after = self.disk.cut(|| false);
        self.store.close();
        Self::new(after, self.clock)
    }

    fn assert_is(&self, model: &Model) {
        for (place, name) in BUCKETS.into_iter().enumerate() {
            let bucket = self.store.bucket(name).unwrap();
            let seen: Vec<_> =
                bucket.scan("", "", 100).wait().unwrap().rows.into_iter().map(|row| (row.key, row.value)).collect();
            let rows = model.rows.iter().filter(|((bucket, _), _)| *bucket == place);
            let expected: Vec<_> =
                rows.map(|((_, key), (value, _))| (Bytes::from(vec![*key]), Bytes::from(value.clone()))).collect();
            assert_eq!(seen, expected, "in {name}");
            for key in 0..8 {
                let value = bucket.get([key]).wait().unwrap().map(|value| value.to_vec());
                assert_eq!(value.as_ref(), model.get((place, key)));
            }
        }
    }
}

/// Applies a step to the store and to the model, and compares the results.
fn run(step: Step, mut real: Real, model: &mut Model) -> Real {
    match step {
        Step::Change(change, durability) => {
            real.change(&change, durability);
            model.apply(&change);
        }
        Step::CompareAndSet(key, old, new) => {
            let expected = model.get(key) == old.as_ref();
            let (old, set) = (old.map(Bytes::from), new.clone().map(Bytes::from));
            assert_eq!(real.bucket(key).compare_and_set([key.1], old, set).wait(), Ok(expected));
            if expected {
                model.set(key, new);
            }
        }
        Step::Replace(key, new) => {
            let (old, set) = (model.get(key).cloned().map(Bytes::from), new.clone().map(Bytes::from));
            assert_eq!(real.bucket(key).compare_and_set([key.1], old, set).wait(), Ok(true));
            model.set(key, new);
        }
        Step::Append(key, byte) => {
            let longer = move |old: Option<Bytes>| Some(Bytes::from([&old.unwrap_or_default()[..], &[byte]].concat()));
            let seen = real.bucket(key).update([key.1], longer).wait().unwrap();
            model.set(key, longer(model.get(key).cloned().map(Bytes::from)).map(Vec::from));
            assert_eq!(seen.as_deref(), model.get(key).map(Vec::as_slice));
        }
        Step::Transaction(changes, ends_well) => {
            real.transaction(changes.clone(), ends_well);
            if ends_well {
                for change in &changes {
                    model.apply(change);
                }
            }
        }
        Step::Scan(bucket, prefix, after, limit) => {
            let bytes = |key: Option<u8>| key.map_or_else(Vec::new, |key| vec![key]);
            let page = real.bucket((bucket, 0)).scan(bytes(prefix), bytes(after), limit).wait().unwrap();
            let fits = |key: u8| prefix.is_none_or(|prefix| prefix == key) && after.is_none_or(|after| after < key);
            let keys = model.rows.keys().filter(|(place, key)| *place == bucket && fits(*key));
            let all: Vec<Vec<u8>> = keys.map(|(_, key)| vec![*key]).collect();
            let seen: Vec<Vec<u8>> = page.rows.iter().map(|row| row.key.to_vec()).collect();
            assert_eq!(seen, all[..all.len().min(limit)]);
            assert!(page.next.is_some() || seen.len() == all.len());
        }
        Step::Sleep(ms) => {
            real.clock.advance(Duration::from_millis(ms.into()));
            model.now_ms += u64::from(ms);
            model.forget_what_is_over();
        }
        Step::Sweep => {
            real.store.sweep().wait().unwrap();
            let kept: u64 = real.store.report().buckets.iter().map(|bucket| bucket.keys).sum();
            assert_eq!(kept, model.rows.len() as u64);
            let bytes: u64 = real.store.report().buckets.iter().map(|bucket| bucket.bytes).sum();
            assert_eq!(bytes, model.rows.values().map(|(value, _)| value.len() as u64 + 1).sum::<u64>());
        }
        Step::Restart => real = real.restart(),
        Step::PowerCut => real = real.power_cut(),
    }
    real
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_a_map_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut real = Real::new(Disk::default(), Clock::manual());
        let mut model = Model::default();

        for step in steps {
            real = run(step, real, &mut model);
        }

        real.assert_is(&model);
        real.restart().assert_is(&model);
    }
}
