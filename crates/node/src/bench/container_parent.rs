//! The parent of a program that runs under a memory limit.
//!
//! ```text
//!   rusm bench run --memory 64MiB ──▶ parent, outside of the control group: waits, forwards signals
//!                                        └──▶ the same command in the group ──▶ report │ killed by the system
//! ```
//!
//! The system kills a program that exceeds the limit of its control group with SIGKILL, so only another program can
//! report why it ended.

use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, kill_process};

use super::container;
use super::parent::{OF_COMPARISON, OF_GROUP};
use crate::cli::bench::ContainerFlags;
use crate::failure::{Failure, system};
use crate::signals::Signals;

/// Runs this command again under its memory limit, if it has one, and returns the exit code; `None` if the caller must
/// run the command itself.
pub(super) fn run(flags: Option<&ContainerFlags>) -> Result<Option<u8>, Failure> {
    let Some(memory) = flags.and_then(|flags| flags.memory.as_deref()) else { return Ok(None) };
    if OF_GROUP.follow()? {
        return Ok(None);
    }
    let own = std::env::current_exe().map_err(system("find this program"))?;
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1));
    OF_GROUP.mark(&mut command);
    OF_COMPARISON.unmark(&mut command);
    let mut child = command.spawn().map_err(system("start this program under its limit"))?;
    let status = wait(&mut child)?;
    let is_exceeded = container::remove_leftover(child.id());
    match (status.code(), is_exceeded) {
        (Some(code), _) => Ok(Some(u8::try_from(code).unwrap_or(1))),
        (None, true) => Err(exceeded(memory)),
        (None, false) => {
            Err(Failure::RunFailed(format!("the program under --memory {memory} ended without a report: {status}")))
        }
    }
}

/// The failure of a run that needed more memory than `--memory` gave it.
pub(super) fn exceeded(memory: &str) -> Failure {
    Failure::RunFailed(format!(
        "--memory {memory}: the scenario exceeded this limit, and the system killed it: raise the limit or lower the parameters"
    ))
}

/// Waits for the child and forwards the signals that ask a program to end.
fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    reactor.map_err(system("wait for signals"))?.block_on(async {
        let mut signals = Signals::listen().map_err(system("wait for signals"))?;
        let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())
            .map_err(system("wait for signals"))?;
        loop {
            // Check after the stream is registered: then an end between the two steps is seen by one of them.
            if let Some(status) = child.try_wait().map_err(system("wait for this program under its limit"))? {
                return Ok(status);
            }
            tokio::select! {
                _ = ended.recv() => {}
                signal = signals.next() => {
                    // The child may have ended just now; then the signal fails.
                    _ = kill_process(Pid::from_child(child), signal.signal());
                }
            }
        }
    })
}
