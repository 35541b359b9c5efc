//! Handles signals that would leave the terminal in a broken state, and stops the job only if it can be continued.
//!
//! ```text
//!   TERM, HUP, INT, QUIT, USR1, USR2 ──▶ exit with 128 + the signal's number
//!   TSTP ──▶ restore the terminal, then STOP ──▶ CONT ──▶ take the terminal again
//!   WINCH ──▶ draw in the new size
//! ```

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use nix::unistd::{getpgrp, getppid, getsid};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Action requested by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// Exit with this signal's exit code.
    End(Signal),
    /// Stop until continued.
    Stop,
    /// Continued after a stop; the terminal may have changed meanwhile.
    Continue,
    /// The terminal has another size.
    Resize,
}

/// Signals that end the program.
const ENDS: [Signal; 6] = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Streams of the signals that this program handles.
#[derive(Debug)]
pub(crate) struct Signals {
    ends: Vec<(Signal, Stream)>,
    stop: Stream,
    go_on: Stream,
    resize: Stream,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the system rejects a handler.
    pub(crate) fn take() -> io::Result<Self> {
        let take = |taken: Signal| signal(SignalKind::from_raw(taken.as_raw()));
        let ends = ENDS.into_iter().map(|taken| Ok((taken, take(taken)?)));
        Ok(Self {
            ends: ends.collect::<io::Result<_>>()?,
            stop: take(Signal::TSTP)?,
            go_on: take(Signal::CONT)?,
            resize: take(Signal::WINCH)?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalEvent {
        let ends = &mut self.ends;
        let end = poll_fn(|context| {
            let taken =
                ends.iter_mut().find_map(|(taken, stream)| stream.poll_recv(context).is_ready().then_some(*taken));
            taken.map_or(Poll::Pending, Poll::Ready)
        });
        tokio::select! {
            taken = end => SignalEvent::End(taken),
            _ = self.stop.recv() => SignalEvent::Stop,
            _ = self.go_on.recv() => SignalEvent::Continue,
            _ = self.resize.recv() => SignalEvent::Resize,
        }
    }
}

/// Time after which a signal ends the program although its thread is blocked.
const BLOCKED: Duration = Duration::from_secs(1);

/// Lets a signal end the program also while its thread is blocked: a reader of its output may have stopped.
///
/// # Errors
/// If the system refuses a thread.
pub(crate) fn end_if_blocked() -> io::Result<()> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = move || {
        reactor.block_on(async {
            let Ok(mut signals) = Signals::take() else { return };
            loop {
                if let SignalEvent::End(signal) = signals.next().await {
                    tokio::time::sleep(BLOCKED).await;
                    std::process::exit(128 + signal.as_raw());
                }
            }
        });
    };
    std::thread::Builder::new().name("rusm-top-signals".to_owned()).spawn(body).map(drop)
}

impl Signals {
    /// Waits for a signal that ends the program, while it waits for something else.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                SignalEvent::End(signal) => return signal,
                SignalEvent::Stop => {
                    let stopped = stop(false);
                    tracing::debug!(?stopped, "continued");
                }
                SignalEvent::Continue | SignalEvent::Resize => {}
            }
        }
    }
}

/// Stops this process, or its whole job, and returns after it is continued.
///
/// `TSTP` is caught, so `STOP` is sent instead. The kernel ignores `TSTP` if no shell can continue the job, for example
/// under `ssh -t host rusm-top`, and so does this function.
///
/// # Errors
/// If a system call fails.
pub(crate) fn stop(whole_job: bool) -> io::Result<()> {
    if !has_a_shell()? {
        return Ok(());
    }
    let sent = if whole_job { kill_current_process_group(Signal::STOP) } else { kill_process(getpid(), Signal::STOP) };
    Ok(sent?)
}

/// Returns true if a shell in this session can continue this process: a shell that placed the job in its own process
/// group.
///
/// In a pid namespace, for example in a container, a session or parent from outside has the id 0. The ids are those of
/// `nix`, because a `Pid` of `rustix` cannot be 0.
fn has_a_shell() -> io::Result<bool> {
    let session = getsid(None)?;
    let parent = getppid();
    let parent_session = if parent.as_raw() == 0 { parent } else { getsid(Some(parent))? };
    Ok(getpgrp() != session && parent_session == session)
}
