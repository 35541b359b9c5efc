//! Figures of a server: counters that only go up, and the live connections and requests.

pub(crate) mod record;
pub(crate) mod route;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rusm_runtime::Pid;
use rusm_runtime::embed::PerScheduler;
use rusm_runtime::observe::{LiveRequest, RouteReport};

use crate::limits::{Limit, LimitHits};
use crate::router::{Route, RouteRefs, Router};
use crate::stats::record::RequestRecord;

/// Counters of a server that all its processes share.
#[derive(Debug)]
pub(crate) struct ServerStats {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) tls_failures: AtomicU64,
    traffic: PerScheduler<Traffic>,
    pub(crate) waiting: AtomicU64,
    pub(crate) websockets: AtomicU64,
    pub(crate) event_streams: AtomicU64,
    pub(crate) limits: Arc<LimitHits>,
    /// Requests that lead to no route.
    pub(crate) unrouted: RouteRefs,
    routes: Mutex<Vec<Arc<Route>>>,
    live: PerScheduler<Mutex<LiveShard>>,
}

/// Bytes received and sent.
#[derive(Debug, Default)]
struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

#[derive(Debug, Default)]
struct LiveShard {
    entries: Vec<Option<Arc<RequestRecord>>>,
    free: Vec<u32>,
}

/// A place in the table of live requests; given back by [`ServerStats::leave`].
#[derive(Debug)]
pub(crate) struct LiveEntry {
    shard: usize,
    index: u32,
}

impl ServerStats {
    pub(crate) fn new(routes: Vec<Arc<Route>>) -> Self {
        Self {
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            tls_failures: AtomicU64::new(0),
            traffic: PerScheduler::default(),
            waiting: AtomicU64::new(0),
            websockets: AtomicU64::new(0),
            event_streams: AtomicU64::new(0),
            limits: Arc::default(),
            unrouted: RouteRefs::new(&Arc::new(Route::unrouted())),
            routes: Mutex::new(routes),
            live: PerScheduler::default(),
        }
    }

    /// Counts bytes that were received.
    pub(crate) fn add_in(&self, bytes: usize) {
        self.traffic.here().bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that were sent.
    pub(crate) fn add_out(&self, bytes: usize) {
        self.traffic.here().bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the numbers of bytes received and sent.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Traffic) -> &AtomicU64| self.traffic.iter().map(|traffic| of(traffic).load(Relaxed)).sum();
        (sum(|traffic| &traffic.bytes_in), sum(|traffic| &traffic.bytes_out))
    }

    /// Replaces the routes after a reload. Routes that were there before go on with their figures.
    pub(crate) fn replace_routes(&self, router: &Router) {
        let mut shown = self.routes.lock();
        router.resume(&shown);
        *shown = router.routes();
    }

    /// Adds a request to those that are handled now, in a process.
    pub(crate) fn enter(&self, record: Arc<RequestRecord>, pid: Pid) -> LiveEntry {
        record.set_process(pid);
        let shard = PerScheduler::<Mutex<LiveShard>>::index();
        let mut entries = self.live.at(shard).lock();
        let index = if let Some(index) = entries.free.pop() {
            entries.entries[index as usize] = Some(record);
            index
        } else {
            entries.entries.push(Some(record));
            (entries.entries.len() - 1) as u32
        };
        drop(entries);
        LiveEntry { shard, index }
    }

    /// Removes a request from those that are handled now.
    pub(crate) fn leave(&self, entry: &LiveEntry) {
        let mut shard = self.live.at(entry.shard).lock();
        let record = shard.entries[entry.index as usize].take();
        shard.free.push(entry.index);
        drop(shard);
        // The end of a record may write a line, which must not happen under the lock.
        drop(record);
    }

    /// Calls `visit` with each request that is handled now.
    pub(crate) fn for_each_live(&self, visit: &mut dyn FnMut(&Arc<RequestRecord>)) {
        let mut records = Vec::new();
        for shard in self.live.iter() {
            // Visited without the lock: requests must not wait for an observer.
            records.extend(shard.lock().entries.iter().flatten().cloned());
            records.drain(..).for_each(|record| visit(&record));
        }
    }

