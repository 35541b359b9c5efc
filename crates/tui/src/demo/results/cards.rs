//! Scenarios and profiles of the simulated node.

use super::gate;
use rusm_protocol::{ParameterMeta, ResourceProfileMeta, ScenarioMeta, Unit};

pub(crate) fn profiles() -> Vec<ResourceProfileMeta> {
    [("light", "a quarter of the cores"), ("balanced", "two fifths of the cores"), ("max", "half of the cores")]
        .map(|(id, description)| ResourceProfileMeta {
            id: id.to_owned(),
            label: id.to_owned(),
            description: description.to_owned(),
        })
        .to_vec()
}

pub(crate) fn scenarios() -> Vec<ScenarioMeta> {
    let parameter = |name: &str, default: &str, range: &str, description: &str| ParameterMeta {
        name: name.to_owned(),
        description: description.to_owned(),
        default: default.to_owned(),
        range: range.to_owned(),
    };
    let scenario =
        |id: &str, ops: &str, latency: &str, description: &str, parameters: Vec<ParameterMeta>| ScenarioMeta {
            id: id.to_owned(),
            label: id.replace('-', " "),
            description: description.to_owned(),
            details: vec!["Demo data: nothing here was measured.".to_owned()],
            real_after_phase: 1,
            real: false,
            unit: Unit::Count,
            ops_label: ops.to_owned(),
            latency_label: Some(latency.to_owned()),
            family: "actors".to_owned(),
            parameters,
            gates: vec![gate("failed operations", "at most 0", None, None)],
            ..ScenarioMeta::default()
        };
    vec![
        scenario(
            "spawn-storm",
            "spawns/s",
            "call to first instruction",
            "Processes are spawned, run, exit and are reaped as fast as the schedulers can.",
            vec![
                parameter("spawners", "2", "1-64", "processes that spawn"),
                parameter("live_cap", "4096", "1-1000000", "children alive at once"),
            ],
        ),
        scenario(
            "ping-pong",
            "messages/s",
            "round trip",
            "Pairs of processes send a message back and forth.",
            vec![
                parameter("pairs", "64", "1-10000", "pairs of processes"),
                parameter("placement", "same", "same, other", "which scheduler the partner starts on"),
            ],
        ),
        scenario(
            "fan-in",
            "messages/s",
            "send to receive",
            "Many producers send to one process.",
            vec![parameter("producers", "64", "1-10000", "processes that send")],
        ),
    ]
}
