//! An input of a terminal, and how inputs are merged.

use crate::model::input::key::{Key, KeyCode, Mouse, MouseKind};
use crate::model::message::Msg;
use crate::terminal::colors::Background;

/// An input of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key was pressed.
    Key(Key),
    /// The mouse was used.
    Mouse(Mouse),
    /// Text was pasted.
    Paste(String),
    /// The terminal has answered [`QUERY`](crate::terminal::QUERY).
    Background(Background),
}

impl Input {
    pub(super) const fn key(code: KeyCode) -> Self {
        Self::Key(Key::plain(code))
    }

    pub(super) fn pasted(text: &[u8]) -> Self {
        Self::Paste(String::from_utf8_lossy(text).into_owned())
    }
}

/// Merges consecutive wheel events into one message, and likewise consecutive movements.
pub(crate) fn coalesce(messages: Vec<Msg>) -> Vec<Msg> {
    let mut out: Vec<Msg> = Vec::with_capacity(messages.len());
    for message in messages {
        match (out.last_mut(), &message) {
            (Some(Msg::Mouse(last)), Msg::Mouse(mouse)) => match (&mut last.kind, mouse.kind) {
                (MouseKind::Wheel(sum), MouseKind::Wheel(notches)) => *sum = sum.saturating_add(notches),
                // Only the end of a movement counts.
                (MouseKind::Drag, MouseKind::Drag) => *last = *mouse,
                _ => out.push(message),
            },
            _ => out.push(message),
        }
    }
    out
}
