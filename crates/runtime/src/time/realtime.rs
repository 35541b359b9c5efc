//! Requests `SCHED_FIFO` for a thread and restores the old policy. Also orders the priorities of the runtime's threads
//! when the whole node runs with a real-time policy.

#![expect(unsafe_code, reason = "sets the scheduling policy of a thread by system calls")]

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU8;

use crate::time::override_stack::OverrideStack;

/// Highest priority of `SCHED_FIFO`.
pub const PRIORITY_MAX: u8 = 99;

thread_local! {
    /// The policies requested for this thread.
    static POLICIES: RefCell<OverrideStack<Policy>> = const { RefCell::new(OverrideStack::new()) };
}

/// Scheduling policy and priority of a thread.
#[derive(Clone, Copy, Debug)]
struct Policy {
    policy: libc::c_int,
    priority: libc::c_int,
}

/// `SCHED_FIFO` for this thread. Dropping it restores the previous policy. If there are several, the newest one
/// applies.
#[derive(Debug)]
pub(crate) struct Realtime {
    id: u64,
    /// Not `Send`: the changed policy belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Realtime {
    /// Makes this thread run before all threads with an ordinary policy.
    ///
    /// # Errors
    /// The error of the kernel, mostly a missing permission: `CAP_SYS_NICE` or `RLIMIT_RTPRIO` is required.
    pub(crate) fn enter(priority: NonZeroU8) -> io::Result<Self> {
        let mut before = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is this thread, and the kernel writes one `sched_param`.
        let policy = check(unsafe { libc::sched_getscheduler(0) })?;
        // SAFETY: as above.
        check(unsafe { libc::sched_getparam(0, &raw mut before) })?;
        let wanted = Policy { policy: libc::SCHED_FIFO, priority: priority.get().into() };
        set(wanted)?;
        let before = Policy { policy, priority: before.sched_priority };
        let id = POLICIES.with_borrow_mut(|policies| policies.add(before, wanted));
        Ok(Self { id, _thread: PhantomData })
    }

    /// Keeps the policy until the thread ends.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        // A thread that ends takes its policy with it.
        let left = POLICIES.try_with(|policies| policies.borrow_mut().remove(self.id)).ok().flatten();
        // Giving up a privilege is always permitted.
        left.and_then(|left| set(left).ok());
    }
}

/// Priority of a thread relative to the thread that started it, if it inherits a real-time policy, for example from
/// `chrt`. Threads that run only when woken, to interrupt guests or to stop the runtime, must preempt a scheduler that
/// never sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelativePriority {
    /// One step above the thread that started it.
    Above,
    /// One step below it.
    Below,
}

impl RelativePriority {
    /// Applies this priority to the current thread, if it has a real-time policy and may change it.
    pub(crate) fn apply(self) {
        let mut now = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: as above, and the kernel writes one `sched_param`.
        let known = unsafe { libc::sched_getparam(0, &raw mut now) } == 0;
        if known && matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) {
            let step = if self == Self::Above { 1 } else { -1 };
            let priority = (now.sched_priority + step).clamp(1, PRIORITY_MAX.into());
            if let Err(error) = set(Policy { policy, priority }) {
                tracing::debug!(%error, "the real-time priority of a thread stays at {}", now.sched_priority);
            }
        }
    }
}

fn set(wanted: Policy) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: wanted.priority };
    // SAFETY: 0 is this thread, and the kernel reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, wanted.policy, &raw const param) }).map(|_| ())
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (libc::c_int, libc::c_int) {
        let mut now = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is this thread, and the kernel writes one `sched_param`.
        unsafe { (libc::sched_getscheduler(0), (libc::sched_getparam(0, &raw mut now), now.sched_priority).1) }
    }

    #[test]
    fn a_thread_stands_where_it_should_if_its_policy_is_a_real_time_one() {
        let thread = std::thread::spawn(|| {
            let before = own();
            RelativePriority::Below.apply();
            assert_eq!(own(), before);
            // Without the permission, the rest cannot be tested.
            let Ok(realtime) = Realtime::enter(NonZeroU8::new(5).unwrap()) else { return };
            RelativePriority::Below.apply();
            assert_eq!(own(), (libc::SCHED_FIFO, 4));
            RelativePriority::Above.apply();
            RelativePriority::Above.apply();
            assert_eq!(own(), (libc::SCHED_FIFO, 6));
            drop(realtime);
            assert_eq!(own(), before);
            let (first, second) = (Realtime::enter(NonZeroU8::MIN).unwrap(), Realtime::enter(NonZeroU8::MIN).unwrap());
            drop(first);
            assert_eq!(own(), (libc::SCHED_FIFO, 1));
            drop(second);
            assert_eq!(own(), before);
        });

        thread.join().unwrap();
    }
}
