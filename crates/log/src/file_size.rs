//! The limit on file sizes (`ulimit -f`): a write beyond it must be an error, and must not end the program.

#![expect(unsafe_code, reason = "only an unsafe function sets the disposition of a signal")]

/// Ignores SIGXFSZ, so that a write beyond the limit on file sizes (`ulimit -f`) fails with EFBIG, like one to a full
/// disk. Call this first in `main`, before the program starts any thread.
///
/// Programs that this program starts inherit this disposition.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, and no other thread that could change the disposition is running yet.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        // The system knows the signal, so this cannot happen. Even then the store checks the limit itself.
        tracing::debug!("cannot ignore SIGXFSZ");
    }
}
