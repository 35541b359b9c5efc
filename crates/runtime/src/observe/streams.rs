//! Rings that a runtime shows.

use crate::runtime::handle::Handle;
use crate::stream::ring::RingView;

/// Returns the rings that this runtime's observers see, each with at most `readers_limit` readers, the slowest first.
///
/// A rate is the difference between the totals of two calls.
pub fn streams(runtime: &Handle, readers_limit: usize) -> Vec<RingView> {
    runtime.shared.streams.views(readers_limit)
}