    /// Returns the number of requests and sockets that are handled now.
    pub(crate) fn live_total(&self) -> u64 {
        let live = |shard: &LiveShard| (shard.entries.len() - shard.free.len()) as u64;
        self.live.iter().map(|shard| live(&shard.lock())).sum()
    }

    /// Returns the live requests and sockets that have lasted longest, and the number of all.
    pub(crate) fn live(&self, max: usize) -> (Vec<LiveRequest>, u64) {
        let mut oldest: Vec<Arc<RequestRecord>> = Vec::new();
        let mut total = 0;
        self.for_each_live(&mut |record| {
            total += 1;
            let at = oldest.partition_point(|known| known.started <= record.started);
            if at < max {
                oldest.insert(at, Arc::clone(record));
                oldest.truncate(max);
            }
        });
        (oldest.iter().filter_map(|record| record.live()).collect(), total)
    }

    /// Returns the figures of the routes, with the bytes of live requests.
    pub(crate) fn routes(&self) -> Vec<RouteReport> {
        let routes = self.routes.lock().clone();
        let unrouted = self.unrouted.here().stats().report();
        let has_unrouted = unrouted.responses.iter().any(|count| *count > 0);
        let mut reports: Vec<_> = routes.iter().map(|route| route.stats().report()).collect();
        let mut indices: Vec<_> = routes.iter().map(|route| Arc::as_ptr(route.stats())).zip(0..).collect();
        indices.sort_unstable();
        self.for_each_live(&mut |record| {
            // A route that a reload has removed is in no report.
            let stats = Arc::as_ptr(record.route.stats());
            if let Ok(at) = indices.binary_search_by_key(&stats, |(stats, _)| *stats) {
                let (bytes_in, bytes_out) = record.bytes();
                let report: &mut RouteReport = &mut reports[indices[at].1];
                report.bytes_in_total += bytes_in;
                report.bytes_out_total += bytes_out;
            }
        });
        reports.extend(has_unrouted.then_some(unrouted));
        reports
    }

    pub(crate) fn hit(&self, limit: Limit) {
        self.limits.count(limit);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::stats::record::tests::record_of;

    #[test]
    fn the_oldest_live_requests_come_first_and_a_dropped_one_is_gone() {
        let stats = Arc::new(ServerStats::new(Vec::new()));
        let now = Instant::now();
        let enter = |slot: u32, age: u64| {
            let started = now.checked_sub(Duration::from_millis(age)).unwrap();
            stats.enter(Arc::new(record_of("GET /", started)), Pid::local(slot, 1))
        };
        let entries: Vec<_> = (1..=40).map(|slot| enter(slot, u64::from(slot))).collect();
        for entry in &entries {
            stats.leave(entry);
        }

        let (oldest, total) = stats.live(3);

        assert_eq!(total, 0, "all entries were given back");
        assert!(oldest.is_empty());
        let _kept: Vec<_> = (1..=40).map(|slot| enter(slot, u64::from(slot))).collect();
        let (oldest, total) = stats.live(3);
        assert_eq!((total, oldest.len()), (40, 3));
        assert_eq!(oldest[0].pid.slot(), 40);
    }

    #[test]
    fn the_bytes_of_a_route_are_those_of_its_requests_whether_they_have_ended_or_not() {
        let route = Arc::new(Route::new("GET /", Vec::new(), Box::new(async |_: crate::Request| ())));
        let stats = Arc::new(ServerStats::new(vec![Arc::clone(&route)]));
        let record = |slot| {
            let mut record = record_of("GET /", Instant::now());
            record.route = Arc::new(Arc::clone(&route));
            let record = Arc::new(record);
            record.add_in(100);
            record.add_out(slot);
            stats.enter(record, Pid::local(slot as u32, 1))
        };

        let (ended, live) = (record(7), record(8));
        stats.leave(&ended);

        let reports = stats.routes();
        assert_eq!((reports[0].bytes_in_total, reports[0].bytes_out_total), (200, 15));
        stats.leave(&live);
        assert_eq!(stats.routes(), reports);
    }
}
