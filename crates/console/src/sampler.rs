//! The sampler: converts monotonic counters to rates, once a tick, and measures its own cost.
//!
//! ```text
//!   counters ──▶ Sampler::tick(now) ──▶ Sample ──▶ encode.rs ──▶ frames
//! ```

pub(crate) mod delays;
pub(crate) mod memory;
pub(crate) mod os_cpu;
pub(crate) mod sample;

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::budget::{BusyShare, process_cpu, thread_cpu, thread_cpu_since};
use super::host::RunSnapshot;
use super::lints::{LintConfig, Lints};
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, BodyFact, ProcessRef, SchedulerCounters, Totals};
use sample::{Census, Sample, SchedulerRates};

/// Number of ticks that the throughput window holds.
const WINDOW: usize = rusm_protocol::THROUGHPUT_POINTS;
/// Time over which rates of totals and of CPU time are computed.
const RATE_SPAN: Duration = Duration::from_secs(1);
/// Interval between two reads of the resident set.
const RSS_EVERY: Duration = Duration::from_millis(240);
/// Interval between two sums over the memory of all processes; it grows with their cost.
const CENSUS_EVERY: Duration = Duration::from_secs(1);
/// Share of one core that the census may use.
const CENSUS_SHARE: f64 = 0.0005;

/// Computes the samples.
#[derive(Debug)]
pub(super) struct Sampler {
    runtime: Handle,
    target: Duration,
    /// Pause that was planned before the next sample: longer than the target if samples are expensive.
    planned: Duration,
    seq: u64,
    last: Option<Last>,
    /// Times, totals and CPU time of the last second.
    history: VecDeque<Past>,
    throughput: VecDeque<f64>,
    duty: BusyShare,
    census: Census,
    delays: delays::NodeDelays,
    lints: Lints,
    statm: Option<File>,
    machine: Machine,
    /// The resident set and the time at which it was read.
    rss: Option<(u64, Instant)>,
    limit_bytes: u64,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    run_id: u64,
    ops: u64,
    errors: u64,
    dropped: u64,
    schedulers: Vec<SchedulerCounters>,
}

/// Interval between two reads of the machine's CPU time. The file of the kernel grows with the number of cores.
const MACHINE_EVERY: Duration = Duration::from_secs(1);

/// CPU time of the whole machine.
#[derive(Debug, Default)]
struct Machine {
    /// Time of the last read, CPU time of the machine and of this program.
    read: Option<(Instant, u64, Duration)>,
    others_pct: Option<f64>,
}

impl Machine {
    /// Returns the share of other programs between the last two reads, in per cent of one core.
    fn others_pct(&mut self, now: Instant, own: Duration) -> Option<f64> {
        if let Some((at, ..)) = self.read
            && now - at < MACHINE_EVERY
        {
            return self.others_pct;
        }
        let machine_ns = os_cpu::machine_ns()?;
        if let Some((at, machine_before_ns, own_before)) = self.read.replace((now, machine_ns, own)) {
            let own_ns = own.saturating_sub(own_before).as_nanos() as f64;
            let others_ns = (machine_ns.saturating_sub(machine_before_ns) as f64 - own_ns).max(0.0);
            // After a time without observers, the share would be one of that whole time.
            let is_recent = now - at < 2 * MACHINE_EVERY;
            self.others_pct = is_recent.then(|| per(others_ns / 1e9 * 100.0, (now - at).as_secs_f64()));
        }
        self.others_pct
    }
}

#[derive(Debug)]
struct Past {
    at: Instant,
    totals: Totals,
    cpu: Duration,
    run_id: u64,
    ops: u64,
}

impl Sampler {
    pub(super) fn new(runtime: Handle, target: Duration, lints: LintConfig, now: Instant) -> Self {
        Self {
            runtime,
            target,
            planned: target,
            seq: 0,
            last: None,
            history: VecDeque::new(),
            throughput: VecDeque::with_capacity(WINDOW),
            duty: BusyShare::new(now),
            census: Census::default(),
            delays: delays::NodeDelays::default(),
            lints: Lints::new(lints),
            statm: File::open("/proc/self/statm").ok(),
            machine: Machine::default(),
            rss: None,
            limit_bytes: memory_limit(),
        }
    }

