//! `rusm bench saturate`: finds the maximum load of a scenario.

use rusm_bench::{Entry, LEVEL, Machine, Origin, SaturateOptions, ScenarioSystem, find, saturate, svg};

use crate::bench::compare::json;
use crate::bench::conditions::Conditions;
use crate::bench::history;
use crate::bench::output::{progress, publish_as, write};
use crate::bench::recipe::{prepare, time};
use crate::cli::bench::SaturateFlags;
use crate::failure::Failure;

/// Maximum number of searches for the highest stable rate.
const SEARCHES_MAX: u32 = 100;
/// Numbers of workers for the Universal Scalability Law.
const WORKERS: [u64; 6] = [1, 2, 4, 8, 16, 32];

pub(super) fn run(flags: SaturateFlags) -> Result<u8, Failure> {
    if !(1..=SEARCHES_MAX).contains(&flags.searches) {
        return Err(Failure::Usage(format!("--searches of {} is not between 1 and {SEARCHES_MAX}", flags.searches)));
    }
    let slo = flags.slo.as_deref().map(slo_p99_ns).transpose()?;
    let is_timed = flags.recipe.duration.is_some();
    if flags.recipe.open_loop.is_some() {
        return Err(Failure::Usage("saturate chooses the rates itself: leave --open-loop out".to_owned()));
    }
    let mut prepared = prepare(None, Some(flags.id), flags.recipe)?;
    if !is_timed {
        prepared.recipe.duration_ms = LEVEL.as_millis() as u64;
    }
    let card = find(&prepared.recipe.scenario)?.card();
    if let Some(name) = &flags.workers
        && !card.parameters.iter().any(|parameter| parameter.name == name)
    {
        return Err(Failure::Usage(format!("unknown parameter {name:?} of {}", card.id)));
    }
    let seed = prepared.recipe.seed;
    let recipe = prepared.recipe.clone();
    let mut system = ScenarioSystem::new(prepared.recipe, prepared.runtime, flags.workers.as_deref())?;
    let workers = if flags.no_usl || system.workers().is_none() { Vec::new() } else { WORKERS.to_vec() };
    system.check_workers(&workers)?;
    let options =
        SaturateOptions { slo_p99_ns: slo, workers, seed, searches: flags.searches, ..SaturateOptions::default() };
    let mut conditions = Conditions::enter(&flags.conditions)?;
    let machine = Machine::look();
    let found = saturate(&mut system, &options, progress)?;
    let left = conditions.leave();
    let found = found.of(card.id, card.ops_label, Origin::of(recipe, machine));
    let published = publish_as(&json(&found)?, &found.to_string(), &flags.output);
    history::keep_entry(&Entry::of_saturation(&found), &flags.history);
    let drawn = flags.svg.as_ref().map_or(Ok(()), |path| write(path, &svg(&found)));
    published.and(drawn).and(left)?;
    Ok(if found.is_conclusive() { 0 } else { 6 })
}

/// Parses `p99=20ms` into nanoseconds.
pub(crate) fn slo_p99_ns(text: &str) -> Result<u64, Failure> {
    let limit = text
        .strip_prefix("p99=")
        .ok_or_else(|| Failure::Usage(format!("--slo of {text:?} must have the form p99=20ms")))?;
    let limit = limit.strip_suffix("us").or_else(|| limit.strip_suffix("µs")).map_or_else(
        || Ok(time("--slo", limit)?.as_nanos() as u64),
        |micros| {
            let micros = micros.parse::<u64>().ok().filter(|micros| *micros > 0);
            micros
                .and_then(|micros| micros.checked_mul(1_000))
                .ok_or_else(|| Failure::Usage(format!("--slo of {text:?} must be a time such as p99=250us")))
        },
    )?;
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_read_in_micro_and_milliseconds() {
        assert_eq!(slo_p99_ns("p99=20ms").unwrap(), 20_000_000);
        assert_eq!(slo_p99_ns("p99=250us").unwrap(), 250_000);
        assert!(slo_p99_ns("p95=1ms").is_err() && slo_p99_ns("p99=-1ms").is_err() && slo_p99_ns("p99=0us").is_err());
    }
}
