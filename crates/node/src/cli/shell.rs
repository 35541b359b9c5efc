//! Completions of shells and manual pages, from the same command line that is parsed.

use std::io::{self, Write};

use clap::{Command, ValueEnum};
use clap_complete::Shell;

use crate::failure::{Failure, system};

/// Shell for which completions are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShellName {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Elvish => Self::Elvish,
            ShellName::Fish => Self::Fish,
            ShellName::PowerShell => Self::PowerShell,
            ShellName::Zsh => Self::Zsh,
        }
    }
}

/// Prints the completions of a shell.
pub(crate) fn completions(mut command: Command, shell: ShellName) -> Result<u8, Failure> {
    let mut out = Vec::new();
    clap_complete::generate(Shell::from(shell), &mut command, "rusm", &mut out);
    print(&out)
}

/// Prints the manual page of `rusm`, or of one of its commands such as `bench run`.
pub(crate) fn manual(mut root: Command, words: &[String]) -> Result<u8, Failure> {
    root.build();
    let mut command = &root;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            let known: Vec<&str> = shown.map(Command::get_name).collect();
            Failure::Usage(format!("unknown command {word:?}: {}", rusm_text::suggestion(word, known)))
        })?;
    }
    let name = std::iter::once("rusm").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let page = clap_mangen::Man::new(command.clone()).title(name);
    let mut out = Vec::new();
    page.render(&mut out).map_err(system("write the manual page".to_owned()))?;
    print(&out)
}

/// Prints to standard output; a reader that has closed this is not an error.
pub(super) fn print(bytes: &[u8]) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(system("print".to_owned())(error)),
        _ => Ok(0),
    }
}
