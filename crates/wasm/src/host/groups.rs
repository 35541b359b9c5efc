//! `rusm:runtime/groups`.

use super::convert;
use crate::bindings::rusm::runtime::groups::Host;
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::name::check_name;
use crate::guest::state::GuestState;
use rusm_runtime::{GroupError, MonitorRef};

impl Host for GuestState {
    fn join(&mut self, group: String) -> Result<(), Error> {
        self.record_call(HostCall::Join);
        self.require(Capability::Groups)?;
        check_group(&group)?;
        if self.ctx.members(&group).contains(&self.ctx.pid()) {
            return Err(Error::Taken(format!("this process is already in group {group:?}")));
        }
        self.check_registrations()?;
        self.check_mailbox_room()?;
        // Joining and leaving in a loop would fill the mailboxes of processes that monitor the group.
        if !self.process().group_monitors_have_room(&group) {
            return Err(Error::MailboxFull);
        }
        self.ctx.join(&group).map_err(refused)
    }

    fn leave(&mut self, group: String) -> Result<(), Error> {
        self.record_call(HostCall::Leave);
        self.require(Capability::Groups)?;
        check_group(&group)?;
        self.ctx.leave(&group).map_err(refused)
    }

    fn members(&mut self, group: String) -> Vec<Pid> {
        self.record_call(HostCall::Members);
        if self.require(Capability::Groups).is_err() || check_group(&group).is_err() {
            return Vec::new();
        }
        self.ctx.members(&group).into_iter().inspect(|pid| self.allow_sending_to(*pid)).map(convert::pid).collect()
    }

    fn monitor(&mut self, group: String) -> Result<(u64, Vec<Pid>), Error> {
        self.record_call(HostCall::MonitorGroup);
        self.require(Capability::Groups)?;
        check_group(&group)?;
        self.check_registrations()?;
        self.check_mailbox_room()?;
        let (reference, members) = self.ctx.monitor_group(&group).map_err(refused)?;
        Ok((
            reference.number(),
            members.into_iter().inspect(|pid| self.allow_sending_to(*pid)).map(convert::pid).collect(),
        ))
    }

    fn demonitor(&mut self, monitor: u64) -> bool {
        self.record_call(HostCall::DemonitorGroup);
        MonitorRef::from_number(monitor).is_some_and(|reference| self.ctx.demonitor_group(reference))
    }
}

impl GuestState {
    /// Checks that the mailbox has room: notifications of group changes are delivered without checking for room.
    fn check_mailbox_room(&self) -> Result<(), Error> {
        if self.process().mailbox_has_room(self.ctx.pid(), false) { Ok(()) } else { Err(Error::MailboxFull) }
    }
}

/// Checks the name of a group. Groups that begin with `~` are those of nodes, such as the receivers of a shared topic: a guest
/// in one of them would get what its profile does not grant.
fn check_group(group: &str) -> Result<(), Error> {
    check_name(group)?;
    if group.starts_with('~') {
        return Err(Error::Invalid("names of groups that begin with ~ are those of nodes".to_owned()));
    }
    Ok(())
}

fn refused(error: GroupError) -> Error {
    match error {
        GroupError::NotMember { group, .. } => Error::NoSuch(format!("this process is not in group {group:?}")),
        GroupError::NoProcess { .. } => Error::NoProcess,
        GroupError::TooMany { .. } => Error::Limit(error.to_string()),
        GroupError::Name(error) => Error::Invalid(error.to_string()),
    }
}
