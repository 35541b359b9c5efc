//! Tests of the store, and of the topics and counters on it: on disks that fail, and across crashes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod counters;
mod crash;
#[path = "../../../runtime/tests/common/crew.rs"]
mod crew;
mod disk;
mod durable_topic_crash;
mod durable_topic_faults;
mod durable_topics;
#[path = "../../../runtime/tests/common/eventually.rs"]
mod eventually;
mod expiry;
mod faults;
mod journal;
mod model;
mod names;
mod operations;
