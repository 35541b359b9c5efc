//! Programs that end with the program that started them, also if that one is killed.
//!
//! The parent sets a variable for the child ([`Parent::mark`]); the child follows the parent first of all
//! ([`Parent::follow`]).

use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::failure::{Failure, system};

/// A kind of parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// Environment variable of the child; its value is the process id of the parent.
    variable: &'static str,
    /// Signal that the child gets at the end of the parent.
    signal: Signal,
}

/// The parent of a program that enters a control group.
pub(super) const OF_GROUP: Parent = Parent { variable: "_RUSM_BENCH_PARENT", signal: Signal::KILL };
/// The parent of a program that runs one side of a comparison.
pub(super) const OF_COMPARISON: Parent = Parent { variable: "_RUSM_BENCH_COMPARISON", signal: Signal::TERM };

impl Parent {
    /// Sets the variable of a child.
    pub(super) fn mark(self, child: &mut Command) {
        child.env(self.variable, std::process::id().to_string());
    }

    /// Removes the variable, which a child would inherit.
    pub(super) fn unmark(self, child: &mut Command) {
        child.env_remove(self.variable);
    }

    /// Makes the kernel send the signal to this program at the end of its parent. Returns false if no such parent has
    /// started it. Ends this program if the parent is not there any more.
    pub(super) fn follow(self) -> Result<bool, Failure> {
        let Some(expected) = std::env::var_os(self.variable) else { return Ok(false) };
        set_parent_process_death_signal(Some(self.signal))
            .map_err(|error| system("follow the parent of this program")(error.into()))?;
        // It may have ended before that call.
        let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
        if parent.is_none_or(|parent| expected != *parent) {
            std::process::exit(1);
        }
        Ok(true)
    }
}
