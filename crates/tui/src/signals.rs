//! The signals that would leave the terminal in pieces, caught; and how to stop as a job without the risk of never going on.
//!
//! ```text
//!   TERM, HUP, INT, QUIT ──▶ the end, with 128 + the signal's number
//!   TSTP ──▶ the terminal goes back, then STOP ──▶ CONT ──▶ the terminal is ours again
//! ```

use std::io;

use nix::unistd::{getpgrp, getppid, getsid};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Leave, as this signal would have had it.
    End(Signal),
    /// Stop until somebody says to go on.
    Stop,
    /// Somebody said to go on; the terminal may have changed meanwhile.
    Continue,
}

/// The signals while they are ours.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Stream,
    hang_up: Stream,
    interrupt: Stream,
    quit: Stream,
    stop: Stream,
    go_on: Stream,
}

impl Signals {
    /// Takes them.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn take() -> io::Result<Self> {
        let take = |taken: Signal| signal(SignalKind::from_raw(taken.as_raw()));
        Ok(Self {
            terminate: take(Signal::TERM)?,
            hang_up: take(Signal::HUP)?,
            interrupt: take(Signal::INT)?,
            quit: take(Signal::QUIT)?,
            stop: take(Signal::TSTP)?,
            go_on: take(Signal::CONT)?,
        })
    }

    /// Waits for the next.
    pub(crate) async fn next(&mut self) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => Heard::End(Signal::TERM),
            _ = self.hang_up.recv() => Heard::End(Signal::HUP),
            _ = self.interrupt.recv() => Heard::End(Signal::INT),
            _ = self.quit.recv() => Heard::End(Signal::QUIT),
            _ = self.stop.recv() => Heard::Stop,
            _ = self.go_on.recv() => Heard::Continue,
        }
    }
}

/// Stops this process, or with it the others of its job, and returns once it goes on.
///
/// `TSTP` is caught, so it is `STOP` that stops. The kernel ignores a `TSTP` where no shell is there to continue the job,
/// as under `ssh -t host rusm-top`; so does this.
///
/// # Errors
/// What the system says.
pub(crate) fn stop(whole_job: bool) -> io::Result<()> {
    if !has_a_shell()? {
        return Ok(());
    }
    let sent = if whole_job { kill_current_process_group(Signal::STOP) } else { kill_process(getpid(), Signal::STOP) };
    Ok(sent?)
}

/// Whether somebody in this session could continue us: a shell that put the job into a group of its own.
///
/// In a pid namespace, as of a container, a session or a parent from outside has the number 0.
fn has_a_shell() -> io::Result<bool> {
    let session = getsid(None)?;
    let parent = getppid();
    let parent_session = if parent.as_raw() == 0 { parent } else { getsid(Some(parent))? };
    Ok(getpgrp() != session && parent_session == session)
}
