//! Descriptors of files and sockets: guests leave a part of them to the node, for connections and observers.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// Part of the descriptors that guests leave to the node: a quarter.
const RESERVED_PART: u64 = 4;

/// Returns true if a guest may open one more descriptor. The system gives out the lowest free number, so a high one says
/// that nearly all are taken.
pub(crate) fn has_room() -> bool {
    let all = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = all - all / RESERVED_PART;
    let next = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0);
    next.is_ok_and(|next| next.as_raw_fd().cast_unsigned() < u32::try_from(limit).unwrap_or(u32::MAX))
}
