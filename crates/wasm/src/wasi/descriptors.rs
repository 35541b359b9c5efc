//! Descriptors of files and sockets of guests.

use rusm_runtime::embed;

/// Part of the descriptors that guests leave to the node, for connections and observers: a quarter.
const RESERVED_PARTS: u64 = 4;

/// Returns true if a guest may open one more descriptor.
pub(crate) fn has_room() -> bool {
    embed::descriptors::has_room(RESERVED_PARTS)
}
