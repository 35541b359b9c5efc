//! Encodes stores, their buckets, and the keys of a bucket, as text that a terminal can show.

use rusm_protocol::{BucketInfo, KeyInfo, KeysInfo, KeysView, StoreInfo, Stores, TableInfo, ViewWindow};

use super::text::cut;
use rusm_runtime::observe::{KeyReport, KeysPage, RegistryReport, StorageReport, TableReport};

/// Number of stores that are shown.
const STORES_SHOWN: usize = 4;
/// Number of tables and registries that are shown.
const TABLES_SHOWN: usize = 32;
/// Bytes of a path or of an error that are shown.
const WORDS_MAX_BYTES: usize = 200;

/// Encodes the stores, and a window of their buckets.
pub(crate) fn stores(reports: &[StorageReport], window: ViewWindow) -> Stores {
    let places = || (0..).zip(reports.iter().take(STORES_SHOWN));
    let total: u64 = places().map(|(_, report)| report.buckets.len() as u64).sum();
    let offset = window.offset.min(total);
    let buckets = places().flat_map(|(store, report)| report.buckets.iter().map(move |bucket| (store, bucket)));
    let bucket = |(store, bucket): (u32, &rusm_runtime::observe::BucketReport)| BucketInfo {
        store,
        name: cut(&bucket.name, WORDS_MAX_BYTES),
        keys: bucket.keys,
        bytes: bucket.bytes,
        reads_total: bucket.reads_total,
        writes_total: bucket.writes_total,
    };
    Stores {
        stores: places().map(|(_, report)| store(report)).collect(),
        total,
        offset,
        buckets: buckets.skip(offset as usize).take(window.len as usize).map(bucket).collect(),
        ..Stores::default()
    }
}

/// Encodes the tables and registries in memory. Returns the first of them, and the number of all.
pub(crate) fn tables(tables: &[TableReport], registries: &[RegistryReport]) -> (Vec<TableInfo>, u64) {
    let text = |text: &str| cut(text, WORDS_MAX_BYTES);
    let table = |table: &TableReport| TableInfo {
        name: text(&table.name),
        kind: "table".to_owned(),
        key_type: text(table.key_type),
        value_type: text(table.value_type),
        owner: table.owner.map(|pid| pid.to_string()),
        entries: table.entries,
        bytes: table.entries * table.entry_bytes,
        reads_total: table.reads_total,
        writes_total: table.writes_total,
    };
    let registry = |registry: &RegistryReport| TableInfo {
        name: text(&registry.name),
        kind: if registry.is_unique { "unique registry" } else { "registry" }.to_owned(),
        key_type: text(registry.key_type),
        value_type: text(registry.message_type),
        owner: None,
        entries: registry.keys,
        bytes: 0,
        reads_total: registry.lookups_total,
        writes_total: registry.changes_total,
    };
    let shown = tables.iter().map(table).chain(registries.iter().map(registry)).take(TABLES_SHOWN);
    (shown.collect(), (tables.len() + registries.len()) as u64)
}

fn store(report: &StorageReport) -> StoreInfo {
    StoreInfo {
        path: cut(&report.path, WORDS_MAX_BYTES),
        durability: report.durability.to_owned(),
        file_bytes: report.file_bytes,
        queued: report.queued,
        queue_capacity: report.queue_capacity,
        waiting: report.waiting,
        operations_total: report.operations_total,
        commits_total: report.commits_total,
        durable_commits_total: report.durable_commits_total,
        syncs_total: report.syncs_total,
        sync_us_total: report.sync_time.as_micros() as u64,
        reads_total: report.reads_total,
        slow_reads_total: report.slow_reads_total,
        expired_total: report.expired_total,
        failures_total: report.failures_total,
        undone_total: report.undone_total,
        last_error: report.last_error.as_deref().map(|error| cut(error, WORDS_MAX_BYTES)),
        is_open: report.is_open,
    }
}

/// Encodes a page of keys, or the reason why it cannot be shown.
pub(crate) fn keys(view: &KeysView, page: Result<KeysPage, String>) -> KeysInfo {
    let (store, bucket) = (view.store, cut(&view.bucket, WORDS_MAX_BYTES));
    match page {
        Ok(page) => {
            let (keys, next) = (page.keys.iter().map(key).collect(), page.next.map(|next| to_hex(&next)));
            KeysInfo { store, bucket, keys, next, refusal: None }
        }
        Err(refusal) => {
            KeysInfo { store, bucket, refusal: Some(cut(&refusal, WORDS_MAX_BYTES)), ..KeysInfo::default() }
        }
    }
}

fn key(report: &KeyReport) -> KeyInfo {
    KeyInfo {
        key: preview(&report.key, report.key_bytes),
        key_bytes: report.key_bytes,
        value: preview(&report.value, report.value_bytes),
        value_bytes: report.value_bytes,
        expires_in_ms: report.expires_in.map(|left| left.as_millis() as u64),
    }
}

/// Shows the first bytes of a value of `whole` bytes: as text if they are UTF-8 without control characters, otherwise
/// in hexadecimal.
fn preview(bytes: &[u8], whole: u64) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // A text stays a text if its last character was cut in two.
        Err(error) if error.error_len().is_none() && (bytes.len() as u64) < whole => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    match text.filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => text.to_owned(),
        None => format!("0x{}", to_hex(bytes)),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the bytes of a text of hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_text_if_it_is_text() {
        assert_eq!(preview("grüße".as_bytes(), 7), "grüße");
        assert_eq!(preview(&"grüße".as_bytes()[..3], 7), "gr", "a character that was cut off");
        assert_eq!(preview(b"\x1b[2J", 4), "0x1b5b324a");
        assert_eq!(preview(&[0xff, 0], 2), "0xff00");
    }

    #[test]
    fn a_key_goes_to_hexadecimal_and_back() {
        assert_eq!(from_hex(&to_hex(b"\x00key\xff")), Some(b"\x00key\xff".to_vec()));
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
    }
}
