//! A record of a journal: the writes that one sync made durable.
//!
//! ```text
//!   sector: 492 bytes of the record · 4 index of the sector · 8 number of the record · 8 checksum
//!   record: 0 magic · 8 session · 24 number · 32 safe · 40 length of the storage · 48 bytes of the body
//!           56 length of the journal · 64 body: offset u64 · bytes u32 · data, …; then zeros up to a whole block
//! ```
//!
//! A power cut leaves each sector either old or new. So in a record that was not written completely, each sector is
//! zero, or belongs to an older or to this record; any other sector is damaged. This is the only way to distinguish a
//! torn record, which was never acknowledged, from a damaged one, which was.
//!
//! All numbers are little-endian. Records begin at whole blocks, so that none overwrites the last bytes of another.

use std::io;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

/// Unit in which files are read and written, in bytes.
pub(super) const BLOCK: u64 = 4096;
/// Smallest unit that a disk writes atomically, in bytes.
pub(super) const SECTOR: usize = 512;
/// Bytes of a sector that belong to the record.
const PAYLOAD: usize = 492;
const INDEX: usize = PAYLOAD;
const NUMBER: usize = INDEX + 4;
const CHECKSUM: usize = NUMBER + 8;
const MAGIC: [u8; 8] = *b"rusmjrn2";
/// First bytes of a record of version 1.
const OLDER: &[u8] = b"rusmjrn1";
const RECORD_HEADER_BYTES: usize = 64;
/// Capacity of a buffer that is kept for the next record, in bytes.
const BUFFER_KEPT_BYTES: usize = 1024 * 1024;

/// Id of one session of a storage, from opening to closing it; its label contains it too.
pub(super) type Session = [u8; 16];

/// State of a sector, judged by its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sector {
    /// Only zeros.
    Empty,
    /// An intact sector of this record.
    Of {
        number: u64,
        index: u32,
    },
    Damaged,
}

impl Sector {
    /// Reads the sector at the beginning of these bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.get(..SECTOR) else { return Self::Damaged };
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        let fields = (bytes[INDEX..].first_chunk(), bytes[NUMBER..].first_chunk(), bytes[CHECKSUM..].first_chunk());
        match fields {
            (Some(index), Some(number), Some(checksum)) if xxh3_64(&bytes[..CHECKSUM]).to_le_bytes() == *checksum => {
                Self::Of { number: u64::from_le_bytes(*number), index: u32::from_le_bytes(*index) }
            }
            _ => Self::Damaged,
        }
    }
}

/// Header of a record, before its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) session: Session,
    /// Number of the record; counts up from 1.
    pub(super) number: u64,
    /// All records up to this one are durable in the storage itself.
    pub(super) safe: u64,
    /// Length of the storage after this record.
    pub(super) storage_len: u64,
    /// Minimum length of a journal that has this record.
    pub(super) journal_len: u64,
    body_len: u64,
}

impl RecordHeader {
    /// Reads the header at the beginning of these bytes; `None` if they are not a valid one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let Sector::Of { number, index: 0 } = Sector::read(bytes) else { return None };
        let field = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let head = Self {
            session: *bytes[8..].first_chunk()?,
            number: field(24)?,
            safe: field(32)?,
            storage_len: field(40)?,
            body_len: field(48)?,
            journal_len: field(56)?,
        };
        (bytes.starts_with(&MAGIC) && head.number == number).then_some(head)
    }

    /// Returns the number of sectors of the record, without the zeros at its end.
    pub(super) fn sectors(&self) -> Option<usize> {
        Some(usize::try_from(self.body_len).ok()?.checked_add(RECORD_HEADER_BYTES)?.div_ceil(PAYLOAD))
    }

    /// Returns the number of bytes that the record takes up in the journal.
    pub(super) fn len(&self) -> u64 {
        self.sectors().map_or(0, |sectors| (sectors * SECTOR) as u64).div_ceil(BLOCK) * BLOCK
    }
}

/// Returns true if these bytes may be the beginning of a journal, or of one that was never written.
pub(super) fn may_start_journal(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || Sector::read(bytes) != Sector::Damaged
}

/// Returns true if these bytes are the beginning of a journal that an older version of this program wrote.
pub(super) fn is_older(bytes: &[u8]) -> bool {
    bytes.starts_with(OLDER)
}

/// Reads the record at the beginning of these bytes; `None` unless it is complete.
pub(super) fn read(bytes: &[u8]) -> Option<(RecordHeader, Writes)> {
    let head = RecordHeader::read(bytes)?;
    let sectors = head.sectors()?;
    let mut payload = Vec::with_capacity(sectors.min(bytes.len() / SECTOR) * PAYLOAD);
    for (index, sector) in bytes.chunks_exact(SECTOR).take(sectors).enumerate() {
        if Sector::read(sector) != (Sector::Of { number: head.number, index: index as u32 }) {
            return None;
        }
        payload.extend_from_slice(&sector[..PAYLOAD]);
    }
    let body = payload.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + usize::try_from(head.body_len).ok()?)?;
    Some((head, Writes(body.to_vec())))
}

/// Writes to a storage: offsets and bytes.
#[derive(Clone, Debug)]
pub(super) struct Writes(Vec<u8>);

impl Writes {
    fn each(&self, mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut rest = &*self.0;
        while let Some((offset, after)) = rest.split_first_chunk() {
            let split = after
                .split_first_chunk()
                .and_then(|(len, after)| after.split_at_checked(u32::from_le_bytes(*len) as usize));
            let (data, after) = split.ok_or(io::ErrorKind::InvalidData)?;
            visit(u64::from_le_bytes(*offset), data)?;
            rest = after;
        }
        Ok(())
    }

