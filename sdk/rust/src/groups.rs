//! Groups of processes, each with a name. Needs the capability `groups`: without it, functions that return a result
//! return [`Error::Denied`], and every group seems empty.

use crate::bindings::rusm::runtime::{groups, types};
use crate::{Error, MonitorRef, Pid};

/// Notification that a process joined or left a monitored group; it is received like a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// Reference that `monitor` returned.
    pub monitor: MonitorRef,
    /// Name of the group.
    pub group: String,
    /// The process that joined or left.
    pub pid: Pid,
    /// True if it joined, false if it left.
    pub joined: bool,
}

/// Adds this process to a group. A process can be in a group only once.
///
/// # Errors
/// [`Error::Taken`] if it is already in the group.
pub fn join(group: impl AsRef<str>) -> Result<(), Error> {
    Ok(groups::join(group.as_ref())?)
}

/// Removes this process from a group.
///
/// # Errors
/// [`Error::NoSuch`] if it is not in the group.
pub fn leave(group: impl AsRef<str>) -> Result<(), Error> {
    Ok(groups::leave(group.as_ref())?)
}

/// Returns the members of a group, in the order in which they joined; empty without the capability.
pub fn members(group: impl AsRef<str>) -> Vec<Pid> {
    groups::members(group.as_ref()).into_iter().map(Into::into).collect()
}

/// Requests a [`GroupChange`] for each change of a group, and returns its current members.
///
/// # Errors
/// [`Error::Denied`] without the capability.
pub fn monitor(group: impl AsRef<str>) -> Result<(MonitorRef, Vec<Pid>), Error> {
    let (monitor, members) = groups::monitor(group.as_ref())?;
    Ok((MonitorRef(monitor), members.into_iter().map(Into::into).collect()))
}

/// Removes a monitor of a group; returns false if it does not exist.
pub fn demonitor(monitor: MonitorRef) -> bool {
    groups::demonitor(monitor.0)
}

impl From<types::GroupChange> for GroupChange {
    fn from(change: types::GroupChange) -> Self {
        Self { monitor: MonitorRef(change.monitor), group: change.group, pid: change.pid.into(), joined: change.joined }
    }
}
