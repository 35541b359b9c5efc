//! A result in the form that all kinds of measurements share: lines, tables, gates, a curve and a verdict.
//!
//! ```text
//!   Document, Sweep, Saturation, Soak, Interleaved ──▶ Sheet ──▶ page.rs: one page of it on the wire
//! ```
//!
//! Every figure of the text report is in the sheet; a test compares them.

use rusm_protocol::{Curve, CurvePoint, GateInfo};

use crate::gates;
use crate::judge::compare::{Compared, Interleaved};
use crate::judge::saturate::{Level, Saturation, Usl};
use crate::judge::soak::{Growth, Soak, SoakSample, SoakVerdict};
use crate::judge::sweep::{Axis, Sweep, SweepCell};
use crate::report::document::Document;
use crate::report::machine::Machine;
use crate::report::numbers::{bytes, grouped};
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::report::{Report, Verdict};

/// A result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sheet {
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) tables: Vec<Table>,
    pub(crate) lines: Vec<String>,
    pub(crate) gates: Vec<GateInfo>,
    pub(crate) curve: Option<Curve>,
    /// Word and sentence, and true if it is conclusive; `None` while it is measured.
    pub(crate) verdict: Option<(String, String, bool)>,
}

impl Sheet {
    /// Creates the sheet of a run that goes on.
    pub(crate) fn of_report(report: &Report) -> Self {
        let facts = std::iter::once(("settings", report.head())).chain(report.facts());
        Self {
            facts: owned(facts),
            tables: report.tables.clone(),
            lines: report.lines.clone(),
            gates: gates::judge(report),
            ..Self::default()
        }
    }

    /// Creates the sheet of several runs.
    pub(crate) fn of_document(document: &Document) -> Self {
        let Some(middle) = document.middle() else { return Self::default() };
        let mut sheet = Self::of_report(middle);
        if document.runs.len() > 1 {
            sheet.tables.insert(0, over_runs(document));
        }
        sheet.add_machine(&document.machine);
        let line = if document.runs.len() == 1 { middle.verdict_line() } else { document.verdict.line().to_owned() };
        sheet.verdict = Some(verdict(document.verdict, line));
        sheet
    }

    /// Creates the sheet of the cells of a sweep so far.
    pub(crate) fn of_cells(axes: &[Axis], cells: &[SweepCell]) -> Self {
        let mut names: Vec<(&str, ColumnUnit)> = Vec::new();
        for figure in cells.iter().flat_map(|cell| &cell.figures) {
            if !names.iter().any(|(name, _)| *name == figure.name) {
                names.push((&figure.name, figure.unit));
            }
        }
        let columns = axes.iter().map(|axis| (axis.name.as_str(), ColumnUnit::Text));
        let columns: Vec<_> = columns.chain(names.iter().copied()).chain([("verdict", ColumnUnit::Text)]).collect();
        let mut table = Table::new("cells; the numbers are medians", &columns);
        for cell in cells {
            let param = |axis: &Axis| Cell::from(cell.params.get(&axis.name).cloned());
            let figure = |(name, _): &(&str, ColumnUnit)| {
                let found = cell.figures.iter().find(|figure| figure.name == *name);
                Cell::from(found.map(|figure| figure.median))
            };
            let word = cell.error.clone().unwrap_or_else(|| cell.verdict.word().to_owned());
            table.rows.push(axes.iter().map(param).chain(names.iter().map(figure)).chain([word.into()]).collect());
        }
        Self { tables: vec![table], ..Self::default() }
    }

    /// Creates the sheet of a sweep.
    pub(crate) fn of_sweep(sweep: &Sweep) -> Self {
        let mut sheet = Self::of_cells(&sweep.axes, &sweep.cells);
        let conclusive = sweep.cells.iter().filter(|cell| cell.verdict.is_conclusive()).count();
        sheet.facts.push(("cells".to_owned(), format!("{}, {conclusive} conclusive", sweep.cells.len())));
        sheet.add_machine(&sweep.origin.machine);
        let all = Verdict::of_runs(sweep.cells.iter().map(|cell| cell.verdict));
        sheet.verdict = Some(verdict(all, all.line().to_owned()));
        sheet
    }

