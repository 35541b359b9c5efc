//! The cluster of the simulated node: nodes that are up, a slow one, a lost one and one that has left.

use rusm_protocol::{Cluster, ClusterNode, ClusterView, NameInfo, OwnNode, VitalsInfo};

use crate::demo::processes::{PROCESSES, pid};
use crate::demo::random::random;

/// A node: name, state, time in the state at the start in milliseconds, round trip in microseconds, clock offset in
/// microseconds, messages per second in both directions, frames in doubt, why its last connection ended.
type NodeSpec = (&'static str, &'static str, u64, u64, i64, [u64; 2], u64, Option<&'static str>);

const NODES: [NodeSpec; 6] = [
    ("berlin", "up", 5_412_000, 190, -340, [41_200, 39_800], 212, None),
    ("lagos", "up", 5_409_000, 88_400, 12_900, [310, 290], 31, None),
    ("osaka", "down", 38_000, 0, 0, [0, 0], 0, Some("the node is silent")),
    ("quito", "up", 62_000, 104_000, -2_140, [9_100, 120], 3_988, Some("the node restarted")),
    ("sofia", "left", 240_000, 0, 0, [0, 0], 0, Some("the node left")),
    ("turku", "connecting", 0, 0, 0, [0, 0], 0, None),
];

/// A name, the node of its owner, the slot of the owner, and its state.
const NAMES: [(&str, &str, Option<u32>, &str); 5] = [
    ("billing", "berlin", Some(412), "owned"),
    ("leader", "demo", Some(97), "owned"),
    ("scheduler", "lagos", Some(33), "owned"),
    ("shard/7", "quito", Some(2_204), "owned"),
    ("shard/8", "demo", Some(2_210), "claiming"),
];

/// Answers a request for the cluster.
pub(crate) fn cluster(view: &ClusterView, seq: u64, now_ms: u64) -> Cluster {
    let (total, names_total) = (NODES.len() as u64, NAMES.len() as u64);
    let (offset, names_offset) = (view.window.offset.min(total), view.names.offset.min(names_total));
    let nodes = (0..NODES.len()).skip(offset as usize).take(view.window.len as usize);
    let names = NAMES.iter().skip(names_offset as usize).take(view.names.len as usize);
    Cluster {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 21.0,
        own: Some(OwnNode {
            name: "demo".to_owned(),
            boot: "5b0e2c91d7a4463f8c1e90aa3d27f614".to_owned(),
            link: "zenoh quic".to_owned(),
            endpoints: vec!["10.0.0.4:7447".to_owned()],
            is_encrypted: true,
            nodes_seen: 4,
            nodes_total: 6,
            vitals: VitalsInfo { processes: PROCESSES, schedulers: 4, ..vitals(99, 0, now_ms, false) },
        }),
        total,
        offset,
        nodes: nodes.map(|at| node(at, now_ms)).collect(),
        names_total,
        names_offset,
        names: names.map(name).collect(),
    }
}

/// Returns a factor around 1 that changes every second.
fn wave(salt: usize, now_ms: u64) -> f64 {
    0.85 + 0.3 * random(11, salt as u64, now_ms / 1000)
}

fn node(at: usize, now_ms: u64) -> ClusterNode {
    let (name, state, for_ms, rtt_us, offset_us, [out, inbound], in_doubt, loss) = NODES[at];
    let is_up = state == "up";
    let was_up = state != "connecting";
    let wave = wave(at, now_ms);
    let rates = [out, inbound].map(|rate| (rate as f64 * wave).round());
    let bytes = rates.map(|rate| rate * 212.0);
    let totals = [out, inbound].map(|rate| rate * (for_ms + now_ms) / 1_000);
    let lost_ms = for_ms + now_ms;
    ClusterNode {
        name: name.to_owned(),
        boot: if was_up {
            format!("{:032x}", (at as u128 + 3).wrapping_mul(0x51b6_02f3_8e11_9c77_a055_3d21_51b6_02f3))
        } else {
            String::new()
        },
        node: if is_up { at as u32 + 1 } else { 0 },
        state: state.to_owned(),
        since_ms: was_up.then_some(lost_ms),
        wire_version: is_up.then_some(if name == "lagos" { 1 } else { 2 }),
        rtt_ns: is_up.then_some((rtt_us as f64 * 1_000.0 * wave) as u64),
        clock_offset_ns: is_up.then_some(offset_us * 1_000),
        in_doubt_frames: (in_doubt as f64 * wave).min(4_096.0) as u64,
        in_doubt_bytes: (in_doubt as f64 * wave * 230.0) as u64,
        window_frames: if is_up { 4_096 } else { 0 },
        window_bytes: if is_up { 1 << 20 } else { 0 },
        stalled_targets: u64::from(name == "quito"),
        slow_receivers: 0,
        messages_out_total: totals[0],
        messages_in_total: totals[1],
        messages_out_per_sec: rates[0],
        messages_in_per_sec: rates[1],
        bytes_out_total: totals[0] * 212,
        bytes_in_total: totals[1] * 212,
        bytes_out_per_sec: bytes[0],
        bytes_in_per_sec: bytes[1],
        undecodable_total: 0,
        undecodable_there_total: 0,
        links: if is_up { 12 * (at as u64 + 1) } else { 0 },
        monitors: if is_up { 31 + at as u64 } else { 0 },
        monitored_by: if is_up { 8 } else { 0 },
        connections_total: u64::from(was_up) + u64::from(loss == Some("the node restarted")),
        losses_total: u64::from(loss.is_some()),
        last_loss: loss.map(str::to_owned),
        vitals: was_up.then(|| vitals(at, if is_up { 400 } else { lost_ms }, now_ms, name == "sofia")),
    }
}

fn vitals(at: usize, age_ms: u64, now_ms: u64, is_draining: bool) -> VitalsInfo {
    let wave = wave(at, now_ms.saturating_sub(age_ms));
    VitalsInfo {
        age_ms,
        version: if at == 1 { "0.0.9" } else { "0.1.0" }.to_owned(),
        os_pid: 4_100 + at as u32,
        uptime_ms: 5_400_000 + now_ms.saturating_sub(age_ms),
        processes: (148_000.0 * wave) as u64 / (at as u64 % 5 + 1),
        schedulers: 8,
        busy_pct: Some((37.0 * wave).round()),
        messages_per_sec: Some((910_000.0 * wave).round()),
        crashed_total: 3 * at as u64,
        memory_bytes: (412.0 * wave) as u64 * (1 << 20),
        is_draining,
    }
}

fn name((name, node, slot, state): &(&str, &str, Option<u32>, &str)) -> NameInfo {
    let at = NODES.iter().position(|(known, ..)| known == node).map_or(0, |at| at + 1);
    NameInfo {
        name: (*name).to_owned(),
        node: (*node).to_owned(),
        pid: slot.map(|slot| if *node == "demo" { pid(slot.into()) } else { format!("<{at}.{slot}.1>") }),
        epoch: 1_795_000_000_000 + u64::from(slot.unwrap_or(0)),
        state: (*state).to_owned(),
    }
}
