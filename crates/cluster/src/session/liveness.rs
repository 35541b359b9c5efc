//! When the other node counts as gone: nothing acknowledged, or nothing heard, for longer than the lease.

use std::time::Duration;

use super::config::Config;
use super::event::DownReason;
use super::fault::Fault;

/// Time after a delay of this node within which the other one may still answer.
const GRACE: Duration = Duration::from_millis(500);

/// Times of the last signs of life.
#[derive(Debug)]
pub(super) struct Liveness {
    has_ping: bool,
    heard_at: Duration,
    progress_at: Duration,
    next_ping_at: Duration,
    round_trip: RoundTrip,
}

/// Measurements of PING and PONG.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed round trip.
    pub(super) smoothed: Option<Duration>,
    /// Clock of the other node minus the clock of this one, in nanoseconds, from the fastest round trip.
    pub(super) clock_offset_ns: Option<i64>,
    fastest: Option<Duration>,
    /// Time of the last PING that was answered.
    pub(super) proof: Option<Duration>,
}

impl Liveness {
    pub(super) fn new(now: Duration, has_ping: bool) -> Self {
        let round_trip = RoundTrip::default();
        Self { has_ping, heard_at: now, progress_at: now, next_ping_at: now, round_trip }
    }

    pub(super) const fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// Notes a packet of the session.
    pub(super) const fn heard(&mut self, now: Duration) {
        self.heard_at = now;
    }

    /// Notes an acknowledgement, or that something is in flight after nothing was.
    pub(super) const fn progressed(&mut self, now: Duration) {
        self.progress_at = now;
    }

    /// Leaves out time in which this node did not run.
    pub(super) fn forgive(&mut self, delay: Duration) {
        self.heard_at += delay + GRACE;
        self.progress_at += delay + GRACE;
    }

    /// Returns why the other node counts as gone.
    pub(super) fn failure(&self, now: Duration, is_in_doubt: bool, config: &Config) -> Option<DownReason> {
        if config.has(Fault::IgnoresSilence) {
            return None;
        }
        let is_over = |since: Duration| now.saturating_sub(since) >= config.patience();
        if is_in_doubt && is_over(self.progress_at) {
            return Some(DownReason::NoProgress);
        }
        (self.has_ping && is_over(self.heard_at)).then_some(DownReason::Silent)
    }

    /// Returns true if a PING is due, and plans the next one.
    pub(super) fn takes_ping(&mut self, now: Duration, config: &Config) -> bool {
        let is_due = self.has_ping && self.next_ping_at <= now;
        if is_due {
            self.next_ping_at = now + config.lease / 2;
        }
        is_due
    }

    /// Measures a round trip.
    pub(super) fn on_pong(&mut self, now: Duration, sent_ns: u64, wall_ns: u64, config: &Config) {
        let Some(elapsed) = now.checked_sub(Duration::from_nanos(sent_ns)) else { return };
        self.round_trip.proof = self.round_trip.proof.max(Some(Duration::from_nanos(sent_ns)));
        if elapsed > config.patience() {
            return;
        }
        let round_trip = &mut self.round_trip;
        round_trip.smoothed = Some(round_trip.smoothed.map_or(elapsed, |smoothed| (smoothed * 7 + elapsed) / 8));
        // An old fastest round trip counts less and less, since clocks drift.
        let fastest = round_trip.fastest.map(|fastest| fastest + fastest / 16);
        if fastest.is_none_or(|fastest| elapsed <= fastest) {
            round_trip.fastest = Some(elapsed);
            let middle_ns = config.started_at_ns + sent_ns + elapsed.as_nanos() as u64 / 2;
            let is_known = wall_ns > 0 && config.started_at_ns > 0;
            round_trip.clock_offset_ns = is_known.then(|| wall_ns.wrapping_sub(middle_ns).cast_signed());
        } else {
            round_trip.fastest = fastest;
        }
    }

    /// Returns the time of the next step: a PING, or the end.
    pub(super) fn deadline(&self, is_in_doubt: bool, config: &Config) -> Option<Duration> {
        let ping = self.has_ping.then_some(self.next_ping_at);
        if config.has(Fault::IgnoresSilence) {
            return ping;
        }
        let silent = self.has_ping.then_some(self.heard_at + config.patience());
        let doubt = is_in_doubt.then_some(self.progress_at + config.patience());
        ping.into_iter().chain(silent).chain(doubt).min()
    }
}
