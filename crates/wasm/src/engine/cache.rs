//! Cache of compiled code on disk.
//!
//! ```text
//!   sha256 of the bytes + hash of the engine ─▶ file ─▶ whole and unchanged? ─▶ code
//!                                                └─ else: compile, write a temporary file, rename
//! ```
//!
//! An entry carries the digest of its name and its content, so a torn, modified or renamed one is compiled again and
//! never run. Only files and directories that no other user can write are trusted. Entries appear by a rename, so
//! several nodes of a user may share a directory. A directory that is full, read-only or missing costs
//! time only. When the cache is too large, the least recently used entries are removed.

#![expect(unsafe_code, reason = "loads compiled code that this node wrote, after checking its digest")]

use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use rusm_runtime::embed::check_file_limit;

use super::allocator::CodeSettings;
use super::compiler::{Compiler, Kind};
use super::tick_checks;

/// Extension of partly written entries, and the age after which such a file counts as abandoned.
const TEMP_EXTENSION: &str = "part";
const ABANDONED_AFTER: Duration = Duration::from_hours(1);
/// Extension of entries.
const EXTENSION: &str = "rusmc";
/// First bytes of an entry, before its digest.
const MAGIC: &[u8; 8] = b"rusmaot2";
const HEAD_BYTES: usize = MAGIC.len() + 32;

/// Compiles modules and components, or loads their cached code.
pub(crate) struct CodeCache {
    dir: Option<PathBuf>,
    max_bytes: u64,
    /// `None` if this process compiles.
    compiler: Option<Compiler>,
    hits: AtomicU64,
    misses: AtomicU64,
    writes: AtomicU64,
    evictions: AtomicU64,
    damaged: AtomicU64,
    store_failures: AtomicU64,
    /// Number of entries and their bytes at the last count.
    usage: Mutex<Option<(u64, u64)>>,
}

/// Collects the input of a hash, to compute a digest of it.
struct DigestHasher(Sha256);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl CodeCache {
    pub(crate) fn new(dir: Option<PathBuf>, max_bytes: u64, compiler: Option<Compiler>) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            dir,
            max_bytes,
            compiler,
            hits: none(),
            misses: none(),
            writes: none(),
            evictions: none(),
            damaged: none(),
            store_failures: none(),
            usage: Mutex::new(None),
        }
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Number of entries evicted.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Number of entries found damaged.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Number of compiled modules that could not be stored.
    pub(crate) fn store_failures(&self) -> u64 {
        self.store_failures.load(Ordering::Relaxed)
    }

    /// Number of entries on disk and their bytes; counted at the first call and whenever this node writes an entry.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let Some(dir) = &self.dir else { return (0, 0) };
        let mut usage = self.usage.lock();
        // A directory that is missing or unreadable counts as empty.
        *usage.get_or_insert_with(|| entries(dir).map_or((0, 0), |found| size(&found)))
    }

    pub(crate) fn component(&self, engine: &Engine, code: CodeSettings, bytes: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: the digest of the entry was checked, so the code is output of `serialize`. Forging an entry requires
        // write access to the directory of the node's user. The other code comes from the compiler of this program.
        let load = |code: &[u8]| unsafe { Component::deserialize(engine, code) };
        let compile = || match &self.compiler {
            Some(compiler) => load(&compiler.compile(Kind::Component, code, bytes)?),
            None => tick_checks::compile(bytes, |bytes| Component::from_binary(engine, bytes)),
        };
        self.find_or(engine, bytes, load, compile, Component::serialize)
    }

    pub(crate) fn module(&self, engine: &Engine, code: CodeSettings, bytes: &[u8]) -> wasmtime::Result<Module> {
        // SAFETY: as in `component`.
        let load = |code: &[u8]| unsafe { Module::deserialize(engine, code) };
        let compile = || match &self.compiler {
            Some(compiler) => load(&compiler.compile(Kind::Module, code, bytes)?),
            None => tick_checks::compile(bytes, |bytes| Module::from_binary(engine, bytes)),
        };
        self.find_or(engine, bytes, load, compile, Module::serialize)
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
            let kept = serialize(&compiled).map_err(io::Error::other).and_then(|code| self.store(&entry, &code));
            if let Err(error) = kept {
                self.store_failures.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(entry = %entry.display(), %error, "cannot store compiled code");
            }
        }
        Ok(compiled)
    }

    /// Reads a whole entry, including its head; `None` if it is missing or damaged.
    fn read(&self, entry: &Path) -> Option<Vec<u8>> {
        let code = read_trusted(entry, self.max_bytes)?;
        let is_whole =
            |(head, rest): (&[u8], &[u8])| head[..MAGIC.len()] == *MAGIC && head[MAGIC.len()..] == *digest(entry, rest);
        if !code.split_at_checked(HEAD_BYTES).is_some_and(is_whole) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(entry = %entry.display(), "a damaged cache entry of compiled code is compiled again");
            return None;
        }
        // The time of last use, for eviction. In a read-only directory the time of writing counts.
        drop(File::options().append(true).open(entry).and_then(|file| file.set_modified(now())));
        Some(code)
    }

    /// Creates a temporary file beside an entry. Skips names that exist: another node is writing or has abandoned
    /// those.
    fn create_temp(&self, entry: &Path) -> io::Result<(PathBuf, File)> {
        loop {
            let count = self.writes.fetch_add(1, Ordering::Relaxed);
            let temp = entry.with_extension(format!("{}-{count}.{TEMP_EXTENSION}", std::process::id()));
            match File::options().write(true).create_new(true).open(&temp) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (temp, file)),
            }
        }
    }

    /// Writes an entry to a temporary file and renames it.
    fn store(&self, entry: &Path, code: &[u8]) -> io::Result<()> {
        let Some(dir) = entry.parent() else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let (temp, file) = self.create_temp(entry)?;
        let written = write(file, entry, code).and_then(|()| fs::rename(&temp, entry));
        if written.is_err() {
            // Remove the partial file; a failure to remove it is harmless.
            drop(fs::remove_file(&temp));
        }
        written?;
        let (left, evicted) = evict(dir, entry, self.max_bytes)?;
        self.evictions.fetch_add(evicted, Ordering::Relaxed);
        *self.usage.lock() = Some(left);
        Ok(())
    }
}

