//! Reads settings from each origin, without checking their values.
//!
//! ```text
//!   rusm.toml ──▶ RUSM_* ──▶ flags ──▶ RawSetting: key ─▶ (value, origin); a later origin overrides an earlier one
//! ```

use std::path::Path;

use toml::{Table, Value};

use crate::settings::error::SettingsError;
use crate::settings::raw::{RawSetting, RawSettings, unknown};

/// Sections of the file that describe the node.
const SECTIONS: [&str; 7] = ["node", "lint", "recorder", "store", "cluster", "log", "otlp"];
/// Sections of the file that describe an application.
const APP_SECTIONS: [&str; 8] = ["process", "serve", "modules", "topics", "supervisor", "profile", "limits", "engine"];

/// Keys that the environment can set, and the names of their variables.
const VARIABLES: [(&str, &str); 50] = [
    ("node.name", "RUSM_NAME"),
    ("node.listen", "RUSM_LISTEN"),
    ("node.observers", "RUSM_OBSERVERS"),
    ("node.schedulers", "RUSM_SCHEDULERS"),
    ("node.process_limit", "RUSM_PROCESS_LIMIT"),
    ("node.mailbox_capacity", "RUSM_MAILBOX_CAPACITY"),
    ("node.mailbox_bytes", "RUSM_MAILBOX_BYTES"),
    ("node.mailbox_total_bytes", "RUSM_MAILBOX_TOTAL_BYTES"),
    ("node.tick_hz", "RUSM_TICK_HZ"),
    ("node.profile", "RUSM_PROFILE"),
    ("node.drain", "RUSM_DRAIN"),
    ("node.socket_dir", "RUSM_SOCKET_DIR"),
    ("lint.stuck", "RUSM_LINT_STUCK"),
    ("lint.never_yields", "RUSM_LINT_NEVER_YIELDS"),
    ("lint.restart_storm", "RUSM_LINT_RESTART_STORM"),
    ("lint.mailbox_growing", "RUSM_LINT_MAILBOX_GROWING"),
    ("lint.unreceived", "RUSM_LINT_UNRECEIVED"),
    ("lint.wait_cycle", "RUSM_LINT_WAIT_CYCLE"),
    ("lint.idle_scheduler", "RUSM_LINT_IDLE_SCHEDULER"),
    ("lint.busy_loop", "RUSM_LINT_BUSY_LOOP"),
    ("lint.slow_subscriber", "RUSM_LINT_SLOW_SUBSCRIBER"),
    ("lint.pool_nearly_full", "RUSM_LINT_POOL_NEARLY_FULL"),
    ("lint.memory_slope", "RUSM_LINT_MEMORY_SLOPE"),
    ("lint.hog", "RUSM_LINT_HOG"),
    ("lint.never_yields_poll", "RUSM_LINT_NEVER_YIELDS_POLL"),
    ("lint.busy_loop_after", "RUSM_LINT_BUSY_LOOP_AFTER"),
    ("lint.hog_pct", "RUSM_LINT_HOG_PCT"),
    ("lint.restart_storm_per_sec", "RUSM_LINT_RESTART_STORM_PER_SEC"),
    ("lint.mailbox_growing_len", "RUSM_LINT_MAILBOX_GROWING_LEN"),
    ("lint.unreceived_after", "RUSM_LINT_UNRECEIVED_AFTER"),
    ("lint.slow_subscriber_pct", "RUSM_LINT_SLOW_SUBSCRIBER_PCT"),
    ("lint.pool_nearly_full_pct", "RUSM_LINT_POOL_NEARLY_FULL_PCT"),
    ("lint.memory_slope_per_min", "RUSM_LINT_MEMORY_SLOPE_PER_MIN"),
    ("lint.wait_cycle_after", "RUSM_LINT_WAIT_CYCLE_AFTER"),
    ("lint.idle_scheduler_after", "RUSM_LINT_IDLE_SCHEDULER_AFTER"),
    ("recorder.span", "RUSM_RECORDER_SPAN"),
    ("recorder.memory_bytes", "RUSM_RECORDER_MEMORY_BYTES"),
    ("store.path", "RUSM_STORE"),
    ("store.durability", "RUSM_STORE_DURABILITY"),
    ("store.cache", "RUSM_STORE_CACHE"),
    ("cluster.enabled", "RUSM_CLUSTER"),
    ("cluster.listen", "RUSM_CLUSTER_LISTEN"),
    ("cluster.join", "RUSM_CLUSTER_JOIN"),
    ("cluster.name", "RUSM_CLUSTER_NAME"),
    ("cluster.certificates", "RUSM_CLUSTER_CERTIFICATES"),
    ("log.level", "RUSM_LOG"),
    ("log.file", "RUSM_LOG_FILE"),
    ("log.format", "RUSM_LOG_FORMAT"),
    ("log.max_bytes", "RUSM_LOG_MAX_BYTES"),
    ("log.keep", "RUSM_LOG_KEEP"),
];

