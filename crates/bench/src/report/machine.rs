//! Describes the machine of a measurement; without it, reports cannot be compared.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cgroup;
use crate::measure::clock::ClockCost;

/// The lock file: the packages that the program was built from, with their versions.
const LOCK: &str = include_str!("../../../../Cargo.lock");
/// A machine is quiet if some task waited for a processor in less than this share of time, in per cent.
const QUIET_PCT: f64 = 5.0;
/// A machine is unfit for measurements from this share on, in per cent.
const UNFIT_PCT: f64 = 25.0;

/// Description of a machine; values that the system does not report are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Hash of the system's own id, which distinguishes machines without naming them.
    pub id: Option<String>,
    /// Name of the processor.
    pub cpu: Option<String>,
    /// Number of processors of the machine.
    pub cores: usize,
    /// True if the machine is virtual.
    pub virtual_machine: Option<bool>,
    /// Vendor named by the firmware; on a virtual machine, usually the hypervisor.
    pub vendor: Option<String>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Name and version of the kernel.
    pub kernel: String,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Cost of one clock read, in nanoseconds.
    pub clock_read_ns: Option<f64>,
    /// Timer slack: how late the kernel may wake a thread to save energy, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// Mode of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// True if the kernel schedules sessions as groups (autogroup), which changes the effect of `nice`.
    pub autogroup: Option<bool>,
    /// CPU limit of the control group, in cores.
    pub cgroup_cores: Option<f64>,
    /// Memory limit of the control group, in bytes.
    pub cgroup_memory_bytes: Option<u64>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Share of time in which some task waited for a processor, over the last 10 s, in per cent.
    pub cpu_pressure_pct: Option<f64>,
    /// Share of time in which some task waited for memory, over the last 10 s, in per cent.
    pub memory_pressure_pct: Option<f64>,
    /// Share of time in which some task waited for I/O, over the last 10 s, in per cent.
    pub io_pressure_pct: Option<f64>,
    /// Fitness for measurements, derived from the CPU pressure.
    pub fitness: Fitness,
    /// Type of the file system of the working directory.
    pub file_system: Option<String>,
    /// Version of the compiler.
    pub rustc: String,
    /// Build profile and optimisation level.
    pub build: String,
    /// Compilation target.
    pub target: String,
    /// Commit that the program was built from.
    pub commit: Option<String>,
    /// True if the sources of runtime, protocol or scenarios differed from that commit.
    pub dirty: Option<bool>,
    /// Hash of the lock file, which contains the versions of all packages.
    pub lock_hash: String,
    /// Version and configuration of the WebAssembly engine.
    pub wasmtime: String,
    /// Version of the program.
    pub version: String,
}

/// Fitness of a machine for measurements, judged by its CPU pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// Tasks hardly ever waited for a processor.
    Quiet,
    /// Tasks waited sometimes: use ratios of interleaved runs and CPU time per operation.
    Busy,
    /// Tasks waited often: do not use any figure that depends on wall time.
    Unfit,
    /// The kernel does not report CPU pressure.
    #[default]
    Unknown,
}

impl Fitness {
    fn of(cpu_pressure_pct: Option<f64>) -> Self {
        match cpu_pressure_pct {
            Some(pct) if pct < QUIET_PCT => Self::Quiet,
            Some(pct) if pct < UNFIT_PCT => Self::Busy,
            Some(_) => Self::Unfit,
            None => Self::Unknown,
        }
    }

    /// Returns the fitness as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Busy => "busy",
            Self::Unfit => "unfit",
            Self::Unknown => "unknown",
        }
    }
}

