//! Error messages for a wrong command line, in one line; clap's own message fills a page.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns the message, which ends in the most likely intended word or in the help command to use.
pub(crate) fn line(error: &clap::Error) -> String {
    let word = |kind| error.get(kind).and_then(first);
    let fault = match (error.kind(), word(ContextKind::InvalidArg), word(ContextKind::InvalidSubcommand)) {
        (ErrorKind::UnknownArgument, Some(argument), _) => format!("unknown argument {argument:?}"),
        (ErrorKind::InvalidSubcommand, _, Some(command)) => format!("unknown command {command:?}"),
        (ErrorKind::MissingSubcommand, _, Some(parent)) => format!("{parent} needs a command"),
        (ErrorKind::MissingRequiredArgument, Some(argument), _) => format!("missing {argument}"),
        _ => first_paragraph(&error.to_string()),
    };
    let meant = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    match meant.into_iter().find_map(word) {
        Some(meant) => format!("{fault}: did you mean {meant:?}?"),
        None => format!("{fault}: see {} --help", command(error)),
    }
}

fn first(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    }
}

fn first_paragraph(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Returns the command that clap took the line for, as named in its usage.
fn command(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let words = usage.split_whitespace().skip_while(|word| *word != "rusm");
    let path: Vec<&str> = words.take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    if path.is_empty() { "rusm".to_owned() } else { path.join(" ") }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn answer(arguments: &str) -> String {
        line(&Cli::try_parse_from(arguments.split(' ')).expect_err("the arguments are wrong"))
    }

    #[test]
    fn a_mistyped_word_is_answered_with_the_one_it_meant() {
        assert_eq!(
            answer("rusm bench run ping-pong --profil max"),
            r#"unknown argument "--profil": did you mean "--profile"?"#
        );
        assert_eq!(answer("rusm benhc"), r#"unknown command "benhc": did you mean "bench"?"#);
    }

    #[test]
    fn a_word_like_no_other_is_answered_with_where_to_look() {
        assert_eq!(answer("rusm --bogus"), r#"unknown argument "--bogus": see rusm --help"#);
        assert_eq!(answer("rusm bench xyzzy"), r#"unknown command "xyzzy": see rusm bench --help"#);
        assert_eq!(answer("rusm bench run a b"), r#"unknown argument "b": see rusm bench run --help"#);
    }

    #[test]
    fn what_is_missing_is_named() {
        for command in ["bench", "store", "cluster", "ops"] {
            let expected = format!("rusm {command} needs a command: see rusm {command} --help");
            assert_eq!(answer(&format!("rusm {command}")), expected);
        }
        assert_eq!(answer("rusm bench run"), "missing <ID>: see rusm bench run --help");
    }

    #[test]
    fn everything_else_keeps_to_one_line() {
        let cases = [
            "rusm bench run ping-pong --seed x",
            "rusm bench run ping-pong --open-loop",
            "rusm bench run ping-pong --json=3",
            "rusm node --name",
            "rusm node --name a --name b",
            "rusm --name a doctor",
            "rusm doctor a\nb",
            "rusm a\n\nb",
        ];
        for case in cases {
            let line = answer(case);

            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(!line.starts_with("error") && line.contains(": "), "{line}");
        }
        assert_eq!(
            answer("rusm bench run ping-pong --seed x"),
            "invalid value 'x' for '--seed <N>': invalid digit found in string: see rusm --help"
        );
    }
}
