//! Capacity of the processor, and what else uses or limits it.

use rusm_bench::{Machine, cgroup};

use crate::doctor::check::Check;

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let load = machine.load_average.map_or(0.0, |[minute, ..]| minute);
    let governor = machine.governor.as_deref();
    let clock = machine.clock_source.as_deref().unwrap_or("unknown");
    let cores = machine.cores as f64;
    let limit = cgroup::cores();
    let schedulers = rusm_runtime::Config::default().schedulers;
    vec![
        Check::of(
            "build",
            !cfg!(debug_assertions),
            machine.build.clone(),
            "figures of a debug build are not meaningful",
            "cargo run --release",
        ),
        Check::of(
            "cores",
            machine.cores >= 2,
            machine.cores.to_string(),
            format!("a node has {schedulers} scheduler threads"),
            "with one core, nothing can run next to the load: measure on a machine with more cores",
        ),
        Check::of(
            "cpu limit",
            limit.is_none_or(|limit| limit >= schedulers as f64),
            limit.map_or_else(|| "none".to_owned(), |limit| format!("{limit:.2} cores")),
            format!(
                "{schedulers} scheduler threads reach this limit, and the control group then stops them for a while"
            ),
            format!("rusm --schedulers {}", limit.map_or(1, |limit| limit.floor().max(1.0) as u64)),
        ),
        Check::of(
            "load",
            load < cores / 2.0,
            format!("{load:.2} over the last minute"),
            "the load of other programs affects every rate and latency",
            "trust CPU time per operation, not operations per second",
        ),
        Check::of(
            "governor",
            governor.is_none_or(|governor| governor == "performance"),
            governor.unwrap_or("not visible here"),
            "with any other than `performance`, the clock speed follows the load",
            "sudo cpupower frequency-set -g performance",
        ),
        Check::of(
            "clock",
            matches!(clock, "tsc" | "arch_sys_counter" | "kvm-clock"),
            clock,
            "each latency takes two reads of the clock; a slow clock adds to it",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
    ]
}
