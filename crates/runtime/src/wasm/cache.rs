//! Compiled code kept on disk between runs.
//!
//! ```text
//!   sha256 of the bytes + hash of the engine ─▶ file ─▶ whole and unchanged? ─▶ code
//!                                                └─ else: compile, write beside, rename
//! ```
//!
//! An entry carries the digest of what follows it, so that a torn or altered one is compiled again and never run. Entries
//! appear by a rename, so two nodes may share a directory. A directory that is full, read-only or not there costs time
//! and nothing else. What was used longest ago goes when there is too much.

#![expect(unsafe_code, reason = "maps compiled code that this node wrote, after its digest was checked")]

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use crate::file_limit;

/// How names of entries end that are being written, and after what time nobody writes them any more.
const PART: &str = "part";
const LEFT_AFTER: Duration = Duration::from_hours(1);
/// The ending of entries.
const ENDING: &str = "rusmc";
/// What an entry begins with, before its digest.
const MAGIC: &[u8; 8] = b"rusmaot1";
const HEAD_BYTES: usize = MAGIC.len() + 32;

/// Compiles modules and components, or finds them compiled.
pub(crate) struct Compiled {
    dir: Option<PathBuf>,
    max_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    writes: AtomicU64,
    evictions: AtomicU64,
    damaged: AtomicU64,
    unkept: AtomicU64,
    /// Entries and their bytes, as they were counted last.
    held: Mutex<Option<(u64, u64)>>,
}

/// Collects what a hash is made of, so that a digest can be made of it.
struct Collected(Sha256);

impl Hasher for Collected {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl Compiled {
    pub(crate) fn new(dir: Option<PathBuf>, max_bytes: u64) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            dir,
            max_bytes,
            hits: none(),
            misses: none(),
            writes: none(),
            evictions: none(),
            damaged: none(),
            unkept: none(),
            held: Mutex::new(None),
        }
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Entries that made room for others.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Entries that were not as they had been written.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Compiled code that the directory did not take.
    pub(crate) fn unkept(&self) -> u64 {
        self.unkept.load(Ordering::Relaxed)
    }

    /// Entries on disk and their bytes, counted when this node writes one, and the first time that somebody asks.
    pub(crate) fn held(&self) -> (u64, u64) {
        let Some(dir) = &self.dir else { return (0, 0) };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // A directory that is not there yet, or cannot be read, holds nothing that could be found.
        *held.get_or_insert_with(|| entries(dir).map_or((0, 0), |found| size(&found)))
    }

    pub(crate) fn component(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: only an entry whose digest is right comes here, so it is what `serialize` gave to a node; whoever can
        // forge one can write to the directory of the user who runs the node.
        let load = |code: &[u8]| unsafe { Component::deserialize(engine, code) };
        self.find_or(engine, bytes, load, || Component::from_binary(engine, bytes), Component::serialize)
    }

    pub(crate) fn module(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Module> {
        // SAFETY: as above.
        let load = |code: &[u8]| unsafe { Module::deserialize(engine, code) };
        self.find_or(engine, bytes, load, || Module::from_binary(engine, bytes), Module::serialize)
    }

    fn find_or<C>(
        &self,
        engine: &Engine,
        bytes: &[u8],
        load: impl FnOnce(&[u8]) -> wasmtime::Result<C>,
        compile: impl FnOnce() -> wasmtime::Result<C>,
        serialize: impl FnOnce(&C) -> wasmtime::Result<Vec<u8>>,
    ) -> wasmtime::Result<C> {
        let entry = self.dir.as_deref().map(|dir| dir.join(file_name(engine, bytes)));
        let found = entry.as_deref().and_then(|entry| self.read(entry));
        if let Some(code) = found.and_then(|code| load(&code[HEAD_BYTES..]).ok()) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(code);
        }
        let compiled = compile()?;
        self.misses.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = entry {
            let kept = serialize(&compiled).map_err(io::Error::other).and_then(|code| self.keep(&entry, &code));
            if let Err(error) = kept {
                self.unkept.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(entry = %entry.display(), %error, "compiled code was not kept");
            }
        }
        Ok(compiled)
    }

