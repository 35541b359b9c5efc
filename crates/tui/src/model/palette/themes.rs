//! The built-in themes, and the text of a style in the config file.

use crate::model::palette::{Ink, Palette, Role, RoleStyle};

/// Name of the theme that follows the terminal: dark or light where its background is known, else its own colours.
pub const DEFAULT_THEME: &str = "auto";

/// Names of the built-in themes, and what they are for.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("terminal", "the sixteen colours of the terminal's own palette"),
    ("dark", "for a dark background"),
    ("light", "for a light background"),
    ("contrast", "high contrast: nothing is dimmed, few colours"),
    ("mono", "no colours"),
];

/// Returns a built-in theme.
pub fn by_name(name: &str) -> Option<Palette> {
    Some(match name {
        "terminal" => TERMINAL,
        "dark" => DARK,
        "light" => LIGHT,
        "contrast" => CONTRAST,
        "mono" => MONO,
        _ => return None,
    })
}

impl Default for Palette {
    /// The sixteen colours of the terminal, which dark and light terminals both show well.
    fn default() -> Self {
        TERMINAL
    }
}

const PLAIN: RoleStyle = RoleStyle::of(Ink::Default);

/// Returns a colour, and the one of the sixteen that stands for it.
const fn ink(rgb: u32, basic: u8) -> RoleStyle {
    let [_, red, green, blue] = rgb.to_be_bytes();
    RoleStyle::of(Ink::Rgb(red, green, blue, basic))
}

const fn basic(index: u8) -> RoleStyle {
    RoleStyle::of(Ink::Basic(index))
}

/// Creates a theme from a table of all roles in their order.
const fn theme(rows: [(Role, RoleStyle); Role::ALL.len()]) -> Palette {
    let mut palette = Palette { styles: [PLAIN; Role::ALL.len()] };
    let mut row = 0;
    while row < rows.len() {
        assert!(rows[row].0 as usize == row, "the rows are in the order of the roles");
        palette.set(rows[row].0, rows[row].1);
        row += 1;
    }
    palette
}

const TERMINAL: Palette = theme([
    (Role::Text, PLAIN),
    (Role::Strong, PLAIN.bold()),
    (Role::Dim, PLAIN.dim()),
    (Role::Border, PLAIN.dim()),
    (Role::Title, PLAIN.bold()),
    (Role::Accent, basic(6).bold()),
    (Role::Flow, basic(6)),
    (Role::Delay, basic(5)),
    (Role::Store, basic(4)),
    (Role::Good, basic(2)),
    (Role::Warn, basic(3).bold()),
    (Role::Bad, basic(1).bold()),
    (Role::Key, basic(6).bold()),
    (Role::Selected, PLAIN.reversed()),
]);

const DARK: Palette = theme([
    (Role::Text, PLAIN),
    (Role::Strong, PLAIN.bold()),
    (Role::Dim, ink(0x0088_92a2, 8)),
    (Role::Border, ink(0x0056_6273, 8)),
    (Role::Title, PLAIN.bold()),
    (Role::Accent, ink(0x004f_d1d9, 6).bold()),
    (Role::Flow, ink(0x004f_d1d9, 6)),
    (Role::Delay, ink(0x00c7_92ea, 5)),
    (Role::Store, ink(0x006c_a9f7, 4)),
    (Role::Good, ink(0x008f_d16a, 2)),
    (Role::Warn, ink(0x00f2_c063, 3).bold()),
    (Role::Bad, ink(0x00f2_6d78, 1).bold()),
    (Role::Key, ink(0x004f_d1d9, 6).bold()),
    (Role::Selected, PLAIN.reversed()),
]);

const LIGHT: Palette = theme([
    (Role::Text, PLAIN),
    (Role::Strong, PLAIN.bold()),
    (Role::Dim, ink(0x0066_6c75, 8)),
    (Role::Border, ink(0x009a_a0aa, 8)),
    (Role::Title, PLAIN.bold()),
    (Role::Accent, ink(0x000b_7d86, 4).bold()),
    (Role::Flow, ink(0x000b_7d86, 4)),
    (Role::Delay, ink(0x008b_3fb3, 5)),
    (Role::Store, ink(0x002a_66c8, 6)),
    (Role::Good, ink(0x002f_7d1c, 2)),
    (Role::Warn, ink(0x0096_6300, 5).bold()),
    (Role::Bad, ink(0x00c4_302b, 1).bold()),
    (Role::Key, ink(0x000b_7d86, 4).bold()),
    (Role::Selected, PLAIN.reversed()),
]);

const CONTRAST: Palette = theme([
    (Role::Text, PLAIN),
    (Role::Strong, PLAIN.bold()),
    (Role::Dim, PLAIN),
    (Role::Border, PLAIN),
    (Role::Title, PLAIN.bold()),
    (Role::Accent, PLAIN.bold()),
    (Role::Flow, PLAIN),
    (Role::Delay, PLAIN),
    (Role::Store, PLAIN),
    (Role::Good, PLAIN),
    (Role::Warn, PLAIN.bold().reversed()),
    (Role::Bad, basic(1).bold().reversed()),
    (Role::Key, PLAIN.bold()),
    (Role::Selected, PLAIN.bold().reversed()),
]);

