//! The end of a server: it stops accepting, lets requests end, and always ends in time.
//!
//! ```text
//!   Serving ──▶ Draining ──▶ ended        listeners close; responses say `connection: close`; HTTP/2 gets GOAWAY
//!                  └─ at the deadline, what is left is cut     sockets and event streams end spread over the drain
//! ```

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::connection::wait::rarely;

/// Longest time for which an idle connection stays open during a drain, so that a request that is on its way is
/// answered.
const IDLE_GRACE_MAX: Duration = Duration::from_secs(1);
/// Time for the last socket to exchange its close frames.
const LAST_SOCKET: Duration = Duration::from_millis(1_500);

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    Draining { since: Instant, deadline: Instant },
}

impl Phase {
    pub(crate) fn draining(drain: Duration) -> Self {
        let since = Instant::now();
        Self::Draining { since, deadline: since + drain }
    }

    pub(crate) const fn is_draining(self) -> bool {
        matches!(self, Self::Draining { .. })
    }

    /// Returns the instant at which idle connections are closed.
    fn idle_end(self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::Draining { since, deadline } => Some(since + ((deadline - since) / 4).min(IDLE_GRACE_MAX)),
        }
    }

    /// Returns the instant at which everything that is left is cut.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::Draining { deadline, .. } => Some(deadline),
        }
    }
}

/// A receiver of the state of a server.
#[derive(Clone, Debug)]
pub(crate) struct DrainSignal(pub(crate) watch::Receiver<Phase>);

impl DrainSignal {
    /// Waits for the start of the drain, or the end of the server.
    pub(crate) async fn started(&mut self) -> Phase {
        // Every poll of a connection comes by here.
        let before = self.0.clone();
        let drains = self.0.wait_for(|phase| phase.is_draining());
        match rarely(|| before.has_changed().unwrap_or(true), drains).await.map(|phase| *phase) {
            Ok(phase) => phase,
            // The server was dropped without a drain.
            Err(_) => Phase::draining(Duration::ZERO),
        }
    }

    /// Waits until idle connections should end.
    pub(crate) async fn idle_end(&mut self) {
        let phase = self.started().await;
        if let Some(end) = phase.idle_end() {
            tokio::time::sleep_until(end).await;
        }
    }

    /// Waits until everything that is left is cut.
    pub(crate) async fn deadline(&mut self) {
        let phase = self.started().await;
        if let Some(deadline) = phase.deadline() {
            tokio::time::sleep_until(deadline).await;
        }
    }

    /// Waits for the instant at which a socket or an event stream should end: they are spread over most of the drain by
    /// their number, so that their clients do not all come back at once.
    pub(crate) async fn turn(&mut self, number: u64) {
        if let Phase::Draining { since, deadline } = self.started().await {
            let share = f64::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as u32 >> 8) / f64::from(1 << 24);
            tokio::time::sleep_until(since + spread(deadline - since).mul_f64(share)).await;
        }
    }
}

/// Returns the part of a drain over which sockets and event streams end, so that the last ones have time for it.
fn spread(drain: Duration) -> Duration {
    (drain * 3 / 4).min(drain.saturating_sub(LAST_SOCKET)).max(drain / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_socket_has_time_to_close() {
        let spread_ms = |drain| spread(Duration::from_millis(drain)).as_millis();

        assert_eq!([0, 400, 2_000, 4_000, 30_000].map(spread_ms), [0, 100, 500, 2_500, 22_500]);
    }
}
