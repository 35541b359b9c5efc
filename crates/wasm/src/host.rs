//! Host functions of the WIT world, one file per interface, with shared checks.
//!
//! They use the [`Context`](rusm_runtime::Context) of the guest's process. Nothing here panics or traps on arguments of
//! a guest: misuse is an error value, and a denied capability is also an event.

mod clock;
pub(super) mod convert;
mod crypto;
mod groups;
mod log;
mod messaging;
mod names;
mod process;
mod random;
mod streams;
mod supervisor;
mod timers;

pub(super) use log::{TEXT_MAX_BYTES as LOG_TEXT_MAX_BYTES, write_line};
pub(super) use messaging::link;
pub(super) use names::refused as name_refused;
pub(super) use process::spawn_params;
pub(super) use random::BYTES_MAX as RANDOM_BYTES_MAX;
pub(super) use supervisor::CHILDREN_MAX;

use std::sync::atomic::Ordering;

use super::bindings::rusm::runtime::log::Level;
use super::bindings::rusm::runtime::types::Error;
use super::guest::capability::Capability;
use super::guest::state::GuestState;
use rusm_runtime::observe::EventKind;

impl GuestState {
    /// Checks that the guest has a capability; reports a refusal to observers, and the first one in the log.
    pub(super) fn require(&self, capability: Capability) -> Result<(), Error> {
        if self.info.grant.has(capability) { Ok(()) } else { Err(self.refuse(capability)) }
    }

    #[cold]
    pub(super) fn refuse(&self, capability: Capability) -> Error {
        self.info.node.denied[capability as usize].fetch_add(1, Ordering::Relaxed);
        let (pid, capability) = (self.ctx.pid(), capability.word());
        if self.info.count_refusal() {
            let text = format!("denied: its profile lacks the capability {capability}");
            write_line(&self.info, pid, Level::Warn, &text);
        }
        self.process().record_event(|| EventKind::Refused { pid, capability });
        Error::Denied(capability.to_owned())
    }

    /// Records the last call of the guest.
    #[inline]
    pub(super) fn record_call(&self, call: super::guest::guest_info::HostCall) {
        self.info.record_call(call);
    }
}
