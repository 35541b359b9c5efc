//! `rusm doctor`: reports what limits a node on this machine, and what disturbs measurements here.
//!
//! Each check reports what it found, what that means for rusm, and a command that improves it if that is worthwhile. A
//! warning is not an error. Only a problem that keeps a node with default settings from working is an error, and makes
//! the exit code 1.

mod check;
mod directories;
mod limits;
mod permissions;
mod processor;
mod smoke_test;

use std::fmt::Write;

use rusm_bench::Machine;
use serde_json::json;

pub(crate) use self::limits::check_threads;
use crate::bench::output::print_either;
use crate::doctor::check::{Check, Health};
use crate::failure::Failure;

/// Maximum width of an explanation next to the names, in columns.
const EXPLANATION_COLUMNS: usize = 60;

/// Prints the results; returns 1 if a node with default settings does not work here.
pub(crate) fn run(as_json: bool) -> Result<u8, Failure> {
    let machine = Machine::look();
    let checks = checks(&machine);
    print_either(as_json.then(|| to_json(&machine, &checks)), || to_text(&machine, &checks))?;
    Ok(checks.iter().any(|check| check.health == Health::Broken).into())
}

fn checks(machine: &Machine) -> Vec<Check> {
    let all = [
        processor::checks(machine),
        limits::checks(machine),
        directories::checks(),
        permissions::checks(),
        smoke_test::checks(),
    ];
    all.into_iter().flatten().collect()
}

fn to_text(machine: &Machine, checks: &[Check]) -> String {
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        let written = writeln!(text, "{line}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    };
    line(format_args!("{} on {}", machine.cpu.as_deref().unwrap_or("unknown processor"), machine.kernel));
    line(format_args!("rusm {} ({}, {})\n", machine.version, machine.rustc, machine.build));
    for check in checks {
        line(format_args!("{:<4}  {:<12} {}", check.health.word(), check.name, check.seen));
        for piece in wrapped(&check.means, EXPLANATION_COLUMNS) {
            line(format_args!("      {:<12} {piece}", ""));
        }
        if let Some(remedy) = &check.remedy {
            line(format_args!("      {:<12} > {remedy}", ""));
        }
    }
    text
}

/// Wraps text at this many columns; longer words get a line of their own.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn to_json(machine: &Machine, checks: &[Check]) -> String {
    let checks: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({
                "name": check.name,
                "ok": check.health == Health::Good,
                "health": check.health.word(),
                "seen": check.seen,
                "means": check.means,
                "advice": check.remedy,
            })
        })
        .collect();
    format!("{:#}", json!({ "machine": machine, "checks": checks }))
}

#[cfg(test)]
mod tests {
    use rusm_text::grouped;

    use super::*;

    #[test]
    fn every_line_says_what_it_means_and_every_warning_what_to_do() {
        let machine = Machine::look();
        let checks = checks(&machine);

        for check in &checks {
            assert_eq!(check.health == Health::Good, check.remedy.is_none(), "{check:?}");
            assert!(!check.seen.is_empty() && !check.means.is_empty(), "{check:?}");
            assert!(!format!("{check:?}").contains("\\n"), "{check:?}");
        }
        let names = ["memory maps", "open files", "cores", "clock", "cpu limit", "cache", "perf", "a node", "wasm"];
        for name in names {
            assert_eq!(checks.iter().filter(|check| check.name == name).count(), 1, "{name}");
        }
        let text = to_text(&machine, &checks);
        let json: serde_json::Value = serde_json::from_str(&to_json(&machine, &checks)).unwrap();
        assert!(text.contains("memory maps"));
        assert_eq!(json["checks"].as_array().map(Vec::len), Some(checks.len()));
    }

    #[test]
    fn a_vital_part_that_is_not_good_is_broken() {
        let check = |good| Check::of("x", good, "seen", "means", "do").vital();

        assert_eq!((check(true).health, check(false).health), (Health::Good, Health::Broken));
    }

    #[test]
    fn numbers_and_words_are_set_to_be_read() {
        assert_eq!([7, 999, 1_000, 65_530, 1_234_567].map(grouped), ["7", "999", "1,000", "65,530", "1,234,567"]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
