//! State of keys without a process: kept until their next message, or until another host has it.
//!
//! ```text
//!   process ends and leaves state ──▶ kept ──▶ the next message here resumes it
//!                                      └─▶ moving: sent to the host of its place ──▶ adopted there, then forgotten here
//! ```
//!
//! A state is forgotten only after the other host has said that it has it. While it moves, no process is started with it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use rusm_runtime::{Context, Pid};

use super::wire::{Answer, Question};
use crate::identity::NodeName;

/// Maximum number of states in a message.
const BATCH_KEYS: usize = 256;
/// Length of the states after which a message takes no more, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of states that move at a time.
const MOVING_MAX: usize = 1 << 14;

/// A key and its state.
pub(super) type Entry = (Arc<str>, Bytes);

/// States of keys without a process.
#[derive(Debug, Default)]
pub(super) struct Suspended {
    kept: HashMap<Arc<str>, Bytes>,
    /// Keys of `kept` that are being sent to other hosts.
    moving: HashSet<Arc<str>>,
    /// Keys that the host of their place has asked for.
    wanted: HashSet<Arc<str>>,
}

/// Use of a key on the host that is offered its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUse {
    /// The key is not in use: the state is kept.
    Free,
    /// A process has newer state.
    Live,
    /// Not decided yet.
    Busy,
}

impl Suspended {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.kept.contains_key(key)
    }

    pub(super) fn is_moving(&self, key: &str) -> bool {
        self.moving.contains(key)
    }

    /// Keeps the state that a process has left.
    pub(super) fn keep(&mut self, key: Arc<str>, state: Bytes) {
        self.kept.insert(key, state);
    }

    /// Removes the state of a key that is about to be started. A state that moves stays.
    pub(super) fn take(&mut self, key: &str) -> Option<Bytes> {
        if self.is_moving(key) {
            return None;
        }
        self.wanted.remove(key);
        self.kept.remove(key)
    }

    /// Keeps a state of another host. Returns true if that may forget it.
    pub(super) fn adopt(&mut self, key: &str, state: &[u8], of: KeyUse) -> bool {
        match of {
            KeyUse::Busy => return false,
            KeyUse::Live => return true,
            KeyUse::Free => {}
        }
        if !self.contains(key) {
            self.kept.insert(key.into(), Bytes::copy_from_slice(state));
        }
        true
    }

    /// Notes that the host of another node has asked for a key: its state then moves.
    pub(super) fn want(&mut self, key: &str) {
        if let Some((key, _)) = self.kept.get_key_value(key) {
            self.wanted.insert(Arc::clone(key));
        }
    }

    /// Marks states as moving: all of them, or those that are wanted. `place` is the host that a key belongs to, if that is
    /// another one. Returns nothing while others move.
    pub(super) fn begin_move(&mut self, all: bool, place: impl Fn(&str) -> Option<(NodeName, Pid)>) -> Vec<Move> {
        if !self.moving.is_empty() {
            return Vec::new();
        }
        let mut by_node: HashMap<NodeName, Move> = HashMap::new();
        let wanted = std::mem::take(&mut self.wanted);
        let mut add = |key: &Arc<str>, state: &Bytes| {
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
            self.kept.remove(key);
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
            let question = Question::Adopt(batch.iter().map(|(key, state)| (&**key, &**state)).collect()).encode();
            let Ok(answer) = ctx.call::<Bytes, Bytes>(self.host, question, within).await else { break };
            let Some(Answer::Adopted(taken)) = Answer::decode(&answer) else { break };
            adopted.extend(batch.iter().zip(taken).filter(|(_, taken)| *taken).map(|((key, _), _)| Arc::clone(key)));
        }
        adopted
    }
}

/// Returns the number of entries that go into one message; at least one.
fn batch_len(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fits = |(key, state): &&Entry| {
        let has_room = bytes < BATCH_BYTES;
        bytes += key.len() + state.len();
        has_room
    };
    entries.iter().take(BATCH_KEYS).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: usize, bytes: usize) -> Entry {
        (key.to_string().into(), Bytes::from(vec![7; bytes]))
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
        assert_eq!((states.take("0"), states.take("2").is_some()), (None, true));
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
    fn an_adopted_state_does_not_replace_a_newer_one() {
        let mut states = Suspended::default();
        states.keep("k".into(), Bytes::from_static(b"newer"));

        assert!(states.adopt("k", b"older", KeyUse::Free) && states.adopt("live", b"older", KeyUse::Live));
        assert!(!states.adopt("busy", b"older", KeyUse::Busy));
        assert_eq!((states.take("k"), states.len()), (Some(Bytes::from_static(b"newer")), 0));
    }
}
