//! A bucket that a guest of `wasi:keyvalue` has opened.

use bytes::Bytes;
use rusm_store::Bucket;

/// The resource `bucket`.
#[expect(unreachable_pub, reason = "the generated code exports it again")]
#[derive(Debug)]
pub struct OpenBucket {
    pub(super) bucket: Bucket,
    /// Cursor of the last page of keys, and the key after which the next one begins.
    pub(super) next: Option<(u64, Bytes)>,
}
