//! Decodes keys, control sequences and answers of a terminal.

use super::event::Input;
use crate::model::input::key::{Key, KeyCode, Mouse, MouseKind};
use crate::terminal::background;

/// Modifiers of a key, as terminals count them: one more than the sum of their bits.
struct Modifiers(u16);

impl Modifiers {
    const SHIFT: u16 = 1;
    const CONTROL: u16 = 4;
    /// Alt, Super, Hyper and Meta. No key is used together with them.
    const OTHERS: u16 = 2 | 8 | 16 | 32;

    fn has(&self, bits: u16) -> bool {
        self.0.saturating_sub(1) & bits != 0
    }

    /// Returns the key with these modifiers; `None` if it is not used here.
    fn apply(&self, code: KeyCode) -> Option<Input> {
        let code = match code {
            KeyCode::Tab if self.has(Self::SHIFT) => KeyCode::BackTab,
            KeyCode::Char(c) if self.has(Self::SHIFT) => KeyCode::Char(c.to_ascii_uppercase()),
            code => code,
        };
        (!self.has(Self::OTHERS)).then(|| Input::Key(Key { code, ctrl: self.has(Self::CONTROL) }))
    }
}

/// Decodes a byte of ASCII.
pub(super) fn ascii(byte: u8) -> Input {
    match byte {
        b'\r' => Input::key(KeyCode::Enter),
        b'\t' => Input::key(KeyCode::Tab),
        0x7f => Input::key(KeyCode::Backspace),
        0 => Input::Key(Key::ctrl(' ')),
        1..=0x1a => Input::Key(Key::ctrl((b'a' + byte - 1).into())),
        0x1b..=0x1f => Input::Key(Key::ctrl((b'3' + byte - 0x1b).into())),
        _ => Input::key(KeyCode::Char(byte.into())),
    }
}

/// Decodes a control sequence of these parameters and this final byte.
pub(super) fn control_sequence(parameters: &[u8], last: u8) -> Option<Input> {
    match (parameters.split_first(), last) {
        (Some((b'<', report)), b'M' | b'm') => mouse(report, last == b'M'),
        (Some((b'0'..=b'9' | b';', _)) | None, _) => key(parameters, last),
        // A private sequence: an answer to a question that was not asked.
        _ => None,
    }
}

/// Decodes a key: `CSI number ; modifiers ~`, `CSI 1 ; modifiers letter`, or `CSI character ; modifiers u`. The modifiers
/// may be followed by `:` and 1 for a press, 2 for a repetition and 3 for a release.
pub(super) fn key(parameters: &[u8], last: u8) -> Option<Input> {
    let text = str::from_utf8(parameters).ok()?;
    let mut fields = text.split(';').map(|field| field.split(':'));
    let number = fields.next().and_then(|mut field| field.next()?.parse::<u32>().ok());
    let mut modifiers = fields.next().into_iter().flatten().map(str::parse::<u16>);
    let held = modifiers.next().and_then(Result::ok).unwrap_or(1);
    if modifiers.next() == Some(Ok(3)) {
        return None;
    }
    let code = match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P'..=b'S' => KeyCode::F(1 + last - b'P'),
        b'Z' => KeyCode::BackTab,
        b'~' => numbered(number?)?,
        b'u' => character(number?)?,
        _ => return None,
    };
    Modifiers(held).apply(code)
}

fn numbered(number: u32) -> Option<KeyCode> {
    let f = |offset: u32| u8::try_from(number - offset).map(KeyCode::F).ok();
    match number {
        1 | 7 => Some(KeyCode::Home),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        11..=15 => f(10),
        17..=21 => f(11),
        23..=26 => f(12),
        28 | 29 => f(13),
        31..=34 => f(14),
        _ => None,
    }
}

fn character(code: u32) -> Option<KeyCode> {
    match code {
        9 => Some(KeyCode::Tab),
        13 => Some(KeyCode::Enter),
        27 => Some(KeyCode::Esc),
        127 => Some(KeyCode::Backspace),
        _ => char::from_u32(code).filter(|c| !c.is_control()).map(KeyCode::Char),
    }
}

/// Decodes F1 to F5 of the console of Linux, `CSI [ letter`.
pub(super) fn console_key(last: u8) -> Option<Input> {
    matches!(last, b'A'..=b'E').then(|| Input::key(KeyCode::F(1 + last - b'A')))
}

/// Decodes a mouse report, `CSI < buttons ; x ; y M`, or `m` at the end for a release.
fn mouse(report: &[u8], is_down: bool) -> Option<Input> {
    let mut numbers = str::from_utf8(report).ok()?.split(';').map(|number| number.parse::<u16>().ok());
    let [buttons, x, y] = [numbers.next()??, numbers.next()??, numbers.next()??];
    let kind = mouse_kind(buttons).filter(|_| is_down)?;
    Some(Input::Mouse(Mouse { kind, x: x.saturating_sub(1), y: y.saturating_sub(1) }))
}

/// Decodes a report of a terminal that does not know the one above: each number is a byte, from 32 on.
pub(super) fn old_mouse([buttons, x, y]: [u8; 3]) -> Option<Input> {
    let kind = mouse_kind(buttons.checked_sub(32)?.into())?;
    Some(Input::Mouse(Mouse { kind, x: x.saturating_sub(33).into(), y: y.saturating_sub(33).into() }))
}

fn mouse_kind(buttons: u16) -> Option<MouseKind> {
    /// Bits of Shift, Meta and Control.
    const MODIFIERS: u16 = 4 | 8 | 16;
    match buttons & !MODIFIERS {
        0 => Some(MouseKind::Click),
        32 => Some(MouseKind::Drag),
        64 => Some(MouseKind::Wheel(-1)),
        65 => Some(MouseKind::Wheel(1)),
        _ => None,
    }
}

/// Decodes an answer of the terminal: to the question for its background, the only one that is asked.
pub(super) fn answer(text: &[u8]) -> Option<Input> {
    background::parse(str::from_utf8(text).ok()?).map(Input::Background)
}
