//! Asks the terminal for its background.
//!
//! ```text
//!   QUERY ──▶ terminal ──▶ ESC ] 1 1 ; r g b : ffff / ffff / ffff ESC \
//! ```
//!
//! Only the first frame waits for the answer, and not for long. Answers that come later, or in pieces, never become keys.

use super::colors::Background;

/// Asks for the background (OSC 11).
pub(crate) const QUERY: &[u8] = b"\x1b]11;?\x1b\\";

/// Parses `11;rgb:ffff/ffff/ffff`; a channel has one to four digits.
pub(super) fn parse(answer: &str) -> Option<Background> {
    let (_, color) = answer.strip_prefix("11;")?.split_once(':')?;
    let mut channels = color.split('/').map(|digits| {
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1).filter(|most| *most > 0)?;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most))
    });
    let [red, green, blue] = [channels.next()??, channels.next()??, channels.next()??];
    let luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    Some(if luminance > 0.5 { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_a_light_or_a_dark_background() {
        assert_eq!(parse("11;rgb:ffff/fafa/f0f0"), Some(Background::Light));
        assert_eq!(parse("11;rgb:1c/1c/1c"), Some(Background::Dark));
        assert_eq!(parse("11;rgba:0000/0000/0000/ffff"), Some(Background::Dark));
    }

    #[test]
    fn a_malformed_answer_tells_nothing() {
        for text in
            ["11;rgb:", "11;rgb:f/f", "11;rgb:/f/f", "12;rgb:f/f/f", "", "11;rgb:fffffffff/f/f", "11;rgb:+f/f/f"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
