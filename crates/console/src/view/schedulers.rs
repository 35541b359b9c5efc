//! One client's view of the schedulers.
//!
//! Rates are the growth of totals between two looks of this client. The CPU time of a scheduler's thread comes from the
//! kernel, which also counts for how long the thread was ready and waited for a core.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rusm_protocol::{IdleInfo, SchedulerInfo, Schedulers, SchedulersView, ServerMessage};

use crate::encode::schedulers as encode;
use crate::encode::schedulers::{Span, ThreadTimes};
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, SchedulerReport, SchedulerWatch};

/// Time of sleep from which a scheduler counts as idle: longer than the steal monitor needs to find work elsewhere.
const IDLE_MIN: Duration = Duration::from_millis(3);

/// A client's view of the schedulers.
pub(crate) struct SchedulersSource {
    view: SchedulersView,
    /// Lets the schedulers publish the age of their queues; from the first look on.
    watch: Option<SchedulerWatch>,
    threads: Vec<ThreadClock>,
    before: Option<Before>,
}

/// State at the last look.
struct Before {
    at: Instant,
    reports: Vec<SchedulerReport>,
    clocks: Vec<Option<ThreadTimes>>,
}

impl SchedulersSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: SchedulersView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self { view, watch: None, threads: Vec::new(), before: None })
    }
}

impl ViewSource for SchedulersSource {
    type Data = Schedulers;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Schedulers {
        let runtime = &node.runtime;
        self.watch.get_or_insert_with(|| SchedulerWatch::new(runtime));
        let reports = observe::scheduler_reports(runtime);
        let at = Instant::now();
        let (offset, len) = (self.view.window.offset as usize, self.view.window.len as usize);
        let shown = offset.min(reports.len())..offset.saturating_add(len).min(reports.len());
        if self.threads.len() != reports.len() {
            self.threads = reports.iter().map(|report| ThreadClock::of(report.thread_id)).collect();
        }
        let clocks: Vec<_> = self.threads[shown.clone()].iter().map(ThreadClock::read).collect();
        let before = self.before.take();
        let span = |number: usize| {
            let before = before.as_ref().filter(|before| before.reports.len() == reports.len())?;
            let clock = before.clocks.get(number - shown.start).copied().flatten();
            Some(Span { seconds: (at - before.at).as_secs_f64(), before: before.reports[number], clock })
        };
        let info = |number: usize| -> SchedulerInfo {
            let clock = clocks[number - shown.start];
            encode::scheduler(runtime, number, &reports[number], span(number).as_ref(), clock)
        };
        let schedulers = shown.clone().map(info).collect();
        let idle = before.as_ref().and_then(|before| idle(&reports, &before.reports, at - before.at));
        let found = Schedulers {
            total: reports.len() as u64,
            offset: shown.start as u64,
            injected: observe::injected(runtime),
            schedulers,
            idle,
            ..Schedulers::default()
        };
        self.before = Some(Before { at, reports, clocks });
        found
    }

    fn message(&self, found: Schedulers, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Schedulers(Schedulers { id: self.view.id, seq, at_ms, cost_us, ..found })
    }
}

/// Finds a scheduler that sleeps although processes wait at another one, now and at the look before: a queue that is full
/// for a moment only is no finding.
fn idle(now: &[SchedulerReport], before: &[SchedulerReport], span: Duration) -> Option<IdleInfo> {
    let ready = |report: &SchedulerReport| report.counters.run_queue;
    let (busy, waits) = now.iter().enumerate().max_by_key(|(_, report)| ready(report))?;
    let waited = before.get(busy).is_some_and(|before| ready(before) > 0);
    let asleep = |report: &SchedulerReport| report.asleep.unwrap_or_default();
    let (idle, sleeper) = now.iter().enumerate().max_by_key(|(_, report)| asleep(report))?;
    let is_found = waited && ready(waits) > 1 && asleep(sleeper) >= IDLE_MIN && busy != idle;
    is_found.then(|| IdleInfo {
        idle: idle as u32,
        busy: busy as u32,
        ready: ready(waits),
        pinned: waits.pinned,
        stolen_per_sec: encode::per_sec(
            waits.stolen,
            before.get(busy).map_or(0, |before| before.stolen),
            span.as_secs_f64(),
        ),
    })
}

/// Reads the times of one thread from the kernel.
struct ThreadClock(Option<File>);

impl ThreadClock {
    fn of(thread_id: u32) -> Self {
        Self(File::open(format!("/proc/self/task/{thread_id}/schedstat")).ok())
    }

    fn read(&self) -> Option<ThreadTimes> {
        let mut text = [0; 96];
        let read = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        times(std::str::from_utf8(&text[..read]).ok()?)
    }
}

/// Parses `cpu_ns core_wait_ns slices`.
fn times(text: &str) -> Option<ThreadTimes> {
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some(ThreadTimes { cpu_ns: numbers.next()?, core_wait_ns: numbers.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusm_runtime::observe::SchedulerCounters;

    fn report(run_queue: u64, asleep_ms: u64) -> SchedulerReport {
        SchedulerReport {
            counters: SchedulerCounters { run_queue, ..SchedulerCounters::default() },
            asleep: (asleep_ms > 0).then(|| Duration::from_millis(asleep_ms)),
            ..SchedulerReport::default()
        }
    }

    #[test]
    fn a_scheduler_that_sleeps_while_others_wait_is_found() {
        let second = Duration::from_secs(1);
        let before = [report(40, 0), report(0, 1)];
        let now = [SchedulerReport { pinned: 2, stolen: 3, ..report(46, 0) }, report(0, 9)];

        let found = idle(&now, &before, second).unwrap();

        let expected = IdleInfo { idle: 1, busy: 0, ready: 46, pinned: 2, stolen_per_sec: 3.0 };
        assert_eq!(found, expected);
        assert_eq!(idle(&now, &[report(0, 0), report(0, 1)], second), None, "nothing waited there before");
        assert_eq!(idle(&[report(46, 0), report(0, 1)], &before, second), None, "it has only just gone to sleep");
        assert_eq!(idle(&[report(1, 0), report(0, 9)], &before, second), None, "the one that runs next");
        assert_eq!(idle(&[], &[], second), None);
    }

    #[test]
    fn the_kernel_tells_the_cpu_time_of_a_thread() {
        let thread = ThreadClock::of(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        let before = thread.read();
        let until = Instant::now() + Duration::from_millis(30);
        while Instant::now() < until {
            std::hint::spin_loop();
        }

        let after = thread.read();

        if let (Some(before), Some(after)) = (before, after) {
            assert!(after.cpu_ns > before.cpu_ns, "{before:?} {after:?}");
        }
        assert_eq!(times("12 34 5\n"), Some(ThreadTimes { cpu_ns: 12, core_wait_ns: 34 }));
        assert_eq!((times("12"), times("x 1 2")), (None, None));
    }
}
