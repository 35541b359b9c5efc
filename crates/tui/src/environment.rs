//! The variables of the environment whose names begin like ours.

use clap::CommandFactory;

use crate::cli::{Cli, LOG_LEVEL};
use crate::nearest::suggestion;

/// What is wrong with these variables of the environment: one that begins like ours and is none of them.
///
/// # Errors
/// The line to print, with the name that was most likely meant.
pub fn check(names: impl IntoIterator<Item = String>) -> Result<(), String> {
    let command = Cli::command();
    let ours = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    let known: Vec<&str> = ours.chain([LOG_LEVEL]).collect();
    let unknown = names.into_iter().find(|name| name.starts_with("RUSM_TOP_") && !known.contains(&name.as_str()));
    match unknown {
        Some(name) => Err(format!("unknown variable {name:?}: {}", suggestion(&name, known))),
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