    /// Applies all writes to the storage.
    pub(super) fn apply(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        self.each(|offset, data| storage.write(offset, data))
    }

    /// Returns the bytes written to the beginning of the storage, if at least `N` are written there.
    pub(super) fn first_bytes<const N: usize>(&self) -> Option<[u8; N]> {
        let mut found = None;
        // The record was read completely, so no write in it is cut off.
        let _whole = self.each(|offset, data| {
            if offset == 0 {
                found = data.first_chunk().copied().or(found);
            }
            Ok(())
        });
        found
    }
}

/// A record under construction, to which writes are appended.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// Bytes of the body.
    body_len: u64,
    /// True if the record would be longer than the journal allows; its writes are then not in it.
    is_too_long: bool,
}

impl Default for Record {
    fn default() -> Self {
        Self { bytes: vec![0; RECORD_HEADER_BYTES], body_len: 0, is_too_long: false }
    }
}

impl Record {
    /// Adds a write, unless it would make the record longer than `most`.
    pub(super) fn push(&mut self, offset: u64, data: &[u8], most: u64) {
        let len = u32::try_from(data.len()).ok();
        // The sectors add less than one sixteenth.
        let fits = (self.bytes.len() + data.len() + data.len() / 16) as u64 + 2 * BLOCK <= most;
        if let Some(len) = len.filter(|_| fits && !self.is_too_long) {
            let mut before = [0; 12];
            before[..8].copy_from_slice(&offset.to_le_bytes());
            before[8..].copy_from_slice(&len.to_le_bytes());
            self.extend(&before);
            self.extend(data);
        } else {
            self.clear();
            self.is_too_long = true;
        }
    }

    fn extend(&mut self, mut data: &[u8]) {
        self.body_len += data.len() as u64;
        self.bytes.reserve(data.len() + data.len() / 16 + SECTOR);
        while !data.is_empty() {
            let within = self.bytes.len() % SECTOR;
            if within == PAYLOAD {
                self.bytes.extend_from_slice(&[0; SECTOR - PAYLOAD]);
                continue;
            }
            let (now, later) = data.split_at(data.len().min(PAYLOAD - within));
            self.bytes.extend_from_slice(now);
            data = later;
        }
    }

    pub(super) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_KEPT_BYTES);
        self.bytes.resize(RECORD_HEADER_BYTES, 0);
        self.body_len = 0;
        self.is_too_long = false;
    }

    /// Returns the number of bytes that the record takes up in the journal.
    pub(super) const fn len(&self) -> u64 {
        (self.bytes.len() as u64).div_ceil(BLOCK) * BLOCK
    }

    /// Completes the record; returns its bytes, in whole blocks.
    pub(super) fn seal(
        &mut self,
        session: Session,
        number: u64,
        safe: u64,
        [storage_len, journal_len]: [u64; 2],
    ) -> &[u8] {
        self.bytes.resize(self.len() as usize, 0);
        let head = &mut self.bytes[..RECORD_HEADER_BYTES];
        head[..8].copy_from_slice(&MAGIC);
        head[8..24].copy_from_slice(&session);
        let fields = [(24, number), (32, safe), (40, storage_len), (48, self.body_len), (56, journal_len)];
        for (at, value) in fields {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (index, sector) in self.bytes.chunks_exact_mut(SECTOR).enumerate() {
            sector[INDEX..NUMBER].copy_from_slice(&(index as u32).to_le_bytes());
            sector[NUMBER..CHECKSUM].copy_from_slice(&number.to_le_bytes());
            let checksum = xxh3_64(&sector[..CHECKSUM]).to_le_bytes();
            sector[CHECKSUM..].copy_from_slice(&checksum);
        }
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
        record.seal([5; 16], number, number - 1, [9000, 1 << 20]).to_vec()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = sealed(4);
        assert_eq!(bytes.len() as u64, 2 * BLOCK);

        let (head, writes) = read(&bytes).unwrap();
        assert_eq!((head.session, head.number, head.safe, head.storage_len, head.len()), ([5; 16], 4, 3, 9000, 8192));
        assert_eq!((head.journal_len, writes.first_bytes::<4>()), (1 << 20, Some([7; 4])));

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
    fn no_bit_of_a_record_may_differ_and_each_that_does_is_seen_in_its_sector() {
        let bytes = sealed(1);
        for place in
            (0..RECORD_HEADER_BYTES).chain([RECORD_HEADER_BYTES + 1, RECORD_HEADER_BYTES + 12, 4096, 5080, 511, 512])
        {
            let mut torn = bytes.clone();
            torn[place] ^= 1;
            assert!(read(&torn).is_none(), "byte {place}");
            assert_eq!(Sector::read(&torn[place / SECTOR * SECTOR..]), Sector::Damaged);
        }
        assert!(read(&bytes[..4096]).is_none() && read(&bytes[..20]).is_none() && read(&[0; 4096]).is_none());
        assert_eq!(Sector::read(&bytes[1024..]), Sector::Of { number: 1, index: 2 });
    }

    #[test]
    fn what_is_too_long_for_a_journal_is_not_kept() {
        let mut record = Record::default();
        for _ in 0..10 {
            record.push(0, &[1; 4096], 8 * BLOCK);
        }
        assert!(record.is_too_long() && record.len() == BLOCK);
        record.clear();
        record.push(0, &[1; 4000], 8 * BLOCK);
        assert!(!record.is_too_long() && record.len() == 2 * BLOCK);
    }
}
