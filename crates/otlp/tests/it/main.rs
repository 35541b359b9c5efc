//! The exporter against a small collector, which decodes what arrives.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod collector;
mod failures;
mod signals;
mod tls;
