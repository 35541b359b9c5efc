//! Reads the meter every 100 ms, cuts off the warm-up, and keeps intervals and distributions.
//!
//! ```text
//!   meter ──▶ reading ─┬─▶ interval: operations, CPU time       ──▶ steady? ──▶ cut: all figures below restart
//!                      ├─▶ window: latencies of the last second
//!                      └─▶ cumulative: latencies since the cut
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rusm_protocol::LatencySnapshot;

use crate::measure::clock::ClockCost;
use crate::measure::interval::Interval;
use crate::measure::latency::{BucketCounts, Latencies, histogram, percentiles};
use crate::measure::meter::{Meter, Sums, sampling_for};
use crate::measure::steady::{SteadyRule, WarmUpState};
use crate::measure::usage::{MachineCpu, machine_cpu, process_cpu};

/// Number of readings in the window: one second.
const WINDOW: usize = 10;
/// Maximum number of intervals kept: the last 28 hours.
const INTERVALS_MAX: usize = 1_000_000;

/// All counters at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) sums: Sums,
    pub(crate) cpu: Duration,
}

/// Time and CPU time of all pauses of a run: no figure contains them.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    duration: Duration,
    cpu: Duration,
    machine: MachineCpu,
    /// Start of the present pause, and the CPU time of the machine then.
    since: Option<(Instant, Duration, Option<MachineCpu>)>,
}

impl Reading {
    fn take(meter: &Meter, now: Instant, pauses: &Pauses) -> Self {
        let at = now.checked_sub(pauses.duration).unwrap_or(now);
        Self { at, sums: meter.sums(), cpu: process_cpu().saturating_sub(pauses.cpu) }
    }

    fn until(&self, later: &Self) -> Interval {
        Interval {
            duration: later.at - self.at,
            ops: later.sums.ops.saturating_sub(self.sums.ops),
            cpu: later.cpu.saturating_sub(self.cpu),
            latency_p99_ns: 0,
            latency_max_ns: 0,
        }
    }
}

/// The end of a warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) reading: Reading,
    pub(crate) steady: bool,
    /// CPU time of all processes of the machine.
    pub(crate) machine_cpu: Option<MachineCpu>,
}

/// Figures of a run in progress.
pub(crate) struct Sampler {
    meter: Arc<Meter>,
    rule: SteadyRule,
    clock: ClockCost,
    ops_per_timed: u64,
    first: Reading,
    last: Reading,
    pauses: Pauses,
    cut: Option<Cut>,
    /// Intervals since the cut, or since the start before the cut.
    intervals: VecDeque<Interval>,
    /// Readings of the latencies, newest last.
    window: VecDeque<BucketCounts>,
    window_histogram: Histogram<u64>,
    interval_histogram: Histogram<u64>,
    cumulative: Histogram<u64>,
    lags_before: BucketCounts,
    /// Readings of the service times and of the pacer's lags at the cut.
    latency_parts_before: [BucketCounts; 2],
}

impl Sampler {
    pub(crate) fn new(meter: Arc<Meter>, rule: SteadyRule, clock: ClockCost, ops_per_timed: u64, now: Instant) -> Self {
        let first = Reading::take(&meter, now, &Pauses::default());
        Self {
            meter,
            rule,
            clock,
            ops_per_timed,
            first,
            last: first,
            pauses: Pauses::default(),
            cut: None,
            intervals: VecDeque::new(),
            window: VecDeque::from([BucketCounts::empty()]),
            window_histogram: histogram(),
            interval_histogram: histogram(),
            cumulative: histogram(),
            lags_before: BucketCounts::empty(),
            latency_parts_before: [BucketCounts::empty(), BucketCounts::empty()],
        }
    }

    /// Allocates and touches the memory for all intervals of a run now. A list that grows by 560 bytes per second would
    /// look like a leak in a run that searches for one.
    pub(crate) fn reserve(&mut self, intervals: usize) {
        self.intervals.resize(intervals.min(INTERVALS_MAX), Interval::default());
        self.intervals.clear();
    }

