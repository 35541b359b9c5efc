//! The label of a storage: how the storage was left, and redb's header at the last sync.
//!
//! redb's header is 320 bytes of the first page, and the rest of that page is free. The label is at its end, twice:
//! ```text
//!   0 header of redb … 3072 label · 3584 the same label
//!   label: magic · sequence · session · flags · safe · length of the storage · header of redb · length of the journal
//!          … 504 checksum
//! ```
//! No checksum of redb covers the flags and the region counts of its header, and after a crash redb silently falls back
//! to an older commit if the newest one is damaged. With the label, a header that differs is restored, and an older
//! commit is never mistaken for the last one.
//!
//! All numbers are little-endian. Each copy is one sector, so a power cut leaves either the old or the new one.

use std::io;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

use super::record::{BLOCK, SECTOR, Session};
use crate::file::pages::HEADER;

/// Offset of the second half, and maximum size of a half.
pub(crate) const HALF_BYTES: u64 = 16 * 1024 * 1024;

const MAGIC: [u8; 8] = *b"rusmlbl1";
const AT: u64 = BLOCK - 2 * SECTOR as u64;
const CHECKSUM: usize = SECTOR - 8;
const HEADER_AT: usize = 56;
/// Zero in labels of versions that did not write it.
const JOURNAL_LEN_AT: usize = HEADER_AT + HEADER;
/// Position, in the second copy's sector, of the mark that version 1 of the journal wrote while a storage was open.
const OLDER_AT: usize = SECTOR - 32;
const OLDER: &[u8] = b"rusmsess";

const IS_OPEN: u64 = 1;
const HAS_RECORDS: u64 = 2;

/// Information about a storage that is kept apart from its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Increases by one with each label that is written.
    sequence: u64,
    pub(super) session: Session,
    /// False once the storage was closed: it is complete, and the journal holds nothing needed.
    pub(crate) is_open: bool,
    /// True if the journal has a record after `safe`.
    pub(super) has_records: bool,
    /// Records up to this one need not be replayed.
    pub(super) safe: u64,
    pub(super) storage_len: u64,
    /// Length of the journal's file, if it has records; 0 if that is not known.
    pub(super) journal_len: u64,
    pub(crate) header: [u8; HEADER],
}

/// Content found at the position of a label.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "only one exists for each open file")]
pub(crate) enum Found {
    Label(Label),
    /// No label: the storage was never opened with a journal.
    Nothing,
    /// The storage was left open by a program that did not write labels.
    Older,
    /// Both copies are damaged.
    Damaged,
}

/// Reads the label of a storage.
pub(crate) fn read(storage: &dyn StorageBackend) -> io::Result<Found> {
    if storage.len()? < BLOCK {
        return Ok(Found::Nothing);
    }
    let mut bytes = [0; 2 * SECTOR];
    storage.read(AT, &mut bytes)?;
    let (first, second) = bytes.split_at(SECTOR);
    let newest = [first, second].into_iter().filter_map(Label::decode).max_by_key(|label| label.sequence);
    if let Some(label) = newest {
        return Ok(Found::Label(label));
    }
    let is_empty = bytes.iter().all(|byte| *byte == 0);
    let is_older = first.iter().all(|byte| *byte == 0) && second[OLDER_AT..].starts_with(OLDER);
    Ok(if is_empty {
        Found::Nothing
    } else if is_older {
        Found::Older
    } else {
        Found::Damaged
    })
}

/// Reads redb's header.
pub(crate) fn header(storage: &dyn StorageBackend) -> io::Result<[u8; HEADER]> {
    let mut header = [0; HEADER];
    storage.read(0, &mut header)?;
    Ok(header)
}

impl Label {
    /// Creates the label of a storage that is opened now.
    pub(super) fn open(storage: &dyn StorageBackend, session: Session) -> io::Result<Self> {
        let sequence = if let Found::Label(label) = read(storage)? { label.sequence } else { 0 };
        let (storage_len, header) = (storage.len()?, header(storage)?);
        Ok(Self { sequence, session, is_open: true, has_records: false, safe: 0, storage_len, journal_len: 0, header })
    }

    /// Updates the label with the storage's current header and length.
    pub(super) fn update(&mut self, storage: &dyn StorageBackend) -> io::Result<()> {
        self.storage_len = storage.len()?;
        self.header = header(storage)?;
        Ok(())
    }

    /// Writes the label, without a sync.
    pub(super) fn write(&mut self, storage: &dyn StorageBackend) -> io::Result<()> {
        self.sequence += 1;
        let copy = self.encode();
        storage.write(AT, &[copy, copy].concat())
    }

    fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let flags = u64::from(self.is_open) * IS_OPEN + u64::from(self.has_records) * HAS_RECORDS;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..32].copy_from_slice(&self.session);
        for (at, value) in [
            (8, self.sequence),
            (32, flags),
            (40, self.safe),
            (48, self.storage_len),
            (JOURNAL_LEN_AT, self.journal_len),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[HEADER_AT..HEADER_AT + HEADER].copy_from_slice(&self.header);
        let checksum = xxh3_64(&bytes[..CHECKSUM]).to_le_bytes();
        bytes[CHECKSUM..].copy_from_slice(&checksum);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&MAGIC) || bytes[CHECKSUM..] != xxh3_64(&bytes[..CHECKSUM]).to_le_bytes() {
            return None;
        }
        let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let flags = number(32)?;
        Some(Self {
            sequence: number(8)?,
            session: *bytes[16..].first_chunk()?,
            is_open: flags & IS_OPEN != 0,
            has_records: flags & HAS_RECORDS != 0,
            safe: number(40)?,
            storage_len: number(48)?,
            journal_len: number(JOURNAL_LEN_AT)?,
            header: *bytes[HEADER_AT..].first_chunk()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn one_of_the_two_copies_is_enough() {
        let storage = InMemoryBackend::new();
        storage.set_len(2 * BLOCK).unwrap();
        storage.write(0, b"redb and so on").unwrap();
        assert_eq!(read(&storage).unwrap(), Found::Nothing);

        let mut label = Label::open(&storage, [7; 16]).unwrap();
        label.safe = 9;
        label.write(&storage).unwrap();
        for damaged in [AT + 70, AT + SECTOR as u64 + 3] {
            storage.write(damaged, &[255]).unwrap();
            let both = damaged > AT + 100;
            assert_eq!(read(&storage).unwrap(), if both { Found::Damaged } else { Found::Label(label) });
        }
    }
}
