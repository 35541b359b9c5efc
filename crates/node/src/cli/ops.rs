//! Files for operating a node: a systemd unit, a container, a Grafana dashboard.

use clap::{Command, Subcommand};
use serde_json::{Value, json};

use super::shell::{ShellName, completions, manual, print};
use crate::failure::Failure;

const CONTAINERFILE: &str = include_str!("ops/Containerfile");

/// Files that `rusm ops` prints.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OpsCommand {
    /// Prints a hardened systemd unit that runs /etc/rusm/rusm.toml.
    Systemd,
    /// Prints a Containerfile of a small image without a shell.
    Container,
    /// Prints a Grafana dashboard for the metrics of `GET /metrics`.
    Grafana,
    /// Prints the completions of a shell, as `rusm completions` does.
    Completions {
        /// The shell.
        shell: ShellName,
    },
    /// Prints the manual page, or the one of a command such as `bench run`, as `rusm man` does.
    Man {
        /// The command.
        command: Vec<String>,
    },
}

/// Prints a file; `root` is the command line of the program.
pub(crate) fn run(command: OpsCommand, root: Command) -> Result<u8, Failure> {
    match command {
        OpsCommand::Systemd => print(include_bytes!("ops/rusm.service")),
        OpsCommand::Container => print(CONTAINERFILE.as_bytes()),
        OpsCommand::Grafana => print(format!("{:#}\n", dashboard()).as_bytes()),
        OpsCommand::Completions { shell } => completions(root, shell),
        OpsCommand::Man { command } => manual(root, &command),
    }
}

/// One panel of the dashboard: its title, its unit for Grafana, and queries with their legends.
struct Panel {
    title: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
}

const PANELS: [Panel; 12] = [
    Panel {
        title: "Processes",
        unit: "short",
        queries: &[("rusm_processes", "alive"), ("rusm_processes_stuck", "stuck"), ("rusm_process_limit", "limit")],
    },
    Panel {
        title: "Spawns and ends a second",
        unit: "ops",
        queries: &[
            ("rate(rusm_processes_spawned_total[$__rate_interval])", "spawned"),
            ("rate(rusm_processes_exited_total[$__rate_interval])", "ended"),
        ],
    },
    Panel {
        title: "Crashes and restarts a second",
        unit: "ops",
        queries: &[
            ("rate(rusm_processes_crashed_total[$__rate_interval])", "crashed"),
            ("rate(rusm_restarts_total[$__rate_interval])", "restarts"),
            ("rate(rusm_restarts_failed_total[$__rate_interval])", "failed restarts"),
            ("rate(rusm_children_lost_total[$__rate_interval])", "lost children"),
        ],
    },
    Panel {
        title: "Messages a second",
        unit: "ops",
        queries: &[("rate(rusm_messages_received_total[$__rate_interval])", "received")],
    },
    Panel {
        title: "Schedulers",
        unit: "percentunit",
        queries: &[("rate(rusm_scheduler_busy_seconds_total[$__rate_interval])", "{{scheduler}}")],
    },
    Panel { title: "Run queues", unit: "short", queries: &[("rusm_scheduler_run_queue", "{{scheduler}}")] },
    Panel {
        title: "Memory by use",
        unit: "bytes",
        queries: &[("rusm_memory_bytes", "{{use}}"), ("rusm_resident_memory_bytes", "resident")],
    },
    Panel {
        title: "Mailboxes",
        unit: "bytes",
        queries: &[("rusm_mailboxes_bytes", "filled"), ("rusm_mailboxes_limit_bytes", "limit")],
    },
    Panel {
        title: "Responses a second",
        unit: "reqps",
        queries: &[(
            "sum by (status_class) (rate(rusm_http_server_responses_total[$__rate_interval]))",
            "{{status_class}}",
        )],
    },
    Panel {
        title: "Latency of requests",
        unit: "s",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(http_server_request_duration_seconds_bucket[$__rate_interval])))",
                "p50",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(http_server_request_duration_seconds_bucket[$__rate_interval])))",
                "p99",
            ),
        ],
    },
    Panel {
        title: "Connections",
        unit: "short",
        queries: &[
            ("rusm_http_server_connections", "connections"),
            ("rusm_http_server_websockets", "sockets"),
            ("rusm_http_server_event_streams", "streams"),
            ("http_server_active_requests", "requests"),
        ],
    },
    Panel {
        title: "Limits hit a second",
        unit: "ops",
        queries: &[("sum by (limit) (rate(rusm_http_server_limit_hits_total[$__rate_interval]))", "{{limit}}")],
    },
];

/// Returns the dashboard as Grafana imports it.
fn dashboard() -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panel = |(number, panel): (usize, &Panel)| {
        let targets: Vec<Value> = panel
            .queries
            .iter()
            .zip('A'..)
            .map(|((expression, legend), id)| {
                json!({ "refId": id.to_string(), "expr": expression, "legendFormat": legend, "datasource": source })
            })
            .collect();
        json!({
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "gridPos": { "x": number % 2 * 12, "y": number / 2 * 8, "w": 12, "h": 8 },
            "targets": targets,
        })
    };
    json!({
        "title": "rusm",
        "uid": "rusm-node",
        "schemaVersion": 39,
        "tags": ["rusm"],
        "refresh": "10s",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [{ "name": "datasource", "type": "datasource", "query": "prometheus" }] },
        "panels": PANELS.iter().enumerate().map(panel).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sources of `/metrics`.
    const METRICS: [&str; 2] =
        [include_str!("../../../console/src/metrics.rs"), include_str!("../../../console/src/metrics/serve.rs")];

    fn metrics(expression: &str) -> impl Iterator<Item = &str> {
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("rusm_") || word.starts_with("http_server_"))
    }

    #[test]
    fn every_metric_of_the_dashboard_is_one_that_the_console_writes() {
        let written = |metric: &str| {
            let name = metric.trim_end_matches("_bucket").trim_end_matches("_total");
            let name = name.trim_end_matches("_bytes").trim_end_matches("_seconds");
            let short = name.strip_prefix("rusm_http_server_").or_else(|| name.strip_prefix("rusm_"));
            let quoted = |name: &str| METRICS.iter().any(|source| source.contains(&format!("\"{name}\"")));
            quoted(name) || short.is_some_and(quoted)
        };
        for (expression, _) in PANELS.iter().flat_map(|panel| panel.queries) {
            let all: Vec<&str> = metrics(expression).collect();
            assert!(!all.is_empty() && all.iter().all(|metric| written(metric)), "{expression}: {all:?}");
        }
        assert!(!written("rusm_unknown"));
    }

    #[test]
    fn the_container_has_a_directory_for_sockets_that_the_node_makes_itself() {
        let words = |key: &str| CONTAINERFILE.lines().find_map(|line| line.strip_prefix(key)).expect("such a line");
        let (volume, sockets) = (words("VOLUME "), words("ENV RUSM_SOCKET_DIR="));
        assert!(sockets.strip_prefix(volume).is_some_and(|rest| rest.starts_with('/')), "{sockets} in {volume}");
    }

    #[test]
    fn the_dashboard_has_all_panels_without_overlap() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        assert_eq!(panels.len(), PANELS.len());
        let mut places: Vec<String> = panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), PANELS.len());
    }
}
