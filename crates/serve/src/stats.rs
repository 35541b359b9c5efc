//! Figures of a server: counters that only go up, and the live connections and requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use rusm_runtime::Pid;

use crate::limits::{Limit, LimitHits};

/// Steps of the histogram in each power of two: values are off by at most one eighth.
const STEPS: u64 = 8;
const BUCKETS: usize = 64 * STEPS as usize;
/// Parts of the table of live requests, so that schedulers rarely wait for each other.
const SHARDS: usize = 16;

/// A histogram of durations, in nanoseconds.
pub(crate) struct Histogram(Box<[AtomicU64]>);

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").finish_non_exhaustive()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    pub(crate) fn record(&self, value: Duration) {
        self.0[bucket_of(value.as_nanos() as u64)].fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Latency {
        Latency(self.0.iter().map(|bucket| bucket.load(Relaxed)).collect())
    }
}

/// Returns the index of the bucket of a value: exact below 16, then eight steps for each power of two.
fn bucket_of(value: u64) -> usize {
    if value < 2 * STEPS {
        return value as usize;
    }
    let power = 63 - u64::from(value.leading_zeros());
    ((power - 2) * STEPS + ((value >> (power - 3)) & (STEPS - 1))) as usize
}

/// Returns the largest value of a bucket.
fn largest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let (power, step) = (bucket / STEPS + 2, bucket % STEPS);
    let next = (u128::from(STEPS + step) + 1) << (power - 3);
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

/// A histogram of durations at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency(Vec<u64>);

impl Latency {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the duration that a share of all values, from 0 to 1, does not exceed; at most one eighth too long.
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        Duration::from_nanos(bucket.map_or(0, largest_of))
    }

    /// Returns the values that were recorded after an earlier snapshot.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.0.iter().chain(std::iter::repeat(&0));
        Self(self.0.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect())
    }
}

/// Counters of a route.
#[derive(Debug)]
pub(crate) struct RouteStats {
    label: Arc<str>,
    in_flight: AtomicU64,
    /// Responses by the first digit of their status.
    classes: [AtomicU64; 6],
    crashed: AtomicU64,
    cancelled: AtomicU64,
    latency: Histogram,
}

impl RouteStats {
    pub(crate) fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            in_flight: AtomicU64::new(0),
            classes: Default::default(),
            crashed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            latency: Histogram::default(),
        }
    }

    pub(crate) const fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Counts the end of a request; without a status, the client has gone before the response.
    pub(crate) fn end(&self, status: Option<StatusCode>, took: Duration) {
        self.in_flight.fetch_sub(1, Relaxed);
        match status {
            Some(status) => {
                self.classes[usize::from(status.as_u16() / 100).min(5)].fetch_add(1, Relaxed);
                self.latency.record(took);
            }
            None => drop(self.cancelled.fetch_add(1, Relaxed)),
        }
    }

    pub(crate) fn count_crash(&self) {
        self.crashed.fetch_add(1, Relaxed);
    }

    fn report(&self) -> RouteReport {
        RouteReport {
            label: Arc::clone(&self.label),
            in_flight: self.in_flight.load(Relaxed),
            responses: std::array::from_fn(|class| self.classes[class].load(Relaxed)),
            crashed_total: self.crashed.load(Relaxed),
            cancelled_total: self.cancelled.load(Relaxed),
            latency: self.latency.snapshot(),
        }
    }
}

/// Figures of a route. Counters that end in `_total` never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteReport {
    /// The route, as it was written.
    pub label: Arc<str>,
    /// Number of requests that are handled now.
    pub in_flight: u64,
    /// Number of responses by the first digit of their status.
    pub responses: [u64; 6],
    /// Number of requests that ended by a crash of their process; their clients got 500.
    pub crashed_total: u64,
    /// Number of requests that were cancelled by their client before the response.
    pub cancelled_total: u64,
    /// Time from the head of a request to the head of its response.
    pub latency: Latency,
}

/// Kind of a live entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// A request without a complete response.
    Request,
    /// A WebSocket.
    WebSocket,
    /// A stream of events.
    Events,
}

/// A request or a socket that is handled now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Process that handles it.
    pub pid: Pid,
    /// Its kind.
    pub kind: LiveKind,
    /// Its route.
    pub route: Arc<str>,
    /// The path of its target.
    pub path: Box<str>,
    /// Address of its client.
    pub peer: SocketAddr,
    /// Start of the request.
    pub since: Instant,
}

/// Counters of a server that all its processes share.
#[derive(Debug)]
pub(crate) struct ServerStats {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) tls_failures: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) websockets: AtomicU64,
    pub(crate) event_streams: AtomicU64,
    pub(crate) limits: LimitHits,
    /// Requests that lead to no route.
    pub(crate) unrouted: Arc<RouteStats>,
    routes: Mutex<Vec<Arc<RouteStats>>>,
    live: [Mutex<LiveShard>; SHARDS],
}

#[derive(Debug, Default)]
struct LiveShard {
    entries: Vec<Option<Live>>,
    free: Vec<u32>,
}

