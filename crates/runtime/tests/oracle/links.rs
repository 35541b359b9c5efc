//! Links, monitors, exits and names compared with Erlang: rusm and Debian's `erl` run the same random scripts, and
//! after every step both sides must agree.
//!
//! ```text
//!              ┌─▶ stage.rs   processes of rusm ────▶ trace ─┐
//!   script.rs ─┤                                             ├─▶ trace.rs: the same?
//!              └─▶ oracle.erl processes of Erlang ──▶ trace ─┘
//! ```
//!
//! Compared are the result of each operation, the live processes, the exits with their reasons, the owners of names,
//! links, monitors, and each mailbox: messages, exit signals and downs in their order, with their reasons.
//! [`Script::calm`] does one operation at a time. [`Script::storm`] has many in flight, and compares only what is still
//! deterministic: the order of each sender's signals. [`Script::chain`] lets exits propagate along a chain of links.
//!
//! Some differences are intended; the scripts or the actors hide them:
//! - A native process is not interrupted within a poll (sentence 14): a signal to itself takes effect at the next
//!   await. The actors of rusm await after such an operation, and those of Erlang check their signals after each
//!   operation.
//! - An Erlang process has at most one name, a process of rusm any number; here a second name is refused.
//! - `exit(Pid, killed)` can be trapped in Erlang. In rusm, a kill is requested with the reason that the killed process
//!   ends with, `ExitReason::Killed`, so no exit signal says `killed` without killing. A process that ends itself with
//!   `kill` uses `ExitReason::other("kill")`.
//! - `link` to a dead process is an error in Erlang if the caller does not trap exits; uncaught, it ends the caller
//!   with `noproc` too.
//! - Registering a taken name, or sending to an unknown one, is `badarg` in Erlang and an error here: both count as
//!   "no".

use std::fmt::Write;
use std::time::Instant;

use crate::bug::Bug;
use crate::erlang::Erlang;
use crate::script::Script;
use crate::stage;
use crate::trace::{Trace, difference};

/// Number of scripts of each kind, from seed 0 on; [`SCRIPTS_FROM`] and [`SCRIPTS_COUNT`] override it.
const SCRIPTS: u64 = 2_000;
/// Environment variable with the first seed.
const SCRIPTS_FROM: &str = "RUSM_ORACLE_FROM";
/// Environment variable with the number of scripts.
const SCRIPTS_COUNT: &str = "RUSM_ORACLE_SCRIPTS";
/// Number of scripts of each kind that must reveal a planted bug.
const SCRIPTS_FOR_A_BUG: u64 = 200;
/// Number of scripts that run before the next ones: most bugs show in the first ten.
const SCRIPTS_AT_ONCE: usize = 30;
/// Number of times that rusm runs a script before both sides count as equal: concurrent operations may agree by chance.
const TRIES: usize = 3;

/// A script on which the two sides differ.
struct Difference {
    script: Script,
    step: usize,
    ours: Trace,
    theirs: Trace,
}

impl Difference {
    fn of(script: &Script, erlang: &mut Erlang, bug: Option<Bug>) -> Option<Self> {
        let theirs = act_in(erlang, std::slice::from_ref(script)).remove(0);
        let ours = stage::act_all(&vec![script.clone(); TRIES], bug);
        ours.into_iter().find_map(|ours| {
            let step = difference(script, &ours, &theirs)?;
            Some(Self { script: script.clone(), step, ours, theirs: theirs.clone() })
        })
    }

    /// Leaves operations out as long as a difference remains.
    fn shrink(mut self, erlang: &mut Erlang, bug: Option<Bug>) -> Self {
        self.script.steps.truncate(self.step + 1);
        let mut most = self.script.orders().count();
        while most > 0 {
            let smaller = shorter(&self.script, most).into_iter().find_map(|script| Self::of(&script, erlang, bug));
            match smaller {
                Some(smaller) => self = smaller,
                None => most /= 2,
            }
        }
        self
    }

