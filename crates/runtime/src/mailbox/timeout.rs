//! Waits with a timeout. Their timers are set late, because most of these waits end early.
//!
//! ```text
//!   no message yet ──▶ listed ── the scheduler runs out of work, or its slice ends ──▶ set a timer, if still waiting
//!                         └── a message comes ──▶ no timer was ever set
//! ```
//!
//! Setting and removing a timer costs more than all the rest of a call. So a process that begins such a wait is only
//! listed. It is woken to set its timer before its scheduler sleeps or turns to its reactor: within a slice, which ends
//! after 0.25 ms and the poll that runs then. The timeout counts from there, so it is never too short.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::process::context::Context;
use crate::process::running::Running;
use crate::process::waker;

impl Context {
    pub(crate) async fn within<T>(&self, timeout: Duration, receive: impl Future<Output = T>) -> Option<T> {
        let mut receive = pin!(receive);
        if timeout.is_zero() {
            // A process without budget would find the mailbox empty: yield first.
            if self.running().local.budget.get() == 0 {
                self.yield_now().await;
            }
            return poll_fn(|cx| {
                self.running().force_mailbox_check();
                match receive.as_mut().poll(cx) {
                    Poll::Ready(message) => Poll::Ready(Some(message)),
                    Poll::Pending => Poll::Ready(None),
                }
            })
            .await;
        }
        let mut is_deferred = false;
        let mut sleep = pin!(None);
        poll_fn(|cx| {
            if let Poll::Ready(message) = receive.as_mut().poll(cx) {
                return Poll::Ready(Some(message));
            }
            if !std::mem::replace(&mut is_deferred, true) && self.running().defers_timer(cx) {
                return Poll::Pending;
            }
            if sleep.is_none() {
                sleep.set(Some(tokio::time::sleep(timeout)));
            }
            sleep.as_mut().as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(cx)).map(|()| None)
        })
        .await
    }
}

impl Running<'_> {
    /// Lets the process be polled again within the slice, unless a combinator in between keeps wakers of its own: it
    /// polls only woken futures.
    fn defers_timer(&self, cx: &TaskContext<'_>) -> bool {
        let direct = cx.waker().will_wake(&waker::lent(self.slot));
        if direct {
            self.local.defer_timeout(self.slot);
        }
        direct
    }
}
