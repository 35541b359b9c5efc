//! Converts terminal events to messages.

use crossterm::event::{Event, KeyCode as Code, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};

use crate::model::input::key::{Key, KeyCode, Mouse, MouseKind, Size};
use crate::model::message::Msg;

/// Converts an event to a message; `None` if the event is not used here.
pub(crate) fn message(event: Event) -> Option<Msg> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
            let other_modifier = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::META);
            let code = code(key.code, key.modifiers.contains(KeyModifiers::SHIFT)).filter(|_| !other_modifier)?;
            Some(Msg::Key(Key { code, ctrl }))
        }
        Event::Mouse(mouse) => {
            let kind = match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => MouseKind::Click,
                MouseEventKind::Drag(MouseButton::Left) => MouseKind::Drag,
                MouseEventKind::ScrollDown => MouseKind::Wheel(1),
                MouseEventKind::ScrollUp => MouseKind::Wheel(-1),
                _ => return None,
            };
            Some(Msg::Mouse(Mouse { kind, x: mouse.column, y: mouse.row }))
        }
        Event::Paste(text) => Some(Msg::Paste(text)),
        Event::Resize(width, height) => Some(Msg::Resize(Size::drawn(width, height))),
        _ => None,
    }
}

fn code(code: Code, shift: bool) -> Option<KeyCode> {
    Some(match code {
        Code::Char(c) if shift && c.is_ascii_lowercase() => KeyCode::Char(c.to_ascii_uppercase()),
        Code::Char(c) => KeyCode::Char(c),
        Code::F(n) => KeyCode::F(n),
        Code::Enter => KeyCode::Enter,
        Code::Esc => KeyCode::Esc,
        Code::Tab if shift => KeyCode::BackTab,
        Code::Tab => KeyCode::Tab,
        Code::BackTab => KeyCode::BackTab,
        Code::Backspace => KeyCode::Backspace,
        Code::Delete => KeyCode::Delete,
        Code::Up => KeyCode::Up,
        Code::Down => KeyCode::Down,
        Code::Left => KeyCode::Left,
        Code::Right => KeyCode::Right,
        Code::Home => KeyCode::Home,
        Code::End => KeyCode::End,
        Code::PageUp => KeyCode::PageUp,
        Code::PageDown => KeyCode::PageDown,
        _ => return None,
    })
}

/// Merges consecutive wheel events into one message, and likewise consecutive movements and resize events.
pub(crate) fn coalesce(messages: Vec<Msg>) -> Vec<Msg> {
    let mut out: Vec<Msg> = Vec::with_capacity(messages.len());
    for message in messages {
        match (out.last_mut(), &message) {
            (Some(Msg::Resize(last)), Msg::Resize(size)) => *last = *size,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel(notches: i32) -> Msg {
        Msg::Mouse(Mouse { kind: MouseKind::Wheel(notches), x: 1, y: 1 })
    }

    #[test]
    fn a_storm_of_wheel_events_is_one_message() {
        let messages = coalesce(vec![wheel(1); 1000]);

        assert_eq!(messages, [wheel(1000)]);
    }

    #[test]
    fn keys_are_never_merged() {
        let key = Msg::Key(Key::char('j'));

        assert_eq!(coalesce(vec![key.clone(), key.clone()]), [key.clone(), key]);
    }
}