/// A place in the table of live requests; it is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct LiveEntry {
    stats: Arc<ServerStats>,
    shard: u16,
    index: u32,
}

impl ServerStats {
    pub(crate) fn new(routes: Vec<Arc<RouteStats>>) -> Self {
        Self {
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            tls_failures: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            websockets: AtomicU64::new(0),
            event_streams: AtomicU64::new(0),
            limits: LimitHits::default(),
            unrouted: Arc::new(RouteStats::new("(no route)")),
            routes: Mutex::new(routes),
            live: Default::default(),
        }
    }

    /// Replaces the routes after a reload.
    pub(crate) fn set_routes(&self, routes: Vec<Arc<RouteStats>>) {
        *self.routes.lock() = routes;
    }

    pub(crate) fn enter(self: &Arc<Self>, live: Live) -> LiveEntry {
        let shard = live.pid.slot() as usize % SHARDS;
        let mut entries = self.live[shard].lock();
        let index = if let Some(index) = entries.free.pop() {
            entries.entries[index as usize] = Some(live);
            index
        } else {
            entries.entries.push(Some(live));
            (entries.entries.len() - 1) as u32
        };
        drop(entries);
        LiveEntry { stats: Arc::clone(self), shard: shard as u16, index }
    }

    /// Returns the live requests and sockets that have lasted longest, and the number of all.
    pub(crate) fn live(&self, max: usize) -> (Vec<Live>, u64) {
        let mut oldest: Vec<Live> = Vec::new();
        let mut total = 0;
        for shard in &self.live {
            let shard = shard.lock();
            for live in shard.entries.iter().flatten() {
                total += 1;
                let at = oldest.partition_point(|known| known.since <= live.since);
                if at < max {
                    oldest.insert(at, live.clone());
                    oldest.truncate(max);
                }
            }
        }
        (oldest, total)
    }

    pub(crate) fn routes(&self) -> Vec<RouteReport> {
        let routes = self.routes.lock().clone();
        let unrouted = self.unrouted.report();
        let has_unrouted = unrouted.responses.iter().any(|count| *count > 0);
        routes.iter().map(|route| route.report()).chain(has_unrouted.then_some(unrouted)).collect()
    }

    pub(crate) fn hit(&self, limit: Limit) {
        self.limits.count(limit);
    }
}

impl LiveEntry {
    pub(crate) fn set_kind(&self, kind: LiveKind) {
        if let Some(live) = &mut self.stats.live[usize::from(self.shard)].lock().entries[self.index as usize] {
            live.kind = kind;
        }
    }
}

impl Drop for LiveEntry {
    fn drop(&mut self) {
        let mut shard = self.stats.live[usize::from(self.shard)].lock();
        shard.entries[self.index as usize] = None;
        shard.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_values_of_about_the_same_size() {
        let mut last = None;
        for value in (0..5000).chain([1 << 20, (1 << 20) + 1, u64::MAX / 2, u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(last.is_none_or(|last| bucket >= last), "{value}");
            assert!(largest_of(bucket) >= value, "{value}: {}", largest_of(bucket));
            assert!(largest_of(bucket) as f64 <= value as f64 * 1.126 + 1.0, "{value}: {}", largest_of(bucket));
            last = Some(bucket);
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn a_percentile_is_that_of_the_values_since_a_snapshot() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_secs(9));
        let before = histogram.snapshot();
        for ms in 1..=100 {
            histogram.record(Duration::from_millis(ms));
        }

        let since = histogram.snapshot().since(&before);

        assert_eq!(since.count(), 100);
        let p50_ms = since.percentile(0.5).as_secs_f64() * 1e3;
        assert!((50.0..57.0).contains(&p50_ms), "{p50_ms}");
        assert!(since.percentile(1.0) < Duration::from_millis(115));
    }

    #[test]
    fn the_oldest_live_requests_come_first_and_a_dropped_one_is_gone() {
        let stats = Arc::new(ServerStats::new(Vec::new()));
        let now = Instant::now();
        let enter = |slot: u32, age: u64| {
            stats.enter(Live {
                pid: Pid::local(slot, 1),
                kind: LiveKind::Request,
                route: "GET /".into(),
                path: "/".into(),
                peer: ([127, 0, 0, 1], 1).into(),
                since: now.checked_sub(Duration::from_millis(age)).unwrap(),
            })
        };
        let entries: Vec<_> = (1..=40).map(|slot| enter(slot, u64::from(slot))).collect();
        drop(entries.into_iter().nth(39));

        let (oldest, total) = stats.live(3);

        assert_eq!(total, 0, "all entries were dropped with the iterator");
        assert!(oldest.is_empty());
        let _kept: Vec<_> = (1..=40).map(|slot| enter(slot, u64::from(slot))).collect();
        let (oldest, total) = stats.live(3);
        assert_eq!((total, oldest.len()), (40, 3));
        assert_eq!(oldest[0].pid.slot(), 40);
    }
}
