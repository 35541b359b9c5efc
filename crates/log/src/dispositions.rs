//! Dispositions and blocks of signals that a program inherits, or that its users do not expect. Set them first in
//! `main`, before the program starts any thread.

#![expect(unsafe_code, reason = "only unsafe functions set dispositions and the mask of signals")]

/// Ignores SIGXFSZ, so that a write beyond the limit on file sizes (`ulimit -f`) fails with EFBIG, like one to a full
/// disk.
///
/// Programs that this program starts inherit this disposition.
pub fn ignore_file_size_signal() {
    set(libc::SIGXFSZ, libc::SIG_IGN);
}

/// Ignores SIGUSR1, and SIGHUP if `hangup`, until the program listens to them.
pub fn ignore_service_signals(hangup: bool) {
    set(libc::SIGUSR1, libc::SIG_IGN);
    if hangup {
        set(libc::SIGHUP, libc::SIG_IGN);
    }
}

/// Gives SIGCHLD its default disposition. While it is ignored, the system forgets how children have ended.
pub fn restore_child_signal() {
    set(libc::SIGCHLD, libc::SIG_DFL);
}

/// Lets this thread and those that it starts receive all signals: a program inherits the mask of its parent.
pub fn unblock_signals() {
    // SAFETY: the set is initialised before it is used, and is a local value.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn set(signal: libc::c_int, disposition: libc::sighandler_t) {
    // SAFETY: no handler is installed, and no other thread that could change the disposition is running yet.
    if unsafe { libc::signal(signal, disposition) } == libc::SIG_ERR {
        // The system knows the signals, so this cannot happen. Even then a store checks the limit itself.
        tracing::debug!(signal, "cannot set the disposition of a signal");
    }
}
