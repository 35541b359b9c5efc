//! The keys of the bindings after the user's changes.
//!
//! ```text
//!   BINDINGS (keys.rs) ──┐
//!   [keys] of the file ──┴─▶ KeyMap ──▶ dispatch, footer, help
//! ```
//!
//! A key that two actions of the same moment would share is an error, except where the table itself lets a view shadow
//! a general key.

use thiserror::Error;

use crate::model::input::key::{Key, KeyCode};
use crate::model::input::key_name;
use crate::model::input::keys::{Action, BINDINGS, Binding, Context, bindings};

/// The keys of all bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyMap {
    /// Changed bindings by their index in the table.
    changed: Vec<(usize, Vec<Key>)>,
}

/// Change of the keys of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// Context of the change; `None` for every context with this action, except text fields.
    pub context: Option<Context>,
    /// Id of the action.
    pub action: String,
    /// The new keys; none to leave the action without a key.
    pub keys: Vec<Key>,
}

/// Error of a change of keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The action does not exist, or not in this context.
    #[error("unknown action {action:?}{place}: {hint}")]
    UnknownAction {
        /// The id that was given.
        action: String,
        /// The context, if one was given.
        place: String,
        /// The nearest id, or where to find the list.
        hint: String,
    },
    /// Two actions of the same moment have the same key.
    #[error("the key {key} would be both {first} and {second}: give one of them another key")]
    Conflict {
        /// Name of the key.
        key: String,
        /// Context and id of one action.
        first: String,
        /// Context and id of the other action.
        second: String,
    },
    /// A printable character as a key of a text field.
    #[error("the key {key} of {action} types a letter in {context}: use a key with ctrl or a named one")]
    TypesALetter {
        /// Name of the key.
        key: String,
        /// Id of the action.
        action: String,
        /// Title of the context.
        context: &'static str,
    },
    /// An action that must keep a key.
    #[error("{0} needs a key")]
    NeedsAKey(String),
}

impl KeyMap {
    /// Applies changes to the table.
    ///
    /// # Errors
    /// Returns the index of the wrong change, and what is wrong with it.
    pub fn with(changes: &[KeyChange]) -> Result<Self, (usize, KeyError)> {
        let mut map = Self::default();
        let mut origins = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            let bindings = map.apply(change).map_err(|error| (number, error))?;
            origins.extend(bindings.into_iter().map(|at| (at, number)));
        }
        // After all changes, so that two actions may exchange their keys.
        map.check().map_err(|(at, error)| {
            let origin = origins.iter().rev().find(|(changed, _)| *changed == at);
            (origin.map_or(0, |(_, number)| *number), error)
        })?;
        Ok(map)
    }

    /// Applies a change. Returns the indices of the changed bindings.
    fn apply(&mut self, change: &KeyChange) -> Result<Vec<usize>, KeyError> {
        let is_meant = |binding: &Binding| match change.context {
            Some(context) => binding.context == context,
            None => !binding.context.takes_text(),
        };
        let matching = BINDINGS.iter().enumerate().filter(|(_, binding)| id(binding.action) == change.action);
        let found: Vec<usize> = matching.filter(|(_, binding)| is_meant(binding)).map(|(at, _)| at).collect();
        if found.is_empty() {
            return Err(unknown(change));
        }
        if change.keys.is_empty() && change.action == id(Action::Quit) {
            return Err(KeyError::NeedsAKey(change.action.clone()));
        }
        for &at in &found {
            let context = BINDINGS[at].context;
            let letter = change.keys.iter().find(|key| matches!(key.code, KeyCode::Char(_)) && !key.ctrl);
            if let Some(&key) = letter.filter(|_| context.takes_text()) {
                let (key, action) = (key_name::name(key), change.action.clone());
                return Err(KeyError::TypesALetter { key, action, context: context.title() });
            }
            self.changed.retain(|(other, _)| *other != at);
            self.changed.push((at, change.keys.clone()));
        }
        Ok(found)
    }

    /// Looks for a changed key that another binding of the same moment has too. Returns the index of the changed one.
    fn check(&self) -> Result<(), (usize, KeyError)> {
        for (at, keys) in &self.changed {
            for (other, binding) in BINDINGS.iter().enumerate().filter(|(other, _)| other != at) {
                let changed = &BINDINGS[*at];
                let shared = keys.iter().find(|key| self.at(other).contains(key));
                let Some(&key) = shared.filter(|_| together(changed.context, binding.context)) else { continue };
                // The table lets some views shadow a general key.
                let by_design = changed.keys.contains(&key) && binding.keys.contains(&key);
                if !by_design {
                    let [first, second] = [binding, changed].map(place);
                    return Err((*at, KeyError::Conflict { key: key_name::name(key), first, second }));
                }
            }
        }
        Ok(())
    }

    /// Returns the keys of the binding at an index of the table.
    fn at(&self, at: usize) -> &[Key] {
        self.changed.iter().find(|(other, _)| *other == at).map_or(BINDINGS[at].keys, |(_, keys)| keys)
    }

    /// Returns the keys of a binding, the usual one first.
    pub fn keys(&self, binding: &Binding) -> &[Key] {
        if self.changed.is_empty() {
            return binding.keys;
        }
        let is_it = |other: &Binding| other.context == binding.context && other.action == binding.action;
        BINDINGS.iter().position(is_it).map_or(binding.keys, |at| self.at(at))
    }

    /// Returns the action of `key` in the given contexts, innermost first.
    pub fn action(&self, contexts: &[Context], key: Key) -> Option<Action> {
        contexts
            .iter()
            .find_map(|&context| bindings(context).find(|binding| self.keys(binding).contains(&key)))
            .map(|binding| binding.action)
    }
}

