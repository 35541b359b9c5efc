//! Tests of the config file: what it accepts, and the line and the words of each error.

use super::*;
use crate::model::input::key::Key;
use crate::model::input::keys::Action;

fn said(text: &str) -> String {
    let (line, what) = Config::parse(text).unwrap_err();
    format!("{line}: {what}")
}

#[test]
fn every_option_key_and_theme_is_read() {
    let config = Config::parse(
        "target = \"kv\"\nfps = 20\nno_mouse = true\ntimeout = 0.5\ncolumns = [\"pid\", \"mem\"]\ntheme = \"mine\"\n\
         [keys]\nquit = [\"@\", \"ctrl-c\"]\n[keys.bench]\nstop = [\"Y\"]\n\
         [themes.mine]\nbase = \"light\"\nwarn = \"#ffb000 bold\"\n",
    );

    let config = config.unwrap();
    let value = |name: &str| config.values.iter().find(|(id, _)| id == name).map(|(_, value)| value.as_str());
    assert_eq!(value("target"), Some("kv"));
    assert_eq!(value("fps"), Some("20"));
    assert_eq!(value("no_mouse"), Some("true"));
    assert_eq!(value("timeout"), Some("0.5"));
    assert_eq!(value("columns"), Some("pid,mem"));
    assert_eq!(config.keys.action(&[Context::Global], Key::char('@')), Some(Action::Quit));
    assert_eq!(config.keys.action(&[Context::Bench], Key::char('Y')), Some(Action::Stop));
    let mine = config.palette("mine").unwrap().unwrap();
    assert_eq!(Some(mine.style(Role::Good)), palette::by_name("light").map(|light| light.style(Role::Good)));
    assert_eq!(mine.style(Role::Warn), parse_style("#ffb000 bold").unwrap());
}

#[test]
fn every_error_names_its_line_and_what_would_be_right() {
    let cases = [
        ("fpss = 3", "1: unknown key \"fpss\": did you mean \"fps\"?"),
        ("once = true", "1: once belongs on the command line, not in a file"),
        ("\nfps = 0", "2: invalid value '0' for '--fps <N>': 0 is not in 1..=60"),
        ("fps = []", "1: invalid value '' for '--fps <N>': cannot parse integer from empty string"),
        ("fps = true", "1: fps must be a string or a number"),
        ("no_mouse = 1", "1: no_mouse must be true or false"),
        ("tab = \"nodes\"", "1: invalid value 'nodes' for '--tab <VIEW>': did you mean \"node\"?"),
        ("columns = [\"pid\", 3]", "1: columns must be a list of strings"),
        (
            "columns = [\"mailbx\"]",
            "1: invalid value 'mailbx' for '--columns <COLUMNS>': did you mean \"mailbox_len\"?",
        ),
        ("theme = \"drak\"", "1: unknown theme \"drak\": did you mean \"dark\"?"),
        ("fps = ", "1: string values must be quoted, expected literal string"),
        ("keys = 3", "1: keys must be a section of its own"),
        ("[keys]\nquit = \"q\"", "2: quit must be a list of keys, such as [\"q\", \"ctrl-c\"]"),
        ("[keys]\nquit = [3]", "2: quit must be a list of keys, each a string"),
        (
            "[keys]\n\nquit = [\"q\", \"ctrl-m\"]",
            "3: \"ctrl-m\" is not a key: ctrl- takes one letter, except i, j and m",
        ),
        ("[keys]\nqiut = [\"q\"]", "2: unknown action \"qiut\": did you mean \"quit\"?"),
        ("[keys.benhc]\nstop = [\"Y\"]", "1: unknown place \"benhc\" of keys: did you mean \"bench\"?"),
        (
            "[keys.bench]\nabout = [\"Y\"]\nstop = [\"Y\"]",
            "2: the key Y would be both stop (bench) and about (bench): give one of them another key",
        ),
        ("[themes]\ndark = {}", "2: the theme \"dark\" is built in: choose another name"),
        ("[themes.a]\nbase = \"b\"", "2: unknown theme \"b\": expected one of terminal, dark, light, contrast, mono"),
        ("[themes.a]\nwran = \"red\"", "2: unknown role \"wran\": did you mean \"warn\"?"),
        ("[themes.a]\nwarn = \"cyna\"", "2: \"cyna\" is not part of a style: did you mean \"cyan\"?"),
        ("[themes.a]\nwarn = 3", "2: warn must be a string"),
    ];
    let found: Vec<String> = cases.iter().map(|(text, _)| said(text)).collect();
    assert_eq!(found, cases.map(|(_, due)| due));
}

#[test]
fn the_template_is_a_file_that_changes_nothing() {
    let text = template();

    assert_eq!(Config::parse(&text), Ok(Config::default()), "{text}");
    let uncommented: String =
        text.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let config = Config::parse(&uncommented).unwrap_or_else(|(line, what)| panic!("{line}: {what}\n{uncommented}"));
    assert!(config.values.len() >= 12, "{:?}", config.values);
    for id in known_options(&plain_command()) {
        assert!(text.contains(&format!("#: {id} = ")), "{id}");
    }
}
