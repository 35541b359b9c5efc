//! Errors of a send that does not wait: the message comes back with the limit that the mailbox has reached.

use std::sync::atomic::Ordering;

use crate::mailbox::send::SendOutcome;
use crate::process::error::{MailboxBound, TrySendError};
use crate::process::pid::Pid;
use crate::runtime::shared::RuntimeShared;

impl MailboxBound {
    #[cold]
    fn of(shared: &RuntimeShared, to: Pid) -> Self {
        let Some(slot) = shared.table.slot(to) else { return Self::Node };
        let (header, config) = (slot.header(), &shared.config);
        let capacity = header.capacity.load(Ordering::Relaxed);
        if header.mailbox_len() >= u64::from(capacity) {
            Self::Messages(capacity)
        } else if header.mail_bytes.load(Ordering::Relaxed) > config.mailbox_bytes {
            Self::Bytes(config.mailbox_bytes)
        } else if shared.mailboxes.is_full() {
            Self::Total(config.mailbox_total_bytes)
        } else {
            // Other senders wait for room. They are woken when half of the mailbox is free, and must not be overtaken.
            Self::Messages(capacity)
        }
    }
}

impl TrySendError {
    #[inline]
    pub(crate) fn of(outcome: SendOutcome, shared: &RuntimeShared, to: Pid) -> Result<(), Self> {
        match outcome {
            SendOutcome::Sent => Ok(()),
            SendOutcome::Full(envelope) => {
                Err(Self::Full { message: envelope.into_message(), to, bound: MailboxBound::of(shared, to) })
            }
            SendOutcome::NoProcess(envelope) if to.node() == 0 => {
                Err(Self::NoProcess { message: envelope.into_message(), to })
            }
            SendOutcome::NoProcess(envelope) => Err(shared.unsent(to, envelope)),
        }
    }
}
