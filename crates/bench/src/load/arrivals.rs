//! One schedule for all connections: a free connection takes the next arrival.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::measure::schedule::{Rate, Schedule};

/// Arrivals of a load; without a schedule in a closed loop.
#[derive(Debug)]
pub(crate) struct Arrivals {
    schedule: Option<Schedule>,
    next: AtomicU64,
}

impl Arrivals {
    pub(crate) fn new(rate: Option<Rate>, start: Instant) -> Self {
        Self { schedule: rate.map(|rate| Schedule::new(rate, start, 0, 1)), next: AtomicU64::new(0) }
    }

    /// Claims the next arrival for the caller and returns its intended start; `None` in a closed loop.
    pub(crate) fn claim(&self) -> Option<Instant> {
        let schedule = self.schedule.as_ref()?;
        // Relaxed: only the number is shared.
        Some(schedule.intended(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::latency::{BucketCounts, Latencies, histogram, percentiles};

    /// Simulates a server that answers in 0.1 ms, except for a freeze of one second after 5 s.
    fn answered(start: Instant, asked: Instant) -> Instant {
        let (freeze, thaw) = (start + Duration::from_secs(5), start + Duration::from_secs(6));
        let asked = if (freeze..thaw).contains(&asked) { thaw } else { asked };
        asked + Duration::from_micros(100)
    }

    /// Returns the latencies of ten simulated seconds of that server under some connections, and the number of slow
    /// answers.
    fn ten_seconds(rate: Option<f64>, connections: usize) -> (rusm_protocol::LatencySnapshot, usize) {
        let start = Instant::now();
        let arrivals = Arrivals::new(rate.map(|rate| Rate::from_per_sec(rate).unwrap()), start);
        let latencies = Latencies::new(1);
        let (mut free, mut slow) = (vec![start; connections], 0);
        loop {
            let next = free.iter_mut().min().unwrap();
            let intended = arrivals.claim().unwrap_or(*next);
            if intended.max(*next) >= start + Duration::from_secs(10) {
                break;
            }
            let done = answered(start, intended.max(*next));
            let latency = done - intended;
            latencies.add(latency.as_nanos() as u64);
            slow += usize::from(latency > Duration::from_millis(10));
            *next = done;
        }
        let (mut counts, mut all) = (BucketCounts::empty(), histogram());
        latencies.read(&mut counts);
        counts.add_since(&BucketCounts::empty(), &mut all);
        (percentiles(&all), slow)
    }

    #[test]
    fn a_server_that_freezes_is_charged_for_every_arrival_in_it() {
        // A thousand arrivals meet the frozen server, the last of them for no time: 1 % of all waits are 0.9 s or more.
        // One connection alone takes a little longer, because it has to catch up.
        for connections in [1, 64] {
            let (seen, slow) = ten_seconds(Some(1_000.0), connections);

            assert!((880_000_000..=920_000_000).contains(&seen.p99_ns), "{connections}: {seen:?}");
            assert!(slow > 950, "{slow}");
        }
    }

    #[test]
    fn a_closed_loop_shows_one_bad_sample_of_the_same_freeze() {
        let (seen, slow) = ten_seconds(None, 1);

        assert_eq!(slow, 1);
        assert!(seen.p999_ns < 1_000_000 && seen.max_ns > 990_000_000, "{seen:?}");
    }
}
