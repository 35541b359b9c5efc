//! The keys that are live on a node, and those that are being started.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusm_runtime::Pid;

/// State of a key on this node.
#[derive(Debug)]
pub(super) enum KeyState<W> {
    /// Other hosts are being asked.
    Starting {
        /// These wait for the result.
        waiters: Vec<W>,
        /// Another host starts it: it asked this one.
        yields: bool,
    },
    /// Its process runs.
    Live {
        /// The process.
        pid: Pid,
        /// True after it was told to end.
        is_ending: bool,
        /// Version of the state that it was started with; 0 without one.
        version: u64,
        /// Number of messages that it had received at the last look, and the time since which that is so.
        seen: (u64, Duration),
    },
}

/// The keys of a node. `W` waits for the start of one.
#[derive(Debug)]
pub(super) struct KeyTable<W> {
    keys: HashMap<Arc<str>, KeyState<W>>,
    pids: HashMap<Pid, Arc<str>>,
}

impl<W> KeyTable<W> {
    pub(super) fn new() -> Self {
        Self { keys: HashMap::new(), pids: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut KeyState<W>> {
        self.keys.get_mut(key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&KeyState<W>> {
        self.keys.get(key)
    }

    /// Notes that a key is being started.
    pub(super) fn begin(&mut self, key: &str, waiter: W) {
        self.keys.insert(key.into(), KeyState::Starting { waiters: vec![waiter], yields: false });
    }

    /// Notes the process of a key and the version of its state, or that none was started. Returns those that wait.
    pub(super) fn started(&mut self, key: &str, process: Option<(Pid, u64)>, now: Duration) -> Vec<W> {
        let Some((name, state)) = self.keys.remove_entry(key) else { return Vec::new() };
        if let Some((pid, version)) = process {
            self.pids.insert(pid, Arc::clone(&name));
            self.keys.insert(name, KeyState::Live { pid, is_ending: false, version, seen: (0, now) });
        }
        match state {
            KeyState::Starting { waiters, .. } => waiters,
            KeyState::Live { .. } => Vec::new(),
        }
    }

    /// Notes that a process could not be told to end.
    pub(super) fn keep(&mut self, pid: Pid) {
        let state = self.pids.get(&pid).and_then(|key| self.keys.get_mut(key));
        if let Some(KeyState::Live { is_ending, .. }) = state {
            *is_ending = false;
        }
    }

    /// Notes that a process has ended.
    pub(super) fn ended(&mut self, pid: Pid) {
        if let Some(key) = self.pids.remove(&pid) {
            self.keys.remove(&key);
        }
    }

    /// Marks keys as ending, and returns their processes: those that were idle for this time, and as many others as it takes
    /// until `moves` keys are ending. `messages` is the number of messages that a process has received, or `None` while some
    /// wait.
    pub(super) fn take_ending(
        &mut self,
        now: Duration,
        idle: Duration,
        moves: usize,
        messages: impl Fn(Pid) -> Option<u64>,
    ) -> Vec<Pid> {
        let is_ending = |state: &&KeyState<W>| matches!(state, KeyState::Live { is_ending: true, .. });
        let before = if moves == 0 { 0 } else { self.keys.values().filter(is_ending).count() };
        let mut ending = Vec::new();
        for state in self.keys.values_mut() {
            let KeyState::Live { pid, is_ending, seen, .. } = state else { continue };
            if *is_ending {
                continue;
            }
            let count = messages(*pid);
            if count != Some(seen.0) {
                *seen = (count.unwrap_or(u64::MAX), now);
            }
            if before + ending.len() < moves || now >= seen.1 + idle {
                *is_ending = true;
                ending.push(*pid);
            }
        }
        ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_key_ends_when_it_was_idle_and_not_while_it_works() {
        let mut table = KeyTable::new();
        let (busy, idle) = (Pid::local(1, 1), Pid::local(2, 1));
        for (key, pid) in [("busy", busy), ("idle", idle)] {
            table.begin(key, key);
            assert_eq!(table.started(key, Some((pid, 0)), at(0)), [key]);
        }
        let messages = |now: u64| move |pid: Pid| Some(if pid == busy { now } else { 1 });

        assert!(table.take_ending(at(1), at(5), 0, messages(1)).is_empty());
        assert!(table.take_ending(at(5), at(5), 0, messages(5)).is_empty());
        assert_eq!(table.take_ending(at(6), at(5), 0, messages(6)), [idle]);
        assert!(table.take_ending(at(9), at(5), 0, messages(9)).is_empty(), "it is told once");
        assert!(matches!(table.get("idle"), Some(KeyState::Live { is_ending: true, .. })));
        table.ended(idle);
        assert_eq!((table.len(), table.get("idle").is_none()), (1, true));
        assert_eq!(table.take_ending(at(9), at(5), 1, messages(9)), [busy], "the node drains");
    }

    #[test]
    fn of_the_keys_of_a_node_that_drains_only_some_end_at_a_time() {
        let mut table = KeyTable::new();
        for key in 1..=5 {
            table.begin(&key.to_string(), ());
            table.started(&key.to_string(), Some((Pid::local(key, 1), 0)), at(0));
        }

        let first = table.take_ending(at(1), at(9), 2, |_| Some(1));
        assert_eq!((first.len(), table.take_ending(at(1), at(9), 2, |_| Some(1)).len()), (2, 0));
        table.ended(first[0]);
        assert_eq!(table.take_ending(at(1), at(9), 2, |_| Some(1)).len(), 1);
    }

    #[test]
    fn a_process_with_waiting_messages_is_not_idle() {
        let mut table = KeyTable::new();
        table.begin("k", ());
        table.started("k", Some((Pid::local(1, 1), 0)), at(0));

        for second in 1..9 {
            assert!(table.take_ending(at(second), at(2), 0, |_| None).is_empty());
        }
    }
}
