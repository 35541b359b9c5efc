//! `rusm bench soak`: runs a scenario for a long time.

use rusm_bench::{HeadlessError, SoakSample, SoakVerdict, run_soak};

use crate::bench::conditions::Conditions;
use crate::bench::history;
use crate::bench::output::{progress, publish_as};
use crate::bench::recipe::{millis, prepare};
use crate::cli::bench::SoakFlags;
use crate::failure::Failure;
use crate::signals::StopOnSignal;

/// Default duration of a soak.
const DURATION: &str = "30m";

pub(super) fn run(flags: SoakFlags) -> Result<u8, Failure> {
    let of_recipe = flags.recipe.duration.as_ref().map(|time| ("--for", time));
    let given = flags.long.as_ref().map(|time| ("--duration", time)).or(of_recipe);
    let duration_ms = given.map_or_else(|| millis("--duration", DURATION), |(flag, time)| millis(flag, time))?;
    let mut prepared = prepare(None, Some(flags.id), flags.recipe)?;
    prepared.recipe.duration_ms = duration_ms;
    prepared.recipe.runs = 1;
    let mut conditions = Conditions::enter(&flags.conditions)?;
    let signals = StopOnSignal::listen()?;
    let mut minute_next = 0;
    let report = |sample: &SoakSample| report_progress(sample, &mut minute_next);
    let soak = match run_soak(&prepared.recipe, &prepared.runtime, signals.flag(), report) {
        Err(HeadlessError::Stopped) => {
            progress("nothing was measured yet");
            return conditions.leave().map(|()| signals.code(1));
        }
        soak => soak?,
    };
    let left = conditions.leave();
    let published = publish_as(&soak.to_json(), &soak.to_string(), &flags.output);
    history::keep(&soak.document(), &flags.history);
    published.and(left)?;
    Ok(signals.code(match soak.verdict {
        SoakVerdict::Level => 0,
        SoakVerdict::Growing | SoakVerdict::Failed => 5,
        SoakVerdict::TooShort => 6,
    }))
}

/// Reports one line per minute.
fn report_progress(sample: &SoakSample, minute_next: &mut u64) {
    let minute = sample.at_s as u64 / 60;
    if minute >= *minute_next {
        *minute_next = minute + 1;
        let mib =
            |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        progress(&format!(
            "{:.0} s: {} resident, {} live, {} processes, {} operations",
            sample.at_s,
            mib(sample.rss_bytes),
            mib(sample.live_bytes),
            sample.processes,
            sample.ops_total
        ));
    }
}
