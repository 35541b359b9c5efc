//! Checks of the program's environment at start: unknown `RUSM_TOP_…` variables and system limits.

use clap::CommandFactory;
use rusm_text::suggestion;
use rustix::process::{Resource, getrlimit};

use crate::cli::Cli;

/// Minimum number of open files. An event loop cannot be created with fewer.
const FILES_MIN: u64 = 16;
/// Minimum stack size of the main thread, in bytes. The system's default is 8 MiB.
const STACK_BYTES_MIN: u64 = 1024 * 1024;

/// Rejects system limits (`ulimit`) that would make the program panic or overflow its stack.
///
/// # Errors
/// Returns the line to print.
pub fn check_limits() -> Result<(), String> {
    match (getrlimit(Resource::Nofile).current, getrlimit(Resource::Stack).current) {
        (Some(files), _) if files < FILES_MIN => {
            Err(format!("the open file limit is {files}, must be at least {FILES_MIN}: raise `ulimit -n`"))
        }
        (_, Some(stack)) if stack < STACK_BYTES_MIN => {
            let (stack, least) = (stack / 1024, STACK_BYTES_MIN / 1024);
            Err(format!("the stack limit is {stack} KiB, must be at least {least} KiB: raise `ulimit -s`"))
        }
        _ => Ok(()),
    }
}

/// Returns the names of all variables of the observer.
pub fn variables() -> Vec<String> {
    let command = Cli::command();
    let names = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    names.map(str::to_owned).collect()
}

/// Rejects environment variables that have our prefix but are unknown.
///
/// # Errors
/// Returns the line to print, with the name that was most likely intended.
pub fn check(names: impl IntoIterator<Item = String>) -> Result<(), String> {
    let known = variables();
    let unknown = names.into_iter().find(|name| name.starts_with("RUSM_TOP_") && !known.contains(name));
    match unknown {
        Some(name) => Err(format!("unknown variable {name:?}: {}", suggestion(&name, &known))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_only_looks_like_ours_is_named() {
        let checked = |names: &[&str]| check(names.iter().map(|&name| name.to_owned()));

        assert_eq!(checked(&["HOME", "RUSM_NAME", "RUSM_TOP_FPS", "RUSM_TOP_LOG"]), Ok(()));
        let said = checked(&["RUSM_TOP_LOGFILE"]).unwrap_err();
        assert_eq!(said, "unknown variable \"RUSM_TOP_LOGFILE\": did you mean \"RUSM_TOP_LOG_FILE\"?");
    }
}
