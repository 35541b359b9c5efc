//! Sending of guests: checks permission, quota and mailbox, and turns bytes into a message.
//!
//! ```text
//!   capability `send`, or a known receiver ──▶ quota ──▶ mailbox ──▶ sent
//!          └ Denied                              └ Quota      └ Full: `send` waits, `try-send` fails
//! ```
//!
//! The quota is for messages that keep memory: inline ones, and those of up to 64 bytes to native processes, skip it.
//! Between guests, short messages travel inline and longer ones in [`ChargedBytes`], without a copy at the receiver.
//! Native processes receive [`Bytes`], or [`TaggedBytes`] if there is a tag.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::bindings::rusm::runtime::types::Error;
use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::inline_bytes::InlineBytes;
use crate::guest::shared_budget::{BudgetShare, SharedBudget};
use crate::guest::state::GuestState;
use rusm_runtime::embed::guest::{ChargedBytes, GuestContext};
use rusm_runtime::{Message, Pid, TaggedBytes, TrySendError};

/// Maximum length of messages to native processes that are not counted: their cost is mainly the slot in the mailbox.
const UNCOUNTED_BYTES_MAX: usize = 64;

/// Memory of a timer without its message: the entries in the tables of the guest and of the node.
const TIMER_BYTES: u64 = 400;

/// Maximum number of times per second that the repeating timers of all guests fire: one thread serves the timers of all
/// processes.
const FIRINGS_MAX: u64 = 1_000_000;
/// Length of the time in which firings are counted, so that a period of an hour counts.
const FIRINGS_SECONDS: u64 = 3_600;

/// Returns the budget of the firings of all guests.
pub(crate) fn firings() -> Arc<SharedBudget> {
    Arc::new(SharedBudget::bounded(FIRINGS_MAX * FIRINGS_SECONDS))
}

/// Reason why a message was not sent, with the message.
pub(crate) enum Unsent {
    /// The guest lacks the permission to send there.
    Denied(Error),
    /// The quota is full: too many sent bytes are not received yet.
    Quota(Box<[u8]>),
    /// The mailbox is full.
    Full(Message),
}

/// A message body, borrowed from the guest or owned.
pub(crate) trait Body: AsRef<[u8]> + Sized {
    fn into_boxed(self) -> Box<[u8]>;
}

impl Body for &[u8] {
    fn into_boxed(self) -> Box<[u8]> {
        self.into()
    }
}

impl Body for Vec<u8> {
    fn into_boxed(self) -> Box<[u8]> {
        self.into()
    }
}

/// Message of a timer, with its shares of the memory and of the firings of all guests.
struct TimerMessage {
    body: Bytes,
    _memory: Option<BudgetShare>,
    _firings: Option<BudgetShare>,
}

impl AsRef<[u8]> for TimerMessage {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl GuestState {
    /// Checks that the guest may send to `to`: it has the capability, or it was given the address of `to`.
    #[inline]
    pub(crate) fn may_send(&self, to: Pid) -> Result<(), Error> {
        if self.info.grant.has(Capability::Send) || self.has_address_of(to) {
            return Ok(());
        }
        Err(self.refuse(Capability::Send))
    }

    /// Returns true if `to` introduced itself, is a relative, or has ended on this node: a message to an ended process is
    /// never read. Whether a process of another node has ended is not known here.
    #[inline(never)]
    fn has_address_of(&self, to: Pid) -> bool {
        self.process().is_acquainted(to)
            || self.is_self_or_child(to)
            || self.ctx.parent() == Some(to)
            || to.node() == 0 && !self.ctx.runtime().is_alive(to)
    }

    /// Lets the guest send to a process that the node has named to it.
    #[inline]
    pub(crate) fn allow_sending_to(&self, other: Pid) {
        if !self.info.grant.has(Capability::Send) {
            self.process().introduce(other);
        }
    }

