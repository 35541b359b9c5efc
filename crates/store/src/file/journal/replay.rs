//! Recovery: after a crash the records of a journal are replayed before the storage is read.
//!
//! Invariant: the storage is as the last acknowledged sync left it; or it is rejected, and neither it nor the journal
//! is changed.

use std::io::{self, ErrorKind};

use redb::StorageBackend;

use super::label::{self, HALF_BYTES, Label};
use super::record::{self, BLOCK, RecordHeader, SECTOR, Sector, Session, Writes};
use crate::file::pages::{HEADER, Header, newer_version};

/// First bytes of every redb file.
const REDB_MAGIC: &[u8] = b"redb";

const FOREIGN_JOURNAL: &str = "a file of another program has the name of its journal";
const MISMATCHED_JOURNAL: &str = "the journal next to it belongs to another file, or to another state of this one: restore the matching \
                      journal, or move the journal away";
const REPLACED_JOURNAL: &str = "its journal was replaced by that of another file: restore its own, or run `rusm store repair` on \
                         the file, which loses what only its journal had";
const ORPHAN_JOURNAL: &str = "the journal exists but the file does not: restore the file, or move the journal away";
const DAMAGED: &str = "its journal is damaged or truncated, so the latest writes are missing: restore both files from a copy, \
                       or run `rusm store repair` on the file";
const OLDER: &str = "an older version of this program did not close it: open and close it once with that version";
const LABEL: &str = "the record of its last session is damaged: run `rusm store repair` on the file";

fn refused(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// Only writes that a crash had interrupted were replayed, if any.
    Undamaged,
    /// The header or the length of a closed storage was wrong, and was restored from the label.
    HeaderRestored,
}

/// Restores the state that the last acknowledged sync left, and empties the journal.
pub(crate) fn recover(storage: &dyn StorageBackend, journal: &dyn StorageBackend) -> io::Result<Recovered> {
    let halves = read_halves(journal)?;
    let label = match label::read(storage)? {
        label::Found::Label(label) => Some(label),
        label::Found::Nothing => None,
        label::Found::Older if journal.len()? == 0 => None,
        label::Found::Older => return Err(refused(OLDER)),
        label::Found::Damaged => return Err(refused(LABEL)),
    };
    if halves.iter().any(|half| record::is_older(half)) {
        return Err(refused(OLDER));
    }
    let open = label.filter(|label| label.is_open);
    let is_strange = |half: &Vec<u8>| !half.is_empty() && !record::may_start_journal(half);
    if open.is_none() && halves.iter().any(is_strange) {
        return Err(refused(FOREIGN_JOURNAL));
    }
    let session = label.map(|label| label.session);
    let begins_another = |half: &Vec<u8>| record::read(half).is_some_and(|(head, _)| Some(head.session) != session);
    // The journal of a closed storage is not needed, and is removed. It must be its own, whatever is damaged in it.
    let is_another = |half: &Vec<u8>| {
        let mut heads = half.chunks(BLOCK as usize).filter_map(RecordHeader::read).peekable();
        (!half.is_empty() && heads.peek().is_none()) || heads.any(|head| Some(head.session) != session)
    };
    if halves.iter().any(begins_another) || (open.is_none() && halves.iter().any(is_another)) {
        let needs_its_own = open.is_some_and(|label| label.has_records);
        return Err(refused(if needs_its_own { REPLACED_JOURNAL } else { MISMATCHED_JOURNAL }));
    }
    let replayed = match open {
        Some(label) => replay_records(storage, &halves, &label, journal.len()?)?,
        None => None,
    };
    let mut recovered = Recovered::Undamaged;
    if let Some(mut label) = label {
        let last = replayed.as_ref().map_or(label.safe, |replayed| replayed.last);
        recovered = restore(storage, &label, replayed)?;
        if label.is_open || journal.len()? > 0 {
            // Before the journal is emptied: the new label permits an empty one. The label that was read may not be on
            // the disk yet.
            label.update(storage)?;
            label.safe = last;
            label.has_records = false;
            label.journal_len = 0;
            label.write(storage)?;
            storage.sync_data()?;
        }
    }
    if journal.len()? > 0 {
        journal.set_len(0)?;
        journal.sync_data()?;
    }
    Ok(recovered)
}

