//! A job as it is stored: its key gives the order, its value holds the rest.
//!
//! ```text
//!   key    due time in ms, 8 bytes │ number, 8 bytes            big-endian: the key order is the order of the due times
//!   value  version 1 │ attempt, 4 │ interval in ms, 8 │ length of the unique key, 2 │ unique key │ payload
//!          version 2 │ attempt, 4 │ 0, 8 │ length of the unique key, 2 │ unique key │ length, 1 │ crontab │ payload
//! ```

use bytes::Bytes;

const VERSION: u8 = 1;
/// Version of a job with a crontab expression.
const VERSION_CRONTAB: u8 = 2;
const HEAD: usize = 15;
/// Length of the key of a job, in bytes.
pub(super) const KEY: usize = 16;

/// A stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of attempts that have begun.
    pub(super) attempt: u32,
    pub(super) repeat: Repeat,
    /// Empty if the job is not unique.
    pub(super) unique: Bytes,
    pub(super) payload: Bytes,
}

/// When a job runs again after it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Never,
    /// So many milliseconds later; not 0.
    After(u64),
    /// At the next time of a crontab expression, of at most 255 bytes.
    Crontab(Bytes),
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
        let (version, interval_ms) = match self.repeat {
            Repeat::Never => (VERSION, 0),
            Repeat::After(interval_ms) => (VERSION, interval_ms),
            Repeat::Crontab(_) => (VERSION_CRONTAB, 0),
        };
        let mut value = Vec::with_capacity(HEAD + self.unique.len() + self.payload.len());
        value.push(version);
        value.extend(self.attempt.to_be_bytes());
        value.extend(interval_ms.to_be_bytes());
        value.extend((self.unique.len() as u16).to_be_bytes());
        value.extend(&self.unique);
        if let Repeat::Crontab(crontab) = &self.repeat {
            value.push(crontab.len() as u8);
            value.extend(crontab);
        }
        value.extend(&self.payload);
        value
    }

    /// Returns `None` if the value is not a job of a known version.
    pub(super) fn decode(value: &Bytes) -> Option<Self> {
        let mut rest = value.clone();
        let mut take = |bytes: usize| (bytes <= rest.len()).then(|| rest.split_to(bytes));
        let head = take(HEAD)?;
        let interval_ms = u64::from_be_bytes(head[5..13].try_into().ok()?);
        let unique = take(u16::from_be_bytes(head[13..].try_into().ok()?).into())?;
        let repeat = match head[0] {
            VERSION if interval_ms == 0 => Repeat::Never,
            VERSION => Repeat::After(interval_ms),
            VERSION_CRONTAB => {
                let bytes = take(1)?[0];
                Repeat::Crontab(take(bytes.into())?)
            }
            _ => return None,
        };
        Some(Self { attempt: u32::from_be_bytes(head[1..5].try_into().ok()?), repeat, unique, payload: rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written_and_nothing_else_does() {
        let crontab = Repeat::Crontab(Bytes::from_static(b"0 3 * * *"));
        for (repeat, shortest) in [(Repeat::Never, 18), (Repeat::After(60_000), 18), (crontab, 28)] {
            let (unique, payload) = (Bytes::from_static(b"ada"), Bytes::from_static(b"mail"));
            let record = Record { attempt: 3, repeat, unique, payload };
            let value = Bytes::from(record.encode());
            assert_eq!(value.len(), shortest + 4);
            assert_eq!(Record::decode(&value), Some(record));
            for end in 0..shortest {
                assert_eq!(Record::decode(&value.slice(..end)), None, "{end}");
            }
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
