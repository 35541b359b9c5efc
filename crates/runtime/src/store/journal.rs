//! A journal in front of a storage: a sync writes what has changed once, in one piece, instead of page by page in many places.
//!
//! ```text
//!   write ──▶ storage (nobody waits for its disk) and the record that grows
//!   sync  ──▶ the record goes to the journal: one write, one sync ──▶ acknowledged
//!             side 0 ┃ 1 2 3 4 5 ┃     a side is full ──▶ the other one takes over, while a thread syncs the storage,
//!             side 1 ┃ 6 7 ┃           after which the full side may be written over
//! ```
//!
//! A group of 64 updates changes about sixty pages. To sync them where they lie takes sixty writes of the disk, here 0.6 ms of
//! which 0.4 are CPU; as one record it takes 0.25 ms and 0.1.
//!
//! After a crash the records are done again before anybody reads: see [`replay`]. A record that fits into no side, and those
//! that the disk has no room for, are synced where they lie. A journal belongs to one session of one file, which has its name.
//!
//! Invariant: what a sync acknowledged is whole in the journal or safe in the storage, at every instant.

mod record;
mod replay;

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use redb::{BackendError, StorageBackend};

use self::record::{BLOCK, Record, Session};

/// Where the second side begins, and the most that a side holds.
pub(super) const SIDE: u64 = 16 * 1024 * 1024;
/// The least that a side holds before the other one takes over.
const SIDE_MIN: u64 = 2 * 1024 * 1024;
/// A journal grows by so much at once: a sync of a file that has grown takes longer.
const STEP: u64 = 1024 * 1024;
/// Syncs that go without a journal after the disk had no room for it.
const WITHOUT: u32 = 1024;

/// Where a journal is kept. Both are called while the storage is locked.
pub(super) trait Shelf: Send + Sync + 'static {
    /// Opens the journal, or makes an empty one whose name outlives a power cut.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Takes away a journal that has nothing to say.
    fn retire(&self) -> io::Result<()>;
}

