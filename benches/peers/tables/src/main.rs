//! Reads and writes of a shared table and of other concurrent maps: CPU time of an operation, in turns.
//!
//! ```text
//!   peers-tables [ROUNDS] [THREADS] [KEYS]
//! ```
//!
//! Each round measures every map with 90 and with 50 % of reads, for keys that are there. The output has the median of all
//! rounds, and the ratio of each peer's time to that of the table: above 1, the table is faster.

use std::hint::black_box;
use std::sync::Barrier;

use dashmap::DashMap;
use papaya::HashMap;
use rusm_runtime::table::Table;
use rusm_runtime::{Config, Runtime};
use rustc_hash::FxBuildHasher;
use rustix::time::{ClockId, clock_gettime};

/// Number of keys unless it is given: 1.5 MiB of keys and values.
const KEYS: u64 = 100_000;
/// Operations of each thread in a round.
const OPERATIONS: u64 = 1_000_000;

/// A map from numbers to numbers.
trait Map: Sync {
    fn read(&self, key: u64) -> Option<u64>;
    fn write(&self, key: u64, value: u64);
}

impl Map for Table<u64, u64> {
    fn read(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn write(&self, key: u64, value: u64) {
        self.insert(key, value).expect("a table without an owner does not close");
    }
}

impl<S: std::hash::BuildHasher + Clone + Sync + Send> Map for DashMap<u64, u64, S> {
    fn read(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|found| *found)
    }

    fn write(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
}

impl<S: std::hash::BuildHasher + Sync> Map for HashMap<u64, u64, S> {
    fn read(&self, key: u64) -> Option<u64> {
        self.pin().get(&key).copied()
    }

    fn write(&self, key: u64, value: u64) {
        self.pin().insert(key, value);
    }
}

/// Returns the CPU time of an operation, in ns.
fn measure(map: &dyn Map, keys: u64, reads_percent: u64, threads: u64) -> f64 {
    let start = Barrier::new(threads as usize);
    let run = |thread: u64| {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
        start.wait();
        let before = cpu_ns();
        for _ in 0..OPERATIONS {
            // Xorshift: its cost is the same for every map.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = (random >> 32) % keys;
            if random % 100 < reads_percent {
                black_box(map.read(key));
            } else {
                map.write(key, random);
            }
        }
        cpu_ns() - before
    };
    let total: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("no map panics")).sum()
    });
    total as f64 / (threads * OPERATIONS) as f64
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<u64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let (rounds, threads) = (words.first().copied().unwrap_or(9), words.get(1).copied().unwrap_or(2));
    let keys = words.get(2).copied().unwrap_or(KEYS).max(1);
    let runtime = Runtime::start(Config::default())?;
    let table = Table::<u64, u64>::unowned(&runtime, "numbers");
    let dashmap = DashMap::<u64, u64>::new();
    let dashmap_fx = DashMap::<u64, u64, FxBuildHasher>::default();
    let papaya = HashMap::<u64, u64>::new();
    let papaya_fx = HashMap::<u64, u64, FxBuildHasher>::default();
    let maps: [(&str, &dyn Map); 5] = [
        ("Table", &table),
        ("DashMap", &dashmap),
        ("DashMap, FxHash", &dashmap_fx),
        ("papaya", &papaya),
        ("papaya, FxHash", &papaya_fx),
    ];
    for (_, map) in maps {
        (0..keys).for_each(|key| map.write(key, key));
    }
    for reads_percent in [90, 50] {
        let mut times = vec![Vec::new(); maps.len()];
        for _ in 0..rounds {
            for (times, (_, map)) in times.iter_mut().zip(maps) {
                times.push(measure(map, keys, reads_percent, threads));
            }
        }
        let medians: Vec<f64> = times.into_iter().map(median).collect();
        for ((name, _), median) in maps.iter().zip(&medians) {
            println!("{reads_percent} % reads  {name:<16} {median:6.1} ns  {:.2}", median / medians[0]);
        }
    }
    Ok(())
}
