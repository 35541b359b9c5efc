//! File descriptors: guests and clients leave a part of them to the node, for observers and files.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// Returns the number of descriptors that may be taken if one part of `parts` is reserved.
///
/// The limit can change while the program runs, so it is read each time.
pub fn unreserved(parts: u64) -> u32 {
    let all = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    u32::try_from(all - all / parts.max(1)).unwrap_or(u32::MAX)
}

/// Returns true if one more descriptor may be taken while one part of `parts` is reserved. The system gives out the lowest
/// free number, so a high one says that nearly all are taken.
pub fn has_room(parts: u64) -> bool {
    let next = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0);
    next.is_ok_and(|next| next.as_raw_fd().cast_unsigned() < unreserved(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_reserved() {
        let all = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);

        assert_eq!(u64::from(unreserved(u64::MAX)), all.min(u32::MAX.into()));
        assert!(unreserved(2) < unreserved(4) || all > u64::from(u32::MAX));
        assert!(has_room(2) && !has_room(1));
    }
}
