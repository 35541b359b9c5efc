//! Messages that come later. Needs the capability `timers`.

use std::time::Duration;

use crate::bindings::rusm::runtime::{timers, types};
use crate::{Error, Pid, Tag, millis};

/// Names one timer until it has fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerRef(types::TimerRef);

/// Sends a message after this time.
///
/// # Errors
/// [`Error::Limit`] for a body larger than a message may be, or too many timers.
pub fn send_after(to: Pid, delay: Duration, tag: Tag, body: impl AsRef<[u8]>) -> Result<TimerRef, Error> {
    Ok(TimerRef(timers::send_after(to.into(), millis(delay), tag.0, body.as_ref())?))
}

/// Sends a message each time that so much has passed, at least a millisecond.
///
/// # Errors
/// As for [`send_after`], and [`Error::Invalid`] for a period of zero.
pub fn send_every(to: Pid, period: Duration, tag: Tag, body: impl AsRef<[u8]>) -> Result<TimerRef, Error> {
    Ok(TimerRef(timers::send_every(to.into(), millis(period), tag.0, body.as_ref())?))
}

/// Cancels; the time that was left, or nothing where it had fired.
pub fn cancel(timer: TimerRef) -> Option<Duration> {
    timers::cancel(timer.0).map(Duration::from_millis)
}
