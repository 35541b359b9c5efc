//! Terminals that claim a size which no memory would hold.

use portable_pty::CommandBuilder;

use crate::terminal::Terminal;

#[test]
fn a_terminal_that_claims_to_be_huge_is_drawn_in_part_and_as_before_afterwards() {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.arg("--demo");
    let mut terminal = Terminal::open(command);
    terminal.wait_text("schedulers");

    terminal.claim(u16::MAX, u16::MAX);
    // The part that is drawn. On a smaller screen, lines would run over each other.
    terminal.shows(500, 1_000);
    terminal.press("2");
    terminal.wait_text("scenarios");
    terminal.resize(24, 80);
    terminal.press("3");
    terminal.wait_text("PID");
    terminal.press("q");

    assert_eq!(terminal.ended(), 0);
}