    /// Sends bytes. Sending to an ended process succeeds without effect.
    #[inline]
    pub(crate) fn send_bytes(&self, to: Pid, tag: u64, body: impl Body) -> Result<(), Unsent> {
        match self.try_send_bytes(to, tag, body)? {
            Err(TrySendError::Full { message, .. }) => Err(Unsent::Full(message)),
            // Bytes can be sent to every node.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Sends bytes, and returns the answer of the mailbox.
    #[inline]
    pub(crate) fn try_send_bytes(
        &self,
        to: Pid,
        tag: u64,
        body: impl Body,
    ) -> Result<Result<(), TrySendError>, Unsent> {
        self.may_send(to).map_err(Unsent::Denied)?;
        let to_guest = self.process().accepts_inline(to);
        if to_guest && let Some(short) = InlineBytes::new(tag, body.as_ref()) {
            return Ok(self.ctx.try_send(to, short));
        }
        if !to_guest && body.as_ref().len() <= UNCOUNTED_BYTES_MAX {
            return Ok(self.send_to_native(to, tag, body.into_boxed().into()));
        }
        let body = body.into_boxed();
        if self.info.quota().take(body.len() as u64).is_err() {
            return Err(Unsent::Quota(body));
        }
        Ok(self.send_charged(to, self.charged(tag, body), to_guest))
    }

    fn charged(&self, tag: u64, body: Box<[u8]>) -> ChargedBytes {
        ChargedBytes::new(tag, body, Arc::<crate::guest::quota::Quota>::clone(self.info.quota()))
    }

    fn send_charged(&self, to: Pid, bytes: ChargedBytes, to_guest: bool) -> Result<(), TrySendError> {
        if to_guest {
            return self.ctx.try_send(to, bytes);
        }
        self.send_to_native(to, bytes.tag, Bytes::from_owner(bytes))
    }

    /// Sends bytes to a native process; without a tag they need no wrapper.
    fn send_to_native(&self, to: Pid, tag: u64, body: Bytes) -> Result<(), TrySendError> {
        if tag == 0 { self.ctx.try_send(to, body) } else { self.ctx.try_send(to, TaggedBytes { tag, body }) }
    }

    /// Waits until a message that [`send_bytes`](Self::send_bytes) handed back can be sent, and sends it.
    pub(crate) async fn send_when_ready(&mut self, to: Pid, tag: u64, unsent: Unsent) -> Result<(), Error> {
        let message = match unsent {
            Unsent::Denied(error) => return Err(error),
            Unsent::Full(message) => message,
            Unsent::Quota(body) => {
                let share = self.share_if_long(body.len())?;
                waiting(self.quota_for(body.len())).await;
                drop(share);
                let bytes = self.charged(tag, body);
                match self.send_charged(to, bytes, self.process().accepts_inline(to)) {
                    Err(TrySendError::Full { message, .. }) => message,
                    Ok(()) | Err(_) => return Ok(()),
                }
            }
        };
        waiting(self.resend(to, message)).await;
        Ok(())
    }

    async fn resend(&mut self, to: Pid, message: Message) {
        let message = match message.downcast::<InlineBytes>() {
            Ok(short) => return self.ctx.send(to, short).await,
            Err(message) => message,
        };
        let message = match message.downcast::<ChargedBytes>() {
            Ok(charged) => return self.ctx.send(to, charged).await,
            Err(message) => message,
        };
        let message = match message.downcast::<Bytes>() {
            Ok(body) => return self.ctx.send(to, body).await,
            Err(message) => message,
        };
        if let Ok(tagged) = message.downcast::<TaggedBytes>() {
            self.ctx.send(to, tagged).await;
        }
    }

    /// Waits until the quota has room for `bytes` bytes, and counts them.
    async fn quota_for(&mut self, bytes: usize) {
        poll_fn(|cx| {
            loop {
                let Err(full) = self.info.quota().take(bytes as u64) else { return Poll::Ready(()) };
                if full.wait(cx.waker()) {
                    // Not `self.process()`: the closure must not capture the whole state, which is not `Sync`.
                    GuestContext(&self.ctx).waits_for_room();
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// Waits until the quota has room for the bytes of a call; returns them with the rest of the timeout.
    pub(crate) async fn charge_within(&mut self, timeout: Duration, body: Vec<u8>) -> Result<(Bytes, Duration), Error> {
        if body.len() <= UNCOUNTED_BYTES_MAX || self.info.quota().take(body.len() as u64).is_ok() {
            return Ok((self.counted_bytes(body), timeout));
        }
        let began = Instant::now();
        let _share = self.share_if_long(body.len())?;
        let counted = waiting(tokio::time::timeout(timeout, self.quota_for(body.len()))).await;
        counted.map_err(|_elapsed| Error::TimedOut)?;
        Ok((self.counted_bytes(body), timeout.saturating_sub(began.elapsed())))
    }

    /// Returns the message of a timer, with the period of a repeating one; an error if the quota, the memory or the firings of
    /// all guests are used up. The timer may outlive this guest, and so do its shares.
    pub(crate) fn timer_message(&self, body: Vec<u8>, period_ms: Option<u64>) -> Result<Bytes, Error> {
        let memory = self.share_of(TIMER_BYTES + body.len() as u64)?;
        let firings = period_ms.map(|period_ms| self.share_of_firings(period_ms)).transpose()?;
        let body = self.try_charge(body)?;
        let is_counted = memory.is_some() || firings.is_some();
        let message = |body| Bytes::from_owner(TimerMessage { body, _memory: memory, _firings: firings });
        Ok(if is_counted { message(body) } else { body })
    }

    fn share_of_firings(&self, period_ms: u64) -> Result<BudgetShare, Error> {
        self.info.node.firings.take(FIRINGS_SECONDS * 1_000 / period_ms).ok_or_else(|| {
            Error::Limit(format!(
                "the repeating timers of all guests together may fire {FIRINGS_MAX} times a second: use a longer period, or \
                 cancel some"
            ))
        })
    }

    fn try_charge(&self, body: Vec<u8>) -> Result<Bytes, Error> {
        if body.len() > UNCOUNTED_BYTES_MAX && self.info.quota().take(body.len() as u64).is_err() {
            return Err(self.over_quota());
        }
        Ok(self.counted_bytes(body))
    }

    /// Returns the bytes for a reply. A caller waits for them, so they are counted even beyond the quota.
    pub(crate) fn charge_unchecked(&self, body: Vec<u8>) -> Bytes {
        if body.len() > UNCOUNTED_BYTES_MAX {
            self.info.quota().take_unchecked(body.len() as u64);
        }
        self.counted_bytes(body)
    }

    fn counted_bytes(&self, body: Vec<u8>) -> Bytes {
        if body.len() > UNCOUNTED_BYTES_MAX { Bytes::from_owner(self.charged(0, body.into())) } else { body.into() }
    }

    /// Returns the error of a `try-send` that exceeds the quota.
    #[cold]
    pub(crate) fn over_quota(&self) -> Error {
        let quota = self.info.quota();
        Error::Limit(format!(
            "{} bytes of messages that this guest sent are not received yet: sent_max_bytes is {}, and all guests share half of \
             the node's mailbox_total_bytes",
            quota.held_bytes(),
            self.info.bounds.sent_max_bytes
        ))
    }
}