    /// Sets the pause that is planned before the next sample.
    pub(super) fn plan(&mut self, pause: Duration) {
        self.planned = pause;
    }

    /// Takes one sample.
    pub(super) fn tick(&mut self, now: Instant, run: RunSnapshot, clients: u32) -> Sample {
        let cpu_before = thread_cpu();
        let totals = observe::totals(&self.runtime);
        let counters = observe::schedulers(&self.runtime);
        let cpu = process_cpu();
        self.history.push_back(Past { at: now, totals, cpu, run_id: run.run_id, ops: run.ops });
        while self.history.len() > 2 && now - self.history[1].at >= RATE_SPAN {
            self.history.pop_front();
        }
        let mut sample = Sample {
            seq: self.seq,
            uptime: observe::uptime(&self.runtime),
            totals,
            running: observe::running(&self.runtime),
            rss_bytes: self.rss_bytes(now),
            limit_bytes: self.limit_bytes,
            mailboxes: observe::mailbox_bytes(&self.runtime),
            stuck: observe::stuck(&self.runtime),
            supervision: observe::supervision(&self.runtime),
            target_hz: 1.0 / self.target.as_secs_f64(),
            clients,
            ..Sample::default()
        };
        self.seq += 1;
        sample.others_pct = if clients > 0 { self.machine.others_pct(now, cpu) } else { None };
        let polls = counters.iter().map(|counters| counters.polls).sum();
        sample.delays = self.delays.tick(&self.runtime, now, clients, polls);
        self.rates_of_the_last_second(&mut sample, now, cpu, &run);
        self.rates_of_the_last_tick(&mut sample, now, counters, &run);
        sample.throughput = self.throughput.iter().copied().collect();
        sample.run = run;
        self.lints.tick(&self.runtime, &mut sample);
        sample.cost_us = thread_cpu_since(cpu_before).as_secs_f64() * 1e6;
        // The census and the surveys have budgets of their own.
        self.take_census(now, totals.live);
        sample.census = self.census;
        self.lints.survey(&self.runtime, &sample);
        sample.duty_pct = self.duty.pct(now);
        sample
    }

    fn rates_of_the_last_second(&self, sample: &mut Sample, now: Instant, cpu: Duration, run: &RunSnapshot) {
        let Some(past) = self.history.front() else { return };
        let span = (now - past.at).as_secs_f64();
        let rate = |new: u64, old: u64| per(new.saturating_sub(old) as f64, span);
        sample.spawned_per_sec = rate(sample.totals.spawned, past.totals.spawned);
        sample.finished_per_sec = rate(sample.totals.exited, past.totals.exited);
        sample.messages_per_sec = rate(sample.totals.messages, past.totals.messages);
        sample.cpu_pct = per((cpu.saturating_sub(past.cpu)).as_secs_f64() * 100.0, span);
        sample.actual_hz = per((self.history.len() - 1) as f64, span);
        let same_run = self.history.iter().find(|past| past.run_id == run.run_id);
        if let Some(past) = same_run.filter(|_| run.scenario.is_some()) {
            let ops = run.ops.saturating_sub(past.ops) as f64;
            sample.cpu_ns_per_op = per(cpu.saturating_sub(past.cpu).as_nanos() as f64, ops);
        }
    }

