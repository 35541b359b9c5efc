//! Saves results in the history file and reads it, on a thread of its own: the file may be open in another program for
//! seconds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use crate::live::encode::summary;
use crate::live::state::EngineShared;
use crate::report::history::{Entry, History, HistoryError};

/// Maximum number of entries that are read: the newest.
const READ_MAX: usize = 500;
/// Maximum number of entries that wait to be saved.
const WAITING_MAX: usize = 64;

/// The thread that owns the history file. Dropping it waits until everything is saved.
pub(crate) struct HistoryWriter {
    entries: Option<SyncSender<Vec<Entry>>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for HistoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryWriter").finish_non_exhaustive()
    }
}

impl HistoryWriter {
    /// Starts the thread, which reads the file first.
    ///
    /// # Errors
    /// If the thread cannot be spawned.
    pub(crate) fn start(path: PathBuf, shared: Arc<EngineShared>) -> std::io::Result<Self> {
        let (entries, received) = sync_channel(WAITING_MAX);
        let thread = Builder::new().name("rusm-history".to_owned()).spawn(move || serve(&path, &received, &shared))?;
        Ok(Self { entries: Some(entries), thread: Some(thread) })
    }

    /// Saves entries; returns false if too many wait.
    pub(crate) fn save(&self, saved: Vec<Entry>) -> bool {
        self.entries.as_ref().is_some_and(|entries| entries.try_send(saved).is_ok())
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.entries = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported by the panic hook.
            drop(thread.join());
        }
    }
}

fn serve(path: &Path, received: &Receiver<Vec<Entry>>, shared: &EngineShared) {
    let mut entries = Vec::new();
    loop {
        let all = exchange(path, &entries);
        let mut state = shared.lock();
        match all {
            Ok(all) => {
                state.results.history_error = None;
                let newest = &all[all.len().saturating_sub(READ_MAX)..];
                state.results.set_earlier(newest, summary);
            }
            Err(error) => {
                state.results.history_error = Some(format!("results are not saved: {error}"));
                state.results.revision += 1;
            }
        }
        drop(state);
        match received.recv() {
            Ok(next) => entries = next,
            Err(_) => return,
        }
    }
}

/// Adds entries, and returns all.
fn exchange(path: &Path, entries: &[Entry]) -> Result<Vec<Entry>, HistoryError> {
    if entries.is_empty() && !path.exists() {
        return Ok(Vec::new());
    }
    let history = History::open(path)?;
    entries.iter().try_for_each(|entry| history.add(entry))?;
    history.entries(None)
}
