//! Groups of processes, found together under one name. Needs the capability `groups`.

use crate::bindings::rusm::runtime::{groups, types};
use crate::{Error, MonitorRef, Pid};

/// A process joined or left a monitored group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// What `monitor` gave.
    pub monitor: MonitorRef,
    /// The group.
    pub group: String,
    /// The process.
    pub pid: Pid,
    /// Whether it joined; else it left.
    pub joined: bool,
}

/// Joins; a process may join once.
///
/// # Errors
/// [`Error::Taken`] where it is in the group already.
pub fn join(group: impl AsRef<str>) -> Result<(), Error> {
    Ok(groups::join(group.as_ref())?)
}

/// Leaves.
///
/// # Errors
/// [`Error::NoSuch`] where it is not in the group.
pub fn leave(group: impl AsRef<str>) -> Result<(), Error> {
    Ok(groups::leave(group.as_ref())?)
}

/// Its members, in the order in which they joined.
pub fn members(group: impl AsRef<str>) -> Vec<Pid> {
    groups::members(group.as_ref()).into_iter().map(Into::into).collect()
}

/// Asks for a [`GroupChange`] at each change, and tells who is in it now.
///
/// # Errors
/// [`Error::Denied`].
pub fn monitor(group: impl AsRef<str>) -> Result<(MonitorRef, Vec<Pid>), Error> {
    let (monitor, members) = groups::monitor(group.as_ref())?;
    Ok((MonitorRef(monitor), members.into_iter().map(Into::into).collect()))
}

/// Takes that back; false where there was none.
pub fn demonitor(monitor: MonitorRef) -> bool {
    groups::demonitor(monitor.0)
}

impl From<types::GroupChange> for GroupChange {
    fn from(change: types::GroupChange) -> Self {
        Self { monitor: MonitorRef(change.monitor), group: change.group, pid: change.pid.into(), joined: change.joined }
    }
}
