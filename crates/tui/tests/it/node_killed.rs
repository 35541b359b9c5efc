//! A node that is killed while it is observed, and started again.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use portable_pty::CommandBuilder;

use crate::refusals::{node, runtime_folder};
use crate::terminal::Terminal;

/// Folder of the node's socket, for the program that is a node.
const FOLDER: &str = "RUSM_TOP_TEST_NODE";

/// Not a test on its own: the next test runs it as a program, which it kills.
#[test]
fn child_that_is_a_node() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let _node = node(Path::new(&folder));
        loop {
            std::thread::park();
        }
    }
}

fn start(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "node_killed::child_that_is_a_node", "--test-threads=1"]);
    command.env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the node starts")
}

#[test]
fn a_killed_node_is_waited_for_and_its_successor_is_announced() {
    let (folder, sockets) = runtime_folder();
    let mut first = start(&sockets);
    while !sockets.join("kv.sock").exists() {
        std::thread::yield_now();
    }
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.arg("kv");
    command.env_remove("RUSM_SOCKET_DIR");
    command.env("XDG_RUNTIME_DIR", folder.path());
    let mut terminal = Terminal::open(command);
    terminal.wait_text("● live");

    first.kill().and_then(|()| first.wait().map(drop)).expect("the node is killed");
    terminal.wait_text("connection lost");
    terminal.resize(31, 97);
    let mut second = start(&sockets);
    terminal.wait_text(&format!("pid {}", second.id()));
    terminal.wait("the live screen", |screen| {
        let text = screen.contents();
        text.contains("● live") && !text.contains("connection lost")
    });
    terminal.press("3");
    terminal.wait_text("processes");
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
    second.kill().and_then(|()| second.wait().map(drop)).expect("the node is killed");
}
