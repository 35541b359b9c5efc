//! `rusm:runtime/groups`.

use super::words;
use crate::bindings::rusm::runtime::groups::Host;
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::capability::Capability;
use crate::state::State;
use crate::vitals::HostCall;
use rusm_runtime::{GroupError, MonitorRef};

impl Host for State {
    fn join(&mut self, group: String) -> Result<(), Error> {
        self.asks(HostCall::Join);
        self.may(Capability::Groups)?;
        if self.ctx.members(&group).contains(&self.ctx.pid()) {
            return Err(Error::Taken(format!("this process is already in group {group:?}")));
        }
        self.may_hold_more()?;
        self.has_room_for_news()?;
        self.ctx.join(&group).map_err(refused)
    }

    fn leave(&mut self, group: String) -> Result<(), Error> {
        self.asks(HostCall::Leave);
        self.may(Capability::Groups)?;
        self.ctx.leave(&group).map_err(refused)
    }

    fn members(&mut self, group: String) -> Vec<Pid> {
        self.asks(HostCall::Members);
        if self.may(Capability::Groups).is_err() {
            return Vec::new();
        }
        self.ctx.members(&group).into_iter().inspect(|pid| self.meets(*pid)).map(words::pid).collect()
    }

    fn monitor(&mut self, group: String) -> Result<(u64, Vec<Pid>), Error> {
        self.asks(HostCall::MonitorGroup);
        self.may(Capability::Groups)?;
        self.may_hold_more()?;
        self.has_room_for_news()?;
        let (reference, members) = self.ctx.monitor_group(&group).map_err(refused)?;
        Ok((reference.number(), members.into_iter().inspect(|pid| self.meets(*pid)).map(words::pid).collect()))
    }

    fn demonitor(&mut self, monitor: u64) -> bool {
        self.asks(HostCall::DemonitorGroup);
        MonitorRef::numbered(monitor).is_some_and(|reference| self.ctx.demonitor_group(reference))
    }
}

impl State {
    /// Checks that the mailbox has room: notifications of group changes are delivered without checking for room.
    fn has_room_for_news(&self) -> Result<(), Error> {
        if self.process().has_room_at(self.ctx.pid(), false) { Ok(()) } else { Err(Error::MailboxFull) }
    }
}

fn refused(error: GroupError) -> Error {
    match error {
        GroupError::NotMember { group, .. } => Error::NoSuch(format!("this process is not in group {group:?}")),
        GroupError::NoProcess { .. } => Error::NoProcess,
        length @ GroupError::Length { .. } => Error::Invalid(length.to_string()),
    }
}
