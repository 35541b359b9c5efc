//! Credit of each receiving process: how much was sent to it that it has not taken. It keeps a process with a full
//! mailbox from filling the memory of its node, and from stalling messages to others.

use rustc_hash::FxHashMap;

use super::config::Config;
use super::event::Busy;
use super::fault::Fault;
use crate::identity::Address;
use crate::wire::stream::Credit;

/// Limits of the other node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) frames: usize,
    pub(super) bytes: usize,
    pub(super) target_messages: u32,
    pub(super) held_bytes: u64,
}

/// Messages that the processes of the other node have not taken.
#[derive(Debug, Default)]
pub(super) struct Targets {
    by_address: FxHashMap<Address, Target>,
    messages: u64,
    bytes: u64,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Target {
    messages: u32,
    bytes: u64,
    /// A sender was told that the target is full.
    is_waited_for: bool,
}

/// Error returned for credit that was never used.
#[derive(Debug)]
pub(super) struct UnknownCredit;

impl Targets {
    /// Number of messages that were not taken.
    pub(super) const fn messages(&self) -> u64 {
        self.messages
    }

    /// Length of these messages, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of targets that senders wait for.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Checks that a message may be sent, and remembers the target of one that may not.
    pub(super) fn check(&mut self, to: Address, length: usize, limits: &Window, config: &Config) -> Result<(), Busy> {
        if config.has(Fault::IgnoresTargetCredit) {
            return Ok(());
        }
        if let Some(target) = self.by_address.get_mut(&to) {
            let is_full =
                target.messages >= limits.target_messages || target.bytes + length as u64 > config.target_bytes;
            if target.messages > 0 && is_full {
                self.waiting += usize::from(!target.is_waited_for);
                target.is_waited_for = true;
                return Err(Busy::Target);
            }
        }
        if config.has(Fault::StallsOnOneTarget) && self.waiting > 0 {
            return Err(Busy::Pair);
        }
        let is_full = self.messages >= config.held_messages || self.bytes + length as u64 > limits.held_bytes;
        if self.messages > 0 && is_full { Err(Busy::Pair) } else { Ok(()) }
    }

    /// Counts a message that is sent.
    pub(super) fn take(&mut self, to: Address, length: usize) {
        let target = self.by_address.entry(to).or_default();
        target.messages += 1;
        target.bytes += length as u64;
        self.messages += 1;
        self.bytes += length as u64;
    }

    /// Counts messages that were taken. Returns true if senders that wait for this target may try again.
    pub(super) fn give(&mut self, credit: &Credit, limit: u32, config: &Config) -> Result<bool, UnknownCredit> {
        let target = self.by_address.get_mut(&credit.to).ok_or(UnknownCredit)?;
        target.messages = target.messages.checked_sub(credit.messages).ok_or(UnknownCredit)?;
        target.bytes = target.bytes.checked_sub(credit.bytes).ok_or(UnknownCredit)?;
        self.messages -= u64::from(credit.messages);
        self.bytes -= credit.bytes;
        // Waking at the first free place would make the senders wait again at once.
        let has_room = target.messages <= limit - limit.div_ceil(4) && target.bytes <= config.target_bytes / 4 * 3;
        let is_awaited = target.is_waited_for && (has_room || target.messages == 0);
        if is_awaited {
            target.is_waited_for = false;
            self.waiting -= 1;
        }
        if target.messages == 0 {
            self.bytes -= target.bytes;
            self.by_address.remove(&credit.to);
        }
        Ok(is_awaited)
    }

    /// Returns true if at least a quarter of what all targets together may hold is free.
    pub(super) fn have_room(&self, limits: &Window, config: &Config) -> bool {
        if config.has(Fault::StallsOnOneTarget) && self.waiting > 0 {
            return false;
        }
        self.messages == 0 || self.messages <= config.held_messages / 4 * 3 && self.bytes <= limits.held_bytes / 4 * 3
    }
}
