//! `rusm` in a real pseudo-terminal: a signal ends observer and node, and both clean up completely.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::Signal;

const DEADLINE: Duration = Duration::from_mins(2);
const SIZE: PtySize = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };

/// `rusm` in a terminal that shows its screen to the test.
struct Terminal {
    /// Kept open: without it the program would receive SIGHUP.
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

impl Terminal {
    fn open(dir: &Path, args: &[&str]) -> Self {
        let pair = native_pty_system().openpty(SIZE).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm"));
        command.cwd(dir);
        command.args(args);
        command.env_clear();
        for (name, value) in [("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8")] {
            command.env(name, value);
        }
        command.env("XDG_RUNTIME_DIR", dir);
        command.env("XDG_DATA_HOME", dir.join("data"));
        let child = pair.slave.spawn_command(command).expect("the binary was built for this test");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let (sender, output) = sync_channel(1024);
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = |cells| std::num::NonZero::new(cells).expect("a size");
        let parser = vt100::Parser::new(size(SIZE.rows), size(SIZE.cols), 0);
        let keys = pair.master.take_writer().expect("a writer");
        Self { _master: pair.master, keys, child, output, parser }
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).and_then(|()| self.keys.flush()).expect("the program reads");
    }

    fn wait_text(&mut self, text: &str) {
        self.wait(text, |shown| shown.contains(text));
    }

    /// Reads output until the screen is as wanted.
    fn wait(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !wanted(&self.parser.screen().contents()) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.output.recv_timeout(left) else {
                panic!("no {what} on\n{}", self.parser.screen().contents());
            };
            self.parser.process(&bytes);
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("the signal is sent");
    }

    /// Waits for the end; the terminal must be restored.
    fn ended(mut self) -> u32 {
        let status = self.child.wait().expect("the program ends");
        while let Ok(bytes) = self.output.recv_timeout(DEADLINE) {
            self.parser.process(&bytes);
        }
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is back");
        status.exit_code()
    }
}

#[test]
fn a_signal_gives_the_terminal_back_and_removes_the_socket() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut terminal = Terminal::open(dir.path(), &[]);
        terminal.wait_text("schedulers");
        assert!(terminal.parser.screen().alternate_screen() && dir.path().join("rusm/rusm.sock").exists());

        terminal.signal(signal);

        assert_eq!(terminal.ended(), code, "{signal:?}");
        let left: Vec<_> = std::fs::read_dir(dir.path().join("rusm")).expect("its folder").collect();
        assert!(left.is_empty(), "{signal:?}: {left:?}");
    }
}

/// A guest that waits for messages and receives none.
const PARKED: &str = r#"(module
    (import "rusm" "receive" (func $receive (param i64) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (loop $next (drop (call $receive (i64.const -1))) (br $next))))"#;

#[test]
fn the_observer_sees_the_guests_that_run_and_their_supervisor() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("parked.wat"), PARKED).expect("a module");
    let mut terminal = Terminal::open(dir.path(), &["run", "--top", "--count", "2", "parked.wat"]);
    terminal.wait_text("● live");

    terminal.press("3");
    terminal.wait_text("parked.1     receive");
    terminal.wait_text("parked.2     receive");
    terminal.press("4");
    terminal.wait_text("one_for_one");
    terminal.press("qy");

    assert_eq!(terminal.ended(), 0);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("rusm")).expect("its folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the index of a scenario in the list.
fn index(id: &str) -> usize {
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_rusm")).args(["bench", "list", "--json"]).output();
    let listed: serde_json::Value =
        serde_json::from_slice(&listed.expect("the binary was built").stdout).expect("JSON");
    let cards = listed["scenarios"].as_array().expect("a list");
    cards.iter().position(|card| card["id"] == id).expect("a scenario of that id")
}

#[test]
fn processes_that_panic_leave_the_screen_to_the_observer() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(dir.path(), &[]);
    terminal.wait_text("● live");

    // The cause is the last of its parameters, and a choice.
    terminal.press(&format!("2{}P\x1b[Zp\r", "j".repeat(index("fault-recovery"))));
    let crashed = |shown: &str| ["warming up", "running 00:"].iter().any(|word| shown.contains(word));
    let runs = |shown: &str| crashed(shown) && !shown.contains("esc cancel");
    terminal.wait("crash", runs);
    assert!(terminal.parser.screen().alternate_screen(), "the screen is the observer's");
    terminal.press("P");
    terminal.wait_text("cause        panic");
    assert!(terminal.parser.screen().alternate_screen(), "and stays so");
    terminal.press("\x03qy");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_run_from_the_screen_ends_with_a_verdict_and_is_in_the_history() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(dir.path(), &[]);
    terminal.wait_text("● live");

    terminal.press("2/ping-pong\r");
    terminal.wait_text("Ping-pong");
    // Kind, profile and rate come before the time to measure and the longest warm-up.
    terminal.press("e\t\t\t300ms\t200ms\r");
    terminal.wait_text("verdict");
    terminal.press("H");
    terminal.wait("the result in the list", |shown| shown.contains("ping-pong") && shown.contains(" results "));
    terminal.press("qy");
    assert_eq!(terminal.ended(), 0);

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.env_clear().env("XDG_DATA_HOME", dir.path().join("data"));
    let listed = command.args(["bench", "history", "--json"]).output().expect("the binary was built");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed[0]["recipe"]["scenario"], "ping-pong", "{listed}");
    assert_eq!((&listed[0]["recipe"]["duration_ms"], listed.as_array().map(Vec::len)), (&300.into(), Some(1)));
}