    /// A whole entry, head and all, unless something is wrong with it.
    fn read(&self, entry: &Path) -> Option<Vec<u8>> {
        let code = fs::read(entry).ok()?;
        let is_whole = |(head, rest): (&[u8], &[u8])| {
            head[..MAGIC.len()] == *MAGIC && head[MAGIC.len()..] == *Sha256::digest(rest)
        };
        if !code.split_at_checked(HEAD_BYTES).is_some_and(is_whole) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(entry = %entry.display(), "a damaged entry of compiled code is made anew");
            return None;
        }
        // For eviction; on a directory that cannot be written to it goes by the time of writing.
        drop(File::options().append(true).open(entry).and_then(|file| file.set_modified(now())));
        Some(code)
    }

    /// A new file beside an entry; of a name that is taken, somebody else writes or has left it.
    fn create_beside(&self, entry: &Path) -> io::Result<(PathBuf, File)> {
        loop {
            let count = self.writes.fetch_add(1, Ordering::Relaxed);
            let beside = entry.with_extension(format!("{}-{count}.{PART}", std::process::id()));
            match File::options().write(true).create_new(true).open(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (beside, file)),
            }
        }
    }

    /// Writes an entry beside its place and moves it there.
    fn keep(&self, entry: &Path, code: &[u8]) -> io::Result<()> {
        let Some(dir) = entry.parent() else { return Ok(()) };
        fs::create_dir_all(dir)?;
        let (beside, file) = self.create_beside(entry)?;
        let written = write(file, code).and_then(|()| fs::rename(&beside, entry));
        if written.is_err() {
            // Nothing half written is left behind; that it could not be removed changes nothing.
            drop(fs::remove_file(&beside));
        }
        written?;
        let (left, evicted) = evict(dir, entry, self.max_bytes)?;
        self.evictions.fetch_add(evicted, Ordering::Relaxed);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        Ok(())
    }
}

fn file_name(engine: &Engine, bytes: &[u8]) -> String {
    let mut key = Collected(Sha256::new_with_prefix(Sha256::digest(bytes)));
    engine.precompile_compatibility_hash().hash(&mut key);
    let digits = b"0123456789abcdef";
    let key = key.0.finalize();
    let hex = key.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(digits[usize::from(digit)]));
    let mut name: String = hex.collect();
    name.push('.');
    name.push_str(ENDING);
    name
}

#[expect(clippy::disallowed_methods, reason = "stamps a file as the file system does")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn write(mut file: File, code: &[u8]) -> io::Result<()> {
    let digest = Sha256::digest(code);
    file_limit::check((MAGIC.len() + digest.len() + code.len()) as u64)?;
    file.write_all(MAGIC)?;
    file.write_all(&digest)?;
    file.write_all(code)
}

/// An entry: when it was used last, its bytes, and where it is.
type Entry = (std::time::SystemTime, u64, PathBuf);

fn entries(dir: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        // Another node may be removing entries, too.
        let Ok(data) = path.metadata() else { continue };
        if path.extension().is_some_and(|ending| ending == PART) && is_left(data.modified()?) {
            // Somebody removes it a moment earlier, or it stays for the next time.
            drop(fs::remove_file(&path));
        }
        if path.extension().is_some_and(|ending| ending == ENDING) {
            entries.push((data.modified()?, data.len(), path));
        }
    }
    Ok(entries)
}

/// Whether nobody writes it any more: a node that ended in the middle has left it.
fn is_left(written: std::time::SystemTime) -> bool {
    now().duration_since(written).is_ok_and(|age| age >= LEFT_AFTER)
}

/// How many there are, and their bytes.
fn size(entries: &[Entry]) -> (u64, u64) {
    (entries.len() as u64, entries.iter().map(|(_, len, _)| len).sum())
}

/// Removes the entries used longest ago until the rest fits, but never `newest`; what is left, and how many went.
fn evict(dir: &Path, newest: &Path, max_bytes: u64) -> io::Result<((u64, u64), u64)> {
    let mut entries = entries(dir)?;
    entries.sort();
    let (mut count, mut bytes) = size(&entries);
    let before = count;
    for (_, len, path) in entries.into_iter().filter(|(.., path)| path != newest) {
        if bytes <= max_bytes {
            break;
        }
        match fs::remove_file(path) {
            // Another node was faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        (count, bytes) = (count - 1, bytes - len);
    }
    Ok(((count, bytes), before - count))
}

#[cfg(test)]
mod tests;
