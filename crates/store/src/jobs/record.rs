//! A job as it is stored: its key gives the order, its value holds the rest.
//!
//! ```text
//!   key    due time in ms, 8 bytes │ number, 8 bytes            big-endian: the key order is the order of the due times
//!   value  version 1 │ attempt, 4 │ interval in ms, 8 │ length of the unique key, 2 │ unique key │ payload
//! ```

use bytes::Bytes;

const VERSION: u8 = 1;
const HEAD: usize = 15;
/// Length of the key of a job, in bytes.
pub(super) const KEY: usize = 16;

/// A stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of attempts that have begun.
    pub(super) attempt: u32,
    /// Time between the end of a run and the next, in milliseconds; 0 if the job runs once.
    pub(super) interval_ms: u64,
    /// Empty if the job is not unique.
    pub(super) unique: Bytes,
    pub(super) payload: Bytes,
}

pub(super) fn key(due_ms: u64, number: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&due_ms.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the due time and the number of a key; `None` if it is not the key of a job.
pub(super) fn parts(key: &[u8]) -> Option<(u64, u64)> {
    let key: &[u8; KEY] = key.try_into().ok()?;
    let (due, number) = key.split_at(8);
    Some((u64::from_be_bytes(due.try_into().ok()?), u64::from_be_bytes(number.try_into().ok()?)))
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEAD + self.unique.len() + self.payload.len());
        value.push(VERSION);
        value.extend(self.attempt.to_be_bytes());
        value.extend(self.interval_ms.to_be_bytes());
        value.extend((self.unique.len() as u16).to_be_bytes());
        value.extend(&self.unique);
        value.extend(&self.payload);
        value
    }

    /// Returns `None` if the value is not a job of this version.
    pub(super) fn decode(value: &Bytes) -> Option<Self> {
        if value.len() < HEAD || value[0] != VERSION {
            return None;
        }
        let unique = usize::from(u16::from_be_bytes(value[13..HEAD].try_into().ok()?));
        if value.len() < HEAD + unique {
            return None;
        }
        Some(Self {
            attempt: u32::from_be_bytes(value[1..5].try_into().ok()?),
            interval_ms: u64::from_be_bytes(value[5..13].try_into().ok()?),
            unique: value.slice(HEAD..HEAD + unique),
            payload: value.slice(HEAD + unique..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written_and_nothing_else_does() {
        let record = Record {
            attempt: 3,
            interval_ms: 60_000,
            unique: Bytes::from_static(b"ada"),
            payload: Bytes::from_static(b"mail"),
        };
        let value = Bytes::from(record.encode());
        assert_eq!(Record::decode(&value), Some(record));
        for end in 0..HEAD + 3 {
            assert_eq!(Record::decode(&value.slice(..end)), None, "{end}");
        }
        assert_eq!(Record::decode(&Bytes::from_static(&[9; 40])), None);
    }

    #[test]
    fn keys_are_in_the_order_of_their_times() {
        assert!(key(1, u64::MAX) < key(2, 0) && key(255, 0) < key(256, 0));
        assert_eq!(parts(&key(7, 9)), Some((7, 9)));
        assert_eq!(parts(b"short"), None);
    }
}