    /// Begins a pause: the time until [`go_on`](Self::go_on), and what the process uses in it, are not measured.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.tick(now);
        self.pauses.since = Some((now, process_cpu(), machine_cpu()));
    }

    /// Ends a pause.
    pub(crate) fn go_on(&mut self, now: Instant) {
        let Some((since, cpu, machine)) = self.pauses.since.take() else { return };
        self.pauses.duration += now.saturating_duration_since(since);
        self.pauses.cpu += process_cpu().saturating_sub(cpu);
        if let (Some(before), Some(after)) = (machine, machine_cpu()) {
            self.pauses.machine.busy += after.busy.saturating_sub(before.busy);
            self.pauses.machine.stolen += after.stolen.saturating_sub(before.stolen);
        }
    }

    /// Returns true in a pause.
    pub(crate) const fn is_paused(&self) -> bool {
        self.pauses.since.is_some()
    }

    /// Returns the CPU time of the machine since its start without that of pauses; `None` if it is not known.
    pub(crate) fn machine_cpu(&self) -> Option<MachineCpu> {
        let MachineCpu { busy, stolen } = machine_cpu()?;
        let paused = &self.pauses.machine;
        Some(MachineCpu { busy: busy.saturating_sub(paused.busy), stolen: stolen.saturating_sub(paused.stolen) })
    }

    /// Returns the length of all pauses that are over, and the start of the present one.
    pub(crate) fn pauses(&self) -> (Duration, Option<Instant>) {
        (self.pauses.duration, self.pauses.since.map(|(since, ..)| since))
    }

    /// Takes a reading; does nothing in a pause.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.pauses.since.is_some() {
            return;
        }
        let reading = Reading::take(&self.meter, now, &self.pauses);
        if reading.at == self.last.at {
            return;
        }
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.pop_front();
        }
        let interval = self.last.until(&reading);
        self.last = reading;
        let (latency_p99_ns, latency_max_ns) = self.read_latencies();
        self.intervals.push_back(Interval { latency_p99_ns, latency_max_ns, ..interval });
        if self.cut.is_none() {
            self.judge();
        }
    }

    /// Adds the latencies since the last reading and returns their 99th percentile and maximum.
    fn read_latencies(&mut self) -> (u64, u64) {
        let mut counts =
            if self.window.len() > WINDOW { self.window.pop_front() } else { None }.unwrap_or_else(BucketCounts::empty);
        self.meter.latencies.read(&mut counts);
        self.interval_histogram.reset();
        if let Some(before) = self.window.back() {
            counts.add_since(before, &mut self.interval_histogram);
        }
        // This cannot fail: both histograms have the same bounds.
        let added = self.cumulative.add(&self.interval_histogram);
        debug_assert!(added.is_ok(), "histograms of the same bounds add up");
        self.window.push_back(counts);
        let seen = &self.interval_histogram;
        if seen.is_empty() { (0, 0) } else { (seen.value_at_quantile(0.99), seen.max()) }
    }

    fn judge(&mut self) {
        let rates: Vec<f64> = self.intervals.iter().map(Interval::ops_per_sec).collect();
        let steady = match self.rule.judge(self.last.at - self.first.at, &rates) {
            WarmUpState::Warming => return,
            WarmUpState::Steady => true,
            WarmUpState::GaveUp => false,
        };
        let timed_ns = self.cpu_ns_per_op(WINDOW) * self.ops_per_timed as f64;
        // If nothing ran during the warm-up, the interval of the card stays.
        if timed_ns > 0.0 {
            self.meter.set_sampling(sampling_for(self.clock.timing_ns + self.meter.timing_extra_ns(), timed_ns));
        }
        self.meter.lags.read(&mut self.lags_before);
        if let Some(latency_parts) = self.meter.latency_parts.get() {
            let [services, pacer] = &mut self.latency_parts_before;
            latency_parts.services.read(services);
            latency_parts.pacer.read(pacer);
        }
        self.cumulative.reset();
        self.intervals.clear();
        self.cut = Some(Cut { reading: self.last, steady, machine_cpu: self.machine_cpu() });
    }

    /// Returns the CPU time of the process per operation over the last intervals; 0 without operations.
    pub(crate) fn cpu_ns_per_op(&self, intervals: usize) -> f64 {
        let recent = self.intervals.iter().rev().take(intervals);
        let (cpu, ops) =
            recent.fold((Duration::ZERO, 0), |(cpu, ops), interval| (cpu + interval.cpu, ops + interval.ops));
        if ops == 0 { 0.0 } else { cpu.as_nanos() as f64 / ops as f64 }
    }

    /// Returns the end of the warm-up once it is over.
    pub(crate) const fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns the first reading.
    pub(crate) const fn first(&self) -> &Reading {
        &self.first
    }

    /// Returns the last reading.
    pub(crate) const fn last(&self) -> &Reading {
        &self.last
    }

    /// Returns the time measured since the warm-up.
    pub(crate) fn measured(&self) -> Duration {
        self.cut.map_or(Duration::ZERO, |cut| self.last.at - cut.reading.at)
    }

    /// Returns the intervals since the warm-up.
    pub(crate) fn intervals(&mut self) -> &[Interval] {
        if self.cut.is_some() { self.intervals.make_contiguous() } else { &[] }
    }

    /// Returns the latency since the warm-up, or since the start while the warm-up lasts.
    pub(crate) fn cumulative(&self) -> LatencySnapshot {
        percentiles(&self.cumulative)
    }

    /// Returns the latency over the last second.
    pub(crate) fn window(&mut self) -> LatencySnapshot {
        self.window_histogram.reset();
        if let (Some(earliest), Some(newest)) = (self.window.front(), self.window.back()) {
            newest.add_since(earliest, &mut self.window_histogram);
        }
        percentiles(&self.window_histogram)
    }

    /// Returns the lateness of the starts of open-loop operations since the warm-up.
    pub(crate) fn lags(&self) -> LatencySnapshot {
        since(&self.meter.lags, &self.lags_before)
    }

    /// Returns the service times, if the scenario measures them separately.
    pub(crate) fn services(&self) -> Option<LatencySnapshot> {
        self.meter
            .latency_parts
            .get()
            .map(|latency_parts| since(&latency_parts.services, &self.latency_parts_before[0]))
    }

    /// Returns the lateness of the generator when nothing blocked it, if the scenario measures it separately and has
    /// waited.
    pub(crate) fn pacer(&self) -> Option<LatencySnapshot> {
        let pacer = self
            .meter
            .latency_parts
            .get()
            .map(|latency_parts| since(&latency_parts.pacer, &self.latency_parts_before[1]));
        pacer.filter(|pacer| pacer.count > 0)
    }

    /// Returns the cost of reading the clock on this machine.
    pub(crate) const fn clock(&self) -> ClockCost {
        self.clock
    }
}

