//! Runs the real program in a pseudo-terminal: checks its screens, and that the terminal is restored afterwards.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

const DEADLINE: Duration = Duration::from_mins(2);
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).expect("a size")
}

/// Starts a program in a new terminal.
fn spawn(
    mut command: CommandBuilder,
    rows: u16,
    cols: u16,
) -> (Box<dyn MasterPty + Send>, Box<dyn Child + Send + Sync>) {
    let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
    command.env_remove("NO_COLOR");
    command.env_remove("SSH_CONNECTION");
    command.env("TERM", "xterm-256color");
    command.env("LC_ALL", "C.UTF-8");
    let child = pair.slave.spawn_command(command).expect("the program starts");
    (pair.master, child)
}

/// Sends a signal to a program.
fn send_signal(child: &dyn Child, signal: rustix::process::Signal) {
    let pid = child.process_id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("the signal is sent");
}

/// A program in a terminal that the test can read.
pub(crate) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    parser: Parser,
}

impl Terminal {
    pub(crate) fn open(command: CommandBuilder) -> Self {
        Self::open_sized(command, ROWS, COLUMNS)
    }

    fn open_sized(command: CommandBuilder, rows: u16, cols: u16) -> Self {
        let (master, child) = spawn(command, rows, cols);
        let mut reader = master.try_clone_reader().expect("a reader");
        let keys = master.take_writer().expect("a writer");
        let (sender, output) = sync_channel(1024);
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(n) = reader.read(&mut buffer) {
                if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { master, child, keys, output, parser: Parser::new(cells(rows), cells(cols), 0) }
    }

    /// Starts a shell with job control.
    fn event_loop() -> Self {
        let mut command = CommandBuilder::new("bash");
        command.args(["--norc", "--noprofile", "-i"]);
        command.env("PS1", "shell> ");
        // The shell's own bracketed paste mode would hide the mode that the program leaves behind.
        let inputrc = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shell/inputrc");
        command.env("INPUTRC", inputrc);
        let mut terminal = Self::open(command);
        terminal.wait_text("shell>");
        terminal
    }

    fn top(arguments: &[&str]) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
        command.args(arguments);
        Self::open(command)
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&mut self, rows: u16, cols: u16) {
        self.claim(rows, cols);
        self.shows(rows, cols);
    }

    /// Gives the screen another size, which the program is not told.
    pub(crate) fn shows(&mut self, rows: u16, cols: u16) {
        self.parser.screen_mut().set_size(cells(rows), cells(cols));
    }

    /// Tells the program another size.
    pub(crate) fn claim(&self, rows: u16, cols: u16) {
        self.master.resize(PtySize { rows, cols, ..PtySize::default() }).expect("a new size");
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys go in");
    }

    /// Reads until the screen satisfies `wanted`.
    pub(crate) fn wait(&mut self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !wanted(self.parser.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {what} on\n{}", self.parser.screen().contents())
                }
            }
        }
    }

    pub(crate) fn wait_text(&mut self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    /// Waits for the program to exit, and checks that the terminal is restored.
    pub(crate) fn ended(mut self) -> u32 {
        let status = self.child.wait().expect("the program ends");
        while let Ok(bytes) = self.output.recv_timeout(DEADLINE) {
            self.parser.process(&bytes);
        }
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is back");
        assert!(!screen.bracketed_paste(), "paste is plain again");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        status.exit_code()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        send_signal(&*self.child, signal);
    }
}

