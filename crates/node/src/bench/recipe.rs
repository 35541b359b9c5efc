//! From flags to a recipe, and the runtime to cook it on.

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_bench::{PRESET, Plan, Recipe, fill_from_harness, forget_preset, parse_assignment};
use rusm_runtime::Config;

use crate::cli::CommonFlags;
use crate::cli::bench::RecipeFlags;
use crate::failure::Failure;
use crate::logging;
use crate::settings::{Settings, parse_duration};

/// A recipe that was checked, and the runtime for it.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What to run.
    pub(crate) recipe: Recipe,
    /// Its parameters without those that are left to defaults.
    pub(crate) given: BTreeMap<String, String>,
    /// How the runtime is set.
    pub(crate) runtime: Config,
}

/// Changes `base` as the flags say, checks it, and starts the log.
///
/// A recipe that was read says itself on what runtime it ran; environment and file only matter for what it does not say.
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
    say_runtime(&mut recipe, &flags.common, &settings.runtime);
    let plan = Plan::of(&recipe.request())?;
    // What is left to defaults is said, so that a report is made once more even when the defaults have changed.
    let given = std::mem::replace(&mut recipe.params, plan.params.said());
    logging::start(&settings.log, false)?;
    Ok(Prepared { recipe, given, runtime: settings.runtime })
}

/// Says in a recipe how the runtime is set, where it does not say so itself or a flag was given.
pub(crate) fn say_runtime(recipe: &mut Recipe, flags: &CommonFlags, runtime: &Config) {
    fn say<T>(said: &mut Option<T>, flag: Option<&String>, set: T) {
        if said.is_none() || flag.is_some() {
            *said = Some(set);
        }
    }
    say(&mut recipe.schedulers, flags.schedulers.as_ref(), runtime.schedulers);
    say(&mut recipe.process_limit, flags.process_limit.as_ref(), runtime.process_limit);
    say(&mut recipe.mailbox_capacity, flags.mailbox_capacity.as_ref(), runtime.mailbox_capacity);
}

/// The milliseconds of a time that a flag gives.
pub(crate) fn millis(flag: &str, text: &str) -> Result<u64, Failure> {
    Ok(time(flag, text)?.as_millis() as u64)
}

/// A time that a flag gives.
pub(crate) fn time(flag: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| Failure::Usage(format!("{flag} of {text:?} is no time such as 500ms, 5s or 2m")))
}
