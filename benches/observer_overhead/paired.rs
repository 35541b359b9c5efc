//! Measures the cost of a console to which no client is attached.
//!
//! A block is four windows (without, with, with, without), so a machine that slowly gets faster or slower affects both
//! sides alike. Each block gives one ratio of CPU time per operation; all blocks together give the mean and its
//! confidence interval.

use std::time::Duration;

use rusm_benches::{cpu_time, median};
use rusm_console::{Console, ConsoleConfig};
use rusm_runtime::{Config, Handle, Runtime, SpawnError};

use crate::load::Load;

/// Short, because the speed of a shared machine changes within a second, and a change within a block is noise.
const WINDOW: Duration = Duration::from_millis(100);
/// Limit: the interval must lie within one per cent of 1.
const BAR: f64 = 0.01;

/// Measures both loads; returns true if both meet the limit.
pub(crate) fn run(blocks: usize) -> Result<bool, Box<dyn std::error::Error>> {
    println!("with and without sampling, unobserved: CPU per operation, {blocks} ABBA blocks of 4 × {WINDOW:?}");
    let mut met = true;
    for (name, load) in
        [("spawn storm", Load::spawn_storm as fn(&Handle) -> Result<Load, SpawnError>), ("ping-pong", Load::ping_pong)]
    {
        let runtime = Runtime::start(Config::default())?;
        let load = load(&runtime)?;
        let dir = tempfile::tempdir()?;
        let config = ConsoleConfig { dir: dir.path().join("rusm"), ..ConsoleConfig::named("overhead") };
        window(&load);
        let mut logs = Vec::with_capacity(blocks);
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..blocks {
            let first = window(&load);
            let console = Console::bind(&runtime, config.clone())?;
            let (second, third) = (window(&load), window(&load));
            drop(console);
            let last = window(&load);
            logs.push(((second + third) / (first + last)).ln());
            without.extend([first, last]);
            with.extend([second, third]);
        }
        let (ratio, half) = interval(&mut logs);
        let meets = ratio - half > 1.0 - BAR && ratio + half < 1.0 + BAR;
        met &= meets;
        println!(
            "  {name:<12} {:7.1} → {:7.1} ns CPU/op (medians)   ratio {ratio:.4}, 95 % interval {:.4}–{:.4}   bar 0.99–1.01: {}",
            median(without),
            median(with),
            ratio - half,
            ratio + half,
            if meets { "met" } else { "MISSED" }
        );
        drop(load);
    }
    Ok(met)
}

/// Returns the CPU time per operation over one window, in nanoseconds.
fn window(load: &Load) -> f64 {
    // The console has just started or ended, which is not part of the measurement.
    crate::page::pause(Duration::from_millis(10));
    let (cpu, operations) = (cpu_time(), load.operations());
    crate::page::pause(WINDOW);
    let (cpu, operations) = (cpu_time().saturating_sub(cpu), load.operations() - operations);
    cpu.as_nanos() as f64 / operations.max(1) as f64
}

/// Returns the mean of the logarithms as a ratio, and half the width of its 95 % interval.
///
/// A tenth of the blocks is trimmed at each end, because on a shared machine other programs disturb some windows. The
/// interval is Yuen's for trimmed means, so it accounts for the trimmed blocks.
fn interval(logs: &mut [f64]) -> (f64, f64) {
    logs.sort_by(f64::total_cmp);
    let cut = logs.len() / 10;
    let kept = &logs[cut..logs.len() - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let (least, most) = (kept[0], kept[kept.len() - 1]);
    let winsorized: Vec<f64> = logs.iter().map(|log| log.clamp(least, most)).collect();
    let n = logs.len() as f64;
    let centre = winsorized.iter().sum::<f64>() / n;
    let variance = winsorized.iter().map(|log| (log - centre).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let error = variance.sqrt() / ((kept.len() as f64 / n) * n.sqrt());
    // Student's quantile for 19 or more degrees of freedom: trimming leaves as many of 24 or more blocks.
    (mean.exp(), mean.exp() * 2.1 * error)
}
