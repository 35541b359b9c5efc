//! `mailbox_growing`: messages come faster than a process takes them.
//!
//! The census meets every process anyway; mailboxes of 64 messages or more are remembered from one census to the next. One
//! of them grows when it holds more than before by 16 at least, and by more than chance explains: twice the root of what
//! the process has received meanwhile. Three windows in a row of that raise the lint, and so do three in a row in which the
//! mailbox is at least nine tenths full, for then it grows no more only because its senders wait or are turned away.

use std::collections::HashMap;
use std::time::Duration;

use rusm_protocol::Lint;

use super::{Finding, HOLD};
use crate::Pid;
use crate::observe::Glimpse;

/// Shorter mailboxes are not looked at.
const LEN_MIN: u64 = 64;
/// What a mailbox must grow by.
const GROWTH_MIN: f64 = 16.0;
/// Windows in a row.
const WINDOWS: u32 = 3;
/// Mailboxes that are remembered; beyond that many, those that are quiet give way.
const KEPT: usize = 4096;
/// Findings of one census.
const FOUND_MAX: usize = 64;

/// A look at a long mailbox.
#[derive(Clone, Copy, Debug)]
struct Look {
    generation: u32,
    len: u64,
    capacity: u64,
    /// Messages received so far.
    messages: u64,
}

#[derive(Debug)]
struct Kept {
    look: Look,
    /// What was found when it was looked at last.
    grown: u64,
    census: u64,
    growing: u32,
    full: u32,
    raised: bool,
    /// It was looked at twice.
    compared: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    kept: HashMap<u32, Kept>,
    census: u64,
    /// When the last census ended.
    ended: Option<Duration>,
}

impl Mailboxes {
    /// The part of the table that a census begins with: another one each time, so that no part is always the last when
    /// there is room for few.
    pub(crate) fn first_part(&self, parts: usize) -> usize {
        (self.census.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % parts.max(1)
    }

    /// A process that the census meets.
    #[inline]
    pub(crate) fn meet(&mut self, seen: &Glimpse<'_>) {
        let len = seen.mailbox_len();
        if len >= LEN_MIN {
            let (capacity, messages) = (seen.mailbox_capacity(), seen.messages());
            self.look(seen.slot(), Look { generation: seen.generation(), len, capacity, messages });
        }
    }

    #[inline(never)]
    fn look(&mut self, slot: u32, look: Look) {
        let has_room = self.kept.len() < KEPT;
        match self.kept.get_mut(&slot) {
            Some(kept) if kept.look.generation == look.generation => kept.compare(look),
            Some(kept) => *kept = Kept::new(look),
            None if has_room => {
                self.kept.insert(slot, Kept::new(look));
            }
            None => return,
        }
        if let Some(kept) = self.kept.get_mut(&slot) {
            kept.census = self.census;
        }
    }

    /// All processes have been met: what was found.
    pub(super) fn end_census(&mut self, now: Duration) -> Vec<Finding> {
        let window = self.ended.replace(now).map_or(Duration::ZERO, |ended| now.saturating_sub(ended));
        let (census, is_full) = (self.census, self.kept.len() >= KEPT);
        self.census += 1;
        self.kept.retain(|_, kept| kept.census == census && !(is_full && kept.compared && kept.is_quiet()));
        let mut found = Vec::new();
        for (slot, kept) in &mut self.kept {
            if found.len() < FOUND_MAX && kept.is_finding() {
                found.push(kept.finding(*slot, window));
            }
        }
        found
    }
}

impl Kept {
    const fn new(look: Look) -> Self {
        Self { look, grown: 0, census: 0, growing: 0, full: 0, raised: false, compared: false }
    }

    fn compare(&mut self, look: Look) {
        let received = look.messages.saturating_sub(self.look.messages) as f64;
        self.grown = look.len.saturating_sub(self.look.len);
        let grows = self.grown as f64 >= GROWTH_MIN.max(2.0 * received.sqrt());
        let is_full = look.len.saturating_mul(10) >= look.capacity.saturating_mul(9);
        self.growing = if grows { self.growing + 1 } else { 0 };
        self.full = if is_full { self.full + 1 } else { 0 };
        self.raised = (self.growing >= WINDOWS || self.full >= WINDOWS) || self.raised && !self.is_quiet();
        self.look = look;
        self.compared = true;
    }

