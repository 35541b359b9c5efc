//! Waits that end after a time, and whose timer is set late, because most of them are over before.
//!
//! ```text
//!   nothing yet ──▶ listed with the scheduler ── it has nothing else to run, or its slice ends ──▶ a timer, if it waits still
//!                         └── a message comes ──▶ no timer was ever set
//! ```
//!
//! A timer that is set and taken away again costs more than all the rest of a call. So a process that begins such a wait
//! is only listed, and is woken to set its timer before its scheduler sleeps or turns to its reactor: within a slice, which
//! ends after 0.25 ms and the poll that runs then. The time counts from there, so it is never too short.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::context::Context;
use crate::running::Running;
use crate::waker;

impl Context {
    pub(crate) async fn within<T>(&self, timeout: Duration, receive: impl Future<Output = T>) -> Option<T> {
        let mut receive = pin!(receive);
        if timeout.is_zero() {
            // Who has had its share for this turn would be told that nothing is there.
            if self.running().local.budget.get() == 0 {
                self.yield_now().await;
            }
            return poll_fn(|cx| {
                self.running().must_look();
                match receive.as_mut().poll(cx) {
                    Poll::Ready(message) => Poll::Ready(Some(message)),
                    Poll::Pending => Poll::Ready(None),
                }
            })
            .await;
        }
        let mut listed = false;
        let mut sleep = pin!(None);
        poll_fn(|cx| {
            if let Poll::Ready(message) = receive.as_mut().poll(cx) {
                return Poll::Ready(Some(message));
            }
            if !std::mem::replace(&mut listed, true) && self.running().sets_timer_later(cx) {
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
    /// Has the process polled again within the slice, unless something between it and the process keeps wakers of its own:
    /// that would not pass on a poll that nobody asked for.
    fn sets_timer_later(&self, cx: &TaskContext<'_>) -> bool {
        let direct = cx.waker().will_wake(&waker::lent(self.slot));
        if direct {
            self.local.list_waiting(self.slot);
        }
        direct
    }
}
