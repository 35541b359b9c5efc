//! A record of a journal: what one sync made durable.
//!
//! ```text
//!   0 magic · 8 session · 24 number · 32 safe · 40 length of the storage · 48 bytes of the body · 56 checksum · 64 body
//!   body: offset u64 · bytes u32 · data, and so on; then zeros up to a whole block
//! ```
//!
//! All numbers are little-endian. Records begin at whole blocks, so that none is written over another's last bytes.

use std::io;

use redb::StorageBackend;
use xxhash_rust::xxh3::Xxh3Default;

/// What files are read and written in.
pub(super) const BLOCK: u64 = 4096;
const MAGIC: [u8; 8] = *b"rusmjrn1";
const HEAD: usize = 64;
const CHECKSUM: std::ops::Range<usize> = 56..64;
/// Bytes of a buffer that are kept for the next record.
const KEPT: usize = 1024 * 1024;

/// Names the one time that a storage is open: its file has it too.
pub(super) type Session = [u8; 16];

/// What stands before the writes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) session: Session,
    /// From 1 on, one by one.
    pub(super) number: u64,
    /// All records up to this one are safe in the storage itself.
    pub(super) safe: u64,
    /// How long the storage is after this record.
    pub(super) storage_len: u64,
    body_len: u64,
}

impl Head {
    /// The head that begins here, if there is one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD)?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if head[..8] != MAGIC {
            return None;
        }
        Some(Self {
            session: *head[8..].first_chunk()?,
            number: number(24)?,
            safe: number(32)?,
            storage_len: number(40)?,
            body_len: number(48)?,
        })
    }

    /// Bytes of the record in the journal.
    pub(super) const fn len(&self) -> u64 {
        (HEAD as u64).saturating_add(self.body_len).div_ceil(BLOCK).saturating_mul(BLOCK)
    }
}

/// Whether these bytes may be the beginning of a journal, or of one that was not written.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || bytes.iter().take(MAGIC.len()).all(|byte| *byte == 0)
}

/// The record that is read from these bytes, whole, or nothing.
pub(super) fn read(bytes: &[u8]) -> Option<(Head, Writes<'_>)> {
    let head = Head::read(bytes)?;
    let body = bytes[HEAD..].get(..usize::try_from(head.body_len).ok()?)?;
    let is_whole = checksum(&bytes[..CHECKSUM.start], body).to_le_bytes() == bytes[CHECKSUM];
    is_whole.then_some((head, Writes(body)))
}

fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(head);
    hash.update(body);
    hash.digest()
}

/// Where bytes are to be written, and the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes<'a>(&'a [u8]);

impl Writes<'_> {
    /// Does all of them again.
    pub(super) fn apply(self, storage: &dyn StorageBackend) -> io::Result<()> {
        let mut rest = self.0;
        while let Some((offset, after)) = rest.split_first_chunk() {
            let split = after
                .split_first_chunk()
                .and_then(|(len, after)| after.split_at_checked(u32::from_le_bytes(*len) as usize));
            let (data, after) = split.ok_or(io::ErrorKind::InvalidData)?;
            storage.write(u64::from_le_bytes(*offset), data)?;
            rest = after;
        }
        Ok(())
    }
}

/// A record that grows write by write.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// It would be longer than a journal takes; its writes are not in it.
    is_too_long: bool,
}

impl Default for Record {
    fn default() -> Self {
        Self { bytes: vec![0; HEAD], is_too_long: false }
    }
}

impl Record {
    /// Adds a write, unless the record were longer than `most` with it.
    pub(super) fn push(&mut self, offset: u64, data: &[u8], most: u64) {
        let len = u32::try_from(data.len()).ok();
        let fits = (self.bytes.len() + data.len()) as u64 + 2 * BLOCK <= most;
        if let Some(len) = len.filter(|_| fits && !self.is_too_long) {
            self.bytes.extend_from_slice(&offset.to_le_bytes());
            self.bytes.extend_from_slice(&len.to_le_bytes());
            self.bytes.extend_from_slice(data);
        } else {
            self.clear();
            self.is_too_long = true;
        }
    }

    pub(super) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.bytes.resize(HEAD, 0);
        self.is_too_long = false;
    }

    /// Bytes that it takes in the journal.
    pub(super) const fn len(&self) -> u64 {
        (self.bytes.len() as u64).div_ceil(BLOCK) * BLOCK
    }

    /// Ends the record: its bytes, whole blocks.
    pub(super) fn seal(&mut self, session: Session, number: u64, safe: u64, storage_len: u64) -> &[u8] {
        let body_len = (self.bytes.len() - HEAD) as u64;
        let head = &mut self.bytes[..HEAD];
        head[..8].copy_from_slice(&MAGIC);
        head[8..24].copy_from_slice(&session);
        for (at, value) in [(24, number), (32, safe), (40, storage_len), (48, body_len)] {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let sum = checksum(&self.bytes[..CHECKSUM.start], &self.bytes[HEAD..]);
        self.bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        self.bytes.resize(self.len() as usize, 0);
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    fn sealed(number: u64) -> Vec<u8> {
        let mut record = Record::default();
        record.push(3, b"abc", 1 << 20);
        record.push(0, &[7; 5000], 1 << 20);
        record.seal([5; 16], number, number - 1, 9000).to_vec()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = sealed(4);
        assert_eq!(bytes.len() as u64, 2 * BLOCK);

        let (head, writes) = read(&bytes).unwrap();
        assert_eq!((head.session, head.number, head.safe, head.storage_len, head.len()), ([5; 16], 4, 3, 9000, 8192));

        let storage = InMemoryBackend::new();
        storage.set_len(9000).unwrap();
        writes.apply(&storage).unwrap();
        let mut found = [0; 2];
        storage.read(4998, &mut found).unwrap();
        assert_eq!(found, [7, 7]);
        storage.read(5000, &mut found).unwrap();
        assert_eq!(found, [0, 0]);
    }

    #[test]
    fn no_bit_of_a_record_may_differ() {
        let bytes = sealed(1);
        for place in (0..HEAD).chain([HEAD + 1, HEAD + 12, 4096, 5080]) {
            let mut torn = bytes.clone();
            torn[place] ^= 1;
            assert!(read(&torn).is_none(), "byte {place}");
        }
        assert!(read(&bytes[..4096]).is_none() && read(&bytes[..20]).is_none() && read(&[0; 4096]).is_none());
    }

    #[test]
    fn what_is_too_long_for_a_journal_is_not_kept() {
        let mut record = Record::default();
        for _ in 0..10 {
            record.push(0, &[1; 4096], 8 * BLOCK);
        }
        assert!(record.is_too_long() && record.len() == BLOCK);
        record.clear();
        record.push(0, &[1; 4096], 8 * BLOCK);
        assert!(!record.is_too_long() && record.len() == 2 * BLOCK);
    }
}