    /// Neither growing nor full when it was looked at last.
    const fn is_quiet(&self) -> bool {
        self.growing == 0 && self.full == 0
    }

    const fn is_finding(&self) -> bool {
        self.raised && !self.is_quiet()
    }

    fn finding(&self, slot: u32, window: Duration) -> Finding {
        let len = self.look.len;
        let text = if self.full > 0 {
            format!("full: {len} messages wait, and {} fit", self.look.capacity)
        } else {
            format!("{len} messages wait, {} more than {:.1} s ago", self.grown, window.as_secs_f64())
        };
        let pid = Pid::local(slot, self.look.generation);
        // A large node counts its processes seldom.
        Finding { lint: Lint::MailboxGrowing, pid, value: len as f64, text, hold: HOLD.max(window * 3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths and messages received of one mailbox, a census each; in which of them it is found.
    fn found(capacity: u64, looks: &[(u64, u64)]) -> Vec<bool> {
        let mut mailboxes = Mailboxes::default();
        let mut at = Duration::ZERO;
        let census = |&(len, messages): &(u64, u64)| {
            at += Duration::from_secs(1);
            if len >= LEN_MIN {
                mailboxes.look(7, Look { generation: 1, len, capacity, messages });
            }
            !mailboxes.end_census(at).is_empty()
        };
        looks.iter().map(census).collect()
    }

    #[test]
    fn a_mailbox_that_grows_for_three_windows_is_found_until_it_grows_no_more() {
        let looks = [(100, 0), (130, 20), (160, 40), (190, 60), (220, 80), (221, 100), (250, 120), (100, 400)];

        assert_eq!(found(10_000, &looks), [false, false, false, true, true, false, false, false]);
    }

    #[test]
    fn a_mailbox_that_varies_as_much_as_chance_explains_is_not_found() {
        let varies = [(500, 0), (560, 1_000), (620, 2_000), (680, 3_000), (740, 4_000)];

        assert_eq!(found(10_000, &varies), [false; 5], "60 more is less than twice the root of 1,000 received");
        assert_eq!(found(10_000, &[(70, 0), (80, 0), (90, 0), (100, 0)]), [false; 4]);
    }

    #[test]
    fn a_mailbox_that_stays_full_is_found() {
        let full = [(1_024, 0), (1_000, 5_000), (1_024, 9_000), (1_024, 14_000), (600, 20_000), (1_024, 25_000)];

        assert_eq!(found(1_024, &full), [false, false, false, true, false, false]);
    }

    #[test]
    fn short_mailboxes_and_new_tenants_of_a_place_begin_anew() {
        assert_eq!(found(10_000, &[(20, 0), (40, 0), (63, 0), (90, 0), (120, 0)]), [false; 5]);

        let mut mailboxes = Mailboxes::default();
        for generation in 1..9 {
            let look = Look { generation, len: u64::from(generation) * 100, capacity: 10_000, messages: 0 };
            mailboxes.look(7, look);
            assert_eq!(mailboxes.end_census(Duration::from_secs(generation.into())), []);
        }
    }

    #[test]
    fn a_hundred_thousand_growing_mailboxes_are_bounded_and_quiet_ones_hide_none() {
        let mut mailboxes = Mailboxes::default();
        let mut found = Vec::new();
        for census in 0..20 {
            let first = mailboxes.first_part(100) as u32;
            for slot in (0..100).map(|part| (first + part) % 100).flat_map(|part| part * 1000..(part + 1) * 1000) {
                // The first half waits for ever, the second grows.
                let len = if slot < 50_000 { 1_000 } else { 100 + census * 50 };
                mailboxes.look(slot, Look { generation: 1, len, capacity: 10_000, messages: 0 });
            }
            assert!(mailboxes.kept.len() <= KEPT);
            found = mailboxes.end_census(Duration::from_secs(census));
            assert!(found.len() <= FOUND_MAX);
        }

        assert_eq!(found.len(), FOUND_MAX);
        assert!(found.iter().all(|found| found.pid.slot() >= 50_000));
    }
}
