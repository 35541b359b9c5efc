//! Prints a report of several runs: the combined figures, then the run with the median rate in full.

use std::fmt::{self, Display};

use crate::report::Report;
use crate::report::document::Document;
use crate::report::figure::Figure;
use crate::report::text::NAME_WIDTH;

impl Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shown) = self.middle() else {
            return writeln!(f, "no runs");
        };
        shown.write_figures(f)?;
        if self.runs.len() > 1 {
            writeln!(f, "\n  over {} runs; the one above is the median run", self.runs.len())?;
            let wide = self.figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
            for figure in &self.figures {
                write_figure(f, figure, wide)?;
            }
            let others = self.runs.iter().enumerate().filter(|(_, run)| run.verdict != self.verdict);
            for (index, run) in others {
                writeln!(f, "  run {}: {}", index + 1, run.verdict_line())?;
            }
            writeln!(f)?;
        }
        let mut line = |name: &str, value: String| writeln!(f, "  {name:NAME_WIDTH$}{value}");
        for (name, value) in self.machine.lines() {
            line(name, value)?;
        }
        line("verdict", if self.runs.len() == 1 { shown.verdict_line() } else { self.verdict.line().to_owned() })
    }
}

impl Document {
    /// Returns the run with the median rate.
    pub(crate) fn middle(&self) -> Option<&Report> {
        let mut runs: Vec<&Report> = self.runs.iter().collect();
        runs.sort_by(|a, b| a.ops_per_sec.median.total_cmp(&b.ops_per_sec.median));
        runs.get(runs.len() / 2).copied()
    }
}

fn write_figure(f: &mut fmt::Formatter<'_>, figure: &Figure, wide: usize) -> fmt::Result {
    let shown = |value: f64| figure.unit.show_number(value);
    let (least, most) =
        figure.values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    // With six or seven runs the interval equals the observed range, so the range is not printed again.
    let seen = if (figure.low, figure.high) == (Some(least), Some(most)) {
        String::new()
    } else {
        format!("; {} to {} seen", shown(least), shown(most))
    };
    writeln!(f, "  {:wide$}  {:>10}  {}{seen}", figure.name, shown(figure.median), figure.interval_text())
}

#[cfg(test)]
mod tests {
    use crate::measure::interval::Rates;
    use crate::report::document::{Document, DocumentKind};
    use crate::report::machine::Machine;
    use crate::report::{Report, Verdict};
    use crate::run::recipe::Recipe;

    #[test]
    fn six_runs_read_like_this() {
        let run = |median: f64, verdict| Report {
            scenario: "fan-in".to_owned(),
            ops_label: "messages/s".to_owned(),
            profile: "max".to_owned(),
            schedulers: 2,
            ops_total: 10,
            ops_per_sec: Rates { median, min: median, max: median, intervals: 1, ..Rates::default() },
            cpu_ns_per_op: Some(1e9 / median),
            rss_bytes: Some(5 << 20),
            verdict,
            ..Report::default()
        };
        let runs = [7.0, 1.0, 2.0, 6.0, 4.0, 5.0].map(|millions| run(millions * 1e6, Verdict::Steady));
        let mut runs = runs.to_vec();
        runs[1].verdict = Verdict::Disturbed;
        let machine = Machine { kernel: "Linux 6.18".to_owned(), cores: 2, ..Machine::default() };

        let document = Document::of(DocumentKind::Bench, Recipe::default(), machine, runs);

        insta::assert_snapshot!(document.to_string());
    }
}
