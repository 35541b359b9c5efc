//! Timers: messages that are sent later. Needs the capability `timers`.

use std::time::Duration;

use crate::bindings::rusm::runtime::{timers, types};
use crate::{Error, Pid, Tag, millis};

/// Id of a timer, valid until it has fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerRef(types::TimerRef);

/// Sends a message after `delay`.
///
/// # Errors
/// [`Error::Limit`] if the body exceeds the maximum size of a message, or for too many timers.
pub fn send_after(to: Pid, delay: Duration, tag: Tag, body: impl AsRef<[u8]>) -> Result<TimerRef, Error> {
    Ok(TimerRef(timers::send_after(to.into(), millis(delay), tag.0, body.as_ref())?))
}

/// Sends a message every `period`, at least a millisecond.
///
/// # Errors
/// As for [`send_after`], and [`Error::Invalid`] for a period of zero.
pub fn send_every(to: Pid, period: Duration, tag: Tag, body: impl AsRef<[u8]>) -> Result<TimerRef, Error> {
    Ok(TimerRef(timers::send_every(to.into(), millis(period), tag.0, body.as_ref())?))
}

/// Cancels a timer; returns the time that was left, or `None` if it had fired.
pub fn cancel(timer: TimerRef) -> Option<Duration> {
    timers::cancel(timer.0).map(Duration::from_millis)
}
