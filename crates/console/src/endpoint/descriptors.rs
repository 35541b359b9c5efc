//! Fits the number of observers to the limit on open files (`ulimit -n`).
//!
//! ```text
//!   limit ─ open now ─ reserved ──▶ room ──▶ handshakes: a quarter at most, at least one for each listener
//!                                       └──▶ clients: the rest; zero is an error
//! ```
//!
//! Without this, a node would report that it is up, but refuse each observer with an error that appears only in its
//! log.

use std::io;

use rustix::process::{Resource, getrlimit};

use crate::config::Limits;
use crate::endpoint::error::ConsoleError;

/// Descriptors reserved for files that a node opens briefly: connections accepted before an older one is closed, and
/// files in `/proc` for samples.
const RESERVE: u64 = 4;

/// Reduces the limits on clients and handshakes to fit the limit on open files, of which the program will open `reserved`
/// itself. Logs a warning if it does.
///
/// # Errors
/// [`ConsoleError::NoDescriptors`] if no observer could attach.
pub(crate) fn fit(limits: Limits, listeners: u32, reserved: u32) -> Result<Limits, ConsoleError> {
    let Some(max) = getrlimit(Resource::Nofile).current else { return Ok(limits) };
    let open = match open_now() {
        Ok(open) => open,
        // The limit is reached: even the directory cannot be opened.
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => max,
        // The system does not report open files.
        Err(_) => return Ok(limits),
    };
    let used = open + RESERVE + u64::from(reserved);
    let fitted = share(max.saturating_sub(used), limits, listeners);
    let enough = used + wanted(&limits, listeners);
    let Some(fitted) = fitted else {
        let least = used + u64::from(listeners) + 1;
        return Err(ConsoleError::NoDescriptors { max, least, enough, clients: limits.clients });
    };
    if fitted.clients < limits.clients {
        tracing::warn!(
            "{} of {} observers can attach, because the limit is {max} open files: raise it to {enough} with ulimit -n",
            fitted.clients,
            limits.clients
        );
    }
    Ok(fitted)
}

/// Returns the number of open files of this program.
fn open_now() -> io::Result<u64> {
    let count = std::fs::read_dir("/dev/fd")?.count() as u64;
    // Do not count the descriptor of the directory itself.
    Ok(count.saturating_sub(1))
}

fn wanted(limits: &Limits, listeners: u32) -> u64 {
    u64::from(limits.clients) + u64::from(limits.handshakes) * u64::from(listeners)
}

/// Shares the room between handshakes and clients; returns `None` if no client fits.
fn share(room: u64, limits: Limits, listeners: u32) -> Option<Limits> {
    if room >= wanted(&limits, listeners) {
        return Some(limits);
    }
    let few = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let handshakes = few(room / 4 / u64::from(listeners)).min(limits.handshakes).max(1);
    let left = room.checked_sub(u64::from(handshakes) * u64::from(listeners))?;
    let clients = few(left).min(limits.clients);
    (clients > 0).then_some(Limits { clients, handshakes, ..limits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(room: u64, listeners: u32) -> Option<(u32, u32)> {
        share(room, Limits::default(), listeners).map(|limits| (limits.clients, limits.handshakes))
    }

    #[test]
    fn room_for_all_changes_nothing_and_less_goes_to_observers_first() {
        assert_eq!(shared(1000, 2), Some((32, 64)));
        assert_eq!(shared(32 + 64, 1), Some((32, 64)));
        assert_eq!(shared(32 + 63, 1), Some((32, 23)));
        assert_eq!(shared(20, 1), Some((15, 5)));
        assert_eq!(shared(20, 2), Some((16, 2)));
        assert_eq!((shared(3, 2), shared(2, 1)), (Some((1, 1)), Some((1, 1))));
        assert_eq!((shared(2, 2), shared(1, 1), shared(0, 1)), (None, None, None));
    }

    #[test]
    fn what_is_shared_never_exceeds_the_room() {
        for listeners in [1, 2] {
            for room in 0..200 {
                if let Some(limits) = share(room, Limits::default(), listeners) {
                    assert!(wanted(&limits, listeners) <= room, "{room}");
                }
            }
        }
    }

    #[test]
    fn the_files_that_are_open_are_counted() {
        let before = open_now().unwrap();
        let some: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null")).collect();

        // Concurrent tests open files as well.
        assert!(open_now().unwrap() >= before.saturating_sub(50) + 100);
        drop(some);
    }
}
