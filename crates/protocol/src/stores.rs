//! Durable stores on the wire: how they do, their buckets, and a page of the keys of one.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// What a client sees of the node's stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoresView {
    /// Echoed in the answers, so that a client can drop those to a view that it has left.
    pub id: u32,
    /// Which buckets, of all stores together, in the order of their names.
    #[serde(default)]
    pub window: ViewWindow,
    /// The bucket that is looked into. Keys and values need the control role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysView>,
    /// Refreshes a second, 1–10.
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

/// Which keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysView {
    /// The place of the store among the node's.
    pub store: u32,
    /// The bucket.
    pub bucket: String,
    /// Those after this key, in hexadecimal; empty for the first.
    pub after: String,
    /// At most so many, 1–100.
    pub len: u32,
}

/// How the stores do, a window of their buckets, and a page of keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stores {
    /// The view that this answers.
    pub id: u32,
    /// Counts this client's windows.
    pub seq: u64,
    /// The node's uptime when it looked, in milliseconds.
    pub at_ms: u64,
    /// CPU time of looking, in microseconds.
    pub cost_us: f64,
    /// The stores of this node, up to four, in the order in which they were attached.
    pub stores: Vec<StoreInfo>,
    /// Buckets of all stores.
    pub total: u64,
    /// Buckets before the first one here.
    pub offset: u64,
    /// The window of buckets.
    pub buckets: Vec<BucketInfo>,
    /// The keys that the view looks into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Box<KeysInfo>>,
}

/// One store; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreInfo {
    /// Where it is.
    pub path: String,
    /// What an acknowledgement means by default: `immediate`, `eventual` or `none`.
    pub durability: String,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Operations in its queue.
    pub queued: u64,
    /// Operations that the queue holds.
    pub queue_capacity: u64,
    /// Writers that wait for an acknowledgement.
    pub waiting: u64,
    /// Writes acknowledged; a transaction counts once.
    pub operations_total: u64,
    /// Commits.
    pub commits_total: u64,
    /// Commits that were durable before they were acknowledged.
    pub durable_commits_total: u64,
    /// Syncs of the disk.
    pub syncs_total: u64,
    /// Time spent on them, in microseconds.
    pub sync_us_total: u64,
    /// Keys looked up and pages scanned.
    pub reads_total: u64,
    /// Reads of the disk that took longer than a scheduler should wait.
    pub slow_reads_total: u64,
    /// Keys removed because their time was over.
    pub expired_total: u64,
    /// Commits that failed.
    pub failures_total: u64,
    /// Acknowledged operations of weaker durability that a failure undid.
    pub undone_total: u64,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whether it can be used now.
    pub is_open: bool,
}

/// One bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BucketInfo {
    /// The place of its store among the node's.
    pub store: u32,
    /// Its name.
    pub name: String,
    /// Keys, those among them that have expired and are not swept yet.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys looked up and pages scanned.
    pub reads_total: u64,
    /// Keys written or deleted.
    pub writes_total: u64,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysInfo {
    /// The place of the store among the node's.
    pub store: u32,
    /// The bucket.
    pub bucket: String,
    /// The keys, in their order.
    pub keys: Vec<KeyInfo>,
    /// What comes after this page begins after this key, in hexadecimal; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// One key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyInfo {
    /// Its first 64 bytes, as text or as `0x` and hexadecimal.
    pub key: String,
    /// How many bytes it has.
    pub key_bytes: u64,
    /// The first 64 bytes of its value, likewise.
    pub value: String,
    /// How many bytes the value has.
    pub value_bytes: u64,
    /// How long until it expires, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}
