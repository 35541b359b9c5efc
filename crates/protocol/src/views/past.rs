//! Recorded instants of a node, and its figures over the last minutes.
//!
//! ```text
//!   observer ── past {at_ms} ──▶ node       the newest recorded instant at or before that time
//!   observer ◀── past ── node               its messages, equal to those that a client received live
//!   observer ── history ──▶ node ──▶ history      figures of the last minutes, for charts
//! ```

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ServerMessage;

/// A request for one recorded instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastView {
    /// Echoed in the answer.
    pub id: u32,
    /// Uptime of the node at that instant, in milliseconds. The answer has the newest instant at or before it, or the
    /// oldest one if all are later.
    pub at_ms: u64,
}

/// A recorded instant of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Past {
    /// Id of the request.
    pub id: u32,
    /// Uptime of the node at this instant, in milliseconds.
    pub at_ms: u64,
    /// Uptime of the node at the oldest recorded instant, in milliseconds.
    pub oldest_ms: u64,
    /// Uptime of the node at the newest recorded instant, in milliseconds.
    pub newest_ms: u64,
    /// The messages of this instant, at most one of each type. Their ids are 0, and `rows` has the first processes by
    /// several orders, in all columns. Messages that this reader does not know are left out.
    #[serde(deserialize_with = "known")]
    pub messages: Vec<ServerMessage>,
    /// Memory of the recorder, in bytes.
    pub memory_bytes: u64,
    /// CPU time of recording this node over the last seconds, in per cent of one core.
    pub cost_pct: f64,
    /// Reason why the instant has no messages, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A request for the figures of the last minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryView {
    /// Echoed in the answer.
    pub id: u32,
}

/// Figures of a node over the last minutes, for charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Id of the request.
    pub id: u32,
    /// Uptime of the node at each point, in milliseconds, oldest first; about one second apart.
    pub at_ms: Vec<u64>,
    /// The figures, each with one value for each point.
    pub series: Vec<HistorySeries>,
    /// Runs of scenarios in this time, oldest first.
    pub runs: Vec<HistoryRun>,
}

/// One figure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistorySeries {
    /// Name of the figure, as in the frame, for example `cpu_pct`; `utilisation/0` is that of scheduler 0.
    pub name: String,
    /// Values, oldest first.
    pub points: Vec<f64>,
}

/// Start of a run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryRun {
    /// Number of the run.
    pub run_id: u64,
    /// Id of the scenario.
    pub scenario: String,
    /// Uptime of the node when the run was first seen, in milliseconds.
    pub from_ms: u64,
}

/// Decodes the messages of a list, without those of a newer version.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ServerMessage>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Item {
        Known(ServerMessage),
        Unknown(IgnoredAny),
    }
    let items = Vec::<Item>::deserialize(deserializer)?;
    let known = |item| match item {
        Item::Known(message) => Some(message),
        Item::Unknown(_) => None,
    };
    Ok(items.into_iter().filter_map(known).collect())
}

#[cfg(test)]
mod tests {
    use crate::{ServerMessage, decode_server};

    #[test]
    fn messages_of_a_newer_version_are_left_out_of_an_instant() {
        let text =
            r#"{"type":"past","id":3,"at_ms":9,"messages":[{"type":"weather","sun":true},{"type":"ack","id":1},7]}"#;

        let Ok(ServerMessage::Past(past)) = decode_server(text) else { panic!("no instant") };

        assert_eq!((past.id, past.at_ms), (3, 9));
        assert_eq!(past.messages, [ServerMessage::Ack { id: 1 }]);
    }
}