    fn describe(&self) -> String {
        let mut text = format!("seed {}, step {}:\n", self.script.seed, self.step);
        for (index, step) in self.script.steps.iter().enumerate() {
            let orders: Vec<String> = step.iter().map(ToString::to_string).collect();
            let say = |trace: &Trace| trace.0.get(index).map_or_else(String::new, ToString::to_string);
            let (ours, theirs) = (say(&self.ours), say(&self.theirs));
            writeln!(text, "{}", orders.join(", ")).unwrap();
            if ours == theirs {
                writeln!(text, "    both   {ours}").unwrap();
            } else {
                writeln!(text, "    rusm   {ours}\n    erlang {theirs}").unwrap();
            }
        }
        text
    }
}

/// Returns copies of the script, each without another run of `most` consecutive operations; the setting is kept.
fn shorter(script: &Script, most: usize) -> Vec<Script> {
    let fixed: usize = script.steps[..script.setting.min(script.steps.len())].iter().map(Vec::len).sum();
    let without = |first: usize| {
        let mut shorter = script.clone();
        let mut index = 0;
        for step in &mut shorter.steps {
            step.retain(|_| {
                index += 1;
                !(first..first + most).contains(&(index - 1))
            });
        }
        shorter.steps.retain(|step| !step.is_empty());
        shorter
    };
    (fixed..script.orders().count()).step_by(most).map(without).filter(|script| !script.steps.is_empty()).collect()
}

/// Runs the scripts on rusm, and returns the index of the first one on which both sides differ.
fn first_difference(scripts: &[Script], theirs: &[Trace], bug: Option<Bug>) -> Option<usize> {
    let ours = stage::act_all(scripts, bug);
    scripts
        .iter()
        .zip(ours.iter().zip(theirs))
        .position(|(script, (ours, theirs))| difference(script, ours, theirs).is_some())
}

fn act_in(erlang: &mut Erlang, scripts: &[Script]) -> Vec<Trace> {
    erlang.act_all(scripts, |line| line.parse().unwrap())
}

/// Returns a number set in the environment.
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

/// Runs scripts on both sides, and fails with the smallest script that makes a difference.
fn compare(what: &str, write: fn(u64) -> Script) {
    let Some(mut erlang) = Erlang::start("oracle") else { return };
    let from = asked(SCRIPTS_FROM).unwrap_or(0);
    let count = asked(SCRIPTS_COUNT).unwrap_or(SCRIPTS);
    let begun = Instant::now();
    let scripts: Vec<Script> = (from..from + count).map(write).collect();
    let theirs = act_in(&mut erlang, &scripts);
    let by_erlang = begun.elapsed();

    let differs = first_difference(&scripts, &theirs, None);

    let seconds = (begun.elapsed().as_secs_f64(), by_erlang.as_secs_f64());
    eprintln!("{count} {what} scripts in {:.1} s, of which erl took {:.1} s", seconds.0, seconds.1);
    if let Some(index) = differs {
        match Difference::of(&scripts[index], &mut erlang, None) {
            Some(difference) => panic!("{}", difference.shrink(&mut erlang, None).describe()),
            None => panic!("seed {} of the {what} scripts differed once, and not again", scripts[index].seed),
        }
    }
}

#[test]
fn two_thousand_scripts_of_single_operations_go_as_in_erlang() {
    compare("calm", Script::calm);
}

#[test]
fn two_thousand_scripts_of_bursts_go_as_in_erlang() {
    compare("stormy", Script::storm);
}

#[test]
fn two_thousand_scripts_of_chains_go_as_in_erlang() {
    compare("chained", Script::chain);
}

#[test]
fn every_planted_bug_is_found() {
    let Some(mut erlang) = Erlang::start("oracle") else { return };
    let scripts: Vec<Script> = (0..SCRIPTS_FOR_A_BUG)
        .flat_map(|seed| [Script::calm(seed), Script::storm(seed), Script::chain(seed)])
        .collect();
    let theirs = act_in(&mut erlang, &scripts);

    for bug in Bug::ALL {
        let found = scripts.chunks(SCRIPTS_AT_ONCE).zip(theirs.chunks(SCRIPTS_AT_ONCE)).enumerate().find_map(
            |(chunk, (scripts, theirs))| {
                first_difference(scripts, theirs, Some(bug)).map(|index| chunk * SCRIPTS_AT_ONCE + index)
            },
        );

        let index = found.unwrap_or_else(|| panic!("{bug:?} makes no difference in {} scripts", scripts.len()));
        eprintln!("{bug:?} shows in script {} of {}", index + 1, scripts.len());
    }
}
