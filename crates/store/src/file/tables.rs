//! The layout of a store in redb's tables; the only module that knows the encoding of a row.
//!
//! ```text
//!   rusm.format              version of this layout
//!   rusm.buckets   name ──▶ bytes of keys and values        redb itself counts the keys
//!   rusm.expiry    expiry, bucket, key ──▶ nothing          the next to expire comes first
//!   bucket/NAME    key ──▶ expiry, value                    expiry in ms since 1970, 0 for never
//! ```

use redb::{ReadOnlyTable, Table, TableDefinition};

/// Version of this layout.
pub(crate) const FORMAT: u64 = 1;

pub(crate) const FORMATS: TableDefinition<'_, (), u64> = TableDefinition::new("rusm.format");
pub(crate) const BUCKETS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("rusm.buckets");
pub(crate) const EXPIRY: TableDefinition<'_, &'static [u8], ()> = TableDefinition::new("rusm.expiry");

pub(crate) type Rows<'t> = Table<'t, &'static [u8], &'static [u8]>;
pub(crate) type ReadRows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Returns the name of a bucket's table.
pub(crate) fn table_name(bucket: &str) -> String {
    format!("bucket/{bucket}")
}

/// Returns the bucket that belongs to this table name.
pub(crate) fn bucket_of(table: &str) -> Option<&str> {
    table.strip_prefix("bucket/")
}

/// Returns the definition of the table with this name.
pub(crate) const fn rows(table: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

const EXPIRY_BYTES: usize = 8;

/// Encodes a row.
pub(crate) fn write_row(row: &mut Vec<u8>, expiry_ms: u64, value: &[u8]) {
    row.clear();
    row.extend_from_slice(&expiry_ms.to_le_bytes());
    row.extend_from_slice(value);
}

/// Decodes a row: the time at which it expires, 0 for never, and its value.
pub(crate) fn read_row(row: &[u8]) -> (u64, &[u8]) {
    match row.split_first_chunk::<EXPIRY_BYTES>() {
        Some((expiry_ms, value)) => (u64::from_le_bytes(*expiry_ms), value),
        None => (0, row),
    }
}

/// Returns true if a row with this expiry has expired.
pub(crate) const fn is_expired(expiry_ms: u64, now_ms: u64) -> bool {
    expiry_ms != 0 && expiry_ms <= now_ms
}

/// Returns the key of an entry in the expiry table.
pub(crate) fn expiry_key(expiry_ms: u64, bucket: &str, key: &[u8]) -> Vec<u8> {
    debug_assert!(u8::try_from(bucket.len()).is_ok(), "keys of a topic or of jobs do not expire");
    let mut bytes = Vec::with_capacity(EXPIRY_BYTES + 1 + bucket.len() + key.len());
    bytes.extend_from_slice(&expiry_ms.to_be_bytes());
    bytes.push(bucket.len() as u8);
    bytes.extend_from_slice(bucket.as_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// Decodes a key of the expiry table.
pub(crate) fn read_expiry_key(bytes: &[u8]) -> Option<(u64, &str, &[u8])> {
    let (expiry_ms, rest) = bytes.split_first_chunk::<EXPIRY_BYTES>()?;
    let (length, rest) = rest.split_first()?;
    let (bucket, key) = rest.split_at_checked(usize::from(*length))?;
    Some((u64::from_be_bytes(*expiry_ms), std::str::from_utf8(bucket).ok()?, key))
}

/// Returns the first expiry key after everything that has expired.
pub(crate) fn expiry_end(now_ms: u64) -> [u8; EXPIRY_BYTES] {
    now_ms.saturating_add(1).to_be_bytes()
}

/// Returns the least key greater than all that begin with `prefix`; `None` if it does not exist.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_first_comes_first() {
        let (early, late) = (expiry_key(255, "z", b"z"), expiry_key(256, "a", b"a"));

        assert!(early < late);
        assert_eq!(read_expiry_key(&late), Some((256, "a", &b"a"[..])));
        assert!(early[..] < expiry_end(255)[..] && late[..] >= expiry_end(255)[..]);
    }

    #[test]
    fn the_end_of_a_prefix_is_after_all_that_begin_with_it() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
