//! Prints the catalogue as text and as JSON.

use std::fmt::Write;

use rusm_protocol::{ResourceProfileMeta, ScenarioMeta};
use rusm_runtime::Config;
use serde::Serialize;

use crate::catalogue::{catalogue, find};
use crate::gates::described;
use crate::run::plan::RequestError;
use crate::run::profile::Profile;

/// Line width of the text, in columns.
const COLUMNS: usize = 120;
/// Width of the column that contains ids and profile names.
const INDENT: usize = 20;

/// Returns a text with one or two lines for each scenario and profile.
pub fn list_text(cores: usize) -> String {
    let mut text = String::new();
    let mut family = String::new();
    for card in catalogue().iter().map(|scenario| described(*scenario, &Config::default())) {
        if card.family != family {
            family.clone_from(&card.family);
            let gap = if text.is_empty() { "" } else { "\n" };
            push_line(&mut text, &format!("{gap}{family}"));
        }
        let lacks = card.lacks.map(|lacks| format!(" (cannot run here: {lacks})"));
        push_entry(&mut text, &card.id, &format!("{}{}", card.description, lacks.unwrap_or_default()));
    }
    text.push_str("\nprofiles\n");
    for profile in Profile::ALL {
        let meta = profile.meta(cores);
        push_entry(&mut text, &meta.id, &meta.description);
    }
    text
}

/// Appends a name and its description, wrapped at [`COLUMNS`].
fn push_entry(text: &mut String, name: &str, meaning: &str) {
    let mut line = format!("{:<INDENT$}", format!("  {name}"));
    for word in meaning.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            push_line(text, &line);
            line = " ".repeat(INDENT);
        }
        line.push(' ');
        line.push_str(word);
    }
    push_line(text, &line);
}

/// Returns a text with the full cards of the given scenarios.
///
/// # Errors
/// [`RequestError::UnknownScenario`] for the first unknown id.
pub fn card_text(ids: &[String]) -> Result<String, RequestError> {
    let mut text = String::new();
    for id in ids {
        if !text.is_empty() {
            text.push('\n');
        }
        push_card(&mut text, &described(find(id)?, &Config::default()));
    }
    Ok(text)
}

fn push_card(text: &mut String, card: &ScenarioMeta) {
    push_line(text, &format!("{} ({}, {})", card.id, card.family, card.ops_label));
    push_line(text, &format!("  {}", card.description));
    for detail in &card.details {
        push_line(text, &format!("  - {detail}"));
    }
    for gate in &card.gates {
        push_line(text, &format!("  gate: {} {}", gate.name, gate.limit));
    }
    let rows: Vec<(String, String, &str)> = card
        .parameters
        .iter()
        .map(|parameter| {
            let values = format!("{} (default {})", parameter.range, parameter.default);
            (format!("--param {}=", parameter.name), values, parameter.description.as_str())
        })
        .collect();
    let names = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    let ranges = rows.iter().map(|(_, values, _)| values.chars().count()).max().unwrap_or_default();
    for (name, values, description) in rows {
        push_line(text, &format!("  {name:<names$} {values:<ranges$}  {description}"));
    }
    if let Some(lacks) = &card.lacks {
        push_line(text, &format!("  cannot run here: {lacks}"));
    }
}

fn push_line(text: &mut String, line: &str) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

#[derive(Serialize)]
struct Listing {
    scenarios: Vec<ScenarioMeta>,
    profiles: Vec<ResourceProfileMeta>,
}

/// Returns all scenarios and profiles as JSON.
///
/// # Panics
/// Never: a card contains only strings and numbers.
pub fn list_json(cores: usize) -> String {
    let listing = Listing {
        scenarios: catalogue().iter().map(|scenario| described(*scenario, &Config::default())).collect(),
        profiles: Profile::ALL.map(|profile| profile.meta(cores)).to_vec(),
    };
    serde_json::to_string_pretty(&listing).expect("every field of a card can be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_reads_like_this() {
        insta::assert_snapshot!(list_text(2));
    }

    #[test]
    fn the_cards_read_like_this() {
        let ids: Vec<String> = catalogue().iter().map(|scenario| scenario.card().id.to_owned()).collect();

        insta::assert_snapshot!(card_text(&ids).unwrap());
    }

    #[test]
    fn a_card_that_is_not_there_is_answered_with_the_nearest() {
        let error = card_text(&["fan-in".into(), "fan-inn".into()]).unwrap_err();

        assert_eq!(error.to_string(), r#"unknown scenario "fan-inn": did you mean "fan-in"?"#);
    }

    #[test]
    fn the_json_names_every_scenario() {
        let json: serde_json::Value = serde_json::from_str(&list_json(2)).unwrap();

        assert_eq!(json["scenarios"].as_array().map(Vec::len), Some(catalogue().len()));
        assert_eq!(json["profiles"][1]["id"], "balanced");
    }
}
