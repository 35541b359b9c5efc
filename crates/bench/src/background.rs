//! Other work on the cores while a scenario runs, where it is asked for.
//!
//! It is done by shells, two for each core, and not by threads of this program: its CPU time belongs to no case, and the
//! report's verdict counts it as what it is, the work of others. They are ended with the run; should this program be
//! killed, each looks after its parent and ends by itself.

use std::process::{Child, Command, Stdio};

use crate::parameter::{Kind, Parameter};
use crate::run::RunError;
use crate::stage::Stage;

/// The parameter that asks for it.
pub(crate) const LOAD: Parameter = Parameter {
    name: "load",
    description: "Whether the cores have other work: busy has two endless loops for each.",
    kind: Kind::Choice { words: &["quiet", "busy"] },
};

/// Counts for some milliseconds, as long as the process that started it lives.
const LOOP: &str = "while kill -0 $PPID; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";

/// The shells that work.
#[derive(Debug)]
pub(crate) struct Background(Vec<Child>);

impl Background {
    /// What the parameter of the run asks for; dropping it ends it.
    ///
    /// # Errors
    /// [`RunError::Lacks`] where there is no shell.
    pub(crate) fn asked_for(stage: &Stage) -> Result<Self, RunError> {
        let count = if stage.params().word(LOAD.name) == "busy" { stage.cores() * 2 } else { 0 };
        let mut background = Self(Vec::new());
        for _ in 0..count {
            background.0.push(shell().map_err(|error| RunError::Lacks(format!("no sh for load=busy: {error}")))?);
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