    /// Creates the sheet of the levels of a search so far.
    pub(crate) fn of_levels(levels: &[Level]) -> Self {
        let columns = [
            ("load", ColumnUnit::Percent),
            ("offered/s", ColumnUnit::Amount),
            ("done/s", ColumnUnit::Amount),
            ("backlog/s", ColumnUnit::Amount),
            ("p50", ColumnUnit::Ns),
            ("p99", ColumnUnit::Ns),
            ("p99.9", ColumnUnit::Ns),
            ("search", ColumnUnit::Count),
            ("", ColumnUnit::Text),
        ];
        let mut sorted: Vec<&Level> = levels.iter().collect();
        sorted.sort_by(|a, b| a.offered_per_sec.total_cmp(&b.offered_per_sec));
        let mut table = Table::new("levels", &columns);
        for level in &sorted {
            table.row([
                (level.load * 100.0).into(),
                level.offered_per_sec.into(),
                level.achieved_per_sec.into(),
                level.backlog_slope_per_sec.into(),
                (level.latency.p50_ns as f64).into(),
                (level.latency.p99_ns as f64).into(),
                (level.latency.p999_ns as f64).into(),
                u64::from(level.search).into(),
                level.word().into(),
            ]);
        }
        let drawn = sorted.iter().filter(|level| level.latency.p99_ns > 0);
        let points: Vec<CurvePoint> = drawn
            .map(|level| CurvePoint { x: level.offered_per_sec, y: level.latency.p99_ns as f64, good: level.stable })
            .collect();
        let curve = (!points.is_empty()).then(|| Curve {
            title: "p99 over the offered rate".to_owned(),
            x_unit: "amount".to_owned(),
            y_unit: "ns".to_owned(),
            log_y: true,
            points,
            mark: None,
            line: None,
        });
        Self { tables: vec![table], curve, ..Self::default() }
    }

    /// Creates the sheet of a search for the highest stable rate.
    pub(crate) fn of_saturation(found: &Saturation) -> Self {
        let mut sheet = Self::of_levels(&found.levels);
        sheet.facts = found.facts().into_iter().map(|(name, text)| (name.trim().to_owned(), text)).collect();
        if let Some(curve) = &mut sheet.curve {
            curve.mark = found.max_stable_rate;
        }
        sheet.tables.extend(found.usl.as_ref().map(law));
        sheet.add_machine(&found.origin.machine);
        let word = if found.is_conclusive() { "conclusive" } else { "inconclusive" };
        sheet.verdict = Some((word.to_owned(), word.to_owned(), found.is_conclusive()));
        sheet
    }

    /// Creates the sheet of the samples of a long run so far.
    pub(crate) fn of_samples(samples: &[SoakSample]) -> Self {
        let growths = Growth::all_of(samples);
        let mut sheet = Self { tables: vec![growth_table(&growths, samples.len())], ..Self::default() };
        sheet.curve = memory_curve(samples, &growths);
        sheet
    }

    /// Creates the sheet of a long run.
    pub(crate) fn of_soak(soak: &Soak) -> Self {
        let mut sheet = Self::of_report(&soak.run);
        sheet.tables.insert(0, growth_table(&soak.growths, soak.samples.len()));
        sheet.curve = memory_curve(&soak.samples, &soak.growths);
        let live = match (soak.live_bytes_before, soak.live_bytes_after) {
            (None, None) => "not judged: the node allocates too".to_owned(),
            (before, after) => format!("{} before, {} after", bytes(before), bytes(after)),
        };
        sheet.facts.push(("live bytes outside the run".to_owned(), live));
        sheet.add_machine(&soak.origin.machine);
        let word = match soak.verdict {
            SoakVerdict::Level => "level",
            SoakVerdict::Growing => "growing",
            SoakVerdict::TooShort => "too_short",
            SoakVerdict::Failed => "failed",
        };
        sheet.verdict = Some((word.to_owned(), soak.verdict_line(), soak.verdict != SoakVerdict::TooShort));
        sheet
    }

    /// Creates the sheet of an interleaved comparison with a result of this node, whole or so far.
    pub(crate) fn of_interleaved(judged: &Interleaved, baseline: u64, is_over: bool) -> Self {
        let mut table = compared_table(&judged.figures);
        table.title = format!("these settings over those of #{baseline}, {} pairs, interleaved", 2 * judged.rounds);
        let facts = vec![("decides".to_owned(), judged.decides_text()), ("control".to_owned(), judged.control_text())];
        let mut sheet = Self { facts, tables: vec![table], ..Self::default() };
        if is_over {
            sheet.add_machine(&judged.origin.machine);
            let word = judged.outcome.word();
            sheet.verdict = Some((word.to_owned(), judged.verdict_text(), word != "inconclusive"));
        }
        sheet
    }

    fn add_machine(&mut self, machine: &Machine) {
        self.facts.extend(owned(machine.lines()));
    }
}

