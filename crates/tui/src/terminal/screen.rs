//! The screen: draws the model, compares the result with the previous frame, and sends the difference in one write.

use std::io::{self, Write};

use ratatui::layout::{Rect, Size};
use ratatui::{Frame, Terminal};

use super::ansi::Ansi;
use crate::model::Model;
use crate::model::input::key;
use crate::view;
use crate::view::tiles::ShownNode;

/// DEC private mode 2026 (synchronized update): the terminal shows everything between these sequences at once.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// A screen on any writer. Each frame with changes is one `write`.
#[derive(Debug)]
pub struct Screen<W> {
    writer: W,
    terminal: Terminal<Ansi>,
    drawn_bytes: u64,
}

impl<W: Write> Screen<W> {
    /// Creates a screen of the given size. Its current contents count as unknown.
    pub fn new(writer: W, size: key::Size, ascii: bool) -> Self {
        let backend = Ansi::new(Size::new(size.width, size.height), ascii);
        let Ok(mut terminal) = Terminal::new(backend);
        let Ok(()) = terminal.resize(Rect::new(0, 0, size.width, size.height));
        Self { writer, terminal, drawn_bytes: 0 }
    }

    /// Changes the size of the screen.
    pub fn resize(&mut self, size: key::Size) {
        self.terminal.backend_mut().resize(Size::new(size.width, size.height));
        self.repaint();
    }

    /// Makes the next frame draw every cell.
    pub fn repaint(&mut self) {
        self.terminal.backend_mut().forget_cursor();
        let Ok(size) = self.terminal.size();
        let Ok(()) = self.terminal.resize(Rect::from((ratatui::layout::Position::ORIGIN, size)));
    }

    /// Draws the model. A frame without changes writes nothing.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn draw(&mut self, model: &Model) -> io::Result<()> {
        self.draw_with(|frame| view::draw(frame, model))
    }

    /// Draws several nodes, of `count` nodes in all. A frame without changes writes nothing.
    ///
    /// # Errors
    /// If the writer fails.
    pub(crate) fn draw_nodes(&mut self, nodes: &[ShownNode<'_>], count: usize) -> io::Result<()> {
        self.draw_with(|frame| view::tiles::draw(frame, nodes, count))
    }

    fn draw_with(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        let Ok(_) = self.terminal.draw(draw);
        let (clear, cells) = self.terminal.backend_mut().take();
        if clear.is_empty() && cells.is_empty() {
            return Ok(());
        }
        let bytes = [clear.as_slice(), BEGIN, &cells, END].concat();
        self.send(&bytes)
    }

    /// Sends bytes that draw nothing, for example a clipboard command.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.drawn_bytes += bytes.len() as u64;
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }

    /// Returns the total number of bytes sent.
    pub fn drawn_bytes(&self) -> u64 {
        self.drawn_bytes
    }
}
