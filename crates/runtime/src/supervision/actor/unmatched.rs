//! The policy for messages that their receiver does not handle.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::mailbox::message::Message;
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::runtime::crashes;
use crate::supervision::server::Flow;
use crate::supervision::state_query::GetState;

/// Policy for a message that its receiver does not handle: an [`Actor`](super::Actor), an [`Inbox`](super::Inbox), a
/// [`Server`](crate::server::Server) or a [`StateMachine`](crate::state_machine::StateMachine).
///
/// Typed addresses cannot send one. It comes from a send to an untyped pid, or from a reference to another process.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::actor::{Inbox, Unmatched};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// runtime.block_on(|ctx| async move {
///     let pid = ctx.spawn(|ctx| async move {
///         let mut inbox = Inbox::<u32>::new().unmatched(Unmatched::Crash);
///         inbox.receive(&ctx).await;
///     });
///     let watch = ctx.monitor(pid);
///     ctx.send(pid, "a text").await;
///     let down = ctx.receive_of::<rusm::Down>().await;
///     assert!(down.reference == watch && down.reason.to_string().contains("&str"));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// Drops the message, and logs the name of its type at the 1st, 10th, 100th, … such message of a process.
    #[default]
    Warn,
    /// Drops the message.
    Drop,
    /// Ends the process; the exit reason has the name of the type.
    Crash,
}

/// Number of unmatched messages of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnmatchedLog {
    total: u64,
}

impl UnmatchedLog {
    /// Logs a message if it is its turn; `total` counts the messages of its receiver.
    pub(crate) fn warn(receiver: &Context, message: &Message, total: &mut u64) {
        let mut log = Self { total: *total };
        log.record(Unmatched::Warn, receiver, message);
        *total = log.total;
    }

    /// Handles a message by the policy of its receiver.
    pub(crate) fn handle(&mut self, policy: Unmatched, receiver: &Context, message: &Message) -> Flow {
        self.record(policy, receiver, message).map_or(Flow::Continue, Flow::Stop)
    }

    /// Counts a message, and logs it if it is its turn. Returns the exit reason if the process must end.
    #[cold]
    pub(crate) fn record(&mut self, policy: Unmatched, receiver: &Context, message: &Message) -> Option<ExitReason> {
        if message.is::<GetState>() {
            // The sender gets an error at once: this process shows no state.
            return None;
        }
        self.total += 1;
        match policy {
            Unmatched::Warn if is_power_of_ten(self.total) => {
                crashes::log_unmatched(&receiver.called(), message.type_name(), self.total);
                None
            }
            Unmatched::Warn | Unmatched::Drop => None,
            Unmatched::Crash => {
                Some(ExitReason::other(format_args!("received a {}, which it does not handle", message.type_name())))
            }
        }
    }
}

/// Runs the body of a process that handles no messages and makes no calls: those that come are unmatched.
pub(crate) async fn without_messages<T>(ctx: &Context, body: impl Future<Output = T>) -> T {
    let (mut body, mut unmatched) = (pin!(body), UnmatchedLog::default());
    poll_fn(|cx| {
        let done = body.as_mut().poll(cx);
        while done.is_pending()
            && let Poll::Ready(message) = pin!(ctx.receive()).poll(cx)
        {
            unmatched.record(Unmatched::Warn, ctx, &message);
        }
        done
    })
    .await
}

const fn is_power_of_ten(mut number: u64) -> bool {
    while number > 1 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use crate::runtime::config::Config;

    #[test]
    fn the_first_the_tenth_and_the_hundredth_are_logged() {
        let logged: Vec<u64> = (1..=1_000).filter(|number| is_power_of_ten(*number)).collect();
        assert_eq!(logged, [1, 10, 100, 1_000]);
    }

    #[test]
    fn a_crash_names_the_type() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let reason = runtime.block_on(|ctx| async move {
            let mut log = UnmatchedLog::default();
            let message = Message::new(7_u32);
            assert_eq!(log.record(Unmatched::Drop, &ctx, &message), None);
            assert_eq!(log.record(Unmatched::Warn, &ctx, &message), None);
            log.record(Unmatched::Crash, &ctx, &message)
        });
        assert_eq!(reason.unwrap().to_string(), "received a u32, which it does not handle");
    }
}
