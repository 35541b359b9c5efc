//! Inspects the file of a store that is not open: checks it, reads what is intact, and writes that to a new file.
//!
//! redb never runs on the inspected file, and the file is never written to: its journal is replayed in memory.

pub mod escaped;
mod replace;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Database, Durability, StorageBackend, TableDefinition, TableHandle, WriteTransaction};

use super::error::{Damage, OpenError};
use super::file::create;
use super::file::disk::{inode_of, is_dangling, journal_of, open_regular};
use super::file::journal::label;
use super::file::journal::replay::{self, Recovered};
use super::file::pages::{Header, KeyRange, PAGE, Pages, Slot};
use super::file::salvage::{Salvage, Salvaged};
use super::file::tables::{self, BUCKETS, EXPIRY, FORMATS};
use super::writer::overlay::Overlay;

/// Tables of other parts of this program, which have redb files of their own.
const COUNTERS: TableDefinition<'_, &str, i64> = TableDefinition::new("rusm.counters");
const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");

/// The file of a store, open for reading.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::inspection::Inspection;
/// use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// let store = Store::open(&path, StoreConfig::default())?;
/// store.bucket("users")?.put("ada", "10").wait()?;
/// store.close();
///
/// let inspection = Inspection::open(&path)?;
/// assert!(inspection.check()?.is_sound());
/// inspection.export(&mut |row| {
///     if row.is_bucket {
///         assert_eq!((row.name, row.key, row.value), ("users", &b"ada"[..], &b"10"[..]));
///     }
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inspection {
    path: PathBuf,
    files: Files,
    salvage: Salvage,
    is_sound: bool,
    is_header_restored: bool,
    notes: Vec<String>,
}

/// The files that were opened.
#[derive(Debug)]
struct Files {
    /// Path of the store, without symbolic links.
    store: PathBuf,
    /// Device and number of its file.
    inode: (u64, u64),
    /// `None` if there is no journal.
    journal_inode: Option<(u64, u64)>,
}

impl Files {
    /// Returns true if these files still have their names.
    fn are_there(&self) -> bool {
        let named = |path: &Path| fs::metadata(path).ok().map(|found| inode_of(&found));
        named(&self.store) == Some(self.inode) && named(&journal_of(&self.store)) == self.journal_inode
    }
}

/// Result of a check of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCheck {
    /// The bucket's name, or that of a table of the store's own.
    pub name: String,
    /// True for a bucket.
    pub is_bucket: bool,
    /// Rows that can be read.
    pub rows: u64,
    /// Rows that the table had when it was written.
    pub rows_written: u64,
    /// Bytes of the keys and values that can be read.
    pub bytes: u64,
    /// Ranges of keys that cannot be read.
    pub damaged: Vec<KeyRange>,
}

/// Result of a check.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # use rusm::store::{Store, StoreConfig};
/// use rusm::store::inspection::Inspection;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// # let store = Store::open(&path, StoreConfig::default())?;
/// # store.bucket("users")?.put("ada", "10").wait()?;
/// # store.close();
/// let check = Inspection::open(&path)?.check()?;
/// for table in check.tables.iter().filter(|table| table.is_bucket) {
///     println!("{}: {} of {} rows", table.name, table.rows, table.rows_written);
/// }
/// for damage in &check.damage {
///     println!("damaged: {damage}");
/// }
/// assert!(check.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Every table that can be found.
    pub tables: Vec<TableCheck>,
    /// Everything that is damaged.
    pub damage: Vec<Damage>,
    /// True if the file's header or length is damaged, and was restored from its copy in the file.
    pub is_header_restored: bool,
    /// Other findings.
    pub notes: Vec<String>,
}

impl Check {
    /// Returns true if nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && !self.is_header_restored && self.notes.is_empty()
    }
}

/// A row of a bucket, or of another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRow<'a> {
    /// The name of the bucket, or of the table.
    pub name: &'a str,
    /// True for a bucket.
    pub is_bucket: bool,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Time at which it expires, in milliseconds since 1970; 0 for never.
    pub expiry_ms: u64,
}

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The new file.
    pub path: PathBuf,
    /// Number of rows that its buckets have.
    pub rows: u64,
    /// Number of rows that are lost, as far as it is known.
    pub rows_lost: u64,
}

