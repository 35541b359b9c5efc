//! Counters on a disk that is full for a while. In a file of its own: the file size limit that simulates a full disk
//! applies to the whole program.

use std::time::{Duration, Instant};

use rusm_runtime::counter::{CounterStore, CounterStoreError};
use rusm_store::{Durability, DurableCounters, Store, StoreConfig};

#[test]
fn counters_go_on_when_there_is_room_again_and_none_is_wrong() {
    let _alone = crate::alone();
    for durability in Durability::ALL {
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("counters.redb");
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let key = |number: u32| format!("{number:0>900}");
        let open = || {
            let store = Store::open(&path, StoreConfig::default()).expect("the file opens");
            DurableCounters::open(&store, "counters", durability).expect("the bucket holds counters")
        };
        let add = |store: &DurableCounters, number: u32| {
            let slot = store.slot(&key(number), 0).expect("the key is valid");
            tokio.block_on(store.add(&slot, 1, 1))
        };
        let store = open();
        add(&store, 0).expect("there is room");

        crate::limit_files(Some(std::fs::metadata(&path).expect("it is there").len()));
        let mut added = 1;
        let error = loop {
            match add(&store, added) {
                Ok(()) => added += 1,
                Err(error) => break error,
            }
        };
        crate::limit_files(None);

        assert!(matches!(&error, CounterStoreError::Storage(_)), "{error}");
        let begun = Instant::now();
        while let Err(error) = add(&store, 0) {
            assert!(begun.elapsed() < Duration::from_mins(1), "still {error}");
            std::thread::yield_now();
        }
        drop(store);
        let store = open();
        let value = |number: u32| store.slot(&key(number), -1).expect("the key is valid").value();
        assert_eq!(value(0), 2, "{durability:?}");
        assert!(value(added) <= 0, "{durability:?}: a failed update was not added");
        assert!((1..added).all(|number| value(number) == 1), "{durability:?}");
    }
}