/// Returns the error for a new storage beside a journal that is not new.
pub(crate) fn orphan_journal_error(journal: &dyn StorageBackend) -> io::Result<io::Error> {
    let is_strange = read_halves(journal)?.iter().any(|half| !half.is_empty() && !record::may_start_journal(half));
    Ok(refused(if is_strange { FOREIGN_JOURNAL } else { ORPHAN_JOURNAL }))
}

/// Reads both halves, without the zeros at their ends: most of a journal was never written.
fn read_halves(journal: &dyn StorageBackend) -> io::Result<[Vec<u8>; 2]> {
    let len = journal.len()?;
    let second = len.saturating_sub(HALF_BYTES).min(HALF_BYTES);
    Ok([read_written(journal, 0, len.min(HALF_BYTES))?, read_written(journal, HALF_BYTES, second)?])
}

/// Reads a range up to its last piece that is not zeros.
fn read_written(journal: &dyn StorageBackend, from: u64, len: u64) -> io::Result<Vec<u8>> {
    const PIECE: usize = 256 * 1024;
    let (mut written, mut piece, zeros) = (Vec::new(), vec![0; PIECE], vec![0; PIECE]);
    for at in (0..len as usize).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(len as usize - at)];
        journal.read(from + at as u64, piece)?;
        // A range that ends within a sector was cut.
        if *piece != zeros[..piece.len()] || piece.len() % SECTOR != 0 {
            written.resize(at, 0);
            written.extend_from_slice(piece);
        }
    }
    Ok(written)
}

/// State of the storage according to the records of a journal.
#[derive(Debug)]
struct Replayed {
    /// Number of the last record.
    last: u64,
    /// redb's header in the last record that has one.
    header: Option<[u8; HEADER]>,
}

/// Replays the records that the storage may lack; returns `None` if it lacks none.
fn replay_records(
    storage: &dyn StorageBackend,
    halves: &[Vec<u8>; 2],
    label: &Label,
    journal_len: u64,
) -> io::Result<Option<Replayed>> {
    let chains = [chain(&halves[0], label.session), chain(&halves[1], label.session)];
    let end = chains.iter().flatten().map(|(head, _)| head.number).max().unwrap_or(0).max(label.safe);
    if is_damaged(halves, &chains, label, end, journal_len) {
        return Err(refused(DAMAGED));
    }
    let mut records: Vec<_> = chains.into_iter().flatten().collect();
    records.sort_by_key(|(head, _)| head.number);
    records.retain(|(head, _)| head.number > label.safe);
    let Some((last, _)) = records.last() else { return Ok(None) };
    let safe = last.safe.max(label.safe);
    let header = records.iter().rev().find_map(|(_, writes)| writes.first_bytes());
    records.retain(|(head, _)| head.number > safe);
    if !records.iter().map(|(head, _)| head.number).eq(safe + 1..=end) {
        return Err(refused(DAMAGED));
    }
    for (head, writes) in records {
        writes.apply(storage)?;
        if storage.len()? != head.storage_len {
            storage.set_len(head.storage_len)?;
        }
    }
    storage.sync_data()?;
    Ok(Some(Replayed { last: end, header }))
}

/// Returns true if an acknowledged record is missing.
fn is_damaged(
    halves: &[Vec<u8>; 2],
    chains: &[Vec<(RecordHeader, Writes)>; 2],
    label: &Label,
    end: u64,
    journal_len: u64,
) -> bool {
    let heads = || chains.iter().flatten().map(|(head, _)| head);
    let is_cut = heads().any(|head| head.number > label.safe && head.journal_len > journal_len);
    let lacks_all = label.has_records && end == label.safe;
    // Records are written one at a time, so only the one after the last may be partial. It may be the first one after
    // all earlier ones became durable in the storage.
    let is_beyond = |head: RecordHeader| head.session == label.session && head.number > end.max(head.safe) + 1;
    let mut found = halves.iter().flat_map(|half| half.chunks(BLOCK as usize)).filter_map(RecordHeader::read);
    let ends = || {
        halves.iter().zip(chains).filter_map(|(half, chain)| {
            let at: u64 = chain.iter().map(|(head, _)| head.len()).sum();
            // The next record goes to the end of the half that has the last one, or to the beginning of the other.
            let is_current = chain.last().is_none_or(|(head, _)| head.number == end);
            is_current.then(|| half.get(at as usize..).unwrap_or_default())
        })
    };
    journal_len < label.journal_len
        || is_cut
        || lacks_all
        || found.any(is_beyond)
        || ends().any(|rest| is_damaged_end(rest, end))
}

