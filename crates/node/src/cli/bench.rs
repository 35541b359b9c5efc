//! The command line of `rusm bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rusm_bench::SEARCHES;

use super::{CommonFlags, ShareFlags};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Lists the scenarios and the profiles, or shows scenarios with their parameters.
    List {
        /// Scenarios to show with their parameters.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Prints JSON, of all scenarios.
        #[arg(long, conflicts_with = "ids")]
        json: bool,
    },
    /// Runs a scenario several times and prints its figures.
    ///
    /// Ends with 0, with 5 when a run failed, and with 6 when the figures should not be compared: they were not steady, or other
    /// programs disturbed them.
    Run(Box<RunFlags>),
    /// Compares two reports.
    ///
    /// Ends with 0 when the second is better or the same, with 5 when it is worse, and with 6 when that cannot be told.
    Compare(CompareFlags),
    /// Runs a scenario by two programs in turn, ABBA, and compares them.
    ///
    /// The baseline also runs beside itself: when that control differs by more than 5 %, nothing can be told. Ends with 0 when
    /// this program is better or the same, with 5 when it is worse, and with 6 when that cannot be told.
    Ab(Box<AbFlags>),
    /// Runs a scenario over a grid of parameters and prints a table, its columns apart by tabs.
    Sweep(Box<SweepFlags>),
    /// Finds how much a scenario takes: capacity, the highest stable rate, the highest under a promise of latency.
    Saturate(Box<SaturateFlags>),
    /// Shows what runs of this and earlier days have shown.
    History(HistoryFlags),
    /// Runs a scenario for long and looks whether anything grows.
    ///
    /// Ends with 0 when nothing grew, with 5 when something did or the run failed, and with 6 when it was too short to tell.
    Soak(Box<SoakFlags>),
}

impl BenchCommand {
    /// Returns the resource limits of the command, if it runs something.
    pub(crate) fn container(&self) -> Option<&ContainerFlags> {
        match self {
            Self::Run(flags) => Some(&flags.conditions.container),
            Self::Sweep(flags) => Some(&flags.conditions.container),
            Self::Saturate(flags) => Some(&flags.conditions.container),
            Self::Soak(flags) => Some(&flags.conditions.container),
            Self::Ab(flags) => Some(&flags.container),
            Self::List { .. } | Self::Compare(_) | Self::History(_) => None,
        }
    }
}

/// The parameters of a run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecipeFlags {
    /// Sets a parameter of the scenario; may be given several times.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// How long to measure after the warm-up: 500ms, 5s, 2m [default: 5s; a level of `saturate` 6s, a `soak` 30m].
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// The longest warm-up: a run whose rate is steady earlier is measured earlier [default: 5s].
    #[arg(long, value_name = "TIME")]
    pub(crate) warm_up: Option<String>,
    /// Offers operations at this rate a second whether or not earlier ones are done.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub(crate) open_loop: Option<f64>,
    /// The seed of everything random [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) share: ShareFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// The scenario, as `rusm bench list` names it.
    #[arg(required_unless_present_any = ["from", "profile_file"])]
    pub(crate) id: Option<String>,
    /// Runs what a report was made by once more; other flags change that.
    #[arg(long, value_name = "REPORT", conflicts_with = "profile_file")]
    pub(crate) from: Option<PathBuf>,
    /// Runs what a file says that --save-profile wrote; other flags change that.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_file: Option<PathBuf>,
    /// Writes what was run to a file for --profile-file.
    #[arg(long, value_name = "FILE")]
    pub(crate) save_profile: Option<PathBuf>,
    /// How often to run [default: 6, the fewest that give an interval].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) conditions: ConditionFlags,
}

/// Flags about the history of reports.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeepFlags {
    /// Does not keep the report for `rusm bench history`.
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// Conditions under which a scenario runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConditionFlags {
    #[command(flatten)]
    pub(crate) container: ContainerFlags,
    /// Records a CPU profile by `perf` into a file, at 999 Hz with call chains: `perf report -i FILE` shows it.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_cpu: Option<PathBuf>,
}

/// Maximum resources of a scenario.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ContainerFlags {
    /// Runs as in a container with so much processor time, such as 1.5 cores; needs a control group that can be written.
    #[arg(long, value_name = "CORES", allow_negative_numbers = true)]
    pub(crate) cpus: Option<f64>,
    /// Runs as in a container with so much memory, such as 256MiB; needs a control group that can be written.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryFlags {
    /// Only this scenario.
    pub(crate) id: Option<String>,
    /// Runs shown of each recipe, the newest.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Destinations of a report.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputFlags {
    /// Prints JSON with the environment that the figures were made in.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the JSON to a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Rules for a comparison.
#[derive(Clone, Debug, Args)]
pub(crate) struct JudgeFlags {
    /// The figure that decides, such as `cpu_ns_per_op` [default: `ops_per_sec`, or `latency_ns_p99` of an open loop].
    #[arg(long, value_name = "FIGURE")]
    pub(crate) by: Option<String>,
    /// By how many per cent it must differ to be better or worse.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, allow_negative_numbers = true)]
    pub(crate) threshold: f64,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// The report that was there before.
    pub(crate) before: PathBuf,
    /// The report that is judged.
    pub(crate) after: PathBuf,
    /// Judges reports of two machines too.
    #[arg(long)]
    pub(crate) across_machines: bool,
    #[command(flatten)]
    pub(crate) judge: JudgeFlags,
}

#[derive(Debug, Args)]
pub(crate) struct AbFlags {
    /// The scenario, as `rusm bench list` names it.
    pub(crate) id: String,
    /// The program to compare with: a `rusm` built before.
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: PathBuf,
    /// The program to judge [default: this one].
    #[arg(long, value_name = "PATH")]
    pub(crate) candidate: Option<PathBuf>,
    /// Rounds of four runs, 2-100.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    #[command(flatten)]
    pub(crate) judge: JudgeFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) container: ContainerFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SweepFlags {
    /// The scenario, as `rusm bench list` names it.
    pub(crate) id: String,
    /// A parameter and its values; may be given several times.
    #[arg(long, value_name = "NAME=A,B,C", required = true)]
    pub(crate) grid: Vec<String>,
    /// How often to run each cell.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) conditions: ConditionFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SaturateFlags {
    /// The scenario, as `rusm bench list` names it.
    pub(crate) id: String,
    /// A promise of latency, such as p99=20ms.
    #[arg(long, value_name = "p99=TIME")]
    pub(crate) slo: Option<String>,
    /// The parameter that sets the number of workers, for the Universal Scalability Law [default: the scenario's].
    #[arg(long, value_name = "NAME")]
    pub(crate) workers: Option<String>,
    /// Leaves the Universal Scalability Law out.
    #[arg(long)]
    pub(crate) no_usl: bool,
    /// How often the highest stable rate is looked for; results within 5 % of each other are conclusive.
    #[arg(long, value_name = "N", default_value_t = SEARCHES)]
    pub(crate) searches: u32,
    /// Draws the curve of latencies into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) conditions: ConditionFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SoakFlags {
    /// The scenario, as `rusm bench list` names it.
    pub(crate) id: String,
    /// How long: 30m, 8h, up to a week, which is 168h [default: 30m].
    #[arg(id = "soak_duration", long = "duration", value_name = "TIME", conflicts_with = "duration")]
    pub(crate) long: Option<String>,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) conditions: ConditionFlags,
}
