//! Takes over the terminal and restores it: at the end, on an error, on a panic of its thread, and when suspended.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::output::Output;
use crate::model::input::key::Size;

/// Sequence that enters the alternate screen, hides the cursor and enables bracketed paste.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h";
/// Sequence that reports clicks, the wheel, and motion while a button is down. Other motion is not reported: its events
/// would dominate the traffic of an SSH connection.
const MOUSE_ON: &[u8] = b"\x1b[?1002h\x1b[?1006h";
/// Sequence that resets all of these modes, and ends a synchronized update that was cut short.
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[?1006l\x1b[?1002l\x1b[?2004l\x1b[m\x1b[?25h\x1b[?1049l";

/// Start of the messages of the panics after which the standard library aborts the program; rusm's runtime knows them
/// too (`panics.rs`). The hook must restore the terminal at such a panic, because no other code runs after it.
const ABORTS: &str = "panic in a ";

/// Time for which a change of the modes waits for a terminal that reads nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Owns the terminal while it exists. `Drop` restores the terminal; the event loop calls `leave` and `enter` around a
/// suspension.
#[derive(Debug)]
pub struct Guard {
    output: Output,
    mouse: bool,
    /// True while the terminal is taken over. The panic hook shares it, and stays installed after the guard is dropped.
    taken: Arc<AtomicBool>,
}

impl Guard {
    /// Takes over the terminal. From now on, a panic of this thread, or one that aborts the program, restores the
    /// terminal before its message is printed. Panics of other threads do not: if the program also runs a node, a
    /// process may panic while the observer continues.
    ///
    /// # Errors
    /// If the terminal cannot be switched to raw mode or written to.
    pub fn take(output: &Output, mouse: bool) -> io::Result<Self> {
        let guard = Self { output: output.clone(), mouse, taken: Arc::new(AtomicBool::new(false)) };
        guard.enter()?;
        let (output, taken) = (output.clone(), Arc::clone(&guard.taken));
        let owner = std::thread::current().id();
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == owner
                || panic.payload_as_str().is_some_and(|text| text.starts_with(ABORTS))
            {
                give_back(&output, &taken);
            }
            next(panic);
        }));
        Ok(guard)
    }

    /// Takes over the terminal again after [`Self::leave`].
    pub(crate) fn enter(&self) -> io::Result<()> {
        // After a SIGSTOP the shell has set its own modes, and `crossterm` still takes the terminal for raw.
        disable_raw_mode()?;
        enable_raw_mode()?;
        self.taken.store(true, Ordering::SeqCst);
        let mut bytes = ENTER.to_vec();
        if self.mouse {
            bytes.extend_from_slice(MOUSE_ON);
        }
        write(&self.output, &bytes).map(drop)
    }

    /// Restores the terminal.
    pub(crate) fn leave(&self) {
        give_back(&self.output, &self.taken);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave();
    }
}

fn give_back(output: &Output, taken: &AtomicBool) {
    if taken.swap(false, Ordering::SeqCst) {
        // Errors are ignored: nothing else can be done if the terminal cannot be restored.
        // The first attempt may return the error of an earlier write, and write nothing.
        let is_taken = write(output, LEAVE).or_else(|_earlier| write(output, LEAVE));
        if !is_taken.unwrap_or(true) {
            // The terminal reads nothing now: make room, so that it is restored when it reads again.
            output.abandon();
            write(output, LEAVE).ok();
        }
        disable_raw_mode().ok();
    }
}

/// Returns true if the terminal has taken the bytes.
fn write(output: &Output, bytes: &[u8]) -> io::Result<bool> {
    output.clone().write_all(bytes)?;
    Ok(output.finish(PATIENCE))
}

/// Returns the size of the screen: the terminal's, as far as it is [drawn](Size::drawn), or 80x24 if it is unknown.
pub(crate) fn size() -> Size {
    let known = crossterm::terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
    known.map_or(Size::new(80, 24), |(width, height)| Size::drawn(width, height))
}
