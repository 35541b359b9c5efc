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
    pending: Vec<Change>,
    syncs: u64,
    room: Option<usize>,
    sync_fails: bool,
    full_at_sync: bool,
    read_fails: bool,
    /// How long each read takes.
    read_time: Duration,
    gate_closed: bool,
    /// Syncs that wait at the gate.
    at_gate: usize,
    power: Arc<Mutex<Power>>,
}

/// What has not reached the disk for sure.
#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
}

/// Of one disk, or of several files of it.
#[derive(Debug, Default)]
struct Power {
    is_off: bool,
    /// Of so many writes and syncs one fails, by a sequence of chance; 0 for none.
    fails_one_in: u64,
    chance: u64,
    /// Writes and syncs until it is cut.
    lasts: Option<u64>,
}

impl Power {
    /// Counts a write or a sync; whether there is no power for it any more.
    fn is_cut(&mut self) -> bool {
        match &mut self.lasts {
            Some(0) => self.is_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.is_off
    }

    /// Whether this write or sync is one that fails.
    fn fails(&mut self) -> bool {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.fails_one_in > 0 && (self.chance >> 33).is_multiple_of(self.fails_one_in)
    }
}

impl State {
    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap()
    }
}

/// Writes what a sector or a file of so many bytes is now.
fn write(image: &mut Vec<u8>, from: usize, data: &[u8]) {
    image.resize(image.len().max(from + data.len()), 0);
    image[from..from + data.len()].copy_from_slice(data);
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

    /// Another file, which loses its power with this one.
    pub(crate) fn beside(&self) -> Self {
        Self::default().wired_to(self)
    }

    /// This file loses its power with the other one from now on.
    pub(crate) fn wired_to(self, other: &Self) -> Self {
        self.state().power = Arc::clone(&other.state().power);
        self
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

    /// Syncs find that there was no room.
    pub(crate) fn fill_at_syncs(&self, fills: bool) {
        self.state().full_at_sync = fills;
    }

    /// What stands here.
    pub(crate) fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        self.state().current[from..from + len].to_vec()
    }

    /// Turns a bit of this byte.
    pub(crate) fn flip(&self, at: usize) {
        self.state().current[at] ^= 1;
    }

    /// Puts bytes there that nobody wrote.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        self.state().current[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn fail_reads(&self, fails: bool) {
        self.state().read_fails = fails;
    }

    pub(crate) fn slow_reads(&self, time: Duration) {
        self.state().read_time = time;
    }

    /// Cuts the power after so many writes and syncs; [`cut`](Self::cut) then tells what is left.
    pub(crate) fn die_after(&self, operations: u64) {
        self.state().power().lasts = Some(operations);
    }

    /// One of so many writes and syncs of all files of the disk fails from now on.
    pub(crate) fn fail_now_and_then(&self, seed: u64, one_in: u64) {
        let state = self.state();
        let mut power = state.power();
        (power.chance, power.fails_one_in) = (seed, one_in);
    }

    pub(crate) fn fail_never(&self) {
        self.state().power().fails_one_in = 0;
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

    /// What is durable now, as a disk of its own.
    pub(crate) fn image(&self) -> Self {
        let durable = self.state().durable.clone();
        let state = State { current: durable.clone(), durable, ..State::default() };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// The disk as it is found after a power cut just now: what was synced, and of the rest what `survives` says.
    pub(crate) fn cut(&self, mut survives: impl FnMut() -> bool) -> Self {
        let mut state = self.state();
        state.power().is_off = true;
        let mut image = state.durable.clone();
        for change in &state.pending {
            match change {
                Change::Write(offset, data) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if survives() {
                            write(&mut image, offset + number * SECTOR, sector);
                        }
                    }
                }
                Change::Len(len) if survives() => image.resize(*len, 0),
                Change::Len(_) => {}
            }
        }
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
        if state.power().is_off {
            return Err(Error::other("the power is off"));
        }
        // Sparse, as on a real file system: room is taken by writing.
        state.current.resize(len as usize, 0);
        state.pending.push(Change::Len(len as usize));
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
        if state.power().is_cut() {
            return Err(Error::other("the power is off"));
        }
        let fails = state.power().fails();
        if state.sync_fails || fails {
            // As Linux does: it tells once, and what could not be written is never tried again.
            state.pending.clear();
            return Err(Error::other("the disk does not answer"));
        }
        if state.full_at_sync && matches!(state.pending.last(), Some(Change::Write(..))) {
            return Err(ErrorKind::StorageFull.into());
        }
        state.syncs += 1;
        let State { durable, pending, .. } = &mut *state;
        for change in pending.drain(..) {
            match change {
                Change::Write(offset, data) => write(durable, offset, &data),
                Change::Len(len) => durable.resize(len, 0),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state();
        if state.power().is_cut() {
            return Err(Error::other("the power is off"));
        }
        if state.power().fails() {
            return Err(Error::other("the disk does not answer"));
        }
        let from = offset as usize;
        if state.room.is_some_and(|room| from + data.len() > room) {
            return Err(ErrorKind::StorageFull.into());
        }
        write(&mut state.current, from, data);
        state.pending.push(Change::Write(from, data.to_vec()));
        Ok(())
    }
}
