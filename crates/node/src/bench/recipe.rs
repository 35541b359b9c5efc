//! Creates a recipe and the settings of its runtime from the flags.

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_bench::{PRESET, Plan, Recipe, fill_from_harness, forget_preset, parse_assignment};
use rusm_runtime::Config;

use crate::cli::CommonFlags;
use crate::cli::bench::RecipeFlags;
use crate::failure::Failure;
use crate::logging;
use crate::settings::{Settings, parse_duration};

/// A valid recipe, and the settings of its runtime.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The recipe with all its settings.
    pub(crate) recipe: Recipe,
    /// Parameters that were set, without those that have default values.
    pub(crate) given: BTreeMap<String, String>,
    /// Settings of the node, for what the recipe does not say: its own come before them.
    pub(crate) runtime: Config,
}

/// Changes `base` according to the flags, checks it, and starts the log.
///
/// A recipe that was read from a file contains its runtime settings; environment and file only supply those that it
/// lacks.
pub(crate) fn prepare(base: Option<Recipe>, id: Option<String>, flags: RecipeFlags) -> Result<Prepared, Failure> {
    let profile_named = flags.share.is_given();
    let settings = Settings::read(&(flags.share, flags.common.clone()).into())?;
    let is_new = base.is_none();
    let mut recipe = base.unwrap_or_default();
    if let Some(id) = id {
        recipe.scenario = id;
    }
    if is_new || profile_named {
        settings.profile.id().clone_into(&mut recipe.profile);
    }
    let params = flags.params.iter().map(|text| parse_assignment(text)).collect::<Result<Vec<_>, _>>();
    let params = params.map_err(|error| Failure::Request(error.into()))?;
    if !is_new && params.iter().any(|(name, _)| name == PRESET) {
        forget_preset(&mut recipe.params);
    }
    recipe.params.extend(params);
    if is_new {
        fill_from_harness(&recipe.scenario, &mut recipe.params, |name| std::env::var(name).ok())
            .map_err(Failure::Request)?;
    }
    recipe.rate_per_sec = flags.open_loop.or(recipe.rate_per_sec);
    recipe.seed = flags.seed.unwrap_or(recipe.seed);
    if let Some(text) = &flags.duration {
        recipe.duration_ms = millis("--for", text)?;
    }
    if let Some(text) = &flags.warm_up {
        recipe.warm_up_max_ms = millis("--warm-up", text)?;
        recipe.warm_up_min_ms = recipe.warm_up_min_ms.min(recipe.warm_up_max_ms);
    }
    set_runtime(&mut recipe, &flags.common, &settings.runtime);
    let plan = Plan::of(&recipe.request())?;
    // Write the defaults into the recipe, so that a report can be repeated even when the defaults have changed.
    let given = std::mem::replace(&mut recipe.params, plan.params.said());
    logging::start(&settings.log, None, false)?;
    Ok(Prepared { recipe, given, runtime: settings.runtime })
}

/// Writes the runtime settings into a recipe, where it lacks them or a flag was given.
pub(crate) fn set_runtime(recipe: &mut Recipe, flags: &CommonFlags, runtime: &Config) {
    fn set<T>(current: &mut Option<T>, flag: Option<&String>, set: T) {
        if current.is_none() || flag.is_some() {
            *current = Some(set);
        }
    }
    set(&mut recipe.schedulers, flags.schedulers.as_ref(), runtime.schedulers);
    set(&mut recipe.process_limit, flags.process_limit.as_ref(), runtime.process_limit);
    set(&mut recipe.mailbox_capacity, flags.mailbox_capacity.as_ref(), runtime.mailbox_capacity);
}

/// Parses the time of a flag, in milliseconds.
pub(crate) fn millis(flag: &str, text: &str) -> Result<u64, Failure> {
    match time(flag, text)?.as_millis() as u64 {
        0 => Err(Failure::Usage(format!("{flag} of {text:?} must be at least 1ms"))),
        millis => Ok(millis),
    }
}

/// Parses the time of a flag.
pub(crate) fn time(flag: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| Failure::Usage(format!("{flag} of {text:?} must be a time above zero, such as 500ms, 5s or 2m")))
}