impl<J: StorageBackend, F: Fn() -> io::Result<J> + Send + Sync + 'static> Shelf for F {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self()?))
    }

    fn retire(&self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
pub(super) struct Journaled {
    storage: Arc<dyn StorageBackend>,
    shelf: Box<dyn Shelf>,
    pending: Mutex<Pending>,
    /// Nothing until the storage is locked, and after it is closed.
    log: Mutex<Option<Log>>,
    safe: Arc<Safe>,
}

/// What was written since the last sync.
#[derive(Debug, Default)]
struct Pending {
    record: Record,
    storage_len: u64,
}

#[derive(Debug)]
struct Log {
    journal: Box<dyn StorageBackend>,
    phase: Phase,
    /// The record that is being written, and an empty one between syncs.
    record: Record,
    /// The last record's.
    number: u64,
    /// Which side is written to, and how far.
    side: usize,
    at: u64,
    sides: [Side; 2],
    /// What the last record says is safe in the storage.
    said_safe: u64,
    /// The journal may have something in it.
    is_touched: bool,
    /// Syncs that still go without a journal.
    without: u32,
    checkpoints: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// How far the file reaches in it.
    len: u64,
    /// Its last record's number; 0 if it has none.
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The storage is as it should be, and has no session yet.
    Open,
    Journaling(Session),
}

/// Which records are safe in the storage itself.
#[derive(Default)]
struct Safe {
    state: Mutex<Upto>,
    changed: Condvar,
    /// One at a time syncs the storage: the system tells of an error once, and forgets what was not written.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct Upto {
    number: u64,
    wanted: u64,
    /// What failed: what the disk has is only known after opening again.
    failed: Option<String>,
    closed: bool,
}

impl Log {
    fn new(journal: Box<dyn StorageBackend>) -> Self {
        Self {
            journal,
            phase: Phase::Open,
            record: Record::default(),
            number: 0,
            side: 0,
            at: 0,
            sides: [Side::default(); 2],
            said_safe: 0,
            is_touched: false,
            without: 0,
            checkpoints: None,
        }
    }

    /// Writes a record behind the last one, and syncs it.
    fn write(&mut self, record: &mut Record, session: Session, safe: u64, storage_len: u64) -> io::Result<()> {
        let (from, side) = (self.side as u64 * SIDE, &mut self.sides[self.side]);
        let end = self.at + record.len();
        self.is_touched = true;
        if side.len < end {
            let reach = end.max(side.len + STEP).min(SIDE);
            self.journal.write(from + side.len, &vec![0; (reach - side.len) as usize])?;
            side.len = reach;
        }
        let number = self.number + 1;
        self.journal.write(from + self.at, record.seal(session, number, safe, storage_len))?;
        self.journal.sync_data()?;
        side.last = number;
        self.at = end;
        self.number = number;
        self.said_safe = safe;
        Ok(())
    }
}

impl Journaled {
    pub(super) fn new(storage: impl StorageBackend, shelf: impl Shelf) -> Self {
        Self {
            storage: Arc::new(storage),
            shelf: Box::new(shelf),
            pending: Mutex::default(),
            log: Mutex::new(None),
            safe: Arc::default(),
        }
    }

    /// Before the first look at the storage, which redb takes when it has locked it.
    fn enter(&self) -> io::Result<()> {
        let mut log = self.log.lock();
        if log.is_none() && replay::is_ours(&*self.storage)? {
            let journal = self.shelf.open()?;
            replay::replay(&*self.storage, &*journal)?;
            self.pending.lock().storage_len = self.storage.len()?;
            *log = Some(Log::new(journal));
        }
        Ok(())
    }

    fn sync(&self, log: &mut Log) -> io::Result<()> {
        let storage_len = {
            let mut pending = self.pending.lock();
            std::mem::swap(&mut log.record, &mut pending.record);
            pending.storage_len
        };
        let failed = self.safe.check();
        let synced = failed.and_then(|()| match log.phase {
            Phase::Open => self.begin(log),
            Phase::Journaling(_) if log.record.is_too_long() => self.sync_in_place(log),
            Phase::Journaling(_) if log.without > 0 => {
                log.without -= 1;
                self.sync_in_place(log)
            }
            Phase::Journaling(session) => match self.append(log, session, storage_len) {
                Err(error) if is_full(&error) => {
                    log.without = WITHOUT;
                    self.sync_in_place(log)
                }
                appended => appended,
            },
        });
        log.record.clear();
        synced.inspect_err(|error| self.safe.fail(error))
    }

    /// The first sync: a new storage has no place for a session before.
    fn begin(&self, log: &mut Log) -> io::Result<()> {
        self.safe.sync(&*self.storage)?;
        log.phase = replay::begin_session(&*self.storage)?.map_or(Phase::Open, Phase::Journaling);
        Ok(())
    }

    /// Writes the record to the journal.
    fn append(&self, log: &mut Log, session: Session, storage_len: u64) -> io::Result<()> {
        // A side of a small storage is small too: what is safe in the storage costs twice the place.
        let most = (storage_len * 2).clamp(SIDE_MIN, SIDE);
        if log.at > 0 && log.at + log.record.len() + BLOCK > most {
            self.turn_over(log, session, storage_len)?;
        }
        let mut record = std::mem::take(&mut log.record);
        let written = log.write(&mut record, session, self.safe.number(), storage_len);
        log.record = record;
        written
    }

    /// Goes on with the other side, as soon as everything in it is safe, and has the full one made safe.
    fn turn_over(&self, log: &mut Log, session: Session, storage_len: u64) -> io::Result<()> {
        let other = 1 - log.side;
        self.safe.wait(log.sides[other].last)?;
        if log.said_safe < log.sides[other].last {
            // The first record there may be left torn: this one says that what it was written over is not needed.
            log.write(&mut Record::default(), session, self.safe.number(), storage_len)?;
        }
        self.safe.want(log.number);
        if log.checkpoints.is_none() {
            let (storage, safe) = (Arc::clone(&self.storage), Arc::clone(&self.safe));
            let thread = std::thread::Builder::new().name("rusm-checkpoint".to_owned());
            match thread.spawn(move || safe.serve(&*storage)) {
                Ok(thread) => log.checkpoints = Some(thread),
                // There may be one later.
                Err(_) => {
                    self.safe.sync(&*self.storage)?;
                    self.safe.are_all(log.number);
                }
            }
        }
        log.side = other;
        log.at = 0;
        Ok(())
    }

    /// Syncs the storage itself, after which the journal has nothing to say.
    fn sync_in_place(&self, log: &mut Log) -> io::Result<()> {
        self.safe.sync(&*self.storage)?;
        if log.is_touched {
            // At once, whatever happens: half a journal would undo what has just been synced.
            let emptied = log.journal.set_len(0).and_then(|()| log.journal.sync_data());
            emptied.inspect_err(|error| self.safe.fail(error))?;
        }
        self.safe.are_all(log.number);
        log.is_touched = false;
        log.sides = [Side::default(); 2];
        log.at = 0;
        Ok(())
    }

    /// Gives the journal's room to the storage.
    fn give_room(&self) -> io::Result<()> {
        let mut log = self.log.lock();
        let log = log.as_mut().ok_or_else(not_open)?;
        log.without = WITHOUT;
        self.sync_in_place(log)
    }

    /// Does something with the storage, again without the journal if there is no room for both.
    fn with_room(&self, mut change: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match change() {
            Err(error) if is_full(&error) => {
                self.give_room().map_err(|_| error)?;
                change()
            }
            changed => changed,
        }
    }

    /// Ends the thread that syncs the storage.
    fn stop(&self, log: &mut Log) {
        self.safe.close();
        drop(log.checkpoints.take().map(JoinHandle::join));
    }
}

impl Safe {
    fn number(&self) -> u64 {
        self.state.lock().number
    }

    fn check(&self) -> io::Result<()> {
        self.state.lock().failed.as_ref().map_or(Ok(()), |what| Err(io::Error::other(what.clone())))
    }

    fn fail(&self, error: &io::Error) {
        self.state.lock().failed.get_or_insert_with(|| error.to_string());
        self.changed.notify_all();
    }

    /// Syncs the storage, unless that has failed before.
    fn sync(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        let _one = self.syncing.lock();
        self.check()?;
        storage.sync_data().inspect_err(|error| self.fail(error))
    }

    fn are_all(&self, number: u64) {
        let mut state = self.state.lock();
        state.number = state.number.max(number);
    }

    fn want(&self, number: u64) {
        self.state.lock().wanted = number;
        self.changed.notify_all();
    }

    /// Waits until all records up to this one are safe.
    fn wait(&self, number: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.number < number && state.failed.is_none() {
            self.changed.wait(&mut state);
        }
        drop(state);
        self.check()
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Makes safe what is wanted, until it is closed.
    fn serve(&self, storage: &dyn StorageBackend) {
        let mut state = self.state.lock();
        loop {
            while state.wanted <= state.number && !state.closed {
                self.changed.wait(&mut state);
            }
            if state.closed {
                return;
            }
            let wanted = state.wanted;
            drop(state);
            let synced = self.sync(storage);
            state = self.state.lock();
            match synced {
                Ok(()) => state.number = state.number.max(wanted),
                Err(_) => state.closed = true,
            }
            self.changed.notify_all();
        }
    }
}

fn not_open() -> io::Error {
    io::Error::other("the storage must be opened again")
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl StorageBackend for Journaled {
    fn len(&self) -> io::Result<u64> {
        self.enter()?;
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_room(|| {
            let mut pending = self.pending.lock();
            self.storage.set_len(len)?;
            pending.storage_len = len;
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(self.log.lock().as_mut().ok_or_else(not_open)?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_room(|| {
            let mut pending = self.pending.lock();
            self.storage.write(offset, data)?;
            pending.record.push(offset, data, SIDE);
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        let log = self.log.lock().take();
        let lacks_nothing = log.map_or(Ok(()), |mut log| {
            self.stop(&mut log);
            if self.safe.check().is_err() {
                // Whoever opens it next needs the journal.
                return Ok(());
            }
            self.sync_in_place(&mut log)?;
            if let Phase::Journaling(_) = log.phase {
                replay::end_session(&*self.storage)?;
            }
            log.journal.close()?;
            self.shelf.retire()
        });
        self.storage.close().and(lacks_nothing)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        if let Some(log) = self.log.get_mut() {
            self.safe.close();
            drop(log.checkpoints.take().map(JoinHandle::join));
        }
    }
}

impl fmt::Debug for Journaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journaled").field("storage", &self.storage).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A storage as everybody sees it, and as it is after a power cut: nothing that was not synced.
    #[derive(Clone, Debug, Default)]
    struct Disk(Arc<Mutex<[Vec<u8>; 2]>>);

    impl Disk {
        fn cut(&self) -> Self {
            let [_, durable] = self.0.lock().clone();
            Self(Arc::new(Mutex::new([durable.clone(), durable])))
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock()[0].len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            out.copy_from_slice(&self.0.lock()[0][offset as usize..][..out.len()]);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock()[0].resize(len as usize, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            let [current, durable] = &mut *self.0.lock();
            durable.clone_from(current);
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let (mut both, from) = (self.0.lock(), offset as usize);
            let len = both[0].len().max(from + data.len());
            both[0].resize(len, 0);
            both[0][from..from + data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    #[derive(Clone, Default)]
    struct Files {
        storage: Disk,
        journal: Disk,
    }

    impl Files {
        fn open(&self) -> Journaled {
            let journal = self.journal.clone();
            let opened = Journaled::new(self.storage.clone(), move || Ok(journal.clone()));
            opened.len().unwrap();
            opened
        }

        fn cut(&self) -> Self {
            Self { storage: self.storage.cut(), journal: self.journal.cut() }
        }
    }

    fn at(storage: &Journaled, offset: u64) -> u8 {
        let mut byte = [0];
        storage.read(offset, &mut byte).unwrap();
        byte[0]
    }

    fn begun() -> (Files, Journaled) {
        let files = Files::default();
        let opened = files.open();
        opened.set_len(2 * BLOCK).unwrap();
        opened.write(0, b"redb").unwrap();
        opened.sync_data().unwrap();
        (files, opened)
    }

    #[test]
    fn a_length_that_was_synced_is_there_again() {
        let (files, opened) = begun();
        for len in [9, 7, 8] {
            opened.set_len(len * BLOCK).unwrap();
            opened.sync_data().unwrap();
            assert_eq!(files.storage.cut().len().unwrap(), 2 * BLOCK, "only the journal has it");
            assert_eq!(files.cut().open().len().unwrap(), len * BLOCK);
        }
    }

    #[test]
    fn the_last_write_of_a_place_wins() {
        let (files, opened) = begun();
        for value in 1..=9 {
            opened.write(5000, &[value]).unwrap();
            opened.write(5000 + u64::from(value), &[value]).unwrap();
            opened.sync_data().unwrap();
        }
        opened.write(5000, &[100]).unwrap();

        let again = files.cut().open();
        assert_eq!((1..=9).map(|value| at(&again, 5000 + value)).collect::<Vec<_>>(), Vec::from_iter(1..=9));
        assert_eq!(at(&again, 5000), 9, "what was not synced may be gone, here it is");
    }

    #[test]
    fn what_was_done_again_is_not_done_once_more() {
        let (files, opened) = begun();
        opened.write(5000, &[1]).unwrap();
        opened.sync_data().unwrap();
        let files = files.cut();
        let again = files.open();
        again.write(5000, &[2]).unwrap();
        again.sync_data().unwrap();
        again.write(5000, &[3]).unwrap();
        again.sync_data().unwrap();

        assert_eq!(at(&files.cut().open(), 5000), 3);
        again.close().unwrap();
        assert_eq!(files.storage.cut().0.lock()[0][5000], 3);
        assert_eq!(files.journal.len().unwrap(), 0);
    }
}
