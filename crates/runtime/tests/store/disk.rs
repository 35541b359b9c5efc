//! A disk in memory that forgets what was not synced when its power is cut, can be too small, and can be made to wait.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rusm_runtime::store::StorageBackend;

/// Writes reach a disk in pieces of so many bytes, each by itself.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct State {
    /// What a reader sees.
    current: Vec<u8>,
    /// What is left after a power cut, at least.
    durable: Vec<u8>,
    /// What may be left or not.
    pending: Vec<(usize, Vec<u8>)>,
    syncs: u64,
    room: Option<usize>,
    sync_fails: bool,
    read_fails: bool,
    /// How long each read takes.
    read_time: Duration,
    gate_closed: bool,
    /// Syncs that wait at the gate.
    at_gate: usize,
    is_dead: bool,
    /// Writes and syncs until the power is cut.
    dies_after: Option<u64>,
}

impl State {
    /// Counts a write or a sync; whether there is no power for it any more.
    fn is_cut(&mut self) -> bool {
        match &mut self.dies_after {
            Some(0) => self.is_dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.is_dead
    }
}

/// See the module; a clone is the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<(Mutex<State>, Condvar)>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Bytes that the disk has room for; it is full beyond.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.state().room = room;
    }

    pub(crate) fn len_now(&self) -> usize {
        self.state().current.len()
    }

    pub(crate) fn fail_syncs(&self, fails: bool) {
        self.state().sync_fails = fails;
    }

    pub(crate) fn fail_reads(&self, fails: bool) {
        self.state().read_fails = fails;
    }

    pub(crate) fn slow_reads(&self, time: Duration) {
        self.state().read_time = time;
    }

    /// Cuts the power after so many writes and syncs; [`cut`](Self::cut) then tells what is left.
    pub(crate) fn die_after(&self, operations: u64) {
        self.state().dies_after = Some(operations);
    }

    /// Syncs wait until the gate is opened.
    pub(crate) fn close_gate(&self) {
        self.state().gate_closed = true;
    }

    pub(crate) fn open_gate(&self) {
        self.state().gate_closed = false;
        self.0.1.notify_all();
    }

    /// Waits until a sync waits at the gate.
    pub(crate) fn wait_for_a_sync(&self) {
        let mut state = self.state();
        while state.at_gate == 0 {
            state = self.0.1.wait(state).unwrap();
        }
    }

    /// The disk as it is found after a power cut just now: what was synced, and of the rest what `survives` says.
    pub(crate) fn cut(&self, mut survives: impl FnMut() -> bool) -> Self {
        let mut state = self.state();
        let mut image = state.durable.clone();
        for (offset, data) in &state.pending {
            for (number, sector) in data.chunks(SECTOR).enumerate() {
                if survives() {
                    let from = offset + number * SECTOR;
                    image.resize(image.len().max(from + sector.len()), 0);
                    image[from..from + sector.len()].copy_from_slice(sector);
                }
            }
        }
        // The file has the length that it had, or the one that it was given last.
        if survives() {
            image.resize(state.current.len(), 0);
        }
        state.is_dead = true;
        state.gate_closed = false;
        drop(state);
        self.0.1.notify_all();
        let state = State { current: image.clone(), durable: image, ..State::default() };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64> {
        Ok(self.state().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let state = self.state();
        let until = Instant::now() + state.read_time;
        if state.read_fails {
            return Err(Error::other("the disk does not answer"));
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let from = offset as usize;
        let bytes = state.current.get(from..from + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state();
        if state.is_dead {
            return Err(Error::other("the power is off"));
        }
        // Sparse, as on a real file system: room is taken by writing.
        state.current.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state();
        state.at_gate += 1;
        self.0.1.notify_all();
        while state.gate_closed {
            state = self.0.1.wait(state).unwrap();
        }
        state.at_gate -= 1;
        if state.is_cut() || state.sync_fails {
            return Err(Error::other("the disk does not answer"));
        }
        state.syncs += 1;
        let State { durable, current, .. } = &mut *state;
        durable.clone_from(current);
        state.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state();
        if state.is_cut() {
            return Err(Error::other("the power is off"));
        }
        let from = offset as usize;
        if state.room.is_some_and(|room| from + data.len() > room) {
            return Err(ErrorKind::StorageFull.into());
        }
        let end = from + data.len();
        if state.current.len() < end {
            state.current.resize(end, 0);
        }
        state.current[from..end].copy_from_slice(data);
        state.pending.push((from, data.to_vec()));
        Ok(())
    }
}
