//! This process, its ties to others, and their ends.

use std::time::Duration;

use crate::bindings::rusm::runtime::{process, types};
use crate::{Error, ExitReason, Pid, millis};

/// Names one `monitor` until its [`Down`] arrives or it is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonitorRef(pub(crate) types::MonitorRef);

/// A monitored process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// What `monitor` gave.
    pub monitor: MonitorRef,
    /// The process.
    pub pid: Pid,
    /// Why; [`ExitReason::NoProcess`] where it was gone before.
    pub reason: ExitReason,
}

/// This process.
pub fn pid() -> Pid {
    process::self_().into()
}

/// The process that started this one, where a process did.
pub fn parent() -> Option<Pid> {
    process::parent().map(Into::into)
}

/// What the observer shows beside the pid.
pub fn label(text: impl AsRef<str>) {
    process::label(text.as_ref());
}

/// Ties both fates: the abnormal end of one ends the other, or tells it while it traps exits.
pub fn link(other: Pid) {
    process::link(other.into());
}

/// Unties them; no exit signal of the other arrives afterwards.
pub fn unlink(other: Pid) {
    process::unlink(other.into());
}

/// Asks for one [`Down`] when the process ends.
pub fn monitor(target: Pid) -> MonitorRef {
    MonitorRef(process::monitor(target.into()))
}

/// Takes a monitor back, with its [`Down`] if that has arrived already; false where there was none.
pub fn demonitor(monitor: MonitorRef) -> bool {
    process::demonitor(monitor.0)
}

/// Whether exit signals arrive as messages instead of ending this process; returns what held before.
pub fn trap_exits(trap: bool) -> bool {
    process::trap_exits(trap)
}

/// Sends an exit signal; [`ExitReason::Killed`] cannot be trapped.
///
/// # Errors
/// [`Error::Denied`] without `exit-others`, unless the target is this process or a child of it.
pub fn exit(target: Pid, reason: ExitReason) -> Result<(), Error> {
    Ok(process::exit(target.into(), &reason.into())?)
}

/// Waits; messages queue up meanwhile.
pub fn sleep(duration: Duration) {
    process::sleep(millis(duration));
}

/// Lets others run.
pub fn yield_now() {
    process::yield_();
}

impl From<types::Down> for Down {
    fn from(down: types::Down) -> Self {
        Self { monitor: MonitorRef(down.monitor), pid: down.pid.into(), reason: down.reason.into() }
    }
}
