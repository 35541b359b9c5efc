//! Results of scenarios on the wire: settings of a measurement, its report during the measurement and afterwards, and the
//! node's history of results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cell, ViewWindow};

/// Settings of a measurement in a `run` message; what is absent keeps the node's default.
///
/// Without a duration the scenario runs until it is stopped, and its report then covers the time after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Kind of measurement: `run` (the default), `sweep`, `saturate`, `soak` or `ab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Id of the resource profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Operations per second that an open loop offers; absent for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// Length of each measurement after its warm-up, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Longest warm-up, in milliseconds; it ends earlier if the rate is steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_ms: Option<u64>,
    /// Seed of all random numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of runs; of runs for each cell (`sweep`), of searches (`saturate`) or of rounds of four runs (`ab`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Axes of a `sweep`, each `name=a,b,c`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<String>,
    /// Limit of the latency at its 99th percentile for `saturate`, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_p99_ns: Option<u64>,
    /// Number of the result that is the baseline of an `ab`; absent for the newest of the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<u64>,
}

/// A client's view of the node's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Number of the result to show; absent for the current one, or the newest if nothing runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// Number of an earlier result to compare it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<u64>,
    /// Range of rows, counted through all tables of the result.
    #[serde(default = "all_rows")]
    pub rows: ViewWindow,
    /// Range of the history, newest first.
    #[serde(default)]
    pub history: ViewWindow,
    /// Refreshes per second, 1–10; an unchanged result is not sent again.
    #[serde(default = "default_results_hz")]
    pub hz: f64,
}

const fn default_results_hz() -> f64 {
    2.0
}

const fn all_rows() -> ViewWindow {
    ViewWindow { offset: 0, len: crate::VIEW_ROWS_MAX }
}

impl Default for ResultsView {
    fn default() -> Self {
        Self {
            id: 0,
            run: None,
            against: None,
            rows: all_rows(),
            history: ViewWindow::default(),
            hz: default_results_hz(),
        }
    }
}

/// The result that a view selected, and a page of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this answer, counted per client.
    pub seq: u64,
    /// Uptime of the node, in milliseconds.
    pub at_ms: u64,
    /// CPU time of encoding, in microseconds.
    pub cost_us: f64,
    /// The result; `null` before the first, or if the node no longer has it.
    pub result: Option<Box<RunResult>>,
    /// The comparison that the view selected.
    pub comparison: Option<Box<RunComparison>>,
    /// Number of results in the history.
    pub history_total: u64,
    /// Number of results before the first one of this page.
    pub history_offset: u64,
    /// Page of the history, newest first.
    pub history: Vec<RunEntry>,
    /// Reason why results are not saved, or why earlier ones cannot be read.
    pub history_error: Option<String>,
}

/// A result, complete or while it is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// Number of the result in the life of this node, counted from 1.
    pub number: u64,
    /// Kind of measurement: `run`, `sweep`, `saturate`, `soak` or `ab`.
    pub kind: String,
    /// Id of the scenario.
    pub scenario: String,
    /// `preparing`, `warming_up`, `measuring`, `paused` or `ended`.
    pub state: String,
    /// Number of the current step, such as a run, a cell or a level; 0 if there is only one.
    pub step: u32,
    /// Number of steps; 0 if it is not known.
    pub steps: u32,
    /// Last progress, in one line.
    pub progress: String,
    /// Time measured in this step, in milliseconds.
    pub measured_ms: u64,
    /// Planned time of this step, in milliseconds; 0 until it is stopped.
    pub planned_ms: u64,
    /// Settings that repeat the measurement.
    pub settings: RunSettings,
    /// Parameters of the scenario.
    pub params: BTreeMap<String, String>,
    /// True if the scenario runs cases in turn: its rate says nothing, and its figures are in its tables.
    pub takes_turns: bool,
    /// Verdict in one word, such as `steady`; absent until it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Verdict in a sentence.
    pub verdict_text: String,
    /// True if the figures describe the system and not a disturbance.
    pub conclusive: bool,
    /// Limits that the scenario's card names, with the values of this result.
    pub gates: Vec<GateInfo>,
    /// Lines of the report: a name and a text.
    pub facts: Vec<NamedText>,
    /// Number of rows of all tables.
    pub rows_total: u64,
    /// Number of rows before the first one of this page.
    pub rows_offset: u64,
    /// All tables; only rows of the page have their cells.
    pub tables: Vec<ResultTable>,
    /// Lines that the scenario prints for other programs.
    pub lines: Vec<String>,
    /// Curve of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Error that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A line of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedText {
    /// Name; empty for the continuation of the line before.
    pub name: String,
    /// Text.
    pub text: String,
}

