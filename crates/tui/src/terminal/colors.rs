//! The colours of this terminal: how many, and on which background.

use crate::cli::options::{ColorChoice, Options};
use crate::model::palette::{self, ColorDepth, Palette};

/// Background of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Light text is readable on it.
    Dark,
    /// Dark text is readable on it.
    Light,
}

/// Colours of the terminal, as far as the environment tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalColors {
    /// Number of colours; `None` for no colours.
    pub depth: Option<ColorDepth>,
    /// Background, if `COLORFGBG` names it.
    pub background: Option<Background>,
    /// True if the terminal may answer a question about its background.
    pub answers: bool,
}

impl TerminalColors {
    /// Reads the environment of this process.
    pub fn from_env(choice: ColorChoice) -> Self {
        Self::of(choice, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Reads an environment.
    fn of(choice: ColorChoice, variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let is_true = variable("COLORTERM").is_some_and(|value| ["truecolor", "24bit"].contains(&value.as_str()));
        let found = if is_true || term.ends_with("-direct") {
            ColorDepth::True
        } else if term.contains("256color") {
            ColorDepth::Indexed
        } else {
            ColorDepth::Sixteen
        };
        let depth = match choice {
            ColorChoice::Never => None,
            ColorChoice::Auto if variable("NO_COLOR").is_some() => None,
            ColorChoice::Auto | ColorChoice::Always => Some(found),
            ColorChoice::Depth(depth) => Some(depth),
        };
        // The console of Linux and GNU screen print a question that they do not know.
        let is_mute = term.is_empty() || ["linux", "dumb"].contains(&term.as_str()) || term.starts_with("screen");
        let answers = !is_mute || variable("TMUX").is_some();
        Self { depth, background: variable("COLORFGBG").and_then(|value| of_colorfgbg(&value)), answers }
    }

    /// Returns the theme: the chosen one, else the one for this background.
    pub(crate) fn palette(self, options: &Options, background: Option<Background>) -> Palette {
        let follows = match background.or(self.background) {
            Some(Background::Dark) => palette::by_name("dark"),
            Some(Background::Light) => palette::by_name("light"),
            None => None,
        };
        let chosen = options.palette.or(follows).unwrap_or_default();
        self.depth.map_or(chosen, |depth| chosen.at_depth(depth))
    }

    /// Returns true if the theme depends on a background that is not known yet.
    pub(crate) fn is_open(self, options: &Options) -> bool {
        options.palette.is_none() && self.depth.is_some() && self.background.is_none() && self.answers
    }
}

/// Reads `COLORFGBG`, for example `15;0` or `0;default;15`: the last number is the background.
fn of_colorfgbg(value: &str) -> Option<Background> {
    match value.rsplit(';').next()?.parse::<u8>().ok()? {
        0..=6 | 8 => Some(Background::Dark),
        7 | 9..=15 => Some(Background::Light),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::palette::{Ink, Role};

    fn colors(choice: ColorChoice, variables: &[(&str, &str)]) -> TerminalColors {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        TerminalColors::of(choice, |name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_number_of_colors_is_that_of_the_terminal() {
        let depth = |choice, variables: &[(&str, &str)]| colors(choice, variables).depth;

        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "xterm")]), Some(ColorDepth::Sixteen));
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "xterm-256color")]), Some(ColorDepth::Indexed));
        let truecolor = [("TERM", "tmux-256color"), ("COLORTERM", "truecolor")];
        assert_eq!(depth(ColorChoice::Auto, &truecolor), Some(ColorDepth::True));
        assert_eq!(depth(ColorChoice::Depth(ColorDepth::Sixteen), &truecolor), Some(ColorDepth::Sixteen));
        assert_eq!(depth(ColorChoice::Auto, &[("NO_COLOR", "1"), truecolor[1]]), None);
        assert_eq!(depth(ColorChoice::Always, &[("NO_COLOR", "1"), truecolor[1]]), Some(ColorDepth::True));
        assert_eq!(depth(ColorChoice::Never, &truecolor), None);
    }

    #[test]
    fn the_theme_follows_the_background_unless_one_is_chosen() {
        let terminal = colors(ColorChoice::Auto, &[("TERM", "xterm-256color"), ("COLORFGBG", "0;default;15")]);
        let by_name = |name: &str| palette::by_name(name).unwrap().at_depth(ColorDepth::Indexed);

        assert_eq!(terminal.palette(&Options::default(), None), by_name("light"));
        assert_eq!(terminal.palette(&Options::default(), Some(Background::Dark)), by_name("dark"));
        let chosen = Options { palette: palette::by_name("contrast"), ..Options::default() };
        assert_eq!(terminal.palette(&chosen, Some(Background::Dark)), by_name("contrast"));
        let unknown = colors(ColorChoice::Auto, &[("TERM", "xterm")]);
        assert_eq!(unknown.palette(&Options::default(), None).style(Role::Good).foreground, Ink::Basic(2));
        assert!(unknown.is_open(&Options::default()) && !unknown.is_open(&chosen) && !terminal.is_open(&chosen));
    }

    #[test]
    fn a_terminal_that_would_print_the_question_is_not_asked() {
        assert!(!colors(ColorChoice::Auto, &[("TERM", "linux")]).answers);
        assert!(!colors(ColorChoice::Auto, &[("TERM", "screen-256color")]).answers);
        assert!(colors(ColorChoice::Auto, &[("TERM", "screen-256color"), ("TMUX", "/tmp/t,1,0")]).answers);
    }

    #[test]
    fn colorfgbg_tells_the_background() {
        assert_eq!(of_colorfgbg("15;0"), Some(Background::Dark));
        assert_eq!(of_colorfgbg("0;default;15"), Some(Background::Light));
        assert_eq!(of_colorfgbg("0;default"), None);
        assert_eq!(of_colorfgbg(""), None);
    }
}
