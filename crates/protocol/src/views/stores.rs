//! Durable stores on the wire: their state, their buckets, and one page of the keys of a bucket.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoresView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of buckets, of all stores together, sorted by name.
    #[serde(default)]
    pub window: ViewWindow,
    /// Page of keys to show. Keys and values need the control role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysView>,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_stores_hz")]
    pub hz: f64,
}

const fn default_stores_hz() -> f64 {
    2.0
}

impl Default for StoresView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), keys: None, hz: default_stores_hz() }
    }
}

/// A selection of keys in one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysView {
    /// Index of the store among the node's stores.
    pub store: u32,
    /// Name of the bucket.
    pub bucket: String,
    /// Key after which the page begins, in hexadecimal; empty for the first page.
    pub after: String,
    /// Maximum number of keys, 1–100.
    pub len: u32,
}

/// State of the stores, a window of their buckets, and a page of keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stores {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Stores of this node, up to four, in the order in which they were attached.
    pub stores: Vec<StoreInfo>,
    /// Number of buckets in all stores.
    pub total: u64,
    /// Number of buckets before the first one of this window.
    pub offset: u64,
    /// Buckets of the window.
    pub buckets: Vec<BucketInfo>,
    /// Page of keys that the view selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Box<KeysInfo>>,
    /// Tables and registries in memory, up to 32, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableInfo>,
    /// Number of tables and registries.
    #[serde(skip_serializing_if = "is_zero")]
    pub tables_total: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// State of a table or a registry in memory; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// `table`, `unique registry` or `registry`.
    pub kind: String,
    /// Rust type of its keys.
    pub key_type: String,
    /// Rust type of its values; of a registry, of the messages of its processes.
    pub value_type: String,
    /// Pid of the process to which it belongs; absent for a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Number of entries; of a registry, of keys.
    pub entries: u64,
    /// Size of the entries, in bytes, without what they keep alive on the heap; 0 for a registry.
    pub bytes: u64,
    /// Number of reads; of a registry, of lookups.
    pub reads_total: u64,
    /// Number of writes; of a registry, of registrations and their removals.
    pub writes_total: u64,
}

/// State of a store; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreInfo {
    /// Path of the file.
    pub path: String,
    /// Default durability of an acknowledged write: `immediate`, `eventual` or `none`.
    pub durability: String,
    /// Size of its file, in bytes.
    pub file_bytes: u64,
    /// Number of operations in its queue.
    pub queued: u64,
    /// Number of operations that the queue can hold.
    pub queue_capacity: u64,
    /// Number of operations that wait for an acknowledgement.
    pub waiting: u64,
    /// Number of acknowledged writes; a transaction counts once.
    pub operations_total: u64,
    /// Number of commits.
    pub commits_total: u64,
    /// Number of commits that were durable before they were acknowledged.
    pub durable_commits_total: u64,
    /// Number of syncs of the disk.
    pub syncs_total: u64,
    /// Time spent in these syncs, in microseconds.
    pub sync_us_total: u64,
    /// Number of keys looked up and pages scanned.
    pub reads_total: u64,
    /// Number of disk reads that took longer than a scheduler should wait.
    pub slow_reads_total: u64,
    /// Number of keys removed because they had expired.
    pub expired_total: u64,
    /// Number of failed commits.
    pub failures_total: u64,
    /// Number of acknowledged operations of weaker durability that a failure has undone.
    pub undone_total: u64,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// True if the store can be used now.
    pub is_open: bool,
}

/// State of a bucket; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BucketInfo {
    /// Index of its store among the node's stores.
    pub store: u32,
    /// Name of the bucket.
    pub name: String,
    /// Number of keys, including expired ones that are not removed yet.
    pub keys: u64,
    /// Size of keys and values, in bytes.
    pub bytes: u64,
    /// Number of keys looked up and pages scanned.
    pub reads_total: u64,
    /// Number of keys written or deleted.
    pub writes_total: u64,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysInfo {
    /// Index of the store among the node's stores.
    pub store: u32,
    /// Name of the bucket.
    pub bucket: String,
    /// Keys of the page, in their order.
    pub keys: Vec<KeyInfo>,
    /// Key after which the next page begins, in hexadecimal; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Reason why the keys of the page are missing; absent if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A key and its value, both cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyInfo {
    /// First 64 bytes of the key, as text, or as `0x` and hexadecimal.
    pub key: String,
    /// Size of the key, in bytes.
    pub key_bytes: u64,
    /// First 64 bytes of the value, in the same form.
    pub value: String,
    /// Size of the value, in bytes.
    pub value_bytes: u64,
    /// Time until the key expires, in milliseconds; absent if it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}
