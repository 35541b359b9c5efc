//! `rusm bench compare`: compares two reports. `rusm bench ab` uses its options, and all commands that print JSON use
//! [`json`].

use rusm_bench::{CompareOptions, compare};

use crate::bench::output::{outcome_code, print_either, read_report};
use crate::cli::bench::{CompareFlags, JudgeFlags};
use crate::failure::Failure;

pub(super) fn run(flags: &CompareFlags) -> Result<u8, Failure> {
    let (before, after) = (read_report(&flags.before)?, read_report(&flags.after)?);
    let [before_name, after_name] = [&flags.before, &flags.after].map(|path| path.display().to_string());
    let options = CompareOptions { across_machines: flags.across_machines, ..options(&flags.judge) };
    let comparison = compare((&before_name, &before), (&after_name, &after), &options)?;
    let as_json = flags.judge.json.then(|| json(&comparison)).transpose()?;
    print_either(as_json, || comparison.to_string())?;
    Ok(outcome_code(comparison.outcome))
}

/// Returns the options of a comparison: the figure that decides, and the threshold, converted from percent to a
/// fraction.
pub(super) fn options(flags: &JudgeFlags) -> CompareOptions {
    CompareOptions { decides: flags.by.clone(), threshold: flags.threshold / 100.0, ..CompareOptions::default() }
}

/// Returns a value as indented JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Usage(format!("cannot write JSON: {error}")))
}