fn file_name(engine: &Engine, bytes: &[u8]) -> String {
    let mut key = DigestHasher(Sha256::new_with_prefix(tick_checks::VERSION).chain_update(Sha256::digest(bytes)));
    engine.precompile_compatibility_hash().hash(&mut key);
    let digits = b"0123456789abcdef";
    let key = key.0.finalize();
    let hex = key.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(digits[usize::from(digit)]));
    let mut name: String = hex.collect();
    name.push('.');
    name.push_str(EXTENSION);
    name
}

#[expect(clippy::disallowed_methods, reason = "file times are wall-clock times")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// Reads a file of this user that no other user can write, in a directory like that.
fn read_trusted(entry: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    let is_trusted = |data: &fs::Metadata| {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let writable_by_others = data.mode() & 0o002 != 0 || (data.mode() & 0o020 != 0 && data.gid() != group);
        (data.uid() == user || data.uid() == 0) && !writable_by_others
    };
    // A pipe must not block the start, and a link could lead anywhere.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(entry).ok()?;
    let (data, dir) = (file.metadata().ok()?, fs::metadata(entry.parent()?).ok()?);
    if !data.is_file() || data.len() > max_bytes || !is_trusted(&data) || !is_trusted(&dir) {
        tracing::warn!(entry = %entry.display(), "compiled code is not used: another user could write it, or it is not a file");
        return None;
    }
    let mut code = Vec::new();
    file.take(max_bytes).read_to_end(&mut code).ok()?;
    Some(code)
}

/// Returns the digest of an entry: of its name, too, so that an entry under the name of another one is not its code.
fn digest(entry: &Path, code: &[u8]) -> sha2::digest::Output<Sha256> {
    let name = entry.file_name().unwrap_or_default();
    Sha256::new_with_prefix(name.as_encoded_bytes()).chain_update(code).finalize()
}

fn write(mut file: File, entry: &Path, code: &[u8]) -> io::Result<()> {
    let digest = digest(entry, code);
    check_file_limit((MAGIC.len() + digest.len() + code.len()) as u64)?;
    file.write_all(MAGIC)?;
    file.write_all(&digest)?;
    file.write_all(code)
}

/// An entry: time of last use, size in bytes, path.
type Entry = (std::time::SystemTime, u64, PathBuf);

fn entries(dir: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        // The file is gone: another node may be removing entries. Nothing but files is an entry.
        let Some(data) = path.symlink_metadata().ok().filter(fs::Metadata::is_file) else { continue };
        if path.extension().is_some_and(|ending| ending == TEMP_EXTENSION) && is_abandoned(data.modified()?) {
            // Ignore a failure: another node removed it first, or the next run tries again.
            drop(fs::remove_file(&path));
        }
        if path.extension().is_some_and(|ending| ending == EXTENSION) {
            entries.push((data.modified()?, data.len(), path));
        }
    }
    Ok(entries)
}

/// Returns true if a partial file is abandoned: its node ended while writing.
fn is_abandoned(written: std::time::SystemTime) -> bool {
    now().duration_since(written).is_ok_and(|age| age >= ABANDONED_AFTER)
}

/// Number of entries, and the sum of their bytes.
fn size(entries: &[Entry]) -> (u64, u64) {
    (entries.len() as u64, entries.iter().map(|(_, len, _)| len).sum())
}

/// Removes the least recently used entries until the rest fits, but never `newest`. Returns what is left, and the
/// number removed.
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
            // `NotFound`: another node removed it first.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        (count, bytes) = (count - 1, bytes - len);
    }
    Ok(((count, bytes), before - count))
}

#[cfg(test)]
mod tests;
