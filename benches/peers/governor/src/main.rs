//! Measures the CPU time of checks of one limiter by several threads. It always admits, or nearly always denies.
//!
//! ```text
//!   peers-governor [THREADS] [SECONDS]
//! ```
//!
//! `rusm bench run counter-micro` reports the same rows for `counter::Limiter`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

const BATCH: u64 = 1024;
const KEYS: u32 = 128;

fn main() {
    let mut args = std::env::args().skip(1);
    let threads = args.next().map_or(2, |text| text.parse().expect("a number of threads"));
    let seconds: f64 = args.next().map_or(2.0, |text| text.parse().expect("a number of seconds"));
    let window = Duration::from_secs_f64(seconds);
    let most = NonZeroU32::MAX;
    let few = NonZeroU32::MIN;

    let admits: Arc<DefaultDirectRateLimiter> =
        Arc::new(RateLimiter::direct(Quota::with_period(Duration::from_nanos(1)).expect("a period").allow_burst(most)));
    measure("admits", threads, window, move |_| admits.check().is_ok());
    let denies: Arc<DefaultDirectRateLimiter> = Arc::new(RateLimiter::direct(Quota::per_hour(few)));
    measure("denies", threads, window, move |_| denies.check().is_ok());
    let keyed: Arc<DefaultKeyedRateLimiter<u32>> =
        Arc::new(RateLimiter::keyed(Quota::with_period(Duration::from_nanos(1)).expect("a period").allow_burst(most)));
    measure("admits, 128 keys", threads, window, move |number| keyed.check_key(&(number as u32 % KEYS)).is_ok());
}

fn measure(what: &str, threads: usize, window: Duration, ask: impl Fn(u64) -> bool + Clone + Send + 'static) {
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let ask = ask.clone();
            std::thread::spawn(move || {
                let (mut asked, mut admitted, start, cpu) = (0, 0, Instant::now(), cpu_ns());
                while start.elapsed() < window {
                    for _ in 0..BATCH {
                        admitted += u64::from(ask(asked));
                        asked += 1;
                    }
                }
                (asked, admitted, cpu_ns() - cpu)
            })
        })
        .collect();
    let (mut asked, mut admitted, mut cpu) = (0, 0, 0);
    for worker in workers {
        let (a, b, c) = worker.join().expect("no worker panics");
        (asked, admitted, cpu) = (asked + a, admitted + b, cpu + c);
    }
    let share = admitted as f64 / asked as f64;
    let each_ns = cpu as f64 / asked as f64;
    println!("governor\t{what}\tthreads={threads}\tadmitted={share:.3}\tcpu_ns_per_op={each_ns:.1}");
}

/// Returns the CPU time of this thread, from its scheduler statistics.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc is mounted");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number of nanoseconds")
}
