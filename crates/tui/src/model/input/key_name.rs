//! Names of keys in the config file: `q`, `Q`, `ctrl-c`, `shift-tab`, `F5`, `page-up`. What the footer shows (`^C`,
//! `S-tab`, `pgup`) is accepted too.

use crate::model::input::key::{Key, KeyCode};

/// Names of the keys that are not one character; the first name of a key is the one to write.
const NAMES: &[(&str, KeyCode)] = &[
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("return", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("escape", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("s-tab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("bksp", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("del", KeyCode::Delete),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("page-up", KeyCode::PageUp),
    ("pgup", KeyCode::PageUp),
    ("page-down", KeyCode::PageDown),
    ("pgdn", KeyCode::PageDown),
];

/// Number of function keys.
const F_MAX: u8 = 24;

/// Parses the name of a key.
///
/// # Errors
/// Returns the rule that the name breaks, with the nearest name.
pub fn parse(name: &str) -> Result<Key, String> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next())
        && !c.is_control()
    {
        return Ok(Key::char(c));
    }
    let lower = name.to_ascii_lowercase();
    let with_ctrl = ["ctrl-", "c-", "^"].into_iter().find_map(|prefix| lower.strip_prefix(prefix));
    if let Some(letter) = with_ctrl {
        let mut letters = letter.chars();
        return match (letters.next(), letters.next()) {
            (Some(c), None) if is_control_letter(c) => Ok(Key::ctrl(c)),
            _ => Err(format!("{name:?} is not a key: ctrl- takes one letter, except i, j and m")),
        };
    }
    if let Some(number) = lower.strip_prefix('f').and_then(|number| number.parse::<u8>().ok()) {
        return if (1..=F_MAX).contains(&number) {
            Ok(Key::plain(KeyCode::F(number)))
        } else {
            Err(format!("{name:?} is not a key: function keys are F1 to F{F_MAX}"))
        };
    }
    let known = NAMES.iter().find(|(known, _)| *known == lower);
    known.map(|&(_, code)| Key::plain(code)).ok_or_else(|| {
        let near = rusm_text::nearest(&lower, NAMES.iter().map(|(name, _)| *name));
        let hint = near.map_or_else(
            || "write one character, ctrl-LETTER, F1 or a name such as enter or page-up".to_owned(),
            |near| format!("did you mean {near:?}?"),
        );
        format!("{name:?} is not a key: {hint}")
    })
}

/// Returns true if a terminal can send Control with this letter as a key of its own: it sends `^I`, `^J` and `^M` for
/// tab, line feed and enter.
fn is_control_letter(c: char) -> bool {
    c.is_ascii_lowercase() && !['i', 'j', 'm'].contains(&c)
}

/// Returns the name of a key as the config file has it.
pub fn name(key: Key) -> String {
    match key.code {
        KeyCode::Char(c) if key.ctrl => format!("ctrl-{}", c.to_ascii_lowercase()),
        KeyCode::F(number) => format!("F{number}"),
        code => match NAMES.iter().find(|(_, known)| *known == code) {
            Some((name, _)) => (*name).to_owned(),
            None => key.text(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::keys::BINDINGS;

    #[test]
    fn every_key_of_the_table_is_read_from_its_name_and_from_what_the_footer_shows() {
        for &key in BINDINGS.iter().flat_map(|binding| binding.keys) {
            assert_eq!(parse(&name(key)), Ok(key), "{}", name(key));
            assert_eq!(parse(&key.text()), Ok(key), "{}", key.text());
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_would_be_right() {
        let said = |name: &str| parse(name).unwrap_err();

        assert_eq!(said("pageup"), "\"pageup\" is not a key: did you mean \"page-up\"?");
        assert_eq!(said("F99"), "\"F99\" is not a key: function keys are F1 to F24");
        assert_eq!(said("ctrl-m"), "\"ctrl-m\" is not a key: ctrl- takes one letter, except i, j and m");
        assert!(said("").contains("write one character"));
        assert!(said("alt-x").contains("is not a key"));
        assert!(said("\u{1b}").contains("is not a key"));
    }
}
