//! Splits what a terminal sends into keys, mouse events, pasted text and answers.
//!
//! ```text
//!   bytes ──▶ feed ──▶ complete inputs
//!               └────▶ an incomplete rest ──▶ silence of `patience` ──▶ give_up ──▶ an Escape key, a paste, or nothing
//! ```
//!
//! A sequence ends where ECMA-48 says that it ends, whatever it means, so one that is unknown here is skipped whole. No
//! input makes the keyboard dead: what stays incomplete is given up after a silence.

use std::time::Duration;

use super::decode;
use super::event::Input;
use crate::model::input::key::KeyCode;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CTRL_C: u8 = 0x03;

/// Brackets around pasted text.
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Silence after which an Escape byte is the Escape key, and not the start of a sequence.
const ESCAPE_PATIENCE: Duration = Duration::from_millis(25);
/// Silence after which a longer sequence has lost its end. A slow SSH connection may cut one in two.
const SEQUENCE_PATIENCE: Duration = Duration::from_millis(500);
/// Silence after which pasted text has lost its end. After it, further text counts as keys.
const PASTE_PATIENCE: Duration = Duration::from_secs(3);

/// Maximum length of pasted text, and of a sequence, in bytes. What a longer one contains after that is skipped.
const HELD_MAX: usize = 64 * 1024;

/// Bytes of the terminal that are not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub(super) held: Vec<u8>,
}

impl Parser {
    /// Takes bytes of the terminal. Returns the inputs that are complete now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        // Pasted text comes in long pieces, so this is the key: the paste has lost its end.
        if bytes == [CTRL_C] {
            self.held.clear();
        }
        self.held.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        let mut start = 0;
        while let Some(item) = Item::first(&self.held[start..]) {
            start += item.length;
            inputs.extend(item.input);
        }
        self.held.drain(..start);
        // The last bytes stay: they may be the beginning of the end.
        let kept = self.held.len().saturating_sub(PASTE_END.len());
        if kept > HELD_MAX {
            self.held.drain(HELD_MAX..kept);
        }
        inputs
    }

    /// Returns the silence after which [`Self::give_up`] is due; `None` if nothing is incomplete.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.held.len() {
            0 => None,
            1 | 2 => Some(ESCAPE_PATIENCE),
            _ if self.held.starts_with(PASTE_START) => Some(PASTE_PATIENCE),
            _ => Some(SEQUENCE_PATIENCE),
        }
    }

    /// Ends what is incomplete, because the terminal has sent nothing for a while.
    pub(crate) fn give_up(&mut self) -> Option<Input> {
        let held = std::mem::take(&mut self.held);
        match held.strip_prefix(PASTE_START) {
            Some(text) => Some(Input::pasted(text)),
            None => (held == [ESC]).then(|| Input::key(KeyCode::Esc)),
        }
    }
}

/// The first complete item of some bytes.
struct Item {
    /// Its length in bytes.
    length: usize,
    /// The input; `None` for a sequence that is not used.
    input: Option<Input>,
}

impl Item {
    /// Returns `None` if the bytes are empty or incomplete.
    fn first(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] | [ESC] | [ESC, b'O'] => None,
            [ESC, ESC, ..] => Some(Self::key(1, KeyCode::Esc)),
            [ESC, b'[', b'[', rest @ ..] => rest.first().map(|last| Self::of(4, decode::console_key(*last))),
            [ESC, b'[', b'M', rest @ ..] => rest.first_chunk().map(|report| Self::of(6, decode::old_mouse(*report))),
            [ESC, b'[', ..] if bytes.starts_with(PASTE_START) => Self::paste(bytes),
            [ESC, b'[', ..] => Self::control_sequence(bytes),
            [ESC, b'O', last, ..] if last.is_ascii_graphic() => Some(Self::of(3, decode::key(b"", *last))),
            [ESC, b']', ..] => Self::command(bytes),
            [ESC, b'P' | b'X' | b'^' | b'_', ..] => Self::string(bytes),
            // No key is used together with Alt.
            [ESC, rest @ ..] => Self::first(rest).map(|item| Self::of(1 + item.length, None)),
            [first, ..] if first.is_ascii() => Some(Self::of(1, Some(decode::ascii(*first)))),
            _ => Self::character(bytes),
        }
    }

    const fn of(length: usize, input: Option<Input>) -> Self {
        Self { length, input }
    }

    const fn key(length: usize, code: KeyCode) -> Self {
        Self::of(length, Some(Input::key(code)))
    }

    /// `CSI parameters final`. A byte that no control sequence may contain cuts it off.
    fn control_sequence(bytes: &[u8]) -> Option<Self> {
        let end = 2 + bytes[2..].iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
        Some(match bytes[end] {
            last @ 0x40..=0x7e => Self::of(end + 1, decode::control_sequence(&bytes[2..end], last)),
            _ => Self::of(end, None),
        })
    }

    /// `OSC number ; text ST`. Without the number it is Alt-] and what follows are keys.
    fn command(bytes: &[u8]) -> Option<Self> {
        let digits = bytes[2..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        match bytes.get(2 + digits) {
            None => None,
            Some(b';') if digits > 0 => Self::string(bytes),
            Some(_) => Some(Self::of(2, None)),
        }
    }

    /// A sequence with text, which ends with ST (`ESC \`) or BEL. Another control character cuts it off.
    fn string(bytes: &[u8]) -> Option<Self> {
        let end = 2 + bytes[2..].iter().position(u8::is_ascii_control)?;
        let text = &bytes[2..end];
        match &bytes[end..] {
            [ESC] => None,
            [BEL, ..] => Some(Self::of(end + 1, decode::answer(text))),
            [ESC, b'\\', ..] => Some(Self::of(end + 2, decode::answer(text))),
            _ => Some(Self::of(end, None)),
        }
    }

    fn paste(bytes: &[u8]) -> Option<Self> {
        let text = bytes.strip_prefix(PASTE_START)?;
        let length = text.windows(PASTE_END.len()).position(|part| part == PASTE_END)?;
        Some(Self::of(PASTE_START.len() + length + PASTE_END.len(), Some(Input::pasted(&text[..length]))))
    }

    /// A character of UTF-8 that is not ASCII.
    fn character(bytes: &[u8]) -> Option<Self> {
        let chunk = bytes[..bytes.len().min(4)].utf8_chunks().next()?;
        match chunk.valid().chars().next() {
            Some(c) => Some(Self::key(c.len_utf8(), KeyCode::Char(c))),
            // More bytes may complete the character.
            None if str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none()) => None,
            None => Some(Self::of(chunk.invalid().len(), None)),
        }
    }
}