/// A limit for a figure of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateInfo {
    /// The limited resource.
    pub name: String,
    /// The limit, for example `at most 512 B`.
    pub limit: String,
    /// The measured value; absent if this result does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// True if the value is within the limit; absent without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// A table of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultTable {
    /// Title; unique within a result.
    pub title: String,
    /// Columns.
    pub columns: Vec<ResultColumn>,
    /// Number of rows.
    pub rows_total: u64,
    /// Number of rows before the first one of `rows`.
    pub rows_offset: u64,
    /// Rows of the page, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Notes needed to interpret the table.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultColumn {
    /// Heading.
    pub name: String,
    /// Unit of its numbers: `text`, `count`, `amount`, `ns`, `percent`, `ratio` or `bytes`.
    pub unit: String,
}

/// Points of a curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// Title.
    pub title: String,
    /// Unit of the horizontal axis, as that of a column.
    pub x_unit: String,
    /// Unit of the vertical axis.
    pub y_unit: String,
    /// True if the vertical axis is logarithmic.
    pub log_y: bool,
    /// Points, sorted by `x`.
    pub points: Vec<CurvePoint>,
    /// Marked value of the horizontal axis, such as the highest stable rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<f64>,
    /// Straight line through the points: its values at the first and the last point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<[f64; 2]>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurvePoint {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
    /// False for a point that is not stable.
    pub good: bool,
}

/// A result in the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEntry {
    /// Number of the result; 0 for one of another program or of an earlier node, of which only this summary is kept.
    pub number: u64,
    /// Time at which it ended, in UTC.
    pub recorded_at: String,
    /// Kind of measurement.
    pub kind: String,
    /// Id of the scenario.
    pub scenario: String,
    /// Id of the resource profile.
    pub profile: String,
    /// Parameters that differ from their defaults, as `name=value`.
    pub params: Vec<String>,
    /// Offered operations per second; absent for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// Number of runs.
    pub runs: u32,
    /// Length of each run, in milliseconds.
    pub duration_ms: u64,
    /// Name of the deciding figure; empty without one.
    pub figure: String,
    /// Unit of the figure, as that of a column.
    pub unit: String,
    /// Median of the figure over the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Lower end of the interval of the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// CPU time of the whole node for one operation, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// 99th percentile of the latency, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns_p99: Option<f64>,
    /// Verdict in one word.
    pub verdict: String,
    /// Number of gates that were met, and of those that could be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<[u32; 2]>,
    /// Version of the program, with its commit if it is known.
    pub version: String,
}

/// Two results side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunComparison {
    /// Number of the earlier result.
    pub before: u64,
    /// Number of the later result.
    pub after: u64,
    /// Figures of both, with the ratio after ÷ before and its 95 % interval.
    pub table: ResultTable,
    /// Caveats for the reader.
    pub notes: Vec<String>,
    /// Name of the deciding figure.
    pub decides: String,
    /// Minimum difference that counts, as a fraction.
    pub threshold: f64,
    /// `better`, `worse`, `same` or `inconclusive`.
    pub outcome: String,
}

/// A part of the JSON report of a result, in answer to `report`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportPart {
    /// Id of the request.
    pub id: u64,
    /// Number of the result.
    pub number: u64,
    /// Number of bytes before this part.
    pub offset: u64,
    /// Size of the whole report, in bytes.
    pub total: u64,
    /// This part, at most [`REPORT_PART_MAX_BYTES`](crate::REPORT_PART_MAX_BYTES).
    pub text: String,
}
