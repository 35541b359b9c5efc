//! `rusm:runtime/timers`.

use std::time::Duration;

use super::convert;
use crate::bindings::rusm::runtime::timers::Host;
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use rusm_runtime::TaggedBytes;

/// Maximum number of timers that a guest has set, per millisecond of the period of a new repeating timer.
const TIMERS_PER_MS: u64 = 10;

impl Host for GuestState {
    fn send_after(&mut self, to: Pid, delay_ms: u64, tag: u64, body: Vec<u8>) -> Result<u64, Error> {
        self.record_call(HostCall::SendAfter);
        self.check_timer(to, &body)?;
        let bytes = body.len();
        let (to, delay, body) = (convert::pid_of(to), Duration::from_millis(delay_ms), self.timer_message(body, None)?);
        // A timer that fires does not check for room: its messages would pile up at a process that does not receive.
        if !self.process().mailbox_has_room(to, false) {
            return Err(Error::MailboxFull);
        }
        let timer = if tag == 0 {
            self.ctx.send_after(to, delay, body)
        } else {
            self.ctx.send_after(to, delay, TaggedBytes { tag, body })
        };
        Ok(self.store_timer(timer, bytes))
    }

    fn send_every(&mut self, to: Pid, period_ms: u64, tag: u64, body: Vec<u8>) -> Result<u64, Error> {
        self.record_call(HostCall::SendEvery);
        self.check_timer(to, &body)?;
        if period_ms == 0 {
            return Err(Error::Invalid("a period of 0 ms is too short: use at least 1 ms".to_owned()));
        }
        // Limits a guest to about 100,000 firings a second, all timers together (the k-th timer adds at most a k-th of
        // 10,000): one thread serves the timers of all processes.
        let most = period_ms.saturating_mul(TIMERS_PER_MS);
        let timers = self.timers_count(most);
        if timers as u64 > most {
            return Err(Error::Limit(format!("a period of {period_ms} ms is too short with {timers} timers set")));
        }
        let bytes = body.len();
        let (to, period, body) =
            (convert::pid_of(to), Duration::from_millis(period_ms), self.timer_message(body, Some(period_ms))?);
        let timer = if tag == 0 {
            self.ctx.send_interval(to, period, body)
        } else {
            self.ctx.send_interval(to, period, TaggedBytes { tag, body })
        };
        Ok(self.store_timer(timer, bytes))
    }

    fn cancel(&mut self, timer: u64) -> Option<u64> {
        self.record_call(HostCall::Cancel);
        let timer = self.take_timer(timer)?;
        self.ctx.cancel(timer).map(|left| left.as_millis() as u64)
    }
}

impl GuestState {
    fn check_timer(&mut self, to: Pid, body: &[u8]) -> Result<(), Error> {
        self.require(Capability::Timers)?;
        self.may_send(convert::pid_of(to))?;
        self.check_length(body)?;
        self.has_room_for_timer(body.len())
    }
}
