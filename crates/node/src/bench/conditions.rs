//! Conditions under which a scenario runs: the limits of a container, and a profiler.
//!
//! Without a control group that this user may write, or without `perf`, the command fails and nothing runs: otherwise a
//! figure without its limit would look like a figure with it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::container::Container;
use crate::cli::bench::ConditionFlags;
use crate::failure::{Failure, system};

/// Time limit for `perf` to write its file.
const PERF_TIMEOUT: Duration = Duration::from_mins(1);

/// The conditions that were set up for some runs.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    container: Option<Container>,
    perf: Option<Child>,
}

impl Conditions {
    /// Sets up the conditions that the flags request.
    pub(super) fn enter(flags: &ConditionFlags) -> Result<Self, Failure> {
        let container = Container::from_flags(&flags.container)?;
        let perf = flags.profile_cpu.as_deref().map(perf).transpose()?;
        Ok(Self { container, perf })
    }

    /// Removes the conditions, and waits for the profile.
    pub(super) fn leave(&mut self) -> Result<(), Failure> {
        let ended = self.end_perf();
        // A control group can be removed only when it is empty, and the profiler was started in it.
        drop(self.container.take());
        ended
    }

    fn end_perf(&mut self) -> Result<(), Failure> {
        let Some(mut perf) = self.perf.take() else {
            return Ok(());
        };
        // `perf` writes its file when it is interrupted.
        kill_process(Pid::from_child(&perf), Signal::INT).map_err(|error| system("end perf")(error.into()))?;
        let deadline = Instant::now() + PERF_TIMEOUT;
        loop {
            if let Some(status) = perf.try_wait().map_err(system("wait for perf"))? {
                let is_interrupt = status.signal() == Some(Signal::INT.as_raw());
                return if status.success() || is_interrupt { Ok(()) } else { Err(ended(status, perf.stderr.take())) };
            }
            if Instant::now() >= deadline {
                drop(perf.kill());
                drop(perf.wait());
                return Err(Failure::Usage(format!("perf did not write its profile within {PERF_TIMEOUT:?}")));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Conditions {
    fn drop(&mut self) {
        if let Some(perf) = &mut self.perf {
            drop(perf.kill());
            drop(perf.wait());
        }
    }
}

/// Says why `perf` ended, in its words.
fn ended(status: ExitStatus, stderr: Option<ChildStderr>) -> Failure {
    let mut output = String::new();
    if let Some(mut stderr) = stderr {
        drop(stderr.read_to_string(&mut output));
    }
    let line = output.lines().find(|line| !line.trim().is_empty()).unwrap_or("it printed no error");
    Failure::Usage(format!("perf ended with {status}: {line}"))
}

/// Starts a profiler of this program.
fn perf(path: &Path) -> Result<Child, Failure> {
    let found = Command::new("perf").arg("--version").stdin(Stdio::null()).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Err(Failure::Usage(
            "--profile-cpu needs perf, which does not run here: apt install linux-perf, and unless you are root, \
             sysctl kernel.perf_event_paranoid=1"
                .to_owned(),
        ));
    }
    let own_pid = std::process::id().to_string();
    let mut perf = Command::new("perf");
    // Use a clock instead of a cycle counter, which virtual machines often lack. This program is built
    // without frame pointers, so the call chains need DWARF.
    perf.args([
        "record",
        "--quiet",
        "--freq",
        "999",
        "-e",
        "cpu-clock",
        "--call-graph",
        "dwarf,4096",
        "--pid",
        &own_pid,
    ]);
    perf.arg("--output").arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = perf.spawn().map_err(system("start perf"))?;
    // If `perf` lacks a permission, it ends at once.
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().map_err(system("wait for perf"))? {
            return Err(ended(status, child.stderr.take()));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(child)
}