impl Inspection {
    /// Opens the file of a store, with its journal.
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |error: io::Error| OpenError::io(path.to_owned(), error);
        let found = fs::metadata(path).map_err(failed)?;
        if found.is_file() && found.len() == 0 {
            return Err(OpenError::Empty { path: path.to_owned() });
        }
        let read_only = |path: &Path| -> io::Result<(FileBackend, (u64, u64))> {
            let file: File = open_regular(path, OpenOptions::new().read(true))?;
            let inode = inode_of(&file.metadata()?);
            Ok((FileBackend::new(file).map_err(io::Error::other)?, inode))
        };
        let store = path.canonicalize().map_err(failed)?;
        let (base, inode) = read_only(&store).map_err(failed)?;
        if matches!(base.try_lock_shared_range(Bound::Unbounded, Bound::Unbounded), Ok(false)) {
            return Err(OpenError::InUse { path: path.to_owned() });
        }
        let storage = Overlay::new(base).map_err(failed)?;
        let (mut notes, mut is_header_restored) = (Vec::new(), false);
        let journal = journal_of(&store);
        if is_dangling(&journal) {
            let what =
                "its journal is a link to a file that does not exist: mount the disk of that file, or remove the link";
            return Err(failed(io::Error::new(ErrorKind::NotFound, what)));
        }
        // Of the files that were opened: names may change at any time.
        let mut files = Files { store, inode, journal_inode: None };
        let recovered = match read_only(&journal) {
            // A store whose name is too long for a journal was opened only by another program.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => {
                replay::recover(&storage, &redb::backends::InMemoryBackend::new())
            }
            Err(error) => {
                files.journal_inode = fs::metadata(&journal).ok().map(|found| inode_of(&found));
                Err(error)
            }
            Ok((opened, inode)) => {
                files.journal_inode = Some(inode);
                Overlay::new(opened).and_then(|journal| replay::recover(&storage, &journal))
            }
        };
        match recovered {
            Ok(Recovered::Undamaged) => {}
            Ok(Recovered::HeaderRestored) => is_header_restored = true,
            Err(error) => notes.push(format!("its journal was not used: {error}")),
        }
        Self::read(path, files, storage, notes).map(|inspection| Self { is_header_restored, ..inspection })
    }

    fn read(
        path: &Path,
        files: Files,
        storage: Overlay<FileBackend>,
        mut notes: Vec<String>,
    ) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::io(path.to_owned(), error);
        let corrupt = |what: String| OpenError::Corrupt { path: path.to_owned(), what };
        let len = storage.len().map_err(failed)?;
        if len < PAGE {
            return Err(corrupt(format!("it is truncated: {len} bytes are left of at least {PAGE}")));
        }
        let bytes = label::header(&storage).map_err(failed)?;
        let header = Header::read(&bytes).map_err(corrupt)?;
        let mut candidates = header.candidates();
        if candidates.is_empty() {
            candidates = header.any_order();
            notes.push("the header of the last commit is damaged: the commit before it was read".to_owned());
        }
        let first = *candidates.first().ok_or_else(|| corrupt("its header is damaged".to_owned()))?;
        let pages = Pages::new(&storage, &header).map_err(failed)?;
        let mut sound = None;
        // Without its journal, the file may contain only half of the newest commit.
        let tried = if notes.is_empty() { &candidates[..1] } else { &candidates[..] };
        for slot in tried {
            if pages.verify(slot, &mut |_, _| {}).map_err(failed)? {
                sound = Some(*slot);
                break;
            }
        }
        let slot: Slot = sound.unwrap_or(first);
        let salvage = Salvage::new(Box::new(storage), &header, slot).map_err(failed)?;
        Ok(Self { path: path.to_owned(), files, salvage, is_sound: sound.is_some(), is_header_restored: false, notes })
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// The operating system's error if the file cannot be read.
    pub fn check(&self) -> io::Result<Check> {
        let mut check =
            Check { is_header_restored: self.is_header_restored, notes: self.notes.clone(), ..Check::default() };
        if !self.is_sound {
            check.damage = self.salvage.damage()?;
        }
        for (name, table) in self.salvage.tables() {
            let bucket = tables::bucket_of(name);
            let mut found = TableCheck {
                name: bucket.unwrap_or(name).to_owned(),
                is_bucket: bucket.is_some(),
                rows: 0,
                rows_written: table.rows,
                bytes: 0,
                damaged: Vec::new(),
            };
            self.salvage.walk(table, &mut |salvaged| {
                match salvaged {
                    Salvaged::Row(key, row) => {
                        let value = if bucket.is_some() { tables::read_row(row).1 } else { row };
                        found.rows += 1;
                        found.bytes += (key.len() + value.len()) as u64;
                    }
                    Salvaged::Damaged(range) => found.damaged.push(range),
                }
                Ok(())
            })?;
            check.tables.push(found);
        }
        Ok(check)
    }

    /// Passes every readable row to `visit`, except the rows of the store's own tables.
    ///
    /// # Errors
    /// The error of `visit`, or the operating system's error if the file cannot be read.
    pub fn export(&self, visit: &mut dyn FnMut(ExportedRow<'_>) -> io::Result<()>) -> io::Result<()> {
        for (name, table) in self.salvage.tables() {
            let bucket = tables::bucket_of(name);
            if bucket.is_none() && is_own(name) {
                continue;
            }
            self.salvage.walk(table, &mut |salvaged| match salvaged {
                Salvaged::Row(key, row) => {
                    let (expiry_ms, value) = if bucket.is_some() { tables::read_row(row) } else { (0, row) };
                    visit(ExportedRow {
                        name: bucket.unwrap_or(name),
                        is_bucket: bucket.is_some(),
                        key,
                        value,
                        expiry_ms,
                    })
                }
                Salvaged::Damaged(_) => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Writes every readable row to a new file, which must not exist.
    ///
    /// # Errors
    /// The error of the operating system or of redb if the file cannot be written; [`ErrorKind::InvalidInput`] if the
    /// file has tables of another application.
    pub fn repair(&self, output: &Path) -> io::Result<Repaired> {
        if fs::symlink_metadata(output).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if let Some(store) = replace::store_of(output).filter(|store| fs::symlink_metadata(store).is_ok()) {
            let what = format!("it is the name of the journal of {}", rusm_text::escaped(store.display()));
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let foreign = self.salvage.tables().map(|(name, _)| name).find(|name| {
            tables::bucket_of(name).is_none() && !is_own(name) && ![COUNTERS.name(), HISTORY.name()].contains(name)
        });
        if let Some(foreign) = foreign {
            let what = format!("the table `{}` belongs to another application", rusm_text::escape(foreign));
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        // Under a name of its own: a file that another process creates meanwhile is neither written to nor removed.
        let (temp, file) = create::create_temp(output)?;
        let made = create::init_database(file).map_err(io::Error::other);
        let written = made.and_then(|()| self.write(&temp, output));
        let named = written.and_then(|repaired| create::publish(&temp, output).map(|()| repaired));
        // The other name of the file, or a partial file, which is useless.
        drop(fs::remove_file(&temp));
        named
    }

    fn write(&self, temp: &Path, output: &Path) -> io::Result<Repaired> {
        let database = Database::open(temp).map_err(io::Error::other)?;
        let mut txn = database.begin_write().map_err(io::Error::other)?;
        txn.set_durability(Durability::Immediate).map_err(io::Error::other)?;
        let mut repaired = Repaired { path: output.to_owned(), rows: 0, rows_lost: 0 };
        let mut is_store = false;
        for (name, table) in self.salvage.tables() {
            is_store |= is_own(name) || tables::bucket_of(name).is_some();
            if is_own(name) {
                continue;
            }
            let rows = self.copy(&txn, name, table)?;
            repaired.rows += rows;
            repaired.rows_lost += table.rows.saturating_sub(rows);
        }
        if is_store {
            let mut formats = txn.open_table(FORMATS).map_err(io::Error::other)?;
            formats.insert((), tables::FORMAT).map_err(io::Error::other)?;
        }
        txn.commit().map_err(io::Error::other)?;
        drop(database);
        Ok(repaired)
    }

    /// Copies the readable rows of a table; returns their number.
    fn copy(&self, txn: &WriteTransaction, name: &str, table: &super::file::pages::Table) -> io::Result<u64> {
        let mut count = 0;
        let mut each = |put: &mut Put<'_>| {
            self.salvage.walk(table, &mut |salvaged| {
                if let Salvaged::Row(key, value) = salvaged {
                    put(key, value).map_err(io::Error::other)?;
                    count += 1;
                }
                Ok(())
            })
        };
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if let Some(bucket) = tables::bucket_of(name) {
            let mut rows = txn.open_table(tables::rows(name)).map_err(io::Error::other)?;
            let mut expiry = txn.open_table(EXPIRY).map_err(io::Error::other)?;
            let mut bytes = 0;
            each(&mut |key, row| {
                let (expiry_ms, value) = tables::read_row(row);
                bytes += (key.len() + value.len()) as u64;
                rows.insert(key, row)?;
                if expiry_ms != 0 {
                    expiry.insert(tables::expiry_key(expiry_ms, bucket, key).as_slice(), ())?;
                }
                Ok(())
            })?;
            drop(rows);
            if count == 0 {
                txn.delete_table(tables::rows(name)).map_err(io::Error::other)?;
            } else {
                txn.open_table(BUCKETS).map_err(io::Error::other)?.insert(bucket, bytes).map_err(io::Error::other)?;
            }
        } else if name == COUNTERS.name() {
            let mut rows = txn.open_table(COUNTERS).map_err(io::Error::other)?;
            each(&mut |key, value| {
                if let Ok(key) = std::str::from_utf8(key) {
                    rows.insert(key, number(value).cast_signed())?;
                }
                Ok(())
            })?;
        } else {
            let mut rows = txn.open_table(HISTORY).map_err(io::Error::other)?;
            each(&mut |key, value| rows.insert(number(key), value).map(drop).map_err(Into::into))?;
        }
        Ok(count)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file without symbolic links.
    pub fn canonical_path(&self) -> &Path {
        &self.files.store
    }

    /// Returns true if this is the metadata of the file or of its journal.
    pub fn is_input(&self, found: &fs::Metadata) -> bool {
        let inode = inode_of(found);
        inode == self.files.inode || Some(inode) == self.files.journal_inode
    }
}

/// Writes a row to a table.
type Put<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), redb::Error> + 'a;

/// Returns true if a store writes the table of this name by itself.
fn is_own(name: &str) -> bool {
    [FORMATS.name(), BUCKETS.name(), EXPIRY.name()].contains(&name)
}
