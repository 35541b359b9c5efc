//! Memory: what ends leaves nothing, and how many allocations operations take.
//!
//! A separate program that runs its tests one after another: the allocator counts for all tests of a program.

#[path = "../common/eventually.rs"]
mod eventually;
#[path = "../common/heap.rs"]
mod heap;
mod leaks;
mod timers;
mod topic_allocations;
mod topic_leaks;
