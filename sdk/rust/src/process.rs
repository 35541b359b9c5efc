//! This process, its links and monitors, and exit signals.

use std::time::Duration;

use crate::bindings::rusm::runtime::{process, types};
use crate::{Error, ExitReason, Pid, millis};

/// Id of a monitor, valid until its [`Down`] arrives or [`demonitor`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonitorRef(pub(crate) types::MonitorRef);

/// A monitored process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Reference that `monitor` returned.
    pub monitor: MonitorRef,
    /// The process that ended.
    pub pid: Pid,
    /// Reason; [`ExitReason::NoProcess`] if the process had ended before the call of `monitor`.
    pub reason: ExitReason,
}

/// Returns the pid of this process.
pub fn pid() -> Pid {
    process::self_().into()
}

/// Returns the process that started this one, if a process did.
pub fn parent() -> Option<Pid> {
    process::parent().map(Into::into)
}

/// Sets the label that the observer shows beside the pid.
pub fn label(text: impl AsRef<str>) {
    process::label(text.as_ref());
}

/// Links two processes: the abnormal end of one ends the other, or sends it an exit signal if it traps exits.
pub fn link(other: Pid) {
    process::link(other.into());
}

/// Removes the link. No exit signal of the other process arrives afterwards.
pub fn unlink(other: Pid) {
    process::unlink(other.into());
}

/// Requests one [`Down`] for when the process ends.
pub fn monitor(target: Pid) -> MonitorRef {
    MonitorRef(process::monitor(target.into()))
}

/// Removes a monitor, and its [`Down`] if that has already arrived; returns false if the monitor does not exist.
pub fn demonitor(monitor: MonitorRef) -> bool {
    process::demonitor(monitor.0)
}

/// If true, exit signals arrive as messages instead of ending this process. Returns the previous setting.
pub fn trap_exits(trap: bool) -> bool {
    process::trap_exits(trap)
}

/// Sends an exit signal; [`ExitReason::Killed`] cannot be trapped.
///
/// # Errors
/// [`Error::Denied`] without `exit-others`, unless the target is this process or its child.
pub fn exit(target: Pid, reason: ExitReason) -> Result<(), Error> {
    Ok(process::exit(target.into(), &reason.into())?)
}

/// Waits for this time; messages queue up meanwhile.
pub fn sleep(duration: Duration) {
    process::sleep(millis(duration));
}

/// Lets other processes run.
pub fn yield_now() {
    process::yield_();
}

impl From<types::Down> for Down {
    fn from(down: types::Down) -> Self {
        Self { monitor: MonitorRef(down.monitor), pid: down.pid.into(), reason: down.reason.into() }
    }
}
