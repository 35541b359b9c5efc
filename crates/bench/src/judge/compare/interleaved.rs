//! Two programs that run alternately: the only way to compare them on a machine that is not idle.
//!
//! ```text
//!   round 1:  A B B A      neighbouring A and B make a pair: drift cancels out of its ratio
//!   round 2:  B A A B      the two As of a round make the control: it shows the effect of noise alone
//! ```

use serde::Serialize;

use super::{CompareError, CompareOptions, Compared, Outcome, check_threshold, deciding};
use crate::judge::statistics::{median, ratio_of_pairs};
use crate::report::document::Origin;
use crate::report::figure::Figure;
use crate::report::{Report, Verdict};

/// Maximum distance of the control from 1.
pub(super) const CONTROL: f64 = 0.05;

/// Program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The old program.
    Baseline,
    /// The program to judge.
    Candidate,
}

/// Returns the order of the runs in round `number`, counted from 0.
pub const fn order(number: u32) -> [Side; 4] {
    use Side::{Baseline, Candidate};
    if number.is_multiple_of(2) {
        [Baseline, Candidate, Candidate, Baseline]
    } else {
        [Candidate, Baseline, Baseline, Candidate]
    }
}

/// Reports of the four runs of a round, in the order of [`order`].
pub type Round = [Report; 4];

/// Result of an interleaved comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interleaved {
    /// Time, machine and recipe; the machine is that of the baseline's first run.
    #[serde(flatten)]
    pub origin: Origin,
    /// Commit of the candidate.
    pub candidate_commit: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Number of rounds, each of four runs.
    pub rounds: usize,
    /// All figures: ratios of candidate to baseline, by pairs.
    pub figures: Vec<Compared>,
    /// Name of the deciding figure.
    pub decides: String,
    /// Minimum relative difference that counts.
    pub threshold: f64,
    /// Ratio of the baseline to itself in the deciding figure: the effect of noise alone.
    pub control: Option<f64>,
    /// Outcome by the deciding figure, or inconclusive if the control is off.
    pub outcome: Outcome,
    /// Reports of all runs, round by round.
    pub runs: Vec<Round>,
}

impl Interleaved {
    /// Judges rounds.
    ///
    /// # Errors
    /// [`CompareError`] if the deciding figure does not exist, or the threshold is out of range.
    pub fn of(rounds: Vec<Round>, options: &CompareOptions) -> Result<Self, CompareError> {
        check_threshold(options.threshold)?;
        let (before, after) = (runs_of(&rounds, Side::Baseline), runs_of(&rounds, Side::Candidate));
        let (before_figures, after_figures) = (Figure::all_of(&before), Figure::all_of(&after));
        let compared = |figure: &Figure| {
            let other = after_figures.iter().find(|other| other.name == figure.name)?;
            // Both sides are in running order, so the n-th run of one is a neighbour of the n-th run of the other.
            let pairs: Vec<f64> = figure.values.iter().zip(&other.values).map(|(a, b)| b / a).collect();
            Some(Compared::of(figure, other, ratio_of_pairs(&pairs), options.threshold))
        };
        let figures: Vec<Compared> = before_figures.iter().filter_map(compared).collect();
        let is_open = rounds.first().is_some_and(|round| round[0].open_loop.is_some());
        let (decides, outcome) = deciding(options.decides.as_deref(), is_open, &figures)?;
        let values = before_figures.iter().find(|figure| figure.name == decides).map(|figure| &figure.values[..]);
        let failed = rounds.iter().flatten().any(|run| run.verdict == Verdict::Failed);
        let judged = Self {
            origin: Origin::default(),
            candidate_commit: None,
            scenario: rounds.first().map(|round| round[0].scenario.clone()).unwrap_or_default(),
            rounds: rounds.len(),
            figures,
            decides,
            threshold: options.threshold,
            control: values.and_then(control),
            outcome,
            runs: rounds,
        };
        let outcome = if judged.is_controlled() && !failed { outcome } else { Outcome::Inconclusive };
        Ok(Self { outcome, ..judged })
    }

    /// Adds the time, machine and recipe, and the candidate's commit.
    #[must_use]
    pub fn made(self, origin: Origin, candidate_commit: Option<String>) -> Self {
        Self { origin, candidate_commit, ..self }
    }

    /// Returns the runs of one side in order.
    pub fn runs_of(&self, side: Side) -> Vec<Report> {
        runs_of(&self.runs, side)
    }

    /// Returns true if noise alone had little effect.
    pub fn is_controlled(&self) -> bool {
        self.control.is_some_and(|control| (control - 1.0).abs() <= CONTROL)
    }
}

fn runs_of(rounds: &[Round], wanted: Side) -> Vec<Report> {
    let of_round = |(number, round): (usize, &Round)| {
        let of_side = round.iter().zip(order(number as u32)).filter(|(_, side)| *side == wanted);
        of_side.map(|(run, _)| run.clone()).collect::<Vec<_>>()
    };
    rounds.iter().enumerate().flat_map(of_round).collect()
}

/// Returns the median ratio of the two values of a round. Every second pair of rounds is inverted, so that drift
/// cancels out.
fn control(values: &[f64]) -> Option<f64> {
    let of_round = |(number, pair): (usize, &[f64])| match *pair {
        [first, second] if first > 0.0 && second > 0.0 => {
            Some(if number / 2 % 2 == 0 { second / first } else { first / second })
        }
        _ => None,
    };
    let ratios: Option<Vec<f64>> = values.chunks(2).enumerate().map(of_round).collect();
    median(&ratios?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::interval::Rates;

    fn run(rate: f64) -> Report {
        let ops_per_sec = Rates { median: rate, ..Rates::default() };
        Report { scenario: "fan-in".to_owned(), ops_per_sec, verdict: Verdict::Steady, ..Report::default() }
    }

    /// Creates six rounds; `rate` gives the rate by side and number of the run.
    fn rounds(rate: impl Fn(Side, u32) -> f64) -> Vec<Round> {
        let round = |number: u32| {
            let order = order(number);
            [0, 1, 2, 3].map(|place| run(rate(order[place as usize], number * 4 + place)))
        };
        (0..6).map(round).collect()
    }

    fn judge(rate: impl Fn(Side, u32) -> f64) -> Interleaved {
        Interleaved::of(rounds(rate), &CompareOptions::default()).unwrap()
    }

    #[test]
    fn a_candidate_that_is_slower_is_worse_even_while_the_machine_slows_down() {
        let judged = judge(|side, number| {
            let drift = 1.0 - f64::from(number) * 0.01;
            drift * if side == Side::Candidate { 80.0 } else { 100.0 }
        });

        assert_eq!((judged.outcome, judged.is_controlled()), (Outcome::Worse, true), "{judged}");
        assert!(judged.figures[0].ratio.is_some_and(|ratio| (ratio - 0.8).abs() < 0.01), "{judged}");
    }

    #[test]
    fn the_same_program_twice_is_the_same() {
        assert_eq!(judge(|_, number| 100.0 + f64::from(number % 3)).outcome, Outcome::Same);
    }

    #[test]
    fn a_control_that_wanders_makes_it_inconclusive() {
        // The baseline runs at half speed in every second round.
        let judged = judge(|side, number| if side == Side::Baseline && number % 4 > 1 { 50.0 } else { 100.0 });

        assert_eq!(judged.outcome, Outcome::Inconclusive, "{judged}");
        assert!(!judged.is_controlled());
    }

    #[test]
    fn an_interleaved_comparison_reads_like_this() {
        insta::assert_snapshot!(judge(|side, _| if side == Side::Candidate { 125.0 } else { 100.0 }).to_string());
    }
}