const MONO: Palette = theme([
    (Role::Text, PLAIN),
    (Role::Strong, PLAIN.bold()),
    (Role::Dim, PLAIN.dim()),
    (Role::Border, PLAIN.dim()),
    (Role::Title, PLAIN.bold()),
    (Role::Accent, PLAIN.bold()),
    (Role::Flow, PLAIN),
    (Role::Delay, PLAIN),
    (Role::Store, PLAIN),
    (Role::Good, PLAIN),
    (Role::Warn, PLAIN.bold()),
    (Role::Bad, PLAIN.bold()),
    (Role::Key, PLAIN.bold()),
    (Role::Selected, PLAIN.reversed()),
]);

/// Names of the sixteen colours.
const COLORS: [&str; 16] = [
    "black",
    "red",
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "white",
    "gray",
    "bright-red",
    "bright-green",
    "bright-yellow",
    "bright-blue",
    "bright-magenta",
    "bright-cyan",
    "bright-white",
];

/// Words of a style besides colours.
const WORDS: [&str; 7] = ["default", "on", "bold", "dim", "underlined", "reversed", "plain"];

/// Parses the text of a style, such as `#ffb000 bold`, `bright-white on blue` or `214`.
///
/// # Errors
/// Returns the word that is wrong, with the nearest one.
pub fn parse_style(text: &str) -> Result<RoleStyle, String> {
    let mut style = PLAIN;
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "bold" => style.bold = true,
            "dim" => style.dim = true,
            "underlined" => style.underlined = true,
            "reversed" => style.reversed = true,
            "plain" => {}
            "on" => {
                let color = words.next().ok_or("\"on\" needs a colour after it")?;
                style.background = parse_color(color)?;
            }
            color => style.foreground = parse_color(color)?,
        }
    }
    Ok(style)
}

fn parse_color(word: &str) -> Result<Ink, String> {
    if word == "default" {
        return Ok(Ink::Default);
    }
    if let Some(digits) = word.strip_prefix('#') {
        let value = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 6);
        let value = value.ok_or_else(|| format!("{word:?} is not a colour: write #rrggbb"))?;
        let [_, red, green, blue] = value.to_be_bytes();
        return Ok(Ink::rgb(red, green, blue));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let index = word.parse().map_err(|_not_a_byte| format!("{word:?} is not a colour: write a number to 255"))?;
        return Ok(Ink::Indexed(index));
    }
    let known = COLORS.iter().position(|color| *color == word);
    known.map(|index| Ink::Basic(index as u8)).ok_or_else(|| {
        let near = rusm_text::nearest(word, COLORS.iter().chain(&WORDS).copied());
        let hint = near.map_or_else(
            || "write a colour such as cyan, bright-blue, 214 or #ffb000, and bold, dim or reversed".to_owned(),
            |near| format!("did you mean {near:?}?"),
        );
        format!("{word:?} is not part of a style: {hint}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::palette::Role;

    /// Returns the contrast of a colour on black or white, as WCAG defines it.
    fn contrast(ink: Ink, on: f64) -> Option<f64> {
        let Ink::Rgb(red, green, blue, _) = ink else { return None };
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        let luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
        Some((luminance.max(on) + 0.05) / (luminance.min(on) + 0.05))
    }

    #[test]
    fn every_text_of_the_dark_and_the_light_theme_can_be_read() {
        for (palette, background) in [(DARK, 0.0), (LIGHT, 1.0)] {
            for role in Role::ALL {
                let least = if role == Role::Border { 2.5 } else { 4.5 };
                let found = contrast(palette.style(role).foreground, background);
                assert!(found.is_none_or(|found| found >= least), "{role:?}: {found:?}");
            }
        }
    }

    #[test]
    fn every_built_in_theme_has_its_name() {
        assert!(BUILT_IN.iter().all(|(name, what)| by_name(name).is_some() && !what.is_empty()));
        assert_eq!(by_name(DEFAULT_THEME), None, "auto is a choice between themes");
    }

    #[test]
    fn without_colors_the_themes_still_tell_warnings_from_text() {
        for (name, _) in BUILT_IN {
            let palette = by_name(name).unwrap();
            let modifiers = |role| {
                let style = palette.style(role);
                (style.bold, style.dim, style.underlined, style.reversed)
            };
            assert_ne!(modifiers(Role::Bad), modifiers(Role::Text), "{name}");
            assert_ne!(modifiers(Role::Selected), modifiers(Role::Text), "{name}");
        }
    }

    #[test]
    fn a_style_is_read_from_its_words() {
        assert_eq!(parse_style("bright-white on blue bold"), Ok(basic(15).on(Ink::Basic(4)).bold()));
        assert_eq!(parse_style("#ffb000"), Ok(RoleStyle::of(Ink::rgb(255, 176, 0))));
        assert_eq!(parse_style("214 dim"), Ok(RoleStyle::of(Ink::Indexed(214)).dim()));
        assert_eq!(parse_style("plain"), Ok(PLAIN));
        let said = |text: &str| parse_style(text).unwrap_err();
        assert_eq!(said("cyna"), "\"cyna\" is not part of a style: did you mean \"cyan\"?");
        assert_eq!(said("#ffb00"), "\"#ffb00\" is not a colour: write #rrggbb");
        assert_eq!(said("300"), "\"300\" is not a colour: write a number to 255");
        assert_eq!(said("red on"), "\"on\" needs a colour after it");
        assert!(said("xyzzy").contains("write a colour such as cyan"));
    }
}