    fn rates_of_the_last_tick(
        &mut self,
        sample: &mut Sample,
        now: Instant,
        counters: Vec<SchedulerCounters>,
        run: &RunSnapshot,
    ) {
        if let Some(last) = &self.last {
            let span = (now - last.at).as_secs_f64();
            sample.stalled = now - last.at > self.planned + 3 * self.target + Duration::from_millis(100);
            sample.schedulers =
                counters.iter().zip(&last.schedulers).map(|(new, old)| scheduler_rates(*new, *old, span)).collect();
            if last.run_id == run.run_id && run.scenario.is_some() {
                sample.ops_per_sec = per(run.ops.saturating_sub(last.ops) as f64, span);
                sample.errors_per_sec = per(run.errors.saturating_sub(last.errors) as f64, span);
                sample.dropped_per_sec = per(run.dropped.saturating_sub(last.dropped) as f64, span);
            }
            if self.throughput.len() == WINDOW {
                self.throughput.pop_front();
            }
            self.throughput.push_back(sample.ops_per_sec);
        }
        self.last = Some(Last {
            at: now,
            run_id: run.run_id,
            ops: run.ops,
            errors: run.errors,
            dropped: run.dropped,
            schedulers: counters,
        });
    }

    /// Adds up the memory of processes, as rarely as its budget requires.
    fn take_census(&mut self, now: Instant, live: u64) {
        let pause = CENSUS_EVERY.max(self.census.cost.div_f64(CENSUS_SHARE));
        if self.census.made_at.is_some_and(|made_at| now - made_at < pause) {
            return;
        }
        let before = thread_cpu();
        let mut census = Census { made_at: Some(now), ..Census::default() };
        let mut visitors = self.lints.begin_census();
        if live > 0 {
            let parts = observe::table_parts(&self.runtime);
            let first = visitors.as_ref().map_or(0, |visitors| visitors.first_part(parts));
            for part in (first..parts).chain(0..first) {
                observe::for_each_process(&self.runtime, part, |seen| {
                    let linear_bytes = linear_size(&seen);
                    census.linear_size_bytes += linear_bytes;
                    census.future_bytes += seen.future_bytes().saturating_sub(linear_bytes);
                    census.side_table_bytes += seen.side_table_bytes();
                    census.mailbox_bytes += seen.mailbox_bytes();
                    if let Some(visitors) = &mut visitors {
                        visitors.meet(&seen);
                    }
                });
            }
        }
        self.lints.end_census(&self.runtime, observe::uptime(&self.runtime));
        census.cost = thread_cpu_since(before);
        self.census = census;
    }

    fn rss_bytes(&mut self, now: Instant) -> u64 {
        if let Some((bytes, at)) = self.rss
            && now - at < RSS_EVERY
        {
            return bytes;
        }
        let mut text = [0; 128];
        let read = self.statm.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let pages =
            std::str::from_utf8(&text[..read]).ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let bytes = pages.unwrap_or(0) * rustix::param::page_size() as u64;
        self.rss = Some((bytes, now));
        bytes
    }
}

/// Size of a page of WebAssembly: no guest has less linear memory, if it has any.
const LINEAR_MIN_BYTES: u64 = 64 << 10;

/// Returns the size of a guest's linear memory, which its process counts as a part of its future. Looks only at processes
/// that are large enough.
fn linear_size(seen: &ProcessRef<'_>) -> u64 {
    if seen.future_bytes() < LINEAR_MIN_BYTES {
        return 0;
    }
    match observe::body_info_of(seen).and_then(|info| info.fact("linear_memory_bytes")) {
        Some(BodyFact::Bytes(bytes)) => bytes,
        _ => 0,
    }
}

fn scheduler_rates(new: SchedulerCounters, old: SchedulerCounters, span: f64) -> SchedulerRates {
    let rate = |new: u64, old: u64| per(new.saturating_sub(old) as f64, span);
    SchedulerRates {
        utilisation: (rate(new.busy_ns, old.busy_ns) / 1e9).min(1.0),
        run_queue: new.run_queue,
        polls_per_sec: rate(new.polls, old.polls),
        steals_per_sec: rate(new.steals, old.steals),
        parks_per_sec: rate(new.parks, old.parks),
        wakes_per_sec: rate(new.wakes, old.wakes),
    }
}

/// Returns a quotient, or 0 if it is undefined, so that every number on the wire is valid.
fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}

/// Returns the memory that this process may use: the control group's limit, else the machine's.
fn memory_limit() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    rusm_runtime::cgroup::memory_bytes().into_iter().chain(machine).min().unwrap_or(0)
}