fn owned<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> Vec<(String, String)> {
    facts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn verdict(verdict: Verdict, line: String) -> (String, String, bool) {
    (verdict.word().to_owned(), line, verdict.is_conclusive())
}

/// Returns the figures over all runs.
fn over_runs(document: &Document) -> Table {
    let title = format!("over {} runs; the lines above are of the median run", document.runs.len());
    let texts = ["figure", "median", "interval", "seen"].map(|name| (name, ColumnUnit::Text));
    let mut table = Table::new(&title, &texts);
    for figure in &document.figures {
        let shown = |value: f64| figure.unit.show_number(value);
        let least = figure.values.iter().copied().fold(f64::MAX, f64::min);
        let most = figure.values.iter().copied().fold(f64::MIN, f64::max);
        let seen = format!("{} to {}", shown(least), shown(most));
        let (median, interval) = (shown(figure.median), figure.interval_text());
        table.row([figure.name.as_str().into(), median.into(), interval.into(), seen.into()]);
    }
    let others = document.runs.iter().enumerate().filter(|(_, run)| run.verdict != document.verdict);
    for (index, run) in others {
        table.note(format!("run {}: {}", index + 1, run.verdict_line()));
    }
    table
}

/// Returns figures side by side.
pub(crate) fn compared_table(figures: &[Compared]) -> Table {
    let texts = ["figure", "before", "after", "ratio", "95 %", "outcome"].map(|name| (name, ColumnUnit::Text));
    let mut table = Table::new("", &texts);
    for figure in figures {
        let [before, after] = [figure.before, figure.after].map(|value| figure.unit.show_number(value));
        let ratio = figure.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        let interval = match (figure.ratio_low, figure.ratio_high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => "–".to_owned(),
        };
        let name = figure.name.as_str().into();
        table.row([name, before.into(), after.into(), ratio.into(), interval.into(), figure.outcome.word().into()]);
    }
    table
}

fn law(usl: &Usl) -> Table {
    let columns = [
        ("workers", ColumnUnit::Amount),
        ("measured/s", ColumnUnit::Amount),
        ("fitted/s", ColumnUnit::Amount),
        ("residual", ColumnUnit::Percent),
    ];
    let mut table = Table::new("Universal Scalability Law", &columns);
    for point in &usl.points {
        let (measured, fitted) = (point.measured_per_sec, point.fitted_per_sec);
        table.row([point.workers.into(), measured.into(), fitted.into(), (point.residual * 100.0).into()]);
    }
    let peak = usl.peak_workers.map_or_else(|| "none".to_owned(), |peak| format!("{peak:.1} workers"));
    table.note(format!("σ {:.4}, κ {:.6}, peak {peak}", usl.sigma, usl.kappa));
    let holds = if usl.residual_max > 0.1 { "the law does not hold here" } else { "the law holds" };
    table.note(format!("largest residual {:.1} %: {holds}", usl.residual_max * 100.0));
    table
}

fn growth_table(growths: &[Growth], samples: usize) -> Table {
    let columns = [
        ("quantity", ColumnUnit::Text),
        ("plateau", ColumnUnit::Text),
        ("slope/s", ColumnUnit::Text),
        ("95 %", ColumnUnit::Text),
        ("p", ColumnUnit::Text),
        ("in 4 h", ColumnUnit::Text),
        ("", ColumnUnit::Text),
    ];
    let mut table = Table::new("growth after the plateau was reached", &columns);
    for growth in growths {
        table.row([
            growth.name.as_str().into(),
            grouped(growth.plateau as u64).into(),
            format!("{:.3}", growth.slope_per_s).into(),
            format!("{:.3} to {:.3}", growth.slope_low_per_s, growth.slope_high_per_s).into(),
            format!("{:.4}", growth.trend_p).into(),
            format!("{:.2} %", growth.growth_4h * 100.0).into(),
            if growth.grows { "grows" } else { "level" }.into(),
        ]);
    }
    if growths.is_empty() {
        table.note(format!("{samples} samples are too few to judge: at least 30 are needed"));
    }
    table
}

/// Returns the memory over time with the slope of its plateau.
fn memory_curve(samples: &[SoakSample], growths: &[Growth]) -> Option<Curve> {
    type Pick = fn(&SoakSample) -> Option<u64>;
    let picks: [(&str, &str, Pick); 3] = [
        ("live_bytes", "allocated memory over time", |sample| sample.live_bytes),
        ("own_bytes", "own memory over time", |sample| sample.own_bytes),
        ("rss_bytes", "resident memory over time", |sample| sample.rss_bytes),
    ];
    let (name, title, pick) =
        picks.into_iter().find(|(.., pick)| samples.iter().any(|sample| pick(sample).is_some()))?;
    let point = |sample: &SoakSample| Some(CurvePoint { x: sample.at_s, y: pick(sample)? as f64, good: true });
    let every = samples.len().div_ceil(rusm_protocol::CURVE_POINTS_MAX).max(1);
    let points: Vec<CurvePoint> = samples.iter().step_by(every).filter_map(point).collect();
    let growth = growths.iter().find(|growth| growth.name == name);
    let line = growth.zip(points.first().zip(points.last())).map(|(growth, (first, last))| {
        let at = |x: f64| growth.plateau + growth.slope_per_s * (x - growth.plateau_from_s);
        [at(first.x), at(last.x)]
    });
    let units = ("seconds".to_owned(), "bytes".to_owned());
    Some(Curve { title: title.to_owned(), x_unit: units.0, y_unit: units.1, points, line, ..Curve::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::DocumentKind;
    use crate::run::recipe::Recipe;

    /// A report of two runs with a figure of every kind.
    fn document() -> Document {
        use crate::measure::interval::Rates;
        use crate::report::{LatencyReport, LoopKind, OpenLoopReport, WarmUpReport};

        let distribution = rusm_protocol::LatencySnapshot {
            count: 3_460,
            min_ns: 60,
            max_ns: 1_234_567,
            mean_ns: 4_321.0,
            p50_ns: 4_100,
            p90_ns: 5_400,
            p95_ns: 6_010,
            p99_ns: 9_980,
            p999_ns: 99_700,
        };
        let mut table = Table::new("Round trips", &[("mode", ColumnUnit::Text), ("wall", ColumnUnit::Ns)]);
        table.row(["futex".into(), 7_654.0.into()]);
        table.note("medians of 77 turns");
        let lag = distribution;
        let run = |rate: f64| Report {
            scenario: "ping-pong".to_owned(),
            loop_kind: LoopKind::Open,
            warm_up: WarmUpReport { duration_s: 1.25, steady: true },
            duration_s: 5.5,
            ops_total: 221_450,
            ops_per_sec: Rates { median: rate, min: 4.1e5, max: 4.6e5, intervals: 55, ..Rates::default() },
            cpu_ns_per_op: Some(45.25),
            latency: Some(LatencyReport {
                distribution,
                sampling: 64,
                clock_read_ns: 24.5,
                ..LatencyReport::default()
            }),
            service: Some(distribution),
            pacer: Some(distribution),
            open_loop: Some(OpenLoopReport { offered_per_sec: 5e5, achieved: 0.875, missed_total: 31, lag }),
            tables: vec![table.clone()],
            lines: vec!["T: 0 C: 4711".to_owned()],
            processes_peak: 2_063,
            rss_bytes: Some(12 << 20),
            foreign_cores: Some(0.33),
            verdict: Verdict::Steady,
            ..Report::default()
        };
        Document::of(DocumentKind::Bench, Recipe::default(), Machine::look(), vec![run(4.3e5), run(4.4e5)])
    }

    /// Returns the words of a text, without the column alignment.
    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(|word| word.trim_end_matches(';').to_owned()).collect()
    }

    #[test]
    fn a_sheet_has_every_figure_of_the_text_report() {
        let document = document();
        let sheet = Sheet::of_document(&document);
        let mut shown: Vec<String> = Vec::new();
        for (name, text) in &sheet.facts {
            shown.extend(words(&format!("{name} {text}")));
        }
        for table in &sheet.tables {
            shown.extend(words(&table.to_string()));
        }
        shown.extend(sheet.lines.iter().flat_map(|line| words(line)));
        shown.extend(sheet.verdict.iter().flat_map(|(_, line, _)| words(line)));

        let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
        let missing: Vec<String> =
            words(&document.to_string()).into_iter().filter(is_number).filter(|word| !shown.contains(word)).collect();

        assert_eq!(missing, Vec::<String>::new(), "{shown:?}");
    }

    #[test]
    fn a_document_without_runs_is_an_empty_sheet() {
        let document = Document::of(DocumentKind::Bench, Recipe::default(), Machine::default(), Vec::new());

        assert_eq!(Sheet::of_document(&document), Sheet::default());
    }

    #[test]
    fn levels_are_a_table_and_a_curve_in_the_order_of_their_rates() {
        let level = |rate: f64, stable| Level {
            offered_per_sec: rate,
            stable,
            latency: rusm_protocol::LatencySnapshot { p99_ns: 1_000, ..Default::default() },
            ..Level::default()
        };

        let sheet = Sheet::of_levels(&[level(300.0, false), level(100.0, true)]);

        let points = sheet.curve.unwrap().points;
        assert_eq!(
            points.iter().map(|point| (point.x as u64, point.good)).collect::<Vec<_>>(),
            [(100, true), (300, false)]
        );
        assert_eq!(sheet.tables[0].rows.len(), 2);
    }

    #[test]
    fn memory_that_grows_has_a_rising_line() {
        let sample = |at: u32| SoakSample {
            at_s: f64::from(at),
            rss_bytes: Some(1_000_000 + 1_000 * u64::from(at)),
            ..SoakSample::default()
        };

        let sheet = Sheet::of_samples(&(0..1_000).map(sample).collect::<Vec<_>>());

        let curve = sheet.curve.unwrap();
        assert!(curve.points.len() <= rusm_protocol::CURVE_POINTS_MAX);
        assert!(curve.line.is_some_and(|[first, last]| last > first + 900_000.0), "{curve:?}");
    }
}
