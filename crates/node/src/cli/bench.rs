//! The command line of `rusm bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use rusm_bench::SEARCHES;

use super::common::{CommonFlags, ShareFlags};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Lists the scenarios and the profiles, or shows scenarios with their parameters.
    List {
        /// Scenarios to show with their parameters.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Prints all scenarios as JSON.
        #[arg(long, conflicts_with = "ids")]
        json: bool,
    },
    /// Runs a scenario several times and prints its figures.
    ///
    /// Exit code: 0 on success, 5 if a run failed, 6 if the figures should not be compared because they were not steady
    /// or other programs disturbed them.
    Run(Box<RunFlags>),
    /// Compares two reports.
    ///
    /// Exit code: 0 if the second report is better or the same, 5 if it is worse, 6 if the result is inconclusive.
    Compare(CompareFlags),
    /// Runs a scenario with two programs alternately (ABBA) and compares them.
    ///
    /// As a control, the baseline is also compared with itself. If the control differs by more than 5 %, the result is
    /// inconclusive.
    ///
    /// Exit code: 0 if this program is better or the same, 5 if it is worse, 6 if the result is inconclusive.
    Ab(Box<AbFlags>),
    /// Runs a scenario over a grid of parameters and prints a tab-separated table.
    Sweep(Box<SweepFlags>),
    /// Finds the capacity of a scenario, its highest stable rate, and its highest rate within a latency limit.
    Saturate(Box<SaturateFlags>),
    /// Shows the results of earlier runs.
    History(HistoryFlags),
    /// Runs a scenario for a long time and checks whether anything grows.
    ///
    /// Exit code: 0 if nothing grew, 5 if something grew or the run failed, 6 if the run was too short to tell.
    Soak(Box<SoakFlags>),
    /// Runs a node of a scenario: the scenario starts it.
    #[command(hide = true)]
    ClusterNode(ClusterNodeFlags),
}

impl BenchCommand {
    /// Returns whether the command runs something.
    pub(crate) const fn starts_threads(&self) -> bool {
        !matches!(self, Self::List { .. } | Self::Compare(_) | Self::History(_))
    }

    /// Returns the resource limits of the command, if it runs something.
    pub(crate) fn container(&self) -> Option<&ContainerFlags> {
        match self {
            Self::Run(flags) => Some(&flags.conditions.container),
            Self::Sweep(flags) => Some(&flags.conditions.container),
            Self::Saturate(flags) => Some(&flags.conditions.container),
            Self::Soak(flags) => Some(&flags.conditions.container),
            Self::Ab(flags) => Some(&flags.container),
            Self::List { .. } | Self::Compare(_) | Self::History(_) | Self::ClusterNode(_) => None,
        }
    }
}

/// A node of a scenario.
#[derive(Debug, Args)]
pub(crate) struct ClusterNodeFlags {
    /// Name of the node.
    #[arg(long)]
    pub(crate) name: String,
    /// Address of a node to join; may be given several times.
    #[arg(long)]
    pub(crate) join: Vec<String>,
    /// Number of scheduler threads.
    #[arg(long)]
    pub(crate) schedulers: usize,
    /// Address of the link that measures: its packets are sent back.
    #[arg(long)]
    pub(crate) ping: Option<String>,
    /// Serves keyed processes.
    #[arg(long)]
    pub(crate) serves_keys: bool,
    /// File with the secret of the run.
    #[arg(long)]
    pub(crate) secret: PathBuf,
}

/// The parameters of a run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecipeFlags {
    /// Sets a parameter of the scenario; may be given several times.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// Time to measure after the warm-up, such as 500ms, 5s or 2m [default: 5s; `saturate` 6s per level, `soak` 30m].
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Maximum warm-up; measuring starts earlier if the rate is steady [default: 5s].
    #[arg(long, value_name = "TIME")]
    pub(crate) warm_up: Option<String>,
    /// Offers this many operations per second, whether or not earlier ones are done.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub(crate) open_loop: Option<f64>,
    /// Seed of all random numbers [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) share: ShareFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Id of the scenario, as in `rusm bench list`.
    #[arg(required_unless_present_any = ["from", "profile_file"])]
    pub(crate) id: Option<String>,
    /// Repeats the run of a report; other flags override its settings.
    #[arg(long, value_name = "REPORT", conflicts_with = "profile_file")]
    pub(crate) from: Option<PathBuf>,
    /// Repeats a run from a file that --save-profile wrote; other flags override its settings.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_file: Option<PathBuf>,
    /// Saves the settings of the run to a file for --profile-file.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(file_to_write))]
    pub(crate) save_profile: Option<PathBuf>,
    /// Number of runs [default: 6, the fewest that give an interval].
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
    /// Does not save the report for `rusm bench history`.
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// Conditions under which a scenario runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConditionFlags {
    #[command(flatten)]
    pub(crate) container: ContainerFlags,
    /// Records a CPU profile with `perf`, at 999 Hz with call chains; `perf report -i FILE` shows it.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile_cpu: Option<PathBuf>,
}

