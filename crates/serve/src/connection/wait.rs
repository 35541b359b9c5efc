//! Waits that end rarely and begin often: deadlines that nearly never pass, and events that nearly never happen.
//!
//! ```text
//!   each message:  the socket is ready ──▶ done          neither a timer nor a list of waiters is touched
//!                  it is not ──▶ LazyTimer: set already   rarely: registered already
//! ```

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for deadlines that move later again and again. It is set once, and set again only when it fires before the
/// deadline of that time.
#[derive(Debug, Default)]
pub(crate) struct LazyTimer(Option<Pin<Box<Sleep>>>);

impl LazyTimer {
    /// Returns true if the timer was set once.
    pub(crate) const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Ready from the deadline on.
    pub(crate) fn poll(&mut self, deadline: Instant, task: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            if deadline < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
            }
            if timer.as_mut().poll(task).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
        }
    }
}

/// Waits for an event that rarely happens. While `may_be_over` returns false, only the first poll of a task reaches
/// `wait`, which must wake its task at the event.
pub(crate) async fn rarely<F: Future>(may_be_over: impl Fn() -> bool, wait: F) -> F::Output {
    let mut wait = pin!(wait);
    let mut registered: Option<Waker> = None;
    poll_fn(|task| {
        let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(task.waker()));
        if is_registered && !may_be_over() {
            return Poll::Pending;
        }
        if !is_registered {
            registered = Some(task.waker().clone());
        }
        wait.as_mut().poll(task)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_that_moves_is_kept_wherever_the_timer_was_set() {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut timer = LazyTimer::default();
        let mut wait = async |time: Duration| {
            let deadline = Instant::now() + time;
            poll_fn(|task| timer.poll(deadline, task)).await;
            assert!(Instant::now() >= deadline);
        };

        reactor.block_on(async {
            wait(Duration::from_millis(5)).await;
            wait(Duration::from_millis(1)).await;
            let later = tokio::time::timeout(Duration::from_millis(1), wait(Duration::from_hours(1))).await;
            assert!(later.is_err());
            // An earlier deadline than the timer is set to, and then a later one.
            wait(Duration::from_millis(1)).await;
            wait(Duration::from_millis(9)).await;
        });
    }

    #[test]
    fn a_rare_wait_is_polled_again_when_it_may_be_over() {
        let (polls, is_over) = (Cell::new(0), Cell::new(false));
        let wait = poll_fn(|_| {
            polls.set(polls.get() + 1);
            if is_over.get() { Poll::Ready(7) } else { Poll::Pending }
        });
        let mut rare = pin!(rarely(|| is_over.get(), wait));
        let reactor = tokio::runtime::Builder::new_current_thread().build().unwrap();

        // The waker of a task: that of `Waker::noop` need not be equal to its clone.
        reactor.block_on(poll_fn(|task| {
            let mut poll = || rare.as_mut().poll(task);
            assert_eq!([poll(), poll(), poll()], [Poll::Pending; 3]);
            assert_eq!(polls.get(), 1);
            is_over.set(true);
            assert_eq!((poll(), polls.get()), (Poll::Ready(7), 2));
            Poll::Ready(())
        }));
    }
}
