//! `rusm:runtime/clock`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::bindings::rusm::runtime::clock::Host;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;

impl Host for GuestState {
    fn now_ns(&mut self) -> u64 {
        self.record_call(HostCall::NowNs);
        self.process().elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the guest asks for wall-clock time, which may jump")]
    fn unix_ms(&mut self) -> u64 {
        self.record_call(HostCall::UnixMs);
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}
