//! A ring with one writer and many readers: a stream of items, shared without a copy for each reader.
//!
//! ```text
//!                       ┌──────────── capacity ────────────┐
//!   Writer ── write ──▶ │ items, one copy for all readers  │ ──▶ Reader, at its own pace     Subscriber::join adds one
//!      ▲                └──────────────────────────────────┘ ──▶ Reader                      dropping it removes it
//!      └── full: waits for the slowest (lossless) · waits, then evicts it · moves it forward (lossy) ──┘
//! ```
//!
//! ```
//! # use rusm_runtime as rusm;
//! use rusm::{Config, Runtime, ring};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let (mut writer, subscriber) = ring::Builder::new(1024).build::<f32>()?;
//! let sums: Vec<_> = (0..3)
//!     .map(|_| {
//!         let mut reader = subscriber.join().expect("there is a free reader slot");
//!         let (sender, receiver) = std::sync::mpsc::channel();
//!         let read = runtime.spawn(|_| async move {
//!             let (mut samples, mut sum) = ([0.0; 64], 0.0);
//!             while let Ok(count) = reader.read(&mut samples).await {
//!                 sum += samples[..count].iter().sum::<f32>();
//!             }
//!             sender.send(sum)
//!         });
//!         read.map(|_| receiver)
//!     })
//!     .collect::<Result<_, _>>()?;
//! runtime.spawn(|_| async move {
//!     for _ in 0..100 {
//!         writer.write(&[0.5; 100]).await;
//!     }
//!     writer.close();
//! })?;
//! for sum in sums {
//!     assert_eq!(sum.recv()?, 5_000.0);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The ring is fast because there is almost no work per item. A reader publishes its position every eighth of the ring.
//! The writer wakes readers every quarter of the ring, and a writer that waits for room is woken when half of the ring
//! is free. A batch that is not full is published at the end of the process's turn, when a side waits for the other,
//! and when the ring is closed. Code outside of processes has no turns, so every write and every read is published at
//! once, unless [`Flush::Lazy`] states that [`Writer::flush`] will be called.
//!
//! The modules `park` and `turn` also serve topics, and the scheduler runs the work that `turn` collects.
//!
//! Items are either [`Copy`] samples, moved in runs or read and written in place, or values that can be cloned, one at
//! a time. A value stays in its slot, even after all readers have read it, until another value is written there.
//!
//! Invariants: a reader sees every item after it has joined, in order and once, or receives the number of missed items.
//! Each side sees the end of the other. The writer never waits for a reader that has ended, no matter how it ended.

mod builder;
mod cursors;
mod grant;
pub(crate) mod park;
mod policy;
mod read_cursor;
mod reader;
mod reader_slots;
pub(crate) mod registry;
pub(crate) mod shared;
mod slots;
pub(crate) mod turn;
mod view;
mod write_cursor;
mod writer;

pub use builder::{Builder, READERS_DEFAULT, READERS_MAX, RingError};
pub use grant::Grant;
pub use policy::{Flush, Padding, Policy};
pub use reader::{JoinError, Peek, ReadError, Reader, ReaderStats, Subscriber};
pub use registry::{ReaderView, RingView};
pub use writer::{ChunkError, Writer, WriterStats};