impl Context {
    /// Returns the name of the context in the config file.
    pub fn id(self) -> String {
        self.title().replace(' ', "-")
    }

    /// Returns the context with that id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|context| context.id() == id)
    }

    /// Returns true if the context is alone while it applies, because it covers the view.
    pub const fn is_overlay(self) -> bool {
        matches!(
            self,
            Self::Filter
                | Self::Help
                | Self::Kill
                | Self::KillWords
                | Self::Ask
                | Self::SortMenu
                | Self::Columns
                | Self::RunDialog
                | Self::Palette
                | Self::Cause
                | Self::Event
                | Self::Find
                | Self::TraceFilter
        )
    }

    /// Returns true if letters are typed in this context.
    pub const fn takes_text(self) -> bool {
        matches!(
            self,
            Self::Filter | Self::RunDialog | Self::Palette | Self::KillWords | Self::Find | Self::TraceFilter
        )
    }
}

/// Returns true if the bindings of both contexts can apply at the same moment.
fn together(one: Context, other: Context) -> bool {
    let is_general = |context| matches!(context, Context::Global | Context::List | Context::Lost);
    one == other || !one.is_overlay() && !other.is_overlay() && (is_general(one) || is_general(other))
}

/// Returns the context and the id of a binding, for a message.
fn place(binding: &Binding) -> String {
    format!("{} ({})", id(binding.action), binding.context.title())
}

fn unknown(change: &KeyChange) -> KeyError {
    let here = BINDINGS.iter().filter(|binding| change.context.is_none_or(|context| binding.context == context));
    let ids: Vec<String> = here.map(|binding| id(binding.action)).collect();
    let near = rusm_text::nearest(&change.action, &ids).map(|near| format!("did you mean {near:?}?"));
    KeyError::UnknownAction {
        action: change.action.clone(),
        place: change.context.map_or_else(String::new, |context| format!(" in {}", context.title())),
        hint: near.unwrap_or_else(|| "`rusm-top keys` lists all".to_owned()),
    }
}

/// Returns the id of an action in the config file.
///
/// It is the name of the variant in lower case, with dashes. A number or a direction becomes `next` or `previous`, so
/// that a new action has an id without a further line here.
pub fn id(action: Action) -> String {
    let spelled = match action {
        Action::Lines(1) => "down",
        Action::Lines(-1) => "up",
        Action::HalfPages(2) => "page-down",
        Action::HalfPages(-2) => "page-up",
        Action::HalfPages(1) => "half-page-down",
        Action::HalfPages(-1) => "half-page-up",
        Action::Step(1) => "next-view",
        Action::Step(-1) => "previous-view",
        other => return spell(&format!("{other:?}")),
    };
    spelled.to_owned()
}

/// Spells a variant: `SortBy(RedsPerSec)` as `sort-by-reds-per-sec`, `Lint(-1)` as `previous-lint`.
fn spell(variant: &str) -> String {
    let (name, payload) = variant.split_once('(').unwrap_or((variant, ""));
    let payload = payload.trim_end_matches(')');
    let direction = match payload {
        "true" => Some(("next", 1)),
        "false" => Some(("previous", 1)),
        number => number.parse::<i64>().ok().map(|n| (if n < 0 { "previous" } else { "next" }, n.unsigned_abs())),
    };
    match direction {
        Some((word, 1)) => format!("{word}-{}", kebab(name)),
        Some((word, number)) => format!("{word}-{}-{number}", kebab(name)),
        None if payload.is_empty() => kebab(name),
        None => format!("{}-{}", kebab(name), kebab(payload)),
    }
}

/// Converts `CamelCase` to `camel-case`. Everything else that is not a letter or a digit becomes a dash.
fn kebab(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if (c.is_ascii_uppercase() || !c.is_ascii_alphanumeric()) && !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        out.extend(c.is_ascii_alphanumeric().then_some(c.to_ascii_lowercase()));
    }
    out
}

