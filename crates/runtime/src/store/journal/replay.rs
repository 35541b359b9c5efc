//! What a journal is for: after a crash its records are done again, before anybody reads the storage.
//!
//! Invariant: the storage is as the last sync that was acknowledged left it, and of what was written after it anything may be
//! there; or it is refused, and neither it nor the journal are changed.

use std::io::{self, ErrorKind};

use redb::StorageBackend;

use super::SIDE;
use super::record::{self, BLOCK, Head, Session, Writes};

/// Where a storage has the session that it was opened in last: redb's first page has 320 bytes, and leaves the rest alone.
const SESSION_AT: u64 = BLOCK - 32;
const SESSION_MAGIC: [u8; 8] = *b"rusmsess";

/// What every file of redb begins with.
const REDB_MAGIC: &[u8] = b"redb";

const STRANGE: &str = "beside it lies a file of another program that is named as its journal would be";
const OTHERS: &str = "its journal is that of another file, or of another state of this one: put back what belongs together, \
                      or remove the journal, and what only it holds";
const DAMAGED: &str = "its journal is damaged: what was written last cannot be read";

/// Does everything in the journal again that the storage may lack, and empties it.
pub(super) fn replay(storage: &dyn StorageBackend, journal: &dyn StorageBackend) -> io::Result<()> {
    let journal_len = journal.len()?;
    if journal_len == 0 {
        return Ok(());
    }
    let mut sides = [Vec::new(), Vec::new()];
    for (side, from) in sides.iter_mut().zip([0, SIDE]) {
        side.resize(journal_len.saturating_sub(from).min(SIDE) as usize, 0);
        if !side.is_empty() {
            journal.read(from, side)?;
        }
    }
    let session = session_of(storage)?;
    // A record that was not written whole leaves its first sector as it was, which is zeros, or not.
    let is_strange = |side: &Vec<u8>| !record::may_begin(side);
    if sides.iter().any(is_strange) {
        return Err(io::Error::new(ErrorKind::InvalidData, STRANGE));
    }
    let of_others = |side: &Vec<u8>| record::read(side).is_some_and(|(head, _)| Some(head.session) != session);
    if sides.iter().any(of_others) {
        return Err(io::Error::new(ErrorKind::InvalidData, OTHERS));
    }
    if let Some(session) = session {
        again(storage, &sides, session)?;
    }
    journal.set_len(0)?;
    journal.sync_data()
}

fn again(storage: &dyn StorageBackend, sides: &[Vec<u8>; 2], session: Session) -> io::Result<()> {
    let mut records: Vec<_> = sides.iter().flat_map(|side| chain(side, session)).collect();
    records.sort_by_key(|(head, _)| head.number);
    let last = records.last().map(|(head, _)| *head);
    let end = last.map_or(0, |head| head.number);
    // One record is written at a time, so only the one after the last may be there in part. It may be the first one since all
    // before it became safe.
    let is_beyond = |head: Head| head.session == session && head.number > end.max(head.safe) + 1;
    let mut heads = sides.iter().flat_map(|side| side.chunks(BLOCK as usize)).filter_map(Head::read);
    let damaged = || io::Error::new(ErrorKind::InvalidData, DAMAGED);
    if heads.any(is_beyond) {
        return Err(damaged());
    }
    let Some(last) = last else { return Ok(()) };
    records.retain(|(head, _)| head.number > last.safe);
    if !records.iter().map(|(head, _)| head.number).eq(last.safe + 1..=end) {
        return Err(damaged());
    }
    for (head, writes) in records {
        writes.apply(storage)?;
        if storage.len()? != head.storage_len {
            storage.set_len(head.storage_len)?;
        }
    }
    storage.sync_data()
}

/// The records at the beginning of a side, one after the other, to the first that is torn or older.
fn chain(side: &[u8], session: Session) -> Vec<(Head, Writes<'_>)> {
    let (mut found, mut at) = (Vec::<(Head, Writes<'_>)>::new(), 0);
    while let Some((head, writes)) = side.get(at as usize..).and_then(record::read) {
        let follows = found.last().is_none_or(|(before, _)| head.number == before.number + 1);
        if head.session != session || !follows {
            break;
        }
        at += head.len();
        found.push((head, writes));
    }
    found
}

/// The session that a storage was opened in last, if it ever was with a journal.
fn session_of(storage: &dyn StorageBackend) -> io::Result<Option<Session>> {
    if storage.len()? < BLOCK {
        return Ok(None);
    }
    let mut bytes = [0; 24];
    storage.read(SESSION_AT, &mut bytes)?;
    Ok(bytes.strip_prefix(&SESSION_MAGIC).and_then(|session| session.first_chunk()).copied())
}

/// Whether a storage is new, or looks like one of redb's; else redb refuses it, and nothing may be changed.
pub(super) fn is_ours(storage: &dyn StorageBackend) -> io::Result<bool> {
    let len = storage.len()?;
    let mut magic = [0; REDB_MAGIC.len()];
    if len >= magic.len() as u64 {
        storage.read(0, &mut magic)?;
    }
    Ok(len == 0 || magic == REDB_MAGIC)
}

/// Ends a session: no journal belongs to the storage from now on.
pub(super) fn end_session(storage: &dyn StorageBackend) -> io::Result<()> {
    storage.write(SESSION_AT, &[0; 24])?;
    storage.sync_data()
}

/// Begins a session, if the storage is one of redb's already. The journal must be empty.
pub(super) fn begin_session(storage: &dyn StorageBackend) -> io::Result<Option<Session>> {
    // redb gives a new file its first bytes last.
    if storage.len()? < BLOCK || !is_ours(storage)? {
        return Ok(None);
    }
    let mut session = Session::default();
    getrandom::fill(&mut session).map_err(|error| io::Error::other(error.to_string()))?;
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&SESSION_MAGIC);
    bytes[8..].copy_from_slice(&session);
    storage.write(SESSION_AT, &bytes)?;
    storage.sync_data()?;
    Ok(Some(session))
}
