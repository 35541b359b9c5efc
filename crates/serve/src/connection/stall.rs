//! The wait for a client that accepts no bytes, and its end.
//!
//! ```text
//!   a write waits ──▶ every quarter of the limit: has the kernel's queue moved? ──▶ unmoved for the limit: cut
//! ```
//!
//! The kernel calls a socket writable only when about a third of its queue of up to 4 MiB is free. So a client that
//! reads slowly but steadily makes writes wait for minutes; only the length of the queue tells that it reads.

#![expect(unsafe_code, reason = "calls of the kernel about the length of the queue that rustix does not have")]

use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use tokio::time::{Instant, Sleep};

/// Number of checks in the time of the limit: a client is cut at the latest after this fraction more.
const CHECKS: u32 = 4;
/// Request for the number of bytes that the peer has not acknowledged; Linux has the same number for terminals.
const SIOCOUTQ: Opcode = 0x5411;

/// A wait for a client.
#[derive(Debug)]
pub(crate) struct Stall {
    queue: Queue,
    limit: Duration,
    check: Pin<Box<Sleep>>,
}

/// The last change of a socket's queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// Bytes in the queue; `None` if they are not known.
    bytes: Option<u32>,
    moved: Instant,
}

impl Stall {
    /// Starts to wait.
    pub(crate) fn new(socket: &impl AsFd, limit: Duration) -> Self {
        let now = Instant::now();
        let queue = Queue { bytes: queued_bytes(socket), moved: now };
        Self { queue, limit, check: Box::pin(tokio::time::sleep_until(now + limit / CHECKS)) }
    }

    /// Is ready when the client has accepted no byte for the limit.
    pub(crate) fn poll_over(&mut self, socket: &impl AsFd, task: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.check.as_mut().poll(task));
            let now = Instant::now();
            if self.queue.is_stuck(queued_bytes(socket), now, self.limit) {
                return Poll::Ready(());
            }
            let next = (now + self.limit / CHECKS).min(self.queue.moved + self.limit);
            self.check.as_mut().reset(next);
        }
    }
}

impl Queue {
    /// Notes the bytes in the queue. Returns true if they have not changed for the limit.
    fn is_stuck(&mut self, bytes: Option<u32>, now: Instant, limit: Duration) -> bool {
        if bytes != self.bytes {
            *self = Self { bytes, moved: now };
        }
        now.saturating_duration_since(self.moved) >= limit
    }
}

/// Bytes that the kernel accepts beyond those on their way to the client. The rest waits in the server, which counts it.
const UNSENT_BYTES: libc::c_int = 64 * 1024;

/// Limits the bytes that wait in the queues of a listener's connections.
pub(crate) fn limit_unsent(listener: &impl AsFd) {
    let value = UNSENT_BYTES;
    let len = size_of_val(&value) as libc::socklen_t;
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the option is one C integer. An error means a kernel without the option; its queues are longer.
    _ = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, (&raw const value).cast(), len) };
}

/// Returns the number of bytes that were written to a socket, and that its peer has not acknowledged.
pub(crate) fn queued_bytes(socket: &impl AsFd) -> Option<u32> {
    // SAFETY: the request writes one C integer, and changes nothing. Of a descriptor that is no socket, it is an error
    // or the length of another queue.
    unsafe { ioctl(socket, Getter::<SIOCOUTQ, i32>::new()) }.ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_stuck_when_it_has_not_moved_for_the_limit() {
        let (start, limit) = (Instant::now(), Duration::from_secs(30));
        let mut queue = Queue { bytes: Some(4_000_000), moved: start };
        let mut stuck = |seconds, bytes| queue.is_stuck(bytes, start + Duration::from_secs(seconds), limit);

        // The client reads a little, now and then.
        assert!(!stuck(29, Some(3_900_000)));
        assert!(!stuck(58, Some(3_800_000)));
        assert!(!stuck(66, Some(3_800_000)));
        assert!(!stuck(87, Some(3_800_000)));
        assert!(stuck(88, Some(3_800_000)));
        assert!(!stuck(88, None));
        assert!(stuck(118, None), "a length that is not known is no progress");
    }
}
