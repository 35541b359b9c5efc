//! Tests of the behaviours: typed actors, names, registries, pools, tables, pipelines.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod actors;
#[path = "../common/ask.rs"]
mod ask;
mod names;
mod pools;
mod registries;
mod tables;
