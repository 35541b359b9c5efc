//! Two programs that take turns: the only way to compare them on a machine that is not quite at rest.
//!
//! ```text
//!   round 1:  A B B A      each neighbouring A and B make a pair, whose ratio knows no drift;
//!   round 2:  B A A B      the two As of a round make the control, which knows what noise alone does
//! ```

use serde::Serialize;

use super::{CompareError, CompareOptions, Compared, Outcome, check_threshold, deciding};
use crate::document::Origin;
use crate::figure::Figure;
use crate::report::{Report, Verdict};
use crate::statistics::{median, ratio_of_pairs};

/// How far the control may be from one.
const CONTROL: f64 = 0.05;

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program that was there before.
    Baseline,
    /// The program that is judged.
    Candidate,
}

/// Who runs when in round `number`, counted from 0.
pub const fn order(number: u32) -> [Side; 4] {
    use Side::{Baseline, Candidate};
    if number.is_multiple_of(2) {
        [Baseline, Candidate, Candidate, Baseline]
    } else {
        [Candidate, Baseline, Baseline, Candidate]
    }
}

/// What the four runs of a round showed, in the order of [`order`].
pub type Round = [Report; 4];

/// What came of some rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interleaved {
    /// When and where it was made, and what the sides were told; the machine is as the baseline's first run found it.
    #[serde(flatten)]
    pub origin: Origin,
    /// The commit that the candidate was built from.
    pub candidate_commit: Option<String>,
    /// What was measured.
    pub scenario: String,
    /// Rounds of four runs.
    pub rounds: usize,
    /// All figures, candidate over baseline by pairs.
    pub figures: Vec<Compared>,
    /// The figure that decides.
    pub decides: String,
    /// By how much it must differ, as a part of the whole.
    pub threshold: f64,
    /// The deciding figure of the baseline over itself: what noise alone does.
    pub control: Option<f64>,
    /// What the deciding figure says, unless the control forbids it.
    pub outcome: Outcome,
    /// The runs, round by round.
    pub runs: Vec<Round>,
}

impl Interleaved {
    /// Judges some rounds.
    ///
    /// # Errors
    /// [`CompareError`] when the figure that is to decide is none, or the threshold is out of range.
    pub fn of(rounds: Vec<Round>, options: &CompareOptions) -> Result<Self, CompareError> {
        check_threshold(options.threshold)?;
        let (before, after) = (runs_of(&rounds, Side::Baseline), runs_of(&rounds, Side::Candidate));
        let (before_figures, after_figures) = (Figure::all_of(&before), Figure::all_of(&after));
        let compared = |figure: &Figure| {
            let other = after_figures.iter().find(|other| other.name == figure.name)?;
            // Both sides are in the order in which they ran, so the n-th of one is a neighbour of the n-th of the other.
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

    /// Adds when and where it was made.
    #[must_use]
    pub fn made(self, origin: Origin, candidate_commit: Option<String>) -> Self {
        Self { origin, candidate_commit, ..self }
    }

    /// The runs of one side, in their order.
    pub fn runs_of(&self, side: Side) -> Vec<Report> {
        runs_of(&self.runs, side)
    }

    /// Whether noise alone did little.
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

/// The two values of each round over each other, every second pair of rounds the other way round so that drift cancels out.
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
    use crate::interval::Rates;

    fn run(rate: f64) -> Report {
        let ops_per_sec = Rates { median: rate, ..Rates::default() };
        Report { scenario: "fan-in".to_owned(), ops_per_sec, verdict: Verdict::Steady, ..Report::default() }
    }

    /// Six rounds with these rates for both sides, by the number of the run.
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
        // The baseline is half as fast every second time.
        let judged = judge(|side, number| if side == Side::Baseline && number % 4 > 1 { 50.0 } else { 100.0 });

        assert_eq!(judged.outcome, Outcome::Inconclusive, "{judged}");
        assert!(!judged.is_controlled());
    }

    #[test]
    fn an_interleaved_comparison_reads_like_this() {
        insta::assert_snapshot!(judge(|side, _| if side == Side::Candidate { 125.0 } else { 100.0 }).to_string());
    }
}