/// Sections and names of settings that are paths.
const PATHS: [(&str, &str); 5] =
    [("node", "socket_dir"), ("store", "path"), ("log", "file"), ("cluster", "certificates"), ("otlp", "certificate")];

/// Standard variables of OpenTelemetry, and their keys. Unlike variables of rusm, an empty one is not set, and others are
/// not errors: they concern other programs.
const OTEL_VARIABLES: [(&str, &str); 11] = [
    ("otlp.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otlp.headers", "OTEL_EXPORTER_OTLP_HEADERS"),
    ("otlp.timeout", "OTEL_EXPORTER_OTLP_TIMEOUT"),
    ("otlp.certificate", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
    ("otlp.protocol", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ("otlp.service_name", "OTEL_SERVICE_NAME"),
    ("otlp.attributes", "OTEL_RESOURCE_ATTRIBUTES"),
    ("otlp.interval", "OTEL_METRIC_EXPORT_INTERVAL"),
    ("otlp.metrics", "OTEL_METRICS_EXPORTER"),
    ("otlp.logs", "OTEL_LOGS_EXPORTER"),
    ("otlp.traces", "OTEL_TRACES_EXPORTER"),
];

/// Adds the settings of the node from the file, and returns the sections that describe the application.
pub(crate) fn from_file(path: &Path, text: &str, given: &mut RawSettings) -> Result<Table, SettingsError> {
    let toml_error = |error: toml::de::Error| SettingsError::Toml {
        path: path.to_owned(),
        reason: format!("{}{}", error.message().lines().next().unwrap_or(""), line(text, &error)),
    };
    let table: Table = toml::from_str(text).map_err(toml_error)?;
    let origin = path.display().to_string();
    let mut application = Table::new();
    for (section, value) in table {
        match value {
            value if APP_SECTIONS.contains(&section.as_str()) => {
                application.insert(section, value);
            }
            Value::Table(values) if SECTIONS.contains(&section.as_str()) => {
                let dir = path.parent().unwrap_or_else(|| Path::new(""));
                given.extend(in_section(&section, &origin, beside(dir, &section, values)));
            }
            _ if SECTIONS.contains(&section.as_str()) => {
                return Err(SettingsError::Shape { key: section, origin, due: "a section of its own" });
            }
            _ => return Err(unknown(&section, &origin, SECTIONS.into_iter().chain(APP_SECTIONS))),
        }
    }
    Ok(application)
}

/// Makes the paths of a section relative to the directory of the file, as those of the application are.
fn beside(dir: &Path, section: &str, mut values: Table) -> Table {
    for (_, name) in PATHS.iter().filter(|(known, _)| *known == section) {
        if let Some(Value::String(path)) = values.get_mut(*name).filter(|path| path.as_str() != Some("")) {
            *path = dir.join(&*path).to_string_lossy().into_owned();
        }
    }
    values
}

/// Returns the values of a section of the file by their keys.
pub(super) fn in_section(section: &str, origin: &str, values: Table) -> RawSettings {
    let keyed = values.into_iter().map(|(name, value)| (format!("{section}.{name}"), value));
    keyed.map(|(key, value)| (key.clone(), RawSetting::in_file(&key, value, origin))).collect()
}

/// Returns the line of an error.
fn line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or_else(String::new, |before| format!(", on line {}", before.matches('\n').count() + 1))
}

/// Adds the settings from the environment.
pub(crate) fn from_environment(
    environment: impl Iterator<Item = (String, String)>,
    given: &mut RawSettings,
) -> Result<(), SettingsError> {
    // `rusm` knows the variables of the observer so that a mistyped one is an error; its own observer uses most of them.
    let observer = rusm_tui::environment::variables();
    let known = || VARIABLES.iter().map(|(_, variable)| *variable).chain(observer.iter().map(String::as_str));
    for (name, value) in environment {
        if name.starts_with("OTEL_") {
            from_otel(&name, &value, given);
        }
        if !name.starts_with("RUSM_") {
            continue;
        }
        if let Some((key, variable)) = VARIABLES.iter().find(|(_, variable)| *variable == name) {
            given.insert((*key).to_owned(), RawSetting::of_text(key, &value, variable));
        } else if !known().any(|variable| variable == name) {
            return Err(unknown(&name, "the environment", known()));
        }
    }
    Ok(())
}

/// Adds a standard variable of OpenTelemetry. Without the feature that exports, none has a meaning.
fn from_otel(name: &str, value: &str, given: &mut RawSettings) {
    let known = OTEL_VARIABLES.iter().find(|(_, variable)| *variable == name);
    let Some((key, variable)) = known.filter(|_| cfg!(feature = "otlp") && !value.is_empty()) else { return };
    let is_milliseconds = ["otlp.timeout", "otlp.interval"].contains(key) && value.parse::<u64>().is_ok();
    let text = if is_milliseconds { format!("{value}ms") } else { value.to_owned() };
    given.insert((*key).to_owned(), RawSetting::of_text(key, &text, variable));
}

/// Adds the settings from the flags.
pub(crate) fn from_flags<'a>(flags: impl Iterator<Item = (&'static str, &'a str)>, given: &mut RawSettings) {
    for (key, value) in flags {
        let origin = match key {
            "log.level" => "--log".to_owned(),
            "cluster.enabled" => "--cluster".to_owned(),
            "cluster.join" => "--join".to_owned(),
            _ => format!("--{}", key.trim_start_matches("node.").replace(['.', '_'], "-")),
        };
        given.insert(key.to_owned(), RawSetting::of_text(key, value, &origin));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::tests::settings;

    fn read(file: &str, environment: &[(&str, &str)]) -> Result<RawSettings, String> {
        let mut given = RawSettings::new();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        from_file(Path::new("rusm.toml"), file, &mut given)
            .and_then(|_| from_environment(environment, &mut given))
            .map_err(|error| error.to_string())?;
        Ok(given)
    }

    #[test]
    fn paths_of_the_file_are_relative_to_its_directory_and_others_to_the_working_directory() {
        let file = "[store]\npath = \"kv.redb\"\n[log]\nfile = \"/var/log/rusm.log\"";
        let mut given = RawSettings::new();
        from_file(Path::new("conf/rusm.toml"), file, &mut given).expect("valid");
        from_flags([("cluster.certificates", "certificates")].into_iter(), &mut given);

        let found: Vec<_> = given.values().map(|raw| raw.invalid("is shown").to_string()).collect();

        assert_eq!(
            found,
            [
                "cluster.certificates of \"certificates\" in --cluster-certificates is shown",
                "log.file of \"/var/log/rusm.log\" in conf/rusm.toml is shown",
                "store.path of \"conf/kv.redb\" in conf/rusm.toml is shown",
            ]
        );
    }

    #[test]
    fn the_environment_wins_over_the_file_and_a_flag_over_both() {
        let mut given =
            read("[node]\nschedulers = 3\ntick_hz = 30", &[("RUSM_SCHEDULERS", "5"), ("HOME", "/")]).unwrap();
        from_flags([("node.process_limit", "9")].into_iter(), &mut given);

        let found: Vec<_> = given.values().map(|raw| raw.invalid("is shown").to_string()).collect();

        assert_eq!(
            found,
            [
                "node.process_limit of \"9\" in --process-limit is shown",
                "node.schedulers of \"5\" in RUSM_SCHEDULERS is shown",
                "node.tick_hz of \"30\" in rusm.toml is shown",
            ]
        );
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        let error = |file: &str, environment: &[(&str, &str)]| settings(file, environment).unwrap_err().to_string();

        assert_eq!(
            error("[node]\nshedulers = 3", &[]),
            "unknown setting \"node.shedulers\" in rusm.toml: did you mean \"node.schedulers\"?"
        );
        let far = error("[node]\nxyzzy = 3", &[]);
        assert!(far.starts_with("unknown setting \"node.xyzzy\" in rusm.toml: the keys of node are name, "), "{far}");
        assert_eq!(error("[nodes]", &[]), "unknown setting \"nodes\" in rusm.toml: did you mean \"node\"?");
        assert_eq!(
            error("", &[("RUSM_TICKHZ", "3")]),
            "unknown setting \"RUSM_TICKHZ\" in the environment: did you mean \"RUSM_TICK_HZ\"?"
        );
        assert!(error("name = 3", &[]).starts_with("unknown setting \"name\" in rusm.toml"));
    }

    #[test]
    fn the_observers_variables_are_known_and_a_mistyped_one_is_not() {
        let names = rusm_tui::environment::variables();
        let known: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();

        assert_eq!(read("", &known), Ok(RawSettings::new()));
        assert_eq!(
            read("", &[("RUSM_TOP_FSP", "4")]).unwrap_err(),
            "unknown setting \"RUSM_TOP_FSP\" in the environment: did you mean \"RUSM_TOP_FPS\"?"
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_the_one_that_is_due() {
        let error = |file: &str| settings(file, &[]).unwrap_err().to_string();

        assert_eq!(error("[node]\nname = 3"), "node.name of 3 in rusm.toml must be a string");
        assert_eq!(error("[node]\nschedulers = \"3\""), "node.schedulers of \"3\" in rusm.toml must be a whole number");
        assert_eq!(error("[node]\ntick_hz = 20.5"), "node.tick_hz of 20.5 in rusm.toml must be a whole number");
        assert_eq!(error("[node]\ndrain = true"), "node.drain of true in rusm.toml must be a string or a number");
        assert_eq!(error("[log]\nlevel = [\"a\",\n\"b\"]").lines().count(), 1);
        assert_eq!(error("[node]\ntick_hz = \"\"\"2\n0\"\"\"").lines().count(), 1);
    }

    #[test]
    fn what_may_be_said_in_two_ways_is_read_in_both() {
        let (listen, drain) =
            (|file: &str| settings(file, &[]).unwrap().listen, |file: &str| settings(file, &[]).unwrap().drain);

        assert_eq!(listen("[node]\nlisten = true"), Some("127.0.0.1:4000".parse().unwrap()));
        assert_eq!(listen("[node]\nlisten = 4001"), Some("127.0.0.1:4001".parse().unwrap()));
        assert_eq!(listen("[node]\nlisten = false"), None);
        assert_eq!(drain("[node]\ndrain = 2.5"), Duration::from_millis(2_500));
        assert_eq!(drain("[node]\ndrain = \"2m\""), Duration::from_mins(2));
    }
}