/// Returns the latencies that were added since an earlier reading.
fn since(latencies: &Latencies, before: &BucketCounts) -> LatencySnapshot {
    let (mut now, mut added) = (BucketCounts::empty(), histogram());
    latencies.read(&mut now);
    now.add_since(before, &mut added);
    percentiles(&added)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: ClockCost = ClockCost { read_ns: 25.0, timing_ns: 60.0 };
    const RULE: SteadyRule = SteadyRule { min: Duration::from_secs(1), max: Duration::from_secs(2) };

    struct Fixture {
        sampler: Sampler,
        recorder: crate::measure::meter::Recorder,
        now: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            let meter = Arc::new(Meter::new(1, 1, 1));
            let now = Instant::now();
            Self { recorder: meter.recorder(), sampler: Sampler::new(meter, RULE, CLOCK, 1, now), now }
        }

        fn tick(&mut self, ops: u64) {
            for _ in 0..ops {
                let stamp = self.recorder.begin();
                self.recorder.end(stamp);
            }
            self.recorder.count(ops);
            self.now += Duration::from_millis(100);
            self.sampler.tick(self.now);
        }
    }

    #[test]
    fn what_happened_in_the_warm_up_is_not_in_the_figures() {
        let mut fixture = Fixture::new();

        (0..10).for_each(|_| fixture.tick(50));
        assert!(fixture.sampler.cut().is_some_and(|cut| cut.steady));
        fixture.sampler.meter.set_sampling(1);
        let drawn_at_the_old_rate = 2 * u64::from(crate::measure::meter::SAMPLING_MAX);
        fixture.tick(drawn_at_the_old_rate);
        let before = fixture.sampler.cumulative().count;
        (0..3).for_each(|_| fixture.tick(7));

        assert_eq!(fixture.sampler.cumulative().count - before, 21);
        assert_eq!(fixture.sampler.intervals().len(), 4);
        assert_eq!(fixture.sampler.measured(), Duration::from_millis(400));
    }

    #[test]
    fn a_pause_is_in_no_figure() {
        let mut fixture = Fixture::new();
        (0..10).for_each(|_| fixture.tick(50));
        (0..3).for_each(|_| fixture.tick(50));

        fixture.sampler.pause(fixture.now);
        (0..40).for_each(|_| fixture.tick(0));
        let paused = fixture.sampler.pauses().1;
        fixture.sampler.go_on(fixture.now);
        (0..2).for_each(|_| fixture.tick(50));

        assert!(paused.is_some());
        assert_eq!(fixture.sampler.measured(), Duration::from_millis(500));
        assert!(fixture.sampler.intervals().iter().all(|interval| interval.ops == 50));
        assert_eq!(fixture.sampler.pauses(), (Duration::from_secs(4), None));
    }

    #[test]
    fn a_run_that_never_settles_is_measured_in_the_end() {
        let mut fixture = Fixture::new();

        (0..20).for_each(|step| fixture.tick(step % 5 * 100));

        assert!(fixture.sampler.cut().is_some_and(|cut| !cut.steady));
    }

    #[test]
    fn the_window_forgets_what_is_older_than_a_second() {
        let mut fixture = Fixture::new();
        fixture.tick(50);
        assert_eq!(fixture.sampler.window().count, 50);

        (0..9).for_each(|_| fixture.tick(0));
        assert_eq!(fixture.sampler.window().count, 50);
        fixture.tick(0);

        assert_eq!(fixture.sampler.window().count, 0);
        assert_eq!(fixture.sampler.cumulative().count, 50);
    }
}
