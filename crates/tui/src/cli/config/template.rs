//! The file that `rusm-top config init` writes: every option with its help and its value, commented out.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction};

use crate::cli::arguments::{known_options, plain_command};
use crate::model::palette::{BUILT_IN, DEFAULT_THEME, Role};

/// Mark of a line that is an option when the mark is removed.
const MARK: &str = "#: ";

/// Values of options without a default, as examples.
const EXAMPLES: [(&str, &str); 14] = [
    ("target", "\"kv\""),
    ("token_file", "\"/run/user/1000/rusm/tcp-4000.token\""),
    ("fps", "10"),
    ("interval", "\"1s\""),
    ("tab", "\"node\""),
    ("filter", "\"mailq>0\""),
    ("sort", "\"mem\""),
    ("guest_columns", "[\"pid\", \"module\", \"linear\"]"),
    ("columns", "[\"pid\", \"name\", \"state\", \"mem\"]"),
    ("allow", "\"hog\""),
    ("warn", "\"stuck\""),
    ("profile", "\"balanced\""),
    ("log", "\"info\""),
    ("log_file", "\"/tmp/rusm-top.log\""),
];

/// Returns the text of a file with every option commented out.
pub fn template() -> String {
    let mut out = format!(
        "# Options of rusm-top. A flag wins over a variable, a variable over this file.\n\
         # Remove \"{}\" from the start of a line to use it. `rusm-top config check` checks the file.\n",
        MARK.trim_end()
    );
    let command = plain_command();
    for id in known_options(&command) {
        if let Some(argument) = command.get_arguments().find(|argument| argument.get_id() == id) {
            out.push_str(&entry(id, argument));
        }
    }
    let themes: Vec<String> = BUILT_IN.iter().map(|(name, what)| format!("#   {name}: {what}\n")).collect();
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.id()).collect();
    let rest = format!(
        "\n# Themes:\n#   {DEFAULT_THEME}: dark or light where the background is known, else terminal\n{}\
         \n# Keys of actions, everywhere or in one place. `rusm-top keys` lists all actions.\n\
         {MARK}[keys]\n{MARK}quit = [\"q\", \"ctrl-c\"]\n{MARK}[keys.processes]\n{MARK}kill = [\"x\", \"F9\"]\n\
         \n# A theme of your own, used with theme = \"mine\". Roles: {}.\n\
         {MARK}[themes.mine]\n{MARK}base = \"dark\"\n{MARK}warn = \"#ffb000 bold\"\n{MARK}selected = \"black on cyan\"\n",
        themes.concat(),
        roles.join(", ")
    );
    out + &rest
}

fn entry(id: &str, argument: &Arg) -> String {
    let help = argument.get_help().map(StyledStr::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let default = argument.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let example = EXAMPLES.iter().find(|(known, _)| *known == id).map(|(_, value)| (*value).to_owned());
    let value = match (argument.get_action(), example, default) {
        (ArgAction::SetTrue, ..) => "false".to_owned(),
        (_, Some(example), _) => example,
        (_, None, Some(default)) => format!("{default:?}"),
        (_, None, None) => format!("{:?}", argument.get_value_names().map_or("", |names| names[0].as_str())),
    };
    format!("\n# {help}\n{MARK}{id} = {value}\n")
}
