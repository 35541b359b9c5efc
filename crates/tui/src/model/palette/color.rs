//! Colours, and the nearest colour that a terminal can show.

/// A colour of a text or of its background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// The terminal's own.
    #[default]
    Default,
    /// A colour of the terminal's palette, 0–15.
    Basic(u8),
    /// A colour of the palette of 256.
    Indexed(u8),
    /// Red, green and blue, and the one of the sixteen colours that stands for it.
    Rgb(u8, u8, u8, u8),
}

/// Number of colours of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// The sixteen colours of the palette.
    Sixteen,
    /// 256 colours.
    Indexed,
    /// 24-bit colours.
    True,
}

impl Ink {
    /// Returns a colour of 24 bits; a terminal with sixteen colours shows the nearest of them.
    pub fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self::Rgb(red, green, blue, nearest_basic((red, green, blue)))
    }

    /// Returns the nearest colour of a depth.
    pub fn at_depth(self, depth: ColorDepth) -> Self {
        match (self, depth) {
            (Self::Rgb(.., basic), ColorDepth::Sixteen) => Self::Basic(basic),
            (Self::Rgb(red, green, blue, _), ColorDepth::Indexed) => Self::Indexed(nearest_indexed((red, green, blue))),
            (Self::Indexed(index), ColorDepth::Sixteen) if index < 16 => Self::Basic(index),
            (Self::Indexed(index), ColorDepth::Sixteen) => Self::Basic(nearest_basic(of_index(index))),
            (ink, _) => ink,
        }
    }
}

type Rgb = (u8, u8, u8);

/// The sixteen colours as xterm has them.
const BASIC: [Rgb; 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// Levels of the 6x6x6 cube of the 256 colours.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Returns red, green and blue of one of the 256 colours.
pub fn of_index(index: u8) -> (u8, u8, u8) {
    match index {
        0..16 => BASIC[usize::from(index)],
        16..232 => {
            let at = usize::from(index - 16);
            (LEVELS[at / 36], LEVELS[at / 6 % 6], LEVELS[at % 6])
        }
        232.. => {
            let gray = 8 + 10 * (index - 232);
            (gray, gray, gray)
        }
    }
}

fn distance(one: Rgb, other: Rgb) -> u32 {
    let part = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    // The eye is most sensitive to green and least to blue.
    2 * part(one.0, other.0) + 4 * part(one.1, other.1) + 3 * part(one.2, other.2)
}

/// The colours 0–15 differ between terminals, so only the cube and the grays are candidates.
fn nearest_indexed(color: Rgb) -> u8 {
    (16..=255).min_by_key(|index| distance(color, of_index(*index))).unwrap_or(16)
}

fn nearest_basic(color: Rgb) -> u8 {
    (0..16).min_by_key(|index| distance(color, BASIC[usize::from(*index)])).unwrap_or(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_becomes_the_nearest_that_the_terminal_has() {
        let orange = Ink::rgb(255, 175, 0);

        assert_eq!(orange.at_depth(ColorDepth::True), orange);
        assert_eq!(orange.at_depth(ColorDepth::Indexed), Ink::Indexed(214));
        assert_eq!(orange.at_depth(ColorDepth::Sixteen), Ink::Basic(3));
        assert_eq!(Ink::rgb(128, 128, 128).at_depth(ColorDepth::Indexed), Ink::Indexed(244));
        assert_eq!(Ink::Indexed(196).at_depth(ColorDepth::Sixteen), Ink::Basic(9));
        assert_eq!(Ink::Basic(6).at_depth(ColorDepth::True), Ink::Basic(6), "the user's palette is kept");
        assert_eq!(Ink::Default.at_depth(ColorDepth::Sixteen), Ink::Default);
    }
}
