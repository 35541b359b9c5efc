//! Takes the terminal and gives it back: at the end, on an error, on a panic of its thread, when suspended.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::model::key::Size;

/// Alternate screen, hidden cursor, bracketed paste.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h";
/// Clicks and the wheel, not every motion: motion would be most of what an SSH line carries.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
/// Everything back, in case a synchronized update was cut short as well.
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[m\x1b[?25h\x1b[?1049l";

/// How the standard library's word on a panic begins after which it aborts: there is no later to give the terminal back.
const ABORTS: &str = "panic in a ";

/// While it lives, the terminal is ours.
#[derive(Debug)]
pub struct Guard {
    mouse: bool,
    taken: Arc<AtomicBool>,
}

impl Guard {
    /// Takes the terminal. From here on a panic of this thread, or one that ends the program, gives it back before its
    /// message is printed. Panics of other threads do not: in a node's program a process may end by one while we go on.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn take(mouse: bool) -> io::Result<Self> {
        let guard = Self { mouse, taken: Arc::new(AtomicBool::new(false)) };
        guard.enter()?;
        let taken = Arc::clone(&guard.taken);
        let owner = std::thread::current().id();
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == owner
                || panic.payload_as_str().is_some_and(|text| text.starts_with(ABORTS))
            {
                give_back(&taken);
            }
            next(panic);
        }));
        Ok(guard)
    }

    /// Takes it again after [`Self::leave`].
    pub(crate) fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        self.taken.store(true, Ordering::SeqCst);
        let mut bytes = ENTER.to_vec();
        if self.mouse {
            bytes.extend_from_slice(MOUSE_ON);
        }
        write(&bytes)
    }

    /// Gives the terminal back.
    pub(crate) fn leave(&self) {
        give_back(&self.taken);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave();
    }
}

fn give_back(taken: &AtomicBool) {
    if taken.swap(false, Ordering::SeqCst) {
        // Nothing is left to do about a terminal that cannot even be given back.
        write(LEAVE).ok();
        disable_raw_mode().ok();
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// The terminal's size; 80x24 where it does not say.
pub(crate) fn size() -> Size {
    let known = crossterm::terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
    known.map_or(Size::new(80, 24), |(width, height)| Size::new(width, height))
}
