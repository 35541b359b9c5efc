//! A durable key-value store, shared by processes, threads and guests.
//!
//! ```text
//!   put, transaction … ──▶ queue ──▶ writer thread: one commit and one sync for all queued writes ──▶ redb ──▶ file
//!   get, scan ──────────────────────────────────────────────────────────────────────────────────────▶ redb
//! ```
//!
//! ```
//! # mod rusm { pub use rusm_store as store; }
//! use rusm::store::{Store, StoreConfig};
//!
//! # let directory = tempfile::tempdir()?;
//! let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
//! let accounts = store.bucket("accounts")?;
//! accounts.put("ada", "10").wait()?;
//!
//! let from = accounts.clone();
//! let moved = store.transaction(move |tx| {
//!     tx.put(&from, "ada", "7")?;
//!     tx.put(&from, "bob", "3")
//! });
//! moved.wait()?;
//! assert_eq!(accounts.get("bob").wait()?.as_deref(), Some(&b"3"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Processes `.await` operations, threads [`wait`](Write::wait) for them. A write is acknowledged when its
//! [`Durability`] is reached; all waiting writes share one sync of the disk. Keys that [expire](Bucket::put_for) become
//! invisible at once and are removed later, a few at a time. After a disk failure, for example a full disk, the store
//! reopens its file by itself, without losing any write that was acknowledged as durable.
//!
//! If the file reaches the program's limit on file sizes (`ulimit -f`), this counts as a full disk. The store checks
//! that limit before it writes, so the program does not receive SIGXFSZ and need not ignore it.
//!
//! Invariant: a reader sees every commit as a whole or not at all.

mod buckets;
mod claim;
mod clock;
mod config;
mod core;
mod counters;
mod error;
mod file;
pub mod inspection;
pub mod jobs;
mod read;
mod store;
mod topic;
mod transaction;
mod writer;

pub use clock::Clock;
pub use config::{Durability, StoreConfig, defaults};
pub use counters::DurableCounters;
pub use error::{Damage, OpenError, StoreError};
#[doc(hidden)]
pub use file::database::{Panicked, SafeDatabase};
pub use file::pages::KeyRange;
pub use inspection::escaped;
pub use read::{Page, Read, Row};
pub use redb::{BackendError, StorageBackend};
pub use rusm_runtime::observe::{BucketReport, StorageReport};
pub use store::{Bucket, Store};
pub use topic::DurableError;
pub use transaction::Transaction;
pub use writer::write::Write;
