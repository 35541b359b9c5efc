//! A disk in memory that loses unsynced data at a power cut, can become full, and can delay syncs.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusm_store::StorageBackend;

/// Unit in which writes reach the disk, each independently of the others, in bytes.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
struct State {
    /// Contents as a reader sees them.
    current: Image,
    /// Contents that surely survive a power cut.
    durable: Image,
    /// Changes that may or may not survive.
    pending: Vec<Change>,
    syncs: u64,
    room: Option<usize>,
    sync_fails: bool,
    full_at_sync: bool,
    read_fails: bool,
    /// Duration of each read.
    read_time: Duration,
    gate_closed: bool,
    /// Number of syncs that wait at the gate.
    at_gate: usize,
    power: Arc<Mutex<Power>>,
}

/// A change that has not been synced yet.
#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
}

/// Power supply and faults of one disk, or of several files on one.
#[derive(Debug, Default)]
struct Power {
    is_off: bool,
    /// On average, one in this number of writes and syncs fails; 0 for none.
    fails_one_in: u64,
    chance: u64,
    /// Number of writes and syncs until the power is cut.
    lasts: Option<u64>,
}

impl Power {
    /// Counts a write or a sync; returns true if the power is off.
    fn is_cut(&mut self) -> bool {
        match &mut self.lasts {
            Some(0) => self.is_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.is_off
    }

    /// Returns true if this write or sync must fail.
    fn fails(&mut self) -> bool {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.fails_one_in > 0 && (self.chance >> 33).is_multiple_of(self.fails_one_in)
    }
}

/// Content of a file. What was never written at its end is a hole, which takes no memory.
#[derive(Clone, Debug, Default)]
struct Image {
    bytes: Vec<u8>,
    len: usize,
}

impl Image {
    fn set_len(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.len = len;
    }

    /// Returns a range to write to; the file grows if necessary.
    fn range(&mut self, from: usize, len: usize) -> &mut [u8] {
        let end = from + len;
        self.len = self.len.max(end);
        self.bytes.resize(self.bytes.len().max(end), 0);
        &mut self.bytes[from..end]
    }

    fn write(&mut self, from: usize, data: &[u8]) {
        self.range(from, data.len()).copy_from_slice(data);
    }

    /// Fills `out` with a range, if the file is long enough.
    fn read(&self, from: usize, out: &mut [u8]) -> Option<()> {
        if from + out.len() > self.len {
            return None;
        }
        let written = self.bytes.get(from..).unwrap_or_default();
        let (written, hole) = (&written[..written.len().min(out.len())], out);
        hole[..written.len()].copy_from_slice(written);
        hole[written.len()..].fill(0);
        Some(())
    }
}

/// A disk in memory; a clone is a handle to the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<(Mutex<State>, Condvar)>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock()
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Creates another file, which loses its power together with this one.
    pub(crate) fn beside(&self) -> Self {
        Self::default().wired_to(self)
    }

    /// Makes this file lose its power together with the other one from now on.
    pub(crate) fn wired_to(self, other: &Self) -> Self {
        self.state().power = Arc::clone(&other.state().power);
        self
    }

    /// Sets the number of bytes for which the disk has space.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.state().room = room;
    }

    pub(crate) fn len_now(&self) -> usize {
        self.state().current.len
    }

    pub(crate) fn fail_syncs(&self, fails: bool) {
        self.state().sync_fails = fails;
    }

    /// Makes syncs fail because the disk is full.
    pub(crate) fn fill_at_syncs(&self, fills: bool) {
        self.state().full_at_sync = fills;
    }

    /// Returns the current bytes of a range.
    pub(crate) fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.state().current.read(from, &mut bytes).unwrap();
        bytes
    }

    /// Flips a bit of this byte.
    pub(crate) fn flip(&self, at: usize) {
        self.state().current.range(at, 1)[0] ^= 1;
    }

    /// Overwrites bytes without a write by the store.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        self.state().current.write(at, bytes);
    }

    pub(crate) fn fail_reads(&self, fails: bool) {
        self.state().read_fails = fails;
    }

    pub(crate) fn slow_reads(&self, time: Duration) {
        self.state().read_time = time;
    }

    /// Cuts the power after this many writes and syncs; [`cut`](Self::cut) then returns what is left.
    pub(crate) fn die_after(&self, operations: u64) {
        self.state().power.lock().lasts = Some(operations);
    }

    /// Makes one of `one_in` writes and syncs of all files of the disk fail from now on.
    pub(crate) fn fail_now_and_then(&self, seed: u64, one_in: u64) {
        let state = self.state();
        let mut power = state.power.lock();
        (power.chance, power.fails_one_in) = (seed, one_in);
    }

    pub(crate) fn fail_never(&self) {
        self.state().power.lock().fails_one_in = 0;
    }

    /// Makes syncs wait until the gate is opened.
    pub(crate) fn close_gate(&self) {
        self.state().gate_closed = true;
    }

    pub(crate) fn open_gate(&self) {
        self.state().gate_closed = false;
        self.0.1.notify_all();
    }

    /// Waits until a sync has arrived at the gate.
    pub(crate) fn wait_for_a_sync(&self) {
        let mut state = self.state();
        while state.at_gate == 0 {
            self.0.1.wait(&mut state);
        }
    }

    /// Returns a new disk with the currently durable contents.
    pub(crate) fn image(&self) -> Self {
        let durable = self.state().durable.clone();
        let state = State { current: durable.clone(), durable, ..State::default() };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// Cuts the power and returns the disk as it is found then: with everything that was synced, and with those of the
    /// other sectors for which `survives` returns true.
    pub(crate) fn cut(&self, mut survives: impl FnMut() -> bool) -> Self {
        let mut state = self.state();
        state.power.lock().is_off = true;
        let mut image = state.durable.clone();
        for change in &state.pending {
            match change {
                Change::Write(offset, data) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if survives() {
                            image.write(offset + number * SECTOR, sector);
                        }
                    }
                }
                Change::Len(len) if survives() => image.set_len(*len),
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
        Ok(self.state().current.len as u64)
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
        state.current.read(offset as usize, out).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state();
        if state.power.lock().is_off {
            return Err(Error::other("the power is off"));
        }
        // Sparse, as on a real file system: only writes take up space.
        state.current.set_len(len as usize);
        state.pending.push(Change::Len(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state();
        state.at_gate += 1;
        self.0.1.notify_all();
        while state.gate_closed {
            self.0.1.wait(&mut state);
        }
        state.at_gate -= 1;
        if state.power.lock().is_cut() {
            return Err(Error::other("the power is off"));
        }
        let fails = state.power.lock().fails();
        if state.sync_fails || fails {
            // As on Linux: the error is reported once, and the data that could not be written is dropped.
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
                Change::Write(offset, data) => durable.write(offset, &data),
                Change::Len(len) => durable.set_len(len),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state();
        if state.power.lock().is_cut() {
            return Err(Error::other("the power is off"));
        }
        if state.power.lock().fails() {
            return Err(Error::other("the disk does not answer"));
        }
        let from = offset as usize;
        if state.room.is_some_and(|room| from + data.len() > room) {
            return Err(ErrorKind::StorageFull.into());
        }
        state.current.write(from, data);
        state.pending.push(Change::Write(from, data.to_vec()));
        Ok(())
    }
}
