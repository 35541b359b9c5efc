//! Cost of a store compared with redb alone: group commit, and reads on a scheduler or on another thread.
//!
//! ```sh
//! cargo run --release -p rusm-benches --bin store_rates [DIRECTORY [ROUNDS [WRITERS]]]
//! ```
//!
//! Alternates between redb's own loop, with one transaction for as many updates as there are writers, and writers that
//! are processes. Prints medians over all rounds.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program that prints to a terminal")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rusm_benches::{cpu_ns, median};
use rusm_runtime::{Config, Runtime};
use rusm_store::{Durability, Store, StoreConfig};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const KEYS: u64 = 10_000;
const VALUE: usize = 100;
const TURN: Duration = Duration::from_millis(500);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds: usize = arguments.next().map_or(7, |text| text.parse().unwrap());
    let writers: u64 = arguments.next().map_or(64, |text| text.parse().unwrap());
    let directory = directory.join(format!("rusm-store-rates-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();

    let database = Database::create(directory.join("redb.redb")).unwrap();
    let store = Store::open(directory.join("store.redb"), StoreConfig::default()).unwrap();
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    for durability in [Durability::Immediate, Durability::None] {
        let (mut alone, mut ours, mut groups, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..rounds {
            let before = cpu_ns();
            let rate = redb_alone(&database, durability, writers);
            cpu[0].push((cpu_ns() - before) / (rate * TURN.as_secs_f64()));
            alone.push(rate);
            let before = cpu_ns();
            let (rate, group) = processes(&runtime, &store, durability, writers);
            cpu[1].push((cpu_ns() - before) / (rate * TURN.as_secs_f64()));
            ours.push(rate);
            groups.push(group);
        }
        let ratios = alone.iter().zip(&ours).map(|(alone, ours)| ours / alone).collect();
        println!(
            "{durability}, {writers} writers: redb {:.0}/s, store {:.0}/s, median ratio {:.2}; {:.1} in a commit; CPU ns {:.0}, {:.0}",
            median(alone),
            median(ours),
            median(ratios),
            median(groups),
            median(cpu[0].clone()),
            median(cpu[1].clone())
        );
    }
    reads(&runtime, &store, &database, rounds);
    store.close();
    drop(database);
    std::fs::remove_dir_all(directory).unwrap();
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) % KEYS
}

fn bumped(old: Option<&[u8]>) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    let count = old.map_or(0, |old| u64::from_le_bytes(old[..8].try_into().unwrap()));
    value[..8].copy_from_slice(&(count + 1).to_le_bytes());
    value
}

/// Returns the updates per second of one thread that commits `group` updates at once.
fn redb_alone(database: &Database, durability: Durability, group: u64) -> f64 {
    let (started, mut count, mut random) = (Instant::now(), 0, 1);
    while started.elapsed() < TURN {
        let mut txn = database.begin_write().unwrap();
        if durability == Durability::None {
            txn.set_durability(redb::Durability::None).unwrap();
        }
        let mut table = txn.open_table(TABLE).unwrap();
        for _ in 0..group {
            let key = next(&mut random).to_be_bytes();
            let value = bumped(table.get(&key[..]).unwrap().as_ref().map(redb::AccessGuard::value));
            table.insert(&key[..], &value[..]).unwrap();
        }
        drop(table);
        txn.commit().unwrap();
        count += group;
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// Returns the updates per second of `writers` processes, and the updates per commit.
fn processes(runtime: &Runtime, store: &Store, durability: Durability, writers: u64) -> (f64, f64) {
    let bucket = store.bucket("rows").unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let (tell, told) = std::sync::mpsc::channel();
    let before = store.report();
    let started = Instant::now();
    for writer in 0..writers {
        let (bucket, count, tell) = (bucket.clone(), Arc::clone(&count), tell.clone());
        let body = async move {
            let mut random = writer;
            while started.elapsed() < TURN {
                let key = next(&mut random).to_be_bytes();
                let update = bucket.update(key, |old| Some(Bytes::copy_from_slice(&bumped(old.as_deref()))));
                update.durability(durability).await.unwrap();
                count.fetch_add(1, Relaxed);
            }
            tell.send(()).unwrap();
        };
        runtime.spawn(move |_| body).unwrap();
    }
    (0..writers).for_each(|_| told.recv().unwrap());
    let report = store.report();
    let commits = report.commits_total - before.commits_total;
    let operations = report.operations_total - before.operations_total;
    (count.load(Relaxed) as f64 / started.elapsed().as_secs_f64(), operations as f64 / commits as f64)
}

/// Measures the cost of a read: redb alone, on a scheduler, and handed to another thread.
fn reads(runtime: &Runtime, store: &Store, database: &Database, rounds: usize) {
    const READS: u64 = 50_000;
    let (mut alone, mut inline, mut away, mut pages) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (started, mut random) = (Instant::now(), 1);
        for _ in 0..READS {
            let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
            std::hint::black_box(table.get_owned(&next(&mut random).to_be_bytes()[..]).unwrap());
        }
        alone.push(started.elapsed().as_nanos() as f64 / READS as f64);
        let bucket = store.bucket("rows").unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let body = move |ctx: rusm_runtime::Context| async move {
            let (started, mut random) = (Instant::now(), 1);
            for _ in 0..READS {
                std::hint::black_box(bucket.get(next(&mut random).to_be_bytes()).await.unwrap());
            }
            let inline = started.elapsed().as_nanos() as f64 / READS as f64;
            let started = Instant::now();
            for _ in 0..READS / 10 {
                let (bucket, key) = (bucket.clone(), next(&mut random).to_be_bytes());
                std::hint::black_box(ctx.spawn_blocking(move || bucket.get(key).wait().unwrap()).await);
            }
            let away = started.elapsed().as_nanos() as f64 / (READS / 10) as f64;
            let started = Instant::now();
            for _ in 0..1_000 {
                std::hint::black_box(bucket.scan("", next(&mut random).to_be_bytes(), 128).await.unwrap());
            }
            tell.send((inline, away, started.elapsed().as_nanos() as f64 / 1_000.0)).unwrap();
        };
        runtime.spawn(body).unwrap();
        let (one, other, page) = told.recv().unwrap();
        inline.push(one);
        away.push(other);
        pages.push(page);
    }
    println!(
        "a read: redb {:.0} ns, on a scheduler {:.0} ns, by another thread {:.0} ns; a page of 128 rows {:.0} ns",
        median(alone),
        median(inline),
        median(away),
        median(pages)
    );
}
