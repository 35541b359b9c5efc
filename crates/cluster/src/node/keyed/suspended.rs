//! State of keys without a process: kept until their next message, or until another host has it.
//!
//! ```text
//!   process ends and leaves state ──▶ kept ──▶ the next message here resumes it
//!                                      └─▶ moving: sent to the host of its place ──▶ adopted there, then forgotten here
//! ```
//!
//! A state is forgotten only after the other host has said that it has it. While it moves, no process is started with it. An
//! answer can be lost, so that two hosts keep a state of a key. Each state has a version, and the higher one wins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use rusm_runtime::{Context, Pid};

use super::wire::{Answer, Offer, Question};
use crate::identity::NodeName;

/// Maximum number of states in a message.
const BATCH_KEYS: usize = 256;
/// Length of the states after which a message takes no more, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of states that move at a time.
const MOVING_MAX: usize = 1 << 14;

/// State that a process has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// Number of processes of the key that left a state, this one included: at least 1.
    pub(super) version: u64,
    /// The state.
    pub(super) bytes: Bytes,
}

/// A key and its state.
pub(super) type Entry = (Arc<str>, Saved);

/// States of keys without a process.
#[derive(Debug, Default)]
pub(super) struct Suspended {
    kept: HashMap<Arc<str>, Saved>,
    /// Keys of `kept` that are being sent to other hosts.
    moving: HashSet<Arc<str>>,
    /// Keys that the host of their place has asked for.
    wanted: HashSet<Arc<str>>,
    /// Length of the states of `kept`, in bytes.
    bytes: u64,
}

/// Use of a key on the host that is offered its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUse {
    /// Its process has ended: the state is kept.
    Free,
    /// A process has newer state.
    Live,
    /// Its process ends, its state is about to move, or this host has no room: not decided yet.
    Busy,
}

impl Suspended {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Length of all states, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.kept.contains_key(key)
    }

    pub(super) fn is_moving(&self, key: &str) -> bool {
        self.moving.contains(key)
    }

    /// Keeps the state that a process has left.
    pub(super) fn keep(&mut self, key: Arc<str>, state: Saved) {
        if self.is_newer(&key, state.version) {
            self.insert(key, state);
        }
    }

    fn insert(&mut self, key: Arc<str>, state: Saved) {
        self.bytes += state.bytes.len() as u64;
        if let Some(older) = self.kept.insert(key, state) {
            self.bytes -= older.bytes.len() as u64;
        }
    }

    fn remove(&mut self, key: &str) -> Option<Saved> {
        self.kept.remove(key).inspect(|state| self.bytes -= state.bytes.len() as u64)
    }

    fn is_newer(&self, key: &str, version: u64) -> bool {
        self.kept.get(key).is_none_or(|kept| kept.version < version)
    }

    /// Removes the state of a key that is about to be started. It must not move.
    pub(super) fn take(&mut self, key: &str) -> Option<Saved> {
        debug_assert!(!self.is_moving(key), "a process would be started without the state that moves");
        self.wanted.remove(key);
        self.remove(key)
    }

    /// Forgets a state that is not newer than the one that a process on another node was started with.
    pub(super) fn forget(&mut self, key: &str, version: u64) {
        let is_old = self.kept.get(key).is_some_and(|kept| kept.version <= version);
        if is_old && !self.is_moving(key) {
            self.take(key);
        }
    }

    /// Keeps a state of another host, unless the kept one is as new. Returns true if that host may forget it.
    pub(super) fn adopt(&mut self, offer: Offer<'_>, of: KeyUse) -> bool {
        let Offer { key, version, state } = offer;
        match of {
            // The answer to the offer of the older state would make this host forget the newer one.
            _ if self.is_moving(key) => return !self.is_newer(key, version),
            KeyUse::Busy => return false,
            KeyUse::Live => return true,
            KeyUse::Free => {}
        }
        if self.is_newer(key, version) {
            self.insert(key.into(), Saved { version, bytes: Bytes::copy_from_slice(state) });
        }
        true
    }

    /// Notes that the host of another node has asked for a key: its state then moves.
    pub(super) fn want(&mut self, key: &str) {
        if let Some((key, _)) = self.kept.get_key_value(key) {
            self.wanted.insert(Arc::clone(key));
        }
    }

    /// Marks states as moving: all of them, or those that are wanted. `place` is the host that a key moves to, if any. Returns
    /// nothing while others move.
    pub(super) fn begin_move(&mut self, all: bool, place: impl Fn(&str) -> Option<(NodeName, Pid)>) -> Vec<Move> {
        if !self.moving.is_empty() {
            return Vec::new();
        }
        let mut by_node: HashMap<NodeName, Move> = HashMap::new();
        let wanted = std::mem::take(&mut self.wanted);
        let mut add = |key: &Arc<str>, state: &Saved| {
            let Some((node, host)) = place(key) else { return };
            let states = by_node.entry(node).or_insert_with(|| Move { host, entries: Vec::new() });
            states.entries.push((Arc::clone(key), state.clone()));
            self.moving.insert(Arc::clone(key));
        };
        if all {
            self.kept.iter().take(MOVING_MAX).for_each(|(key, state)| add(key, state));
        } else {
            wanted.iter().filter_map(|key| self.kept.get_key_value(key)).for_each(|(key, state)| add(key, state));
        }
        by_node.into_values().collect()
    }

    /// Forgets the states that another host has, and lets the others stay until the next attempt.
    pub(super) fn end_move(&mut self, adopted: &[Arc<str>]) {
        for key in adopted {
            self.remove(key);
        }
        self.moving.clear();
    }
}