/// Maximum resources of a scenario.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ContainerFlags {
    /// Limits the CPU time as a container does, to a number of cores such as 1.5; needs a writable control group.
    #[arg(long, value_name = "CORES", allow_negative_numbers = true)]
    pub(crate) cpus: Option<f64>,
    /// Limits the memory as a container does, to a size such as 256MiB; needs a writable control group.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryFlags {
    /// Id of the scenario to show [default: all].
    pub(crate) id: Option<String>,
    /// Number of newest runs to show for each recipe.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Destinations of a report.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputFlags {
    /// Prints JSON, which includes the environment of the measurement.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the JSON to a file.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(file_to_write))]
    pub(crate) output: Option<PathBuf>,
}

/// Refuses a file that cannot be written because of its folder, before anything is measured.
fn file_to_write(path: OsString) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        _ if path.is_dir() => Err("it is a folder"),
        Some(folder) if !folder.is_dir() => Err("its folder does not exist"),
        _ => Ok(path),
    }
}

/// Rules for a comparison.
#[derive(Clone, Debug, Args)]
pub(crate) struct JudgeFlags {
    /// Figure that decides, such as `cpu_ns_per_op` [default: `ops_per_sec`, or `latency_ns_p99` for an open loop].
    #[arg(long, value_name = "FIGURE")]
    pub(crate) by: Option<String>,
    /// Minimum difference that counts as better or worse, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, allow_negative_numbers = true)]
    pub(crate) threshold: f64,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// The earlier report.
    pub(crate) before: PathBuf,
    /// The report to judge.
    pub(crate) after: PathBuf,
    /// Also judges reports of two different machines.
    #[arg(long)]
    pub(crate) across_machines: bool,
    #[command(flatten)]
    pub(crate) judge: JudgeFlags,
}

#[derive(Debug, Args)]
pub(crate) struct AbFlags {
    /// Id of the scenario, as in `rusm bench list`.
    pub(crate) id: String,
    /// The program to compare with: an earlier build of `rusm`.
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: PathBuf,
    /// The program to judge [default: this one].
    #[arg(long, value_name = "PATH")]
    pub(crate) candidate: Option<PathBuf>,
    /// Number of rounds of four runs, 2-100.
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
    /// Id of the scenario, as in `rusm bench list`.
    pub(crate) id: String,
    /// A parameter and its values; may be given several times.
    #[arg(long, value_name = "NAME=A,B,C", required = true)]
    pub(crate) grid: Vec<String>,
    /// Number of runs of each cell.
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
    /// Id of the scenario, as in `rusm bench list`.
    pub(crate) id: String,
    /// Latency limit, such as p99=20ms.
    #[arg(long, value_name = "p99=TIME")]
    pub(crate) slo: Option<String>,
    /// The parameter that sets the number of workers, for the Universal Scalability Law [default: the scenario's].
    #[arg(long, value_name = "NAME")]
    pub(crate) workers: Option<String>,
    /// Skips the Universal Scalability Law.
    #[arg(long)]
    pub(crate) no_usl: bool,
    /// Number of searches for the highest stable rate; results within 5 % of each other are conclusive.
    #[arg(long, value_name = "N", default_value_t = SEARCHES)]
    pub(crate) searches: u32,
    /// Draws the latency curve into an SVG file.
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
    /// Id of the scenario, as in `rusm bench list`.
    pub(crate) id: String,
    /// Time to run, such as 30m or 8h, up to a week (168h) [default: 30m].
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
