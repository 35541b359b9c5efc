//! `mailbox_growing`: messages arrive faster than a process receives them.
//!
//! The census visits every process anyway; mailboxes of 64 messages or more are remembered from one census to the next.
//! A mailbox is growing if it holds at least 16 messages more than before, and more than random variation explains:
//! twice the square root of the number of messages that the process received meanwhile. Three such windows in a row
//! raise the lint. So do three in a row in which the mailbox is at least nine tenths full, because then it stops
//! growing only because its senders wait or are refused.

use std::collections::HashMap;
use std::time::Duration;

use rusm_protocol::Lint;
use rusm_text::grouped;

use super::finding::{FOUND_MAX, Finding, HOLD, KEPT};
use rusm_runtime::Pid;
use rusm_runtime::observe::ProcessRef;

/// Minimum growth of a mailbox in a window, in messages.
const GROWTH_MIN: f64 = 16.0;
/// Number of windows in a row that raise the lint.
const WINDOWS: u32 = 3;

/// One observation of a long mailbox.
#[derive(Clone, Copy, Debug)]
struct Observation {
    generation: u32,
    len: u64,
    capacity: u64,
    /// Number of messages received.
    messages: u64,
}

#[derive(Debug)]
struct Kept {
    observation: Observation,
    /// Growth between the last two looks.
    grown: u64,
    census: u64,
    growing: u32,
    full: u32,
    raised: bool,
    /// True once it has been looked at twice.
    compared: bool,
}

/// The long mailboxes of earlier censuses.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    /// Shorter mailboxes are ignored.
    len_min: u64,
    kept: HashMap<u32, Kept>,
    census: u64,
    /// Time at which the last census ended.
    ended: Option<Duration>,
}

impl Mailboxes {
    pub(super) fn new(len_min: u32) -> Self {
        Self { len_min: len_min.into(), kept: HashMap::new(), census: 0, ended: None }
    }

    /// Returns the part of the table at which a census begins. It differs each time, so that the same part is not
    /// always last when few mailboxes can be remembered.
    pub(crate) fn first_part(&self, parts: usize) -> usize {
        (self.census.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % parts.max(1)
    }

    /// Records a process that the census visits.
    #[inline]
    pub(crate) fn meet(&mut self, seen: &ProcessRef<'_>) {
        let len = seen.mailbox_len();
        if len >= self.len_min {
            let (capacity, messages) = (seen.mailbox_capacity(), seen.messages());
            self.observe(seen.slot(), Observation { generation: seen.generation(), len, capacity, messages });
        }
    }

    #[inline(never)]
    fn observe(&mut self, slot: u32, observation: Observation) {
        let has_room = self.kept.len() < KEPT;
        match self.kept.get_mut(&slot) {
            Some(kept) if kept.observation.generation == observation.generation => kept.compare(observation),
            Some(kept) => *kept = Kept::new(observation),
            None if has_room => {
                self.kept.insert(slot, Kept::new(observation));
            }
            None => return,
        }
        if let Some(kept) = self.kept.get_mut(&slot) {
            kept.census = self.census;
        }
    }

    /// Ends a census in which all processes were visited; returns its findings.
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
    const fn new(observation: Observation) -> Self {
        Self { observation, grown: 0, census: 0, growing: 0, full: 0, raised: false, compared: false }
    }

    fn compare(&mut self, observation: Observation) {
        let received = observation.messages.saturating_sub(self.observation.messages) as f64;
        self.grown = observation.len.saturating_sub(self.observation.len);
        let grows = self.grown as f64 >= GROWTH_MIN.max(2.0 * received.sqrt());
        let is_full = observation.len.saturating_mul(10) >= observation.capacity.saturating_mul(9);
        self.growing = if grows { self.growing + 1 } else { 0 };
        self.full = if is_full { self.full + 1 } else { 0 };
        self.raised = (self.growing >= WINDOWS || self.full >= WINDOWS) || self.raised && !self.is_quiet();
        self.observation = observation;
        self.compared = true;
    }

    /// Returns true if the mailbox was neither growing nor full at the last observation.
    const fn is_quiet(&self) -> bool {
        self.growing == 0 && self.full == 0
    }

    const fn is_finding(&self) -> bool {
        self.raised && !self.is_quiet()
    }

    fn finding(&self, slot: u32, window: Duration) -> Finding {
        let len = grouped(self.observation.len);
        let text = if self.full > 0 {
            format!("full: {len} messages wait, capacity {}", grouped(self.observation.capacity))
        } else {
            format!("{len} messages wait, {} more than {:.1} s ago", grouped(self.grown), window.as_secs_f64())
        };
        let pid = Pid::local(slot, self.observation.generation);
        // On a large node, censuses are rare.
        Finding {
            lint: Lint::MailboxGrowing,
            pid,
            value: self.observation.len as f64,
            text,
            hold: HOLD.max(window * 3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one census for each (length, messages received) of one mailbox; returns for each whether it is found.
    fn found(capacity: u64, looks: &[(u64, u64)]) -> Vec<bool> {
        let mut mailboxes = Mailboxes::new(64);
        let mut at = Duration::ZERO;
        let census = |&(len, messages): &(u64, u64)| {
            at += Duration::from_secs(1);
            if len >= mailboxes.len_min {
                mailboxes.observe(7, Observation { generation: 1, len, capacity, messages });
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

        let mut mailboxes = Mailboxes::new(64);
        for generation in 1..9 {
            let observation =
                Observation { generation, len: u64::from(generation) * 100, capacity: 10_000, messages: 0 };
            mailboxes.observe(7, observation);
            assert_eq!(mailboxes.end_census(Duration::from_secs(generation.into())), []);
        }
    }

    #[test]
    fn a_hundred_thousand_growing_mailboxes_are_bounded_and_quiet_ones_hide_none() {
        let mut mailboxes = Mailboxes::new(64);
        let mut found = Vec::new();
        for census in 0..20 {
            let first = mailboxes.first_part(100) as u32;
            for slot in (0..100).map(|part| (first + part) % 100).flat_map(|part| part * 1000..(part + 1) * 1000) {
                // The first half stays at its length, the second grows.
                let len = if slot < 50_000 { 1_000 } else { 100 + census * 50 };
                mailboxes.observe(slot, Observation { generation: 1, len, capacity: 10_000, messages: 0 });
            }
            assert!(mailboxes.kept.len() <= KEPT);
            found = mailboxes.end_census(Duration::from_secs(census));
            assert!(found.len() <= FOUND_MAX);
        }

        assert_eq!(found.len(), FOUND_MAX);
        assert!(found.iter().all(|found| found.pid.slot() >= 50_000));
    }
}