#[test]
fn the_demo_shows_every_view_and_q_leaves_the_terminal_whole() {
    let mut terminal = Terminal::top(&["--demo"]);
    terminal.wait_text("schedulers");
    assert!(terminal.parser.screen().alternate_screen() && terminal.parser.screen().hide_cursor());

    terminal.press("2");
    terminal.wait_text("scenarios");
    terminal.press("3");
    terminal.wait_text("sorted in");
    terminal.press("?");
    terminal.wait_text("help: Processes");
    terminal.press("\x1b");
    terminal.wait("closed help", |screen| !screen.contents().contains("help: Processes"));
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn the_last_of_a_million_processes_is_reached_filtered_looked_into_and_ended() {
    let mut terminal = Terminal::top(&["--demo", "--tab", "processes"]);
    terminal.wait_text("sorted in");

    terminal.press("G");
    terminal.wait_text("row 1,000,000");
    terminal.press("/name=kv*\r");
    terminal.wait_text("31,250 of 1,000,000");
    terminal.press("P");
    terminal.wait_text("by pid ▲ · order");
    terminal.press("gj\r");
    terminal.wait_text("handled");
    terminal.press("x");
    terminal.wait_text("type 12 to confirm");
    terminal.press("12\r");
    terminal.wait_text("asked to shut down");
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_pasted_filter_and_a_storm_of_wheel_events_are_taken() {
    let mut terminal = Terminal::top(&["--demo", "--tab", "processes"]);
    terminal.wait_text("sorted in");

    terminal.press("/\x1b[200~name=echo*\x1b[201~");
    terminal.wait_text("/name=echo*");
    terminal.press("\r");
    terminal.press(&"\x1b[<65;20;10M".repeat(1000));
    terminal.wait("a later page", |screen| screen.contents().contains("3,001"));
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn an_answer_that_was_not_asked_for_or_has_no_end_does_not_take_the_keyboard() {
    let mut terminal = Terminal::top(&["--demo"]);
    terminal.wait_text("schedulers");

    terminal.press("\x1b[?997;1n\x1b[?2026;2$y2");
    terminal.wait_text("scenarios");
    terminal.press("\x1b]11;rgb:ff");
    let is_shown = (0..120).any(|_| {
        terminal.press("3");
        let end = Instant::now() + Duration::from_secs(1);
        while let Ok(bytes) = terminal.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            terminal.parser.process(&bytes);
        }
        terminal.parser.screen().contents().contains("sorted in")
    });
    assert!(is_shown, "the keyboard is dead");
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_storm_of_sizes_ends_in_the_last_one() {
    let mut terminal = Terminal::top(&["--demo"]);
    terminal.wait_text("schedulers");

    for columns in (20..=140).rev().chain(20..=140) {
        let size = PtySize { rows: 45, cols: columns, pixel_width: 0, pixel_height: 0 };
        terminal.master.resize(size).expect("a new size");
    }
    terminal.parser.screen_mut().set_size(cells(45), cells(140));
    terminal.wait("the memory panel of a wide screen", |screen| {
        let text = screen.contents();
        text.contains("control blocks") && text.lines().any(|line| line.trim_end().ends_with('╮'))
    });
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn signals_end_it_with_their_number_and_a_whole_terminal() {
    use rustix::process::Signal;
    let codes = [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131), (Signal::USR1, 138)];
    for (signal, code) in codes {
        let mut terminal = Terminal::top(&["--demo"]);
        terminal.wait_text("schedulers");

        terminal.signal(signal);

        assert_eq!(terminal.ended(), code);
    }
}

/// Returns true if the shell waits for a line. Keys sent earlier could still reach the observer.
fn prompts(screen: &vt100::Screen) -> bool {
    !screen.alternate_screen() && screen.contents().trim_end().ends_with("\nshell>")
}

#[test]
fn control_z_gives_the_shell_its_terminal_and_fg_takes_it_again() {
    let mut terminal = Terminal::event_loop();

    terminal.press(concat!(env!("CARGO_BIN_EXE_rusm-top"), " --demo\r"));
    terminal.wait_text("schedulers");
    terminal.press("\x1a");
    terminal.wait("the shell", |screen| prompts(screen) && screen.contents().contains("Stopped"));
    assert!(!terminal.parser.screen().hide_cursor());
    terminal.press("fg\r");
    terminal.wait("the screen again", |screen| screen.alternate_screen() && screen.contents().contains("schedulers"));
    terminal.press("q");
    terminal.wait("the shell again", prompts);
    terminal.press("exit 7\r");

    assert_eq!(terminal.ended(), 7);
}

#[test]
fn a_stop_from_outside_gives_the_terminal_back_and_a_continue_takes_it_again() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let file = folder.path().join("pid");
    let mut terminal = Terminal::event_loop();
    let program = env!("CARGO_BIN_EXE_rusm-top");
    terminal.press(&format!("bash -c 'echo $$ > {}; exec {program} --demo'\r", file.display()));
    terminal.wait_text("schedulers");
    let pid = std::fs::read_to_string(&file).expect("written before the program started");
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");

    kill_process(pid, Signal::TSTP).expect("the signal is sent");
    terminal.wait("the shell", |screen| prompts(screen) && screen.contents().contains("Stopped"));
    assert!(!terminal.parser.screen().hide_cursor());
    terminal.press("fg\r");
    terminal.wait("the screen again", |screen| screen.alternate_screen() && screen.contents().contains("schedulers"));
    terminal.press("q");
    terminal.wait("the shell again", prompts);
    terminal.press("exit 7\r");

    assert_eq!(terminal.ended(), 7);
}

#[test]
fn a_stop_that_it_cannot_see_gives_it_its_keys_again_with_fg() {
    let mut terminal = Terminal::event_loop();
    terminal.press(concat!(env!("CARGO_BIN_EXE_rusm-top"), " --demo\r"));
    terminal.wait_text("schedulers");
    let shell = terminal.child.process_id().expect("a pid");
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("Linux");
    let child = children.trim().parse().ok().and_then(rustix::process::Pid::from_raw).expect("one child");

    rustix::process::kill_process(child, rustix::process::Signal::STOP).expect("the signal is sent");
    terminal.wait_text("Stopped");
    terminal.press("fg\r");
    terminal.wait_text("schedulers");
    terminal.press("2");
    terminal.wait_text("scenarios");
    terminal.press("q");
    terminal.wait("the shell again", prompts);
    terminal.press("exit 7\r");

    assert_eq!(terminal.ended(), 7);
}

#[test]
fn a_stop_where_no_shell_could_continue_it_is_ignored() {
    let mut terminal = Terminal::top(&["--demo"]);
    terminal.wait_text("schedulers");

    terminal.signal(rustix::process::Signal::TSTP);
    terminal.press("\x1a");
    terminal.press("2");
    terminal.wait_text("scenarios");
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_terminal_of_20x5_says_so_in_whole_words_and_q_leaves() {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.arg("--demo");
    let mut terminal = Terminal::open_sized(command, 5, 20);

    let sentence = "DEMO, terminal too\nsmall: need 60x15,\nhave 20x5";
    terminal.wait("the sentence", |screen| screen.contents().trim_end() == sentence);
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_refused() {
    // Run it inside a shell: when the first program in a terminal ends, unread output may be lost.
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", &format!("TERM=dumb {} --demo; echo \"code $?\"; read go", env!("CARGO_BIN_EXE_rusm-top"))]);
    let mut terminal = Terminal::open(command);

    terminal.wait_text("rusm-top --once");
    terminal.wait_text("code 2");
    terminal.press("\n");

    assert_eq!(terminal.ended(), 0);
}

#[test]
fn no_color_leaves_no_colour() {
    let mut command = CommandBuilder::new("env");
    command.args(["NO_COLOR=1", env!("CARGO_BIN_EXE_rusm-top"), "--demo"]);
    let mut terminal = Terminal::open(command);

    terminal.wait_text("busiest");

    let screen = terminal.parser.screen();
    let cells = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
    let plain =
        cells.filter_map(|(row, column)| screen.cell(row, column)).all(|cell| cell.fgcolor() == vt100::Color::Default);
    assert!(plain);
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_signal_ends_it_although_nobody_reads_its_terminal() {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.arg("--demo");
    let (master, mut child) = spawn(command, 200, 400);
    let mut reader = master.try_clone_reader().expect("a reader");
    let mut read = Vec::new();
    while !read.windows(8).any(|bytes| bytes == b"\x1b[?1049h") {
        let mut byte = [0];
        reader.read_exact(&mut byte).expect("it takes the terminal");
        read.extend(byte);
    }
    // Each size is drawn in full, until the terminal takes no more. It need not be full for the test to hold.
    let (_silent, pause) = sync_channel::<()>(0);
    for less in 0..20 {
        let size = PtySize { rows: 200 - less, cols: 400 - less, pixel_width: 0, pixel_height: 0 };
        master.resize(size).expect("a new size");
        pause.recv_timeout(Duration::from_millis(30)).expect_err("a pause");
    }

    send_signal(&*child, rustix::process::Signal::TERM);

    assert_eq!(child.wait().expect("the program ends").exit_code(), 143);
    drop(master);
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = reader.read(&mut buffer) {
        read.extend(&buffer[..n]);
    }
    // The terminal is restored when it is read again.
    let mut parser = Parser::new(cells(200), cells(400), 0);
    parser.process(&read);
    let screen = parser.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
}

#[test]
fn a_signal_ends_it_while_a_node_does_not_answer() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let path = folder.path().join("silent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.args(["--timeout", "600", &format!("unix:{}", path.display())]);
    let (_master, mut child) = spawn(command, ROWS, COLUMNS);
    let _silent = listener.accept().expect("it attaches");

    send_signal(&*child, rustix::process::Signal::TERM);

    assert_eq!(child.wait().expect("the program ends").exit_code(), 143);
}

/// Not a test on its own: the next test runs it in a terminal.
#[test]
fn child_that_panics() {
    if std::env::var_os("RUSM_TOP_TEST_PANICS").is_some() {
        let _guard =
            rusm_tui::terminal::Guard::take(&rusm_tui::terminal::Output::start().unwrap(), true).expect("a terminal");
        panic!("deliberate");
    }
}

#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    let mut command = CommandBuilder::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "terminal::child_that_panics", "--nocapture", "--test-threads=1"]);
    command.env("RUSM_TOP_TEST_PANICS", "1");
    let mut terminal = Terminal::open(command);

    terminal.wait("the message", |screen| screen.contents().contains("deliberate") && !screen.alternate_screen());

    assert_eq!(terminal.ended(), 101);
}