impl Machine {
    /// Reads the description of this machine.
    pub fn look() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let uname = rustix::system::uname();
        let cpu_pressure_pct = word("/proc/pressure/cpu").and_then(|text| pressure(&text));
        Self {
            id: word("/etc/machine-id").filter(|id| !id.is_empty()).map(|id| short_hash(&format!("rusm {id}"))),
            cpu: cpuinfo_field(&cpuinfo, "model name").map(str::to_owned),
            cores: processors(&cpuinfo),
            virtual_machine: cpuinfo_field(&cpuinfo, "flags")
                .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            vendor: word("/sys/class/dmi/id/sys_vendor"),
            memory_bytes: memory_bytes(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_read_ns: Some(ClockCost::measure().read_ns),
            timer_slack_ns: word("/proc/self/timerslack_ns").and_then(|text| text.parse().ok()),
            huge_pages: word("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
            autogroup: word("/proc/sys/kernel/sched_autogroup_enabled").map(|text| text == "1"),
            cgroup_cores: cgroup::cores(),
            cgroup_memory_bytes: cgroup::memory_bytes(),
            load_average: word("/proc/loadavg").and_then(|text| first_three(&text)),
            cpu_pressure_pct,
            memory_pressure_pct: word("/proc/pressure/memory").and_then(|text| pressure(&text)),
            io_pressure_pct: word("/proc/pressure/io").and_then(|text| pressure(&text)),
            fitness: Fitness::of(cpu_pressure_pct),
            file_system: std::env::current_dir().ok().and_then(|here| file_system(&here)),
            rustc: option_env!("RUSM_RUSTC").unwrap_or("unknown").to_owned(),
            build: option_env!("RUSM_BUILD_PROFILE").unwrap_or("unknown").to_owned(),
            target: option_env!("RUSM_TARGET").unwrap_or("unknown").to_owned(),
            commit: option_env!("RUSM_COMMIT").map(str::to_owned),
            dirty: option_env!("RUSM_DIRTY").map(|dirty| dirty == "true"),
            lock_hash: short_hash(LOCK),
            wasmtime: wasmtime(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns true if nothing is known about the machine.
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Lists the differences to another machine's description; empty if it is the same machine.
    pub(crate) fn other_machine(&self, other: &Self) -> Vec<String> {
        // If either id is unknown, ids are not compared, and the other fields decide.
        let ids = self.id.clone().zip(other.id.clone());
        let (own, others) = ids.unzip();
        differences(&[
            ("id", own, others),
            ("processor", self.cpu.clone(), other.cpu.clone()),
            ("cores", Some(self.cores.to_string()), Some(other.cores.to_string())),
            ("memory", self.memory_bytes.map(gibibytes), other.memory_bytes.map(gibibytes)),
        ])
    }

    /// Lists differences in conditions that affect figures although the machine is the same.
    pub(crate) fn other_conditions(&self, other: &Self) -> Vec<String> {
        let limit = |machine: &Self| machine.cgroup_cores.map(|cores| format!("{cores} cores"));
        let memory = |machine: &Self| machine.cgroup_memory_bytes.map(gibibytes);
        differences(&[
            ("kernel", Some(self.kernel.clone()), Some(other.kernel.clone())),
            ("governor", self.governor.clone(), other.governor.clone()),
            ("clock source", self.clock_source.clone(), other.clock_source.clone()),
            ("huge pages", self.huge_pages.clone(), other.huge_pages.clone()),
            ("control group", limit(self), limit(other)),
            ("control group", memory(self), memory(other)),
            ("compiler", Some(self.rustc.clone()), Some(other.rustc.clone())),
            ("build", Some(self.build.clone()), Some(other.build.clone())),
            ("target", Some(self.target.clone()), Some(other.target.clone())),
        ])
    }

    /// Returns the control group's limits that are below the machine's resources, if any.
    pub(crate) fn limits(&self) -> Option<String> {
        let cores = self.cgroup_cores.filter(|cores| *cores < self.cores as f64).map(|cores| format!("{cores} cores"));
        let has_less = |bytes: &u64| self.memory_bytes.is_none_or(|all| *bytes < all);
        let memory = self.cgroup_memory_bytes.filter(has_less).map(|bytes| format!("{} MiB", bytes >> 20));
        let limits: Vec<String> = cores.into_iter().chain(memory).collect();
        (!limits.is_empty()).then(|| limits.join(" and "))
    }

    /// Returns the lines that describe the machine at the end of a report, each with its name.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let virtual_machine = if self.virtual_machine == Some(true) { ", virtual" } else { "" };
        let load = |load: [f64; 3]| format!("{:.2} {:.2} {:.2}", load[0], load[1], load[2]);
        let dirty = if self.dirty == Some(true) { ", changed since" } else { "" };
        let commit: Option<String> = self.commit.as_ref().map(|commit| commit.chars().take(12).collect());
        let limits = self.limits().map_or_else(String::new, |limits| format!(", limited to {limits}"));
        vec![
            ("machine", format!("{}, {} cores{virtual_machine}{limits}", known(&self.cpu), self.cores)),
            (
                "kernel",
                format!("{}, governor {}, clock {}", self.kernel, known(&self.governor), known(&self.clock_source)),
            ),
            ("load", format!("{}; {} before it began", known(&self.load_average.map(load)), self.fitness.word())),
            ("file system", known(&self.file_system)),
            ("build", format!("{}, {}, commit {}{dirty}", self.rustc, self.build, known(&commit))),
        ]
    }
}

/// Describes each pair of values that differ.
fn differences(pairs: &[(&str, Option<String>, Option<String>)]) -> Vec<String> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    pairs
        .iter()
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| format!("{name}: {} before, {} after", known(before), known(after)))
        .collect()
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn word(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
}

/// Returns the number of processors of the machine, including those that this process may not use.
fn processors(cpuinfo: &str) -> usize {
    let listed =
        cpuinfo.lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == "processor")).count();
    if listed > 0 { listed } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

fn memory_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = cpuinfo_field(&meminfo, "MemTotal")?.strip_suffix("kB")?.trim();
    kilobytes.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Returns the word in brackets: `madvise` for `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// Returns the first 8 bytes of the SHA-256 in hexadecimal, which is enough to distinguish texts.
fn short_hash(text: &str) -> String {
    use std::fmt::Write;
    let mut short = String::new();
    for byte in &Sha256::digest(text.as_bytes())[..8] {
        let written = write!(short, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    short
}

/// Returns the version of a package in a lock file.
fn locked<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}

/// Returns the version and the default configuration of the WebAssembly engine.
fn wasmtime() -> String {
    let config = rusm_wasm::WasmConfig::default();
    format!("{} {config:?}", locked(LOCK, "wasmtime").unwrap_or("unknown"))
}

fn first_three(text: &str) -> Option<[f64; 3]> {
    let numbers: Vec<f64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    numbers.get(..3)?.try_into().ok()
}

/// Returns `avg10` of the line `some` of a pressure file.
fn pressure(text: &str) -> Option<f64> {
    let some = text.lines().find(|line| line.starts_with("some"))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// Returns the type of the file system that contains a directory: that of the longest matching mount point.
pub(crate) fn file_system(here: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    mounted
        .filter(|(point, _)| here.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_named_as_far_as_it_says() {
        let machine = Machine::look();

        assert!(machine.cores >= 1 && !machine.kernel.is_empty());
        assert!(machine.rustc.starts_with("rustc"), "{}", machine.rustc);
        assert!(machine.wasmtime.starts_with(|first: char| first.is_ascii_digit()), "{}", machine.wasmtime);
        assert_eq!(machine.lock_hash.len(), 16);
    }

    #[test]
    fn a_machine_on_which_a_quarter_of_the_time_is_waited_is_unfit() {
        let fitness = [Some(0.0), Some(5.0), Some(25.0), None].map(Fitness::of);

        assert_eq!(fitness, [Fitness::Quiet, Fitness::Busy, Fitness::Unfit, Fitness::Unknown]);
    }

    #[test]
    fn the_kernel_s_files_are_read_as_they_are_written() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise".to_owned()));
        assert_eq!(first_three("0.01 0.16 0.14 1/123 456"), Some([0.01, 0.16, 0.14]));
        assert_eq!(pressure("some avg10=3.50 avg60=0.1 avg300=0 total=5\nfull avg10=0 x"), Some(3.5));
        assert_eq!(processors("processor\t: 0\nmodel name\t: processor\n\nprocessor\t: 1\n"), 2);
        assert_eq!(cpuinfo_field("flags\t\t: fpu\nmodel name\t: X\n", "model name"), Some("X"));
    }
}
