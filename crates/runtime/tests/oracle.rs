//! Links, monitors, exits and names as Erlang itself judges them: random scripts are acted by rusm and by Debian's `erl`,
//! and after every step all must be alike on both sides.
//!
//! ```text
//!              ┌─▶ stage.rs   processes of rusm ────▶ trace ─┐
//!   script.rs ─┤                                             ├─▶ trace.rs: the same?
//!              └─▶ oracle.erl processes of Erlang ──▶ trace ─┘
//! ```
//!
//! What is compared: what each operation gave, who lives, who ended and why, who has which name, who is linked to whom,
//! who monitors whom, and each mailbox: messages, exit signals and downs in their order, with their reasons.
//! [`Script::calm`] does one operation at a time; [`Script::storm`] has many under way and compares what still is certain,
//! the order of each sender's signals. [`Script::chain`] lets ends run along a line of links.
//!
//! Where both differ by right, the scripts or the actors see to it that it does not show:
//! - A native process is not interrupted inside one poll (sentence 14): a signal to oneself takes effect at the next await.
//!   The actors of rusm await after such an operation, and those of Erlang look at their signals after each.
//! - An Erlang process has one name at the most, one of rusm any number; here a second one is refused.
//! - `exit(Pid, killed)` can be trapped in Erlang. The word for a kill in rusm is the reason of who was killed,
//!   `ExitReason::Killed`, so no exit signal says `killed` without killing. To end oneself by `kill` is
//!   `ExitReason::other("kill")`.
//! - `link` of a dead process is an error in Erlang to who does not trap exits; uncaught, it ends him by `noproc` too.
//! - To register a taken name, or send to one that nobody has, is `badarg` there and an error here: both are "no".

#![expect(clippy::unwrap_used, reason = "a test fails where it stands, in its helpers too")]

#[path = "oracle/bug.rs"]
mod bug;
#[path = "oracle/chance.rs"]
mod chance;
#[path = "oracle/erlang.rs"]
mod erlang;
#[path = "oracle/script.rs"]
mod script;
#[path = "oracle/stage.rs"]
mod stage;
#[path = "oracle/trace.rs"]
mod trace;

use std::fmt::Write;
use std::time::Instant;

use bug::Bug;
use erlang::Erlang;
use script::Script;
use trace::{Trace, difference};

/// Scripts of each kind, from seed 0 on; [`SCRIPTS_FROM`] and [`SCRIPTS_COUNT`] ask for others.
const SCRIPTS: u64 = 2_000;
/// The environment's first seed.
const SCRIPTS_FROM: &str = "RUSM_ORACLE_FROM";
/// The environment's number of scripts.
const SCRIPTS_COUNT: &str = "RUSM_ORACLE_SCRIPTS";
/// Scripts of each kind among which a planted bug must show.
const SCRIPTS_FOR_A_BUG: u64 = 200;
/// Times that a script is acted by rusm before it counts as making no difference: what is under way at once may go well.
const TRIES: usize = 3;

/// Where the two sides differ about a script.
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

    /// Leaves operations out for as long as there is a difference.
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

/// The script without some operations in a row, `most` at once, wherever they may be missing.
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

/// The first script about which both sides differ, and how many were acted until then.
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

/// A number that the environment asks for.
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

/// Acts scripts on both sides and fails with the smallest script that makes a difference.
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
        let found = first_difference(&scripts, &theirs, Some(bug));

        let index = found.unwrap_or_else(|| panic!("{bug:?} makes no difference in {} scripts", scripts.len()));
        eprintln!("{bug:?} shows in script {} of {}", index + 1, scripts.len());
    }
}