/// States for one host.
#[derive(Debug)]
pub(super) struct Move {
    host: Pid,
    entries: Vec<Entry>,
}

impl Move {
    /// Sends the states, in as many messages as needed, and returns the keys that the other host has.
    pub(super) async fn run(self, ctx: &Context, within: std::time::Duration) -> Vec<Arc<str>> {
        let mut adopted = Vec::new();
        let mut rest = &self.entries[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            rest = after;
            let question = Question::Adopt(batch.iter().map(offer).collect()).encode();
            let Ok(answer) = ctx.call::<Bytes, Bytes>(self.host, question, within).await else { break };
            let Some(Answer::Adopted(taken)) = Answer::decode(&answer) else { break };
            adopted.extend(batch.iter().zip(taken).filter(|(_, taken)| *taken).map(|((key, _), _)| Arc::clone(key)));
        }
        adopted
    }
}

fn offer((key, state): &Entry) -> Offer<'_> {
    Offer { key, version: state.version, state: &state.bytes }
}

/// Returns the number of entries that go into one message; at least one.
fn batch_len(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fits = |(key, state): &&Entry| {
        let has_room = bytes < BATCH_BYTES;
        bytes += key.len() + state.bytes.len();
        has_room
    };
    entries.iter().take(BATCH_KEYS).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: usize, bytes: usize) -> Entry {
        (key.to_string().into(), Saved { version: 1, bytes: Bytes::from(vec![7; bytes]) })
    }

    fn saved(version: u64, bytes: &'static [u8]) -> Saved {
        Saved { version, bytes: Bytes::from_static(bytes) }
    }

    fn of_k(version: u64, state: &'static [u8]) -> Offer<'static> {
        Offer { key: "k", version, state }
    }

    #[test]
    fn a_message_has_a_bounded_number_of_states_and_bytes() {
        let small: Vec<Entry> = (0..1_000).map(|key| entry(key, 8)).collect();
        let large: Vec<Entry> = (0..9).map(|key| entry(key, 100 << 10)).collect();
        let one = [entry(0, 4 << 20), entry(1, 1)];

        assert_eq!((batch_len(&small), batch_len(&large), batch_len(&one)), (BATCH_KEYS, 3, 1));
    }

    #[test]
    fn a_state_is_forgotten_only_after_another_host_has_it() {
        let mut states = Suspended::default();
        for key in 0..3 {
            let (key, state) = entry(key, 1);
            states.keep(key, state);
        }
        let place = |key: &str| (key != "2").then(|| (NodeName::new("b").unwrap(), Pid::local(1, 1)));

        let moves = states.begin_move(true, place);
        assert_eq!(moves.iter().map(|to| to.entries.len()).sum::<usize>(), 2, "key 2 belongs here");
        assert!(states.begin_move(true, place).is_empty(), "they move already");
        assert!(states.is_moving("0") && states.take("2").is_some());
        states.end_move(&["0".into()]);

        assert_eq!((states.contains("0"), states.is_moving("1"), states.take("1").is_some()), (false, false, true));
    }

    #[test]
    fn a_state_that_is_wanted_moves_alone() {
        let mut states = Suspended::default();
        for key in 0..3 {
            let (key, state) = entry(key, 1);
            states.keep(key, state);
        }
        states.want("1");
        states.want("unknown");

        let moves = states.begin_move(false, |_| Some((NodeName::new("b").unwrap(), Pid::local(1, 1))));
        assert_eq!(moves[0].entries, [entry(1, 1)]);
    }

    #[test]
    fn of_two_states_of_a_key_the_newer_one_stays() {
        let mut states = Suspended::default();
        states.keep("k".into(), saved(2, b"2"));

        assert!(states.adopt(of_k(1, b"1"), KeyUse::Free) && states.adopt(of_k(1, b"1"), KeyUse::Live));
        assert!(!states.adopt(of_k(3, b"3"), KeyUse::Busy));
        assert_eq!(states.kept["k"], saved(2, b"2"));
        assert!(states.adopt(of_k(3, b"3"), KeyUse::Free));
        states.keep("k".into(), saved(2, b"2"));
        assert_eq!(states.bytes(), 1);
        assert_eq!((states.take("k"), states.len(), states.bytes()), (Some(saved(3, b"3")), 0, 0));
    }

    #[test]
    fn a_state_that_moves_is_not_replaced() {
        let mut states = Suspended::default();
        states.keep("k".into(), saved(2, b"2"));
        states.begin_move(true, |_| Some((NodeName::new("b").unwrap(), Pid::local(1, 1))));

        assert!(states.adopt(of_k(2, b"2"), KeyUse::Free), "it is not newer");
        assert!(!states.adopt(of_k(3, b"3"), KeyUse::Free), "the answer to the offer of 2 is about 2");
        states.end_move(&["k".into()]);
        assert!(states.adopt(of_k(3, b"3"), KeyUse::Free));
    }

    #[test]
    fn a_state_is_dropped_when_a_process_elsewhere_was_started_with_it() {
        let mut states = Suspended::default();
        states.keep("k".into(), saved(2, b"2"));

        states.forget("k", 1);
        assert!(states.contains("k"), "that process may have left this state since");
        states.forget("k", 2);
        assert!(!states.contains("k"));
    }
}
