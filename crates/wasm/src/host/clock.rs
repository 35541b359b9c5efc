//! `rusm:runtime/clock`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::bindings::rusm::runtime::clock::Host;
use crate::state::State;
use crate::vitals::HostCall;

impl Host for State {
    fn now_ns(&mut self) -> u64 {
        self.asks(HostCall::NowNs);
        self.process().elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the guest asks for wall-clock time, which may jump")]
    fn unix_ms(&mut self) -> u64 {
        self.asks(HostCall::UnixMs);
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}
