//! The policy for messages that their receiver does not handle.

use std::any::type_name;
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
    /// Drops the message, and logs the name of its type at the 1st, 10th, 100th, … message of this type.
    #[default]
    Warn,
    /// Drops the message.
    Drop,
    /// Ends the process; the exit reason has the name of the type.
    Crash,
}

/// Maximum number of types that are counted apart.
const TYPES_MAX: usize = 16;

/// Numbers of the unmatched messages of one process by type.
#[derive(Debug, Default)]
pub(crate) struct UnmatchedLog {
    /// Type of the actor, server or state machine.
    actor: Option<&'static str>,
    counts: Vec<(&'static str, u64)>,
    /// Messages of further types.
    others: u64,
}

impl UnmatchedLog {
    /// Creates the log of an actor or server of type `A`.
    pub(crate) fn of<A>() -> Self {
        Self { actor: Some(type_name::<A>()), ..Self::default() }
    }

    /// Logs a message of a receiver that counts all of them in `total`, if it is its turn.
    pub(crate) fn warn(receiver: &Context, message: &Message, total: &mut u64) {
        if message.is::<GetState>() {
            return;
        }
        *total += 1;
        if is_power_of_ten(*total) {
            crashes::log_unmatched(&receiver.called(), None, message.type_name(), *total);
        }
    }

    /// Counts a message, and returns the number of those of its type.
    fn count(&mut self, name: &'static str) -> u64 {
        let count = match self.counts.iter().position(|(known, _)| *known == name) {
            Some(place) => &mut self.counts[place].1,
            None if self.counts.len() == TYPES_MAX => &mut self.others,
            None => &mut self.counts.push_mut((name, 0)).1,
        };
        *count += 1;
        *count
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
        match policy {
            Unmatched::Warn => {
                let total = self.count(message.type_name());
                if is_power_of_ten(total) {
                    crashes::log_unmatched(&receiver.called(), self.actor, message.type_name(), total);
                }
                None
            }
            Unmatched::Drop => None,
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
