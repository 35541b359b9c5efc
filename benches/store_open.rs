//! Time to open a store, with and without verification of the whole file.
//!
//! ```sh
//! cargo run --release -p rusm-benches --bin store_open [DIRECTORY [MEGABYTES]]
//! ```

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program that prints to a terminal")]

use std::path::PathBuf;
use std::time::Instant;

use rusm_store::{Store, StoreConfig, StoreError};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let megabytes: u64 = arguments.next().map_or(512, |text| text.parse().unwrap());
    let path = directory.join(format!("rusm-store-open-{}.redb", std::process::id()));
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let bucket = store.bucket("rows").unwrap();
    for batch in 0..megabytes {
        let bucket = bucket.clone();
        let write = store.transaction(move |tx| -> Result<(), StoreError> {
            (0..1000_u64).try_for_each(|row| tx.put(&bucket, (batch * 1000 + row).to_be_bytes(), vec![row as u8; 1000]))
        });
        write.wait().unwrap();
    }
    store.close();
    drop(store);
    let bytes = std::fs::metadata(&path).unwrap().len();
    for verify in [false, true, false, true, true] {
        let started = Instant::now();
        let store = Store::open(&path, StoreConfig { verify, ..StoreConfig::default() }).unwrap();
        let took = started.elapsed();
        let per_gb = took.as_secs_f64() * 1e9 / bytes as f64;
        println!("verify {verify}: {bytes} bytes in {took:?}, {per_gb:.2} s for each GB");
        store.close();
    }
    std::fs::remove_file(path).unwrap();
}
