//! Tracks which records of a journal are durable in the storage, and performs all syncs of that storage.

use std::io;

use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;

/// Progress of records that become durable in the storage itself.
#[derive(Default)]
pub(super) struct Checkpointer {
    state: Mutex<CheckpointState>,
    changed: Condvar,
    /// Allows one sync of the storage at a time: the system reports an error only once, and discards the unwritten
    /// data.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct CheckpointState {
    number: u64,
    wanted: u64,
    /// The first failure; after it, the content of the disk is known only after reopening.
    failed: Option<String>,
    closed: bool,
}

impl Checkpointer {
    pub(super) fn last_durable(&self) -> u64 {
        self.state.lock().number
    }

    pub(super) fn check(&self) -> io::Result<()> {
        self.state.lock().failed.as_ref().map_or(Ok(()), |what| Err(io::Error::other(what.clone())))
    }

    pub(super) fn fail(&self, error: &io::Error) {
        self.state.lock().failed.get_or_insert_with(|| error.to_string());
        self.changed.notify_all();
    }

    /// Syncs the storage, unless a sync has failed before.
    pub(super) fn sync(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        let _one = self.syncing.lock();
        self.check()?;
        storage.sync_data().inspect_err(|error| self.fail(error))
    }

    pub(super) fn advance_to(&self, number: u64) {
        let mut state = self.state.lock();
        state.number = state.number.max(number);
    }

    pub(super) fn request(&self, number: u64) {
        self.state.lock().wanted = number;
        self.changed.notify_all();
    }

    /// Waits until all records up to this one are durable in the storage.
    pub(super) fn wait(&self, number: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.number < number && state.failed.is_none() {
            self.changed.wait(&mut state);
        }
        drop(state);
        self.check()
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Syncs the storage whenever records are wanted, until closed.
    pub(super) fn run(&self, storage: &dyn StorageBackend) {
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
