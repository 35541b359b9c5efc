//! Erlang's side of the oracle: one `erl` process that executes any number of scripts.

use std::fmt::Display;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// If this variable is set, a missing `erl` is a failure.
const REQUIRED: &str = "RUSM_ORACLE_REQUIRED";
/// Maximum time for one script in Erlang.
const DEADLINE: Duration = Duration::from_mins(1);
/// Maximum number of traces that wait to be read.
const AHEAD: usize = 1024;

/// A running Erlang, which ends when this is dropped.
pub(crate) struct Erlang {
    child: Child,
    scripts: ChildStdin,
    lines: Receiver<String>,
}

impl Erlang {
    /// Starts a module of this directory. Prints a message and returns `None` if Erlang is not installed and not
    /// required.
    pub(crate) fn start(module: &str) -> Option<Self> {
        let source = format!("{}/tests/oracle/{module}.erl", env!("CARGO_MANIFEST_DIR"));
        let load =
            format!("{{ok, M, B}} = compile:file({source:?}, [binary]), code:load_binary(M, \"\", B), M:main().");
        let erl = Command::new("erl")
            .args(["+S", "1", "-noshell", "-noinput", "-kernel", "logger_level", "none", "-eval", &load])
            .env("ERL_CRASH_DUMP_BYTES", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match erl {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os(REQUIRED).is_none() => {
                eprintln!("skipped: there is no `erl` here to compare with (Debian's erlang-base has it)");
                return None;
            }
            Err(error) => panic!("erl: {error}"),
        };
        let scripts = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (give, lines) = mpsc::sync_channel(AHEAD);
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| give.send(line).is_ok()));
        Some(Self { child, scripts, lines })
    }

    /// Executes scripts and returns the results of `read` for their traces, in the same order.
    pub(crate) fn act_all<S: Display + Sync, T>(&mut self, scripts: &[S], read: fn(&str) -> T) -> Vec<T> {
        let Self { scripts: input, lines, .. } = self;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for script in scripts {
                    writeln!(input, "{script}").expect("erl reads scripts");
                }
            });
            let trace = |script| {
                let line = lines.recv_timeout(DEADLINE);
                read(&line.unwrap_or_else(|error| panic!("erl gives no trace of {script}: {error}")))
            };
            scripts.iter().map(trace).collect()
        })
    }
}

impl Drop for Erlang {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
