//! Other work on the cores while cases take turns, where it is asked for.
//!
//! ```text
//!   load=both: the cases with nothing beside ──▶ shells start ──▶ the same cases ──▶ shells end ──▶ again
//! ```
//!
//! It is done by shells, two for each core, and not by threads of this program: its CPU time belongs to no case. The
//! report's verdict does not count it as the work of others either, for it was asked for. They are ended with the run;
//! should this program be killed, each looks after its parent and ends by itself.

use std::process::{Child, Command, Stdio};

use crate::parameter::{Kind, Parameter};
use crate::run::RunError;
use crate::stage::Stage;
use crate::turns::{Desk, Turns, in_turn};

/// The parameter that asks for it.
pub(crate) const LOAD: Parameter = Parameter { kind: Kind::Choice { words: &["quiet", "busy", "both"] }, ..LOADS };
/// The same for a scenario that is about the difference.
pub(crate) const LOADS: Parameter = Parameter {
    name: "load",
    description: "Whether the cores have other work: busy has two endless loops for each, both takes turns.",
    kind: Kind::Choice { words: &["both", "quiet", "busy"] },
};

/// Counts for some milliseconds, as long as the process that started it lives.
const LOOP: &str = "while kill -0 $PPID; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";

/// Runs cases in turn until the run stops, with and without other work beside as the parameter of the run says.
pub(crate) async fn by_load<T: Turns>(stage: &mut Stage, cases: impl Fn() -> T) -> Result<(), RunError> {
    let word = stage.params().word(LOAD.name);
    let half = |wanted: &str| (word == wanted || word == "both").then(&cases);
    let loads = Loads { quiet: half("quiet"), busy: half("busy"), shells: stage.cores() * 2, beside: None };
    in_turn(stage, loads).await
}

/// The same cases with nothing beside, and with other work.
struct Loads<T> {
    quiet: Option<T>,
    busy: Option<T>,
    shells: usize,
    beside: Option<Background>,
}

impl<T: Turns> Turns for Loads<T> {
    fn cases(&self) -> usize {
        self.quiet.iter().chain(&self.busy).map(Turns::cases).sum()
    }

    fn turn(&mut self, case: usize, desk: &mut Desk) -> Result<(), RunError> {
        if let Some(quiet) = self.quiet.as_mut().filter(|quiet| case < quiet.cases()) {
            self.beside = None;
            return quiet.turn(case, desk);
        }
        if self.beside.is_none() {
            self.beside = Some(Background::start(self.shells)?);
        }
        let first = self.quiet.as_ref().map_or(0, Turns::cases);
        self.busy.as_mut().map_or(Ok(()), |busy| busy.turn(case - first, desk))
    }

    fn show(&self, desk: &Desk) {
        for (half, beside) in [(&self.quiet, QUIET), (&self.busy, BUSY)] {
            if let Some(half) = half {
                desk.beside.set(beside);
                half.show(desk);
            }
        }
    }
}

/// What tables say of it.
pub(crate) const QUIET: &str = ", nothing beside";
pub(crate) const BUSY: &str = ", two endless loops for each core beside";

/// The shells that work; dropping it ends them.
#[derive(Debug)]
struct Background(Vec<Child>);

impl Background {
    /// # Errors
    /// [`RunError::Lacks`] where there is no shell.
    fn start(count: usize) -> Result<Self, RunError> {
        let mut background = Self(Vec::new());
        for _ in 0..count {
            background.0.push(shell().map_err(|error| RunError::Lacks(format!("no sh for other work: {error}")))?);
        }
        Ok(background)
    }
}

fn shell() -> std::io::Result<Child> {
    Command::new("sh").args(["-c", LOOP]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Background {
    fn drop(&mut self) {
        for shell in &mut self.0 {
            // One that has ended by itself is what is wanted.
            shell.kill().ok();
            shell.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_work_until_they_are_dropped() {
        let mut background = Background(vec![shell().expect("there is a shell")]);
        let id = background.0[0].id();

        let ended = background.0[0].try_wait().expect("it is this program's");
        drop(background);

        assert!(ended.is_none());
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }
}
