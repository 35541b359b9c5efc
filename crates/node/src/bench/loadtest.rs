//! `rusm loadtest`: puts load on a server from outside.

use rusm_bench::{
    Entry, Load, LoadOptions, LoadProtocol, Machine, Origin, Recipe, Report, SearchOptions, find_max, svg,
};

use crate::bench::compare::json;
use crate::bench::history;
use crate::bench::output::{code, progress, publish, publish_as, read_report, write};
use crate::bench::recipe::{millis, set_runtime, time};
use crate::bench::saturate::slo_p99_ns;
use crate::cli::loadtest::{LoadFlags, Protocol};
use crate::failure::Failure;
use crate::logging;
use crate::settings::Settings;

/// Runs the command and returns its exit code.
pub(crate) fn run(flags: &LoadFlags) -> Result<u8, Failure> {
    let (options, mut recipe) = (options(flags)?, recipe(flags)?);
    let search = search(flags)?;
    let settings = Settings::read(&(crate::cli::ShareFlags::default(), flags.common.clone()).into())?;
    set_runtime(&mut recipe, &flags.common, &settings.runtime);
    logging::start(&settings.log, None, false)?;
    Load::check(&recipe)?;
    let load = Load::prepare(options)?;
    if let Some(search) = search {
        let recipe = Recipe { rate_per_sec: None, ..recipe };
        let machine = Machine::look();
        let mut system = load.system(&recipe, settings.runtime);
        let found = find_max(&mut system, &search, progress)?;
        let origin = Origin::of(load.recipe(&recipe), machine);
        let found = found.of(load.scenario(), load.ops_label(), origin);
        history::keep_entry(&Entry::of_saturation(&found), &flags.history);
        let published = publish_as(&json(&found)?, &found.to_string(), &flags.output);
        let drawn = flags.svg.as_ref().map_or(Ok(()), |path| write(path, &svg(&found)));
        published.and(drawn)?;
        return Ok(match found.max_rate_under_slo {
            None => 5,
            Some(_) if !found.is_conclusive() => 6,
            Some(_) => 0,
        });
    }
    let runs = recipe.runs;
    let document = load.run(&recipe, &settings.runtime, |number, run| report_progress(number, runs, run))?;
    let published = publish(&document, &flags.output);
    history::keep(&document, &flags.history);
    for (kind, count) in load.faults() {
        tracing::warn!(count, "requests failed, including the warm-up: {kind}");
    }
    published?;
    Ok(code(document.verdict))
}

fn report_progress(number: u32, runs: u32, run: &Report) {
    let p99 = run.latency.as_ref().map_or(0, |latency| latency.distribution.p99_ns);
    progress(&format!(
        "run {number} of {runs}: {:.0} {}, p99 {:.3} ms, {} errors; {}",
        run.ops_per_sec.median,
        run.ops_label,
        p99 as f64 / 1e6,
        run.errors_total,
        run.verdict.line()
    ));
}

/// Returns what to load, and how.
fn options(flags: &LoadFlags) -> Result<LoadOptions, Failure> {
    let base = match &flags.from {
        Some(path) => {
            let document = read_report(path)?;
            LoadOptions::of_params(&document.recipe.scenario, &document.recipe.params)?
        }
        None => LoadOptions::default(),
    };
    let protocol = flags.protocol.map_or(base.protocol, |protocol| match protocol {
        Protocol::Http => LoadProtocol::Http,
        Protocol::Ws => LoadProtocol::Ws,
        Protocol::Sse => LoadProtocol::Sse,
        Protocol::Tcp => LoadProtocol::Tcp,
        Protocol::Conn => LoadProtocol::Conn,
    });
    let connections = match flags.connections {
        None => base.connections,
        Some(number) => u32::try_from(number)
            .ok()
            .ok_or_else(|| Failure::Usage(format!("connections of {number} is not between 1 and 100000")))?,
    };
    let payload = match &flags.payload {
        None => base.payload,
        Some(text) => {
            let bytes = rusm_text::parse_size(text);
            bytes.ok_or_else(|| Failure::Usage(format!("--payload of {text:?} must be a size such as 64 or 1KiB")))?
                as usize
        }
    };
    Ok(LoadOptions {
        protocol,
        connections,
        payload,
        url: flags.url.clone().unwrap_or(base.url),
        method: flags.method.clone().unwrap_or(base.method),
        headers: if flags.headers.is_empty() { base.headers } else { flags.headers.clone() },
        body: flags.body.clone().unwrap_or(base.body),
        events: flags.events.unwrap_or(base.events),
        http2: flags.http2 || base.http2,
        authority: flags.authority.clone().or(base.authority),
        timeout: flags.timeout.as_deref().map_or(Ok(base.timeout), |text| time("--timeout", text))?,
    })
}

/// Returns the durations, the number of runs and the rate.
fn recipe(flags: &LoadFlags) -> Result<Recipe, Failure> {
    let base = match &flags.from {
        Some(path) => read_report(path)?.recipe,
        None => Recipe { profile: "max".to_owned(), ..Recipe::default() },
    };
    let mut recipe = Recipe { runs: flags.runs.unwrap_or(base.runs), ..base };
    recipe.rate_per_sec = if flags.max { None } else { flags.rate.or(recipe.rate_per_sec) };
    let holds = flags.protocol == Some(Protocol::Conn);
    if flags.from.is_none() && recipe.rate_per_sec.is_none() && !flags.max && !flags.find_max && !holds {
        return Err(Failure::Usage("no load is given: use --rate R, --max or --find-max".to_owned()));
    }
    if let Some(text) = &flags.duration {
        recipe.duration_ms = millis("--for", text)?;
    }
    if let Some(text) = &flags.warm_up {
        recipe.warm_up_max_ms = millis("--warm-up", text)?;
        recipe.warm_up_min_ms = recipe.warm_up_min_ms.min(recipe.warm_up_max_ms);
    }
    Ok(recipe)
}

/// Returns the limits on latency and errors for a search for the highest rate; `None` without `--find-max`.
fn search(flags: &LoadFlags) -> Result<Option<SearchOptions>, Failure> {
    if !flags.find_max {
        return Ok(None);
    }
    let slo_p99_ns = flags.slo.as_deref().map(slo_p99_ns).transpose()?;
    let errors_max = flags.max_errors.as_deref().map_or(Ok(0.0), percent)?;
    Ok(Some(SearchOptions { slo_p99_ns, errors_max }))
}

fn percent(text: &str) -> Result<f64, Failure> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| Failure::Usage(format!("--max-errors of {text:?} must be between 0% and 100%, such as 3%")))
}
