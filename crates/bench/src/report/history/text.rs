//! Formats a history for people: for each recipe a sparkline, and its newest runs.

use std::fmt::Write;

use rusm_runtime::Config;

use super::{Entry, STABLE_RATE};
use crate::catalogue::find;
use crate::report::document::DocumentKind;
use crate::report::figure::{CPU, RATE, usual};
use crate::run::plan::Plan;
use crate::run::recipe::Recipe;

/// Bars from the lowest value to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum length of a sparkline.
const CURVE_MAX: usize = 60;

/// Formats a history for people, with the newest `last` runs of each recipe.
pub fn history_text(entries: &[Entry], last: usize) -> String {
    let mut groups: Vec<(String, Vec<&Entry>)> = Vec::new();
    // Machines are named only if there are several.
    let is_other = |entry: &Entry| entry.machine != entries[0].machine;
    let is_one_machine = !entries.iter().any(is_other);
    for entry in entries {
        let mut title = title(&entry.recipe);
        if entry.kind == DocumentKind::Saturate {
            push_word(&mut title, "· saturation");
        }
        if let Some(limits) = &entry.limits {
            push_word(&mut title, &format!("· limited to {limits}"));
        }
        if !is_one_machine {
            let id: String = entry.machine.as_deref().unwrap_or("unknown").chars().take(8).collect();
            push_word(&mut title, &format!("· machine {id}"));
        }
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, group)) => group.push(entry),
            None => groups.push((title, vec![entry])),
        }
    }
    let mut text = String::new();
    for (title, group) in &groups {
        let newest = group[group.len() - 1];
        let is_open = newest.recipe.rate_per_sec.is_some();
        let decides = if newest.kind == DocumentKind::Saturate {
            STABLE_RATE
        } else {
            usual(is_open, newest.figure(RATE).is_some())
        };
        let medians: Vec<f64> =
            group.iter().filter_map(|entry| entry.figure(decides)).map(|figure| figure.median).collect();
        push(&mut text, title);
        push(&mut text, &format!("  {decides}  {}", sparkline(&medians)));
        for entry in &group[group.len().saturating_sub(last)..] {
            push(&mut text, &line(entry, decides));
        }
        push(&mut text, "");
    }
    if groups.is_empty() {
        push(&mut text, "no runs yet: rusm bench run keeps each report here");
    }
    text
}

fn push(text: &mut String, line: &str) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// Returns the title of a group of comparable runs: the scenario, and its parameters that are not defaults.
fn title(recipe: &Recipe) -> String {
    let mut title = format!("{} · profile {}", recipe.scenario, recipe.profile);
    if let Some(rate) = recipe.rate_per_sec {
        push_word(&mut title, &format!("· {rate}/s offered"));
    }
    if let Some(schedulers) = recipe.schedulers {
        push_word(&mut title, &format!("· {schedulers} schedulers"));
    }
    let usual = Config::default();
    if let Some(limit) = recipe.process_limit.filter(|limit| *limit != usual.process_limit) {
        push_word(&mut title, &format!("· {limit} processes at most"));
    }
    if let Some(capacity) = recipe.mailbox_capacity.filter(|capacity| *capacity != usual.mailbox_capacity) {
        push_word(&mut title, &format!("· mailboxes of {capacity}"));
    }
    let bare = find(&recipe.scenario).ok().and_then(|scenario| {
        Plan::of(&crate::run::plan::Request { scenario: scenario.card().id.to_owned(), ..Default::default() }).ok()
    });
    let defaults = bare.map(|plan| plan.params.said()).unwrap_or_default();
    let is_default = |name: &String, value: &String| defaults.get(name) == Some(value);
    for (name, value) in recipe.params.iter().filter(|(name, value)| !value.is_empty() && !is_default(name, value)) {
        push_word(&mut title, &format!("{name}={value}"));
    }
    title
}

fn push_word(text: &mut String, word: &str) {
    text.push(' ');
    text.push_str(word);
}

fn line(entry: &Entry, decides: &str) -> String {
    let shown = |name: &str| {
        let figure = entry.figure(name);
        figure.map_or_else(|| "–".to_owned(), |figure| figure.unit.show_number(figure.median))
    };
    let interval = entry.figure(decides).and_then(|figure| Some((figure.low?, figure.high?, figure.unit)));
    let interval = interval.map_or_else(String::new, |(low, high, unit)| {
        format!("{} to {}", unit.show_number(low), unit.show_number(high))
    });
    let commit: String = entry.commit.as_deref().unwrap_or("unknown").chars().take(9).collect();
    let dirty = if entry.dirty == Some(true) { "+" } else { "" };
    format!(
        "  {}  {:>10}  {interval:<24}  {:>10} CPU  {:<10} {} {commit}{dirty}",
        entry.recorded_at,
        shown(decides),
        shown(CPU),
        entry.verdict.word(),
        entry.version,
    )
}

/// Returns a sparkline of the values, newest on the right.
fn sparkline(values: &[f64]) -> String {
    let values = &values[values.len().saturating_sub(CURVE_MAX)..];
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let bar = |value: &f64| {
        let height = if high > low { (value - low) / (high - low) } else { 0.5 };
        BARS[(height * (BARS.len() - 1) as f64).round() as usize]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::history::file::tests::entry;

    #[test]
    fn a_history_reads_like_this() {
        let mut other = entry("ping-pong", 5e6, "c0ffee");
        other.recipe.params.insert("pairs".to_owned(), "8".to_owned());
        other.recipe.params.insert("payload".to_owned(), "0".to_owned());
        let entries =
            [entry("fan-in", 1e6, "aaaa"), entry("fan-in", 2e6, "bbbb"), other, entry("fan-in", 1.5e6, "0123456789ab")];

        insta::assert_snapshot!(history_text(&entries, 2));
    }

    #[test]
    fn runs_with_other_mailboxes_are_no_part_of_the_curve() {
        let titled = |process_limit, mailbox_capacity| {
            title(&Recipe { scenario: "fan-in".to_owned(), process_limit, mailbox_capacity, ..Recipe::default() })
        };
        let usual = Config::default();

        assert_eq!(titled(Some(usual.process_limit), Some(usual.mailbox_capacity)), titled(None, None));
        assert_eq!(titled(Some(9), Some(16)), "fan-in · profile balanced · 9 processes at most · mailboxes of 16");
    }

    #[test]
    fn a_curve_goes_from_the_least_to_the_most() {
        assert_eq!(sparkline(&[1.0, 8.0, 4.5]), "▁█▅");
        assert_eq!((sparkline(&[3.0, 3.0]).as_str(), sparkline(&[]).as_str()), ("▅▅", ""));
        assert_eq!(sparkline(&[1.0; 100]).chars().count(), 60);
    }

    #[test]
    fn no_runs_are_said() {
        assert!(history_text(&[], 5).starts_with("no runs yet"));
    }
}
