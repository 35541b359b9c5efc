//! Supervisors compared with Erlang: rusm and Debian's `erl` run the same random trees and actions. After every
//! action both sides must agree on its result, on each supervisor's children in order, its counts and its exit reason,
//! and on the starts and stops of children in order. Some actions send exit signals to supervisors, or let several
//! children end at once while their supervisor is blocked in the start of another child.
//!
//! ```text
//!                   ┌─▶ tree_stage.rs    supervisors of rusm ───▶ trace ─┐
//!   tree_script.rs ─┤                                                    ├─▶ the same?
//!                   └─▶ oracle_tree.erl  supervisors of Erlang ─▶ trace ─┘
//! ```
//!
//! Some differences are intended, and hidden. Erlang lists children in the reverse order of their start, rusm in that
//! order; children of a dynamic supervisor are unordered, are stopped together, and are sorted here. For the specs of a
//! dynamic supervisor Erlang counts the template and rusm the children, so specs are left out. No process waits for the
//! processes below a killed supervisor, so the interleaving of their stops and the new starts is left out of that step.

use std::fmt::Write;
use std::time::Instant;

use crate::erlang::Erlang;
use crate::tree_script::TreeScript;
use crate::tree_stage::{TreeBug, act_all};

/// Number of scripts, from seed 0 on; [`SCRIPTS_FROM`] and [`SCRIPTS_COUNT`] override it.
const SCRIPTS: u64 = 2_000;
/// Environment variable with the first seed.
const SCRIPTS_FROM: &str = "RUSM_ORACLE_FROM";
/// Environment variable with the number of scripts.
const SCRIPTS_COUNT: &str = "RUSM_ORACLE_SCRIPTS";
/// Number of scripts that must reveal a planted bug.
const SCRIPTS_FOR_A_BUG: u64 = 200;
/// Number of scripts that run before the next ones: most bugs show in the first ten.
const SCRIPTS_AT_ONCE: usize = 25;

fn differ(script: &TreeScript, ours: &str, theirs: &str) -> bool {
    script.normalised(ours) != script.normalised(theirs)
}

fn act_in(erlang: &mut Erlang, scripts: &[TreeScript]) -> Vec<String> {
    erlang.act_all(scripts, str::to_owned)
}

/// A script on which the two sides differ, with both traces.
struct Difference {
    script: TreeScript,
    ours: String,
    theirs: String,
}

impl Difference {
    fn of(script: TreeScript, erlang: &mut Erlang) -> Option<Self> {
        let ours = act_all(std::slice::from_ref(&script), None).remove(0);
        let theirs = act_in(erlang, std::slice::from_ref(&script)).remove(0);
        differ(&script, &ours, &theirs).then_some(Self { script, ours, theirs })
    }

    /// Leaves actions out as long as a difference remains.
    fn shrink(mut self, erlang: &mut Erlang) -> Self {
        let mut most = self.script.actions.len();
        while most > 0 {
            let firsts = (0..self.script.actions.len()).step_by(most);
            let without = |first: usize| {
                let mut shorter = self.script.clone();
                shorter.actions.drain(first..self.script.actions.len().min(first + most));
                shorter
            };
            let smaller = firsts.map(without).collect::<Vec<_>>().into_iter();
            match { smaller }.find_map(|script| Self::of(script, erlang)) {
                Some(smaller) => self = smaller,
                None => most /= 2,
            }
        }
        self
    }

    fn describe(&self) -> String {
        let line = self.script.to_string();
        let mut text = format!("seed {}:\n", self.script.seed);
        for ((action, ours), theirs) in line.split(';').zip(self.ours.split(';')).zip(self.theirs.split(';')) {
            if ours == theirs {
                writeln!(text, "{action}\n    both   {ours}").unwrap();
            } else {
                writeln!(text, "{action}\n    rusm   {ours}\n    erlang {theirs}").unwrap();
            }
        }
        text
    }
}

/// Returns a number set in the environment.
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn two_thousand_trees_grow_and_fall_as_in_erlang() {
    let Some(mut erlang) = Erlang::start("oracle_tree") else { return };
    let from = asked(SCRIPTS_FROM).unwrap_or(0);
    let count = asked(SCRIPTS_COUNT).unwrap_or(SCRIPTS);
    let begun = Instant::now();
    let scripts: Vec<TreeScript> = (from..from + count).map(TreeScript::write).collect();
    let theirs = act_in(&mut erlang, &scripts);
    let by_erlang = begun.elapsed();

    let ours = act_all(&scripts, None);

    let seconds = (begun.elapsed().as_secs_f64(), by_erlang.as_secs_f64());
    eprintln!("{count} trees in {:.1} s, of which erl took {:.1} s", seconds.0, seconds.1);
    let differing: Vec<usize> =
        (0..scripts.len()).filter(|index| differ(&scripts[*index], &ours[*index], &theirs[*index])).collect();
    if let Some(index) = differing.first().copied() {
        let differ = differing.len();
        let script = scripts[index].clone();
        let once = Difference { script, ours: ours[index].clone(), theirs: theirs[index].clone() };
        match Difference::of(once.script.clone(), &mut erlang) {
            Some(difference) => panic!("{differ} differ; {}", difference.shrink(&mut erlang).describe()),
            None => panic!("{differ} differ, the first not again: {}", once.describe()),
        }
    }
}

#[test]
fn every_bug_planted_into_trees_is_found() {
    let Some(mut erlang) = Erlang::start("oracle_tree") else { return };
    let scripts: Vec<TreeScript> = (0..SCRIPTS_FOR_A_BUG).map(TreeScript::write).collect();
    let theirs = act_in(&mut erlang, &scripts);

    for bug in TreeBug::ALL {
        let found = scripts.chunks(SCRIPTS_AT_ONCE).zip(theirs.chunks(SCRIPTS_AT_ONCE)).enumerate().find_map(
            |(chunk, (scripts, theirs))| {
                let ours = act_all(scripts, Some(bug));
                let index = (0..scripts.len()).find(|index| differ(&scripts[*index], &ours[*index], &theirs[*index]));
                index.map(|index| chunk * SCRIPTS_AT_ONCE + index)
            },
        );
        let index = found.unwrap_or_else(|| panic!("{bug:?} makes no difference in {} scripts", scripts.len()));
        eprintln!("{bug:?} shows in script {} of {}", index + 1, scripts.len());
    }
}
