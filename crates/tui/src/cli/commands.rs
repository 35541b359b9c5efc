//! The tasks of `rusm-top` that draw no screen.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use rustix::process::Signal;

use crate::cli::arguments::{Cli, ConfigTask, Task};
use crate::cli::config::{self, Config, ConfigError, template};
use crate::exit::{Error, Exit};
use crate::model::input::keymap;
use rusm_text::escaped;

impl Task {
    /// Runs the task.
    ///
    /// # Errors
    /// If the config file is wrong, or the output cannot be written.
    pub fn run(&self, named: Option<&Path>, out: &mut impl Write) -> Result<Exit, Error> {
        let text = match self {
            Self::Config(task) => task.run(named)?,
            Self::Keys => keymap::listing(&Config::load(named).map_err(|error| usage(&error))?.keys),
            Self::Completions { shell } => completions(*shell),
            Self::Man => manual()?,
        };
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(Exit::Done),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Signal(Signal::PIPE.as_raw())),
            Err(error) => Err(Error::Output(error)),
        }
    }
}

impl ConfigTask {
    fn run(&self, named: Option<&Path>) -> Result<String, Error> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => config::usual_path().ok_or_else(|| usage(&ConfigError::NoPlace))?,
        };
        match self {
            Self::Path => Ok(format!("{}\n", escaped(&path.display()))),
            Self::Check => check(&path, named.is_some()),
            Self::Init { force } => {
                if path.exists() && !force {
                    return Err(usage(&ConfigError::Exists { path }));
                }
                write(&path)?;
                Ok(format!("wrote {}\n", escaped(&path.display())))
            }
        }
    }
}

fn check(path: &Path, is_named: bool) -> Result<String, Error> {
    if !is_named && !path.exists() {
        return Ok(format!("{} does not exist: the defaults apply\n", escaped(&path.display())));
    }
    Config::load(Some(path)).map_err(|error| usage(&error))?;
    Ok(format!("{} is valid\n", escaped(&path.display())))
}

fn write(path: &Path) -> Result<(), Error> {
    let write = |path: &PathBuf| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, template())
    };
    let path = path.to_owned();
    write(&path).map_err(|source| usage(&ConfigError::Write { path, source }))
}

/// Sections of the manual page that the command line does not hold.
const SECTIONS: &str = "\
.SH ENVIRONMENT
Every option is also a variable: that of \\-\\-interval is RUSM_TOP_INTERVAL. NO_COLOR, COLORTERM and COLORFGBG are honoured.
.SH FILES
$XDG_CONFIG_HOME/rusm/top.toml, or ~/.config/rusm/top.toml: options, keys and themes. A flag wins over a variable, and a
variable over the file. See rusm\\-top config init.
";

/// A wrong config file is a usage error: exit code 2.
fn usage(error: &ConfigError) -> Error {
    Error::Usage(error.to_string())
}

fn completions(shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rusm-top", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn manual() -> Result<String, Error> {
    let mut out = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut out).map_err(Error::Output)?;
    Ok(String::from_utf8_lossy(&out).into_owned() + SECTIONS)
}
