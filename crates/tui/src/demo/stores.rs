//! Simulated stores, for the Store view of `--demo`: a few buckets with changing figures, and keys for any of them.

use rusm_protocol::{BucketInfo, KeyInfo, KeysInfo, KeysView, StoreInfo, Stores, StoresView, TableInfo};

/// Buckets: number of keys, bytes per key, reads and writes per second.
const BUCKETS: [(&str, u64, u64, u64, u64); 7] = [
    ("accounts", 128_400, 312, 4_100, 210),
    ("audit/2026-11", 2_410_000, 96, 0, 1_900),
    ("carts", 41_200, 1_140, 9_800, 6_200),
    ("feature-flags", 61, 40, 22_000, 0),
    ("sessions", 612_000, 220, 31_000, 8_400),
    ("thumbnails", 9_120, 48_000, 640, 12),
    ("webhooks", 1_880, 900, 12, 12),
];

/// Answers a view. The totals depend only on `now_ms` and never decrease, so that rates can be computed from them.
pub(crate) fn stores(view: &StoresView, seq: u64, now_ms: u64) -> Stores {
    let grown = |rate: u64| rate * now_ms / 1_000;
    let buckets: Vec<BucketInfo> = BUCKETS
        .iter()
        .map(|(name, keys, bytes, reads, writes)| BucketInfo {
            store: 0,
            name: (*name).to_owned(),
            keys: keys + grown(writes / 10),
            bytes: (keys + grown(writes / 10)) * bytes,
            reads_total: grown(*reads),
            writes_total: grown(*writes),
        })
        .collect();
    let (offset, total) = (view.window.offset.min(buckets.len() as u64), buckets.len() as u64);
    Stores {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 14.0,
        stores: vec![store(&buckets, now_ms)],
        total,
        offset,
        keys: view.keys.as_ref().map(|keys| Box::new(page(keys))),
        tables: tables(now_ms),
        tables_total: 2,
        buckets: buckets.into_iter().skip(offset as usize).take(view.window.len as usize).collect(),
    }
}

fn tables(now_ms: u64) -> Vec<TableInfo> {
    let table = |name: &str, kind: &str, value: &str, owner: Option<&str>| TableInfo {
        name: name.to_owned(),
        kind: kind.to_owned(),
        key_type: "alloc::string::String".to_owned(),
        value_type: value.to_owned(),
        owner: owner.map(str::to_owned),
        ..TableInfo::default()
    };
    vec![
        TableInfo {
            entries: 48_210,
            bytes: 48_210 * 40,
            reads_total: 210 * now_ms,
            writes_total: 12 * now_ms,
            ..table("hits", "table", "i64", Some("<0.9.1>"))
        },
        TableInfo {
            entries: 612,
            reads_total: 9 * now_ms,
            writes_total: now_ms / 90,
            ..table("rooms", "unique registry", "chat::RoomMessage", None)
        },
    ]
}

fn store(buckets: &[BucketInfo], now_ms: u64) -> StoreInfo {
    let sum = |of: fn(&BucketInfo) -> u64| buckets.iter().map(of).sum::<u64>();
    let operations_total = sum(|bucket| bucket.writes_total);
    let syncs_total = operations_total / 61;
    StoreInfo {
        path: "/var/lib/rusm/node.redb".to_owned(),
        durability: "immediate".to_owned(),
        file_bytes: sum(|bucket| bucket.bytes) * 5 / 4,
        queued: 18 + now_ms / 500 % 31,
        queue_capacity: 8_192,
        waiting: 64,
        operations_total,
        commits_total: syncs_total,
        durable_commits_total: syncs_total,
        syncs_total,
        sync_us_total: syncs_total * 1_840,
        reads_total: sum(|bucket| bucket.reads_total),
        slow_reads_total: now_ms / 9_000,
        expired_total: now_ms / 7,
        failures_total: 1,
        undone_total: 0,
        last_error: Some("the disk of the store is full".to_owned()),
        is_open: true,
    }
}

/// Number of keys of a page of the demo.
const KEYS_OF_A_PAGE: u64 = 16;

fn page(view: &KeysView) -> KeysInfo {
    // Each page adds two characters to the key after which the next begins.
    let first = view.after.len() as u64 / 2 * KEYS_OF_A_PAGE;
    let key = |n: u64| KeyInfo {
        key: format!("{}/{:06}", view.bucket, first + n),
        key_bytes: view.bucket.len() as u64 + 7,
        value: if n.is_multiple_of(3) {
            format!("0x{:016x}", (first + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        } else {
            format!("{{\"user\":{},\"cart\":[{n},{}]}}", 4_096 + n * 977, n * 3)
        },
        value_bytes: if n.is_multiple_of(3) { 8 } else { 220 + n },
        expires_in_ms: n.is_multiple_of(2).then_some(60_000 + n * 1_000),
    };
    KeysInfo {
        store: view.store,
        bucket: view.bucket.clone(),
        keys: (0..u64::from(view.len).min(KEYS_OF_A_PAGE)).map(key).collect(),
        next: (first < 4 * KEYS_OF_A_PAGE).then(|| format!("{}6b", view.after)),
        refusal: None,
    }
}
