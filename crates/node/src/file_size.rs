//! The limit on the sizes of files (`ulimit -f`): a write beyond it is an error and not the end of the program.

#![expect(unsafe_code, reason = "only an unsafe function sets the disposition of a signal")]

/// Ignores SIGXFSZ, so that a write beyond the limit fails with EFBIG, which a store treats like a full disk.
///
/// Programs that this one starts inherit that.
pub(crate) fn ignore_signal() {
    // SAFETY: no handler is installed, and no other thread runs yet that could change the disposition.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        // The system knows the signal, so this does not happen; the store checks the limit by itself.
        tracing::debug!("cannot ignore SIGXFSZ");
    }
}
