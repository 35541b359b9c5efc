//! Formats a comparison for people.

use std::fmt::{self, Display};

use rusm_text::escaped;

use super::interleaved::CONTROL;
use super::{Compared, Comparison, Interleaved};
use crate::report::Verdict;

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} · after over before, by medians", self.scenario)?;
        write_figures(f, &self.figures, ["before", "after"])?;
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        writeln!(f, "  verdict: {} by {} at ±{} %", self.outcome.word(), self.decides, percent(self.threshold))
    }
}

impl Interleaved {
    /// Returns what the control shows.
    pub(crate) fn control_text(&self) -> String {
        let control = self.control.map_or_else(|| "unknown".to_owned(), |control| format!("{control:.3}"));
        let (within, follows) =
            if self.is_controlled() { ("within", "") } else { ("beyond", ", so the result is inconclusive") };
        format!("baseline over itself, by {}: {control} ({within} ±{} %{follows})", self.decides, percent(CONTROL))
    }

    /// Returns the figure that decides, and the difference that counts.
    pub(crate) fn decides_text(&self) -> String {
        format!("{} at ±{} %", self.decides, percent(self.threshold))
    }

    /// Returns the verdict with both.
    pub(crate) fn verdict_text(&self) -> String {
        format!("{} by {}", self.outcome.word(), self.decides_text())
    }
}

impl Display for Interleaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} · candidate over baseline, {} pairs of runs, interleaved", self.scenario, 2 * self.rounds)?;
        write_figures(f, &self.figures, ["baseline", "candidate"])?;
        writeln!(f, "  control: {}", self.control_text())?;
        let failed: Vec<_> = self.runs.iter().flatten().filter(|run| run.verdict == Verdict::Failed).collect();
        if let Some(first) = failed.first() {
            let why = escaped(first.error.as_deref().unwrap_or("nothing was done"));
            writeln!(f, "  {} of {} runs failed, so the result is inconclusive: {why}", failed.len(), 4 * self.rounds)?;
        }
        writeln!(f, "  verdict: {}", self.verdict_text())
    }
}

fn write_figures(f: &mut fmt::Formatter<'_>, figures: &[Compared], sides: [&str; 2]) -> fmt::Result {
    let wide = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    let [before, after] = sides;
    writeln!(f, "  {:wide$}  {before:>10}  {after:>10}  {:>7}  {:>16}", "", "ratio", "95 %")?;
    for figure in figures {
        let [before, after] = [figure.before, figure.after].map(|value| figure.unit.show_number(value));
        let ratio = figure.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        let interval = match (figure.ratio_low, figure.ratio_high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => "–".to_owned(),
        };
        let word = figure.outcome.word();
        writeln!(f, "  {:wide$}  {before:>10}  {after:>10}  {ratio:>7}  {interval:>16}  {word}", figure.name)?;
    }
    Ok(())
}

/// Returns a share in per cent, without the digits that only binary fractions have: 7 for 0.07.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_shown_as_it_was_given() {
        let shown = [7.0, 14.0, 0.5, 29.0, 2.25].map(|given| percent(given / 100.0).to_string());

        assert_eq!(shown, ["7", "14", "0.5", "29", "2.25"]);
    }
}