/// Returns true if the data after the record `end` is not empty, not older, and not a partially written record.
fn is_damaged_end(rest: &[u8], end: u64) -> bool {
    if rest.is_empty() {
        return false;
    }
    match Sector::read(rest) {
        Sector::Empty => false,
        Sector::Damaged => true,
        Sector::Of { number, .. } if number <= end => false,
        Sector::Of { .. } => {
            let sectors = RecordHeader::read(rest).and_then(|head| head.sectors()).unwrap_or(usize::MAX);
            // A partially written record has sectors of its own in their places, and otherwise older ones or zeros.
            let is_damaged = |(place, sector): (usize, &[u8])| match Sector::read(sector) {
                Sector::Empty => false,
                Sector::Damaged => true,
                Sector::Of { number, index } => number > end && (number != end + 1 || index as usize != place),
            };
            rest.chunks_exact(SECTOR).take(sectors).enumerate().any(is_damaged)
        }
    }
}

/// Returns the consecutive records at the beginning of a half, up to the first that is torn or older.
fn chain(half: &[u8], session: Session) -> Vec<(RecordHeader, Writes)> {
    let (mut found, mut at) = (Vec::<(RecordHeader, Writes)>::new(), 0);
    while let Some((head, writes)) = half.get(at as usize..).and_then(record::read) {
        let follows = found.last().is_none_or(|(before, _)| head.number == before.number + 1);
        if head.session != session || !follows {
            break;
        }
        at += head.len();
        found.push((head, writes));
    }
    found
}

/// Restores redb's header and the length of the storage where they differ from the last acknowledged sync.
fn restore(storage: &dyn StorageBackend, label: &Label, replayed: Option<Replayed>) -> io::Result<Recovered> {
    let is_replayed = replayed.is_some();
    let acked = replayed.and_then(|replayed| replayed.header).unwrap_or(label.header);
    let found = label::header(storage)?;
    let is_newer = |acked: &[u8; HEADER]| {
        let last = Header::read(acked).map_or(0, |header| header.last_transaction());
        Header::read(&found).is_ok_and(|header| header.is_intact() && header.last_transaction() > last)
    };
    // Another program that uses redb may have opened the file since it was closed.
    if !label.is_open && found != acked && (is_newer(&acked) || newer_version(&found).is_some()) {
        return Ok(Recovered::Undamaged);
    }
    if found != acked {
        storage.write(0, &acked)?;
    }
    let len = storage.len()?;
    // A storage that is open may have grown since.
    let is_short = len < label.storage_len || (!label.is_open && len != label.storage_len);
    if is_short && !is_replayed {
        storage.set_len(label.storage_len)?;
    }
    if found != acked || (is_short && !is_replayed) {
        storage.sync_data()?;
    }
    let is_restored = !label.is_open && (found != acked || is_short);
    Ok(if is_restored { Recovered::HeaderRestored } else { Recovered::Undamaged })
}

/// Returns true if a storage is new, or looks like redb's; otherwise redb rejects it, and nothing may be changed.
pub(super) fn is_redb_file(storage: &dyn StorageBackend) -> io::Result<bool> {
    let len = storage.len()?;
    if len == 0 {
        return Ok(true);
    }
    let mut magic = [0; REDB_MAGIC.len()];
    if len >= magic.len() as u64 {
        storage.read(0, &mut magic)?;
    }
    // The header itself may be damaged.
    Ok(magic == REDB_MAGIC || matches!(label::read(storage)?, label::Found::Label(_)))
}

/// Begins a session if redb has initialised the storage. The journal must be empty.
pub(super) fn begin_session(storage: &dyn StorageBackend) -> io::Result<Option<Label>> {
    // redb writes the first bytes of a new file last.
    if storage.len()? < BLOCK || !is_redb_file(storage)? {
        return Ok(None);
    }
    let mut session = Session::default();
    getrandom::fill(&mut session).map_err(|error| io::Error::other(error.to_string()))?;
    let mut label = Label::open(storage, session)?;
    label.write(storage)?;
    storage.sync_data()?;
    Ok(Some(label))
}
