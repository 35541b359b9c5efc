//! Processes that keep a scheduler busy, and the CPU time that observers see.
//!
//! A program of its own: the tests compare processor times, so that other tests would disturb them.

#[path = "../common/eventually.rs"]
mod eventually;
mod long_polls;
mod stuck;
mod truth;