/// Formats all bindings with their ids, for `rusm-top keys`.
pub fn listing(map: &KeyMap) -> String {
    let mut out = String::new();
    for context in Context::ALL {
        let head = format!("# {}: [keys.{}]\n", context.title(), context.id());
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.push_str(&head);
        for binding in bindings(context) {
            let keys: Vec<String> = map.keys(binding).iter().map(|key| key_name::name(*key)).collect();
            let line = format!("{:<26} {:<26} {}\n", id(binding.action), keys.join(" "), binding.help);
            out.push_str(&line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(context: Option<Context>, action: &str, keys: &str) -> KeyChange {
        let keys = keys.split_whitespace().map(|key| key_name::parse(key).unwrap()).collect();
        KeyChange { context, action: action.to_owned(), keys }
    }

    fn refused(changes: &[KeyChange]) -> String {
        KeyMap::with(changes).unwrap_err().1.to_string()
    }

    #[test]
    fn every_action_has_an_id_that_stands_for_it_alone() {
        for context in Context::ALL {
            let mut ids: Vec<String> = bindings(context).map(|binding| id(binding.action)).collect();
            for id in &ids {
                assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{id}");
                assert!(!id.starts_with('-') && !id.ends_with('-'), "{id}");
            }
            let all = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), all, "{context:?} has an id twice");
        }
        assert_eq!(id(Action::SortBy(rusm_protocol::Column::RedsPerSec)), "sort-by-reds-per-sec");
        assert_eq!(id(Action::Lint(-1)), "previous-lint");
        assert_eq!(id(Action::Page(true)), "next-page");
        assert_eq!(id(Action::KillAll), "kill-all");
    }

    #[test]
    fn a_changed_key_takes_the_place_of_the_usual_one() {
        let map = KeyMap::with(&[change(None, "quit", "@ ctrl-c"), change(Some(Context::Bench), "stop", "Y")]).unwrap();
        let contexts = [Context::Bench, Context::List, Context::Global];

        assert_eq!(map.action(&contexts, Key::char('@')), Some(Action::Quit));
        assert_eq!(map.action(&contexts, Key::char('q')), None);
        assert_eq!(map.action(&contexts, Key::char('Y')), Some(Action::Stop));
        assert_eq!(map.action(&[Context::Node, Context::Global], Key::char('x')), Some(Action::Stop));
        assert_eq!(map.action(&[Context::Filter], Key::char('@')), None);
        assert!(listing(&map).contains("quit                       @ ctrl-c"));
    }

    #[test]
    fn keys_may_be_exchanged_as_long_as_the_end_is_sound() {
        let exchanged = [change(Some(Context::Node), "stop", "d"), change(Some(Context::Node), "detail", "x")];
        let map = KeyMap::with(&exchanged).unwrap();

        assert_eq!(map.action(&[Context::Node], Key::char('x')), Some(Action::Detail));
        assert_eq!(map.action(&[Context::Node], Key::char('d')), Some(Action::Stop));
    }

    #[test]
    fn a_key_for_two_actions_of_the_same_moment_is_an_error_that_names_both() {
        assert_eq!(
            refused(&[change(Some(Context::Processes), "kill", "i")]),
            "the key i would be both invert (processes) and kill (processes): give one of them another key"
        );
        assert_eq!(
            refused(&[change(None, "help", "x")]),
            "the key x would be both stop (node) and help (everywhere): give one of them another key"
        );
        assert_eq!(
            refused(&[change(Some(Context::Bench), "run", "q")]),
            "the key q would be both quit (everywhere) and run (bench): give one of them another key"
        );
        assert!(KeyMap::with(&[change(Some(Context::Help), "back", "q x")]).is_ok(), "an overlay is alone");
    }

    #[test]
    fn other_wrong_changes_say_what_would_be_right() {
        assert_eq!(refused(&[change(None, "qiut", "@")]), "unknown action \"qiut\": did you mean \"quit\"?");
        assert_eq!(refused(&[change(None, "xyzzy", "@")]), "unknown action \"xyzzy\": `rusm-top keys` lists all");
        assert_eq!(
            refused(&[change(Some(Context::Tree), "sort-menu", "@")]),
            "unknown action \"sort-menu\" in tree: `rusm-top keys` lists all"
        );
        assert_eq!(
            refused(&[change(Some(Context::Filter), "open", "o")]),
            "the key o of open types a letter in filter: use a key with ctrl or a named one"
        );
        assert_eq!(refused(&[change(None, "quit", "")]), "quit needs a key");
        assert!(KeyMap::with(&[change(None, "profile", "")]).is_ok());
    }
}
