//! `rusm bench ab`: runs two programs alternately and compares them.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rusm_bench::{Document, DocumentKind, Interleaved, Machine, Origin, Recipe, Report, Round, Side, Verdict, order};

use crate::bench::child_output;
use crate::bench::compare::{json, options};
use crate::bench::container::Container;
use crate::bench::container_parent::exceeded;
use crate::bench::history;
use crate::bench::output::{outcome_code, print_either, progress};
use crate::bench::parent::OF_COMPARISON;
use crate::bench::recipe::prepare;
use crate::cli::bench::{AbFlags, RecipeFlags};
use crate::failure::{Failure, system};

const ROUNDS_MIN: u32 = 2;
const ROUNDS_MAX: u32 = 100;
/// Time within which a program prints its help.
const HELP_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn run(flags: AbFlags) -> Result<u8, Failure> {
    if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&flags.rounds) {
        return Err(Failure::Usage(format!(
            "--rounds of {} is not between {ROUNDS_MIN} and {ROUNDS_MAX}",
            flags.rounds
        )));
    }
    let judge = options(&flags.judge);
    judge.check()?;
    // Check the recipe before any run, so that a mistake costs no time. A scenario that runs cases in turn is an error:
    // its rate cannot be compared.
    let given = given(&flags.recipe);
    let recipe = prepare(None, Some(flags.id), flags.recipe)?.recipe;
    let own = std::env::current_exe().map_err(system("find this program"))?;
    let programs = [Program::of(flags.baseline)?, Program::of(flags.candidate.unwrap_or(own))?];
    // Both programs are started from this container, one at a time.
    let container = Container::from_flags(&flags.container)?;
    let mut rounds: Vec<Round> = Vec::new();
    // The machine of the first run of each side; it names the commit.
    let mut machines: [Option<Machine>; 2] = [None, None];
    for number in 0..flags.rounds {
        let mut runs = Vec::new();
        for side in order(number) {
            let [baseline, candidate] = &programs;
            let is_candidate = side == Side::Candidate;
            let program = if is_candidate { candidate } else { baseline };
            let ran = program.run(&recipe, &given).map_err(|failure| match (&container, &flags.container.memory) {
                (Some(container), Some(memory)) if container.is_exceeded() => exceeded(memory),
                _ => failure,
            });
            let (report, machine) = ran?;
            // A failed run is without figures: the comparison tells why it failed.
            if rounds.is_empty() && runs.is_empty() && report.verdict != Verdict::Failed {
                judge.check_figure(&report)?;
            }
            machines[usize::from(is_candidate)].get_or_insert(machine);
            progress(&format!(
                "round {} of {}: {side:?} {:.0} {}",
                number + 1,
                flags.rounds,
                report.ops_per_sec.median,
                report.ops_label
            ));
            runs.push(report);
        }
        rounds.extend(Round::try_from(runs).ok());
    }
    let [before, after] = machines.map(Option::unwrap_or_default);
    let judged = Interleaved::of(rounds, &judge)?;
    let judged = judged.made(Origin::of(recipe.clone(), before.clone()), after.commit.clone());
    for (side, machine) in [(Side::Baseline, before), (Side::Candidate, after)] {
        history::keep(
            &Document::of(DocumentKind::Bench, recipe.clone(), machine, judged.runs_of(side)),
            &flags.history,
        );
    }
    let as_json = flags.judge.json.then(|| json(&judged)).transpose()?;
    print_either(as_json, || judged.to_string())?;
    Ok(outcome_code(judged.outcome))
}

/// Returns the arguments for both programs, exactly as they were given. It adds no defaults for parameters and runtime
/// settings, because another version has other defaults, and no warm-up time that was not requested.
fn given(flags: &RecipeFlags) -> Vec<OsString> {
    let mut args = flags.common.to_args();
    let warm_up = flags.warm_up.iter().map(|time| ("--warm-up", time));
    for (flag, value) in warm_up.chain(flags.params.iter().map(|param| ("--param", param))) {
        args.extend([flag, value.as_str()].map(OsString::from));
    }
    args
}

/// A `rusm` program of any version.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// Flags, not in the first version, that it supports and needs.
    extra: Vec<&'static str>,
}

impl Program {
    /// Reads from the help which flags a program supports.
    fn of(path: PathBuf) -> Result<Self, Failure> {
        let mut help = Command::new(&path);
        let help = child_output::read(help.args(["bench", "run", "--help"]), Some(HELP_WITHIN));
        let help = help.map_err(|error| Failure::Usage(format!("cannot run {}: {error}", path.display())))?;
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        if !help.status.success() || !text.contains("--param") {
            return Err(Failure::Usage(format!(
                "{} is not a rusm program: it has no bench run command",
                path.display()
            )));
        }
        let wanted: [(&str, &[&str]); 2] = [("--runs", &["--runs", "1"]), ("--no-history", &["--no-history"])];
        let extra = wanted.iter().filter(|(flag, _)| text.contains(flag)).flat_map(|(_, flags)| *flags).copied();
        Ok(Self { path, extra: extra.collect() })
    }

    /// Runs a recipe once, with these additional arguments.
    fn run(&self, recipe: &Recipe, given: &[OsString]) -> Result<(Report, Machine), Failure> {
        let mut command = Command::new(&self.path);
        command.args(["bench", "run", &recipe.scenario, "--json"]).args(&self.extra);
        command.args(["--for", &format!("{}ms", recipe.duration_ms), "--profile", &recipe.profile]);
        command.args(["--seed", &recipe.seed.to_string()]);
        if let Some(schedulers) = recipe.schedulers {
            command.args(["--schedulers", &schedulers.to_string()]);
        }
        if let Some(rate) = recipe.rate_per_sec {
            command.args(["--open-loop", &rate.to_string()]);
        }
        OF_COMPARISON.mark(&mut command);
        let output = child_output::read(command.args(given), None);
        let output = output.map_err(system(format!("run {}", self.path.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Exit codes 5 and 6 come with a report; a failed run makes the outcome inconclusive.
        let document = Document::read(&text, "its report").map_err(|error| self.failed(&output, &error.to_string()))?;
        let run = document.runs.into_iter().next();
        let run = run.ok_or_else(|| self.failed(&output, "its report contains no run"))?;
        Ok((run, document.machine))
    }

    fn failed(&self, output: &Output, otherwise: &str) -> Failure {
        if let Some(signal) = output.status.signal() {
            return Failure::RunFailed(format!("{} was killed by signal {signal}", shown(&self.path)));
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = stderr.lines().next_back().unwrap_or(otherwise);
        Failure::Usage(format!("{} did not run: {line}", shown(&self.path)))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The flags of a recipe alone, as on the command line.
    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        recipe: RecipeFlags,
    }

    #[test]
    fn what_was_given_is_told_to_both_programs_and_nothing_else() {
        let arguments = |line: &str| {
            let flags = Flags::parse_from(std::iter::once("ab").chain(line.split_whitespace()));
            given(&flags.recipe).join(&OsString::from(" ")).into_string().unwrap()
        };

        let line =
            "--config a.toml --process-limit 9000 --mailbox-capacity 16 --warm-up 2s --param pairs=3 --param payload=8";
        assert_eq!(arguments(line), line);
        assert_eq!(
            arguments("--for 1s --seed 7 --schedulers 2 --profile max --open-loop 50"),
            "",
            "the recipe says these"
        );
    }
}
