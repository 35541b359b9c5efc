//! The clock of a reactor, which may be paused in tests.

use tokio::runtime::Handle as Reactor;
use tokio::time::Instant;

use crate::time::nanos;

/// Clock of a reactor, for reading from any thread.
pub(crate) struct VirtualClock {
    reactor: Reactor,
    started: Instant,
}

impl VirtualClock {
    pub(crate) const fn new(reactor: Reactor, started: Instant) -> Self {
        Self { reactor, started }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        let _entered = self.reactor.enter();
        nanos(self.started.elapsed())
    }
}
