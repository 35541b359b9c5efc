//! The view of the cluster, and its answer.

use rusm_protocol::{Cluster, ClusterNode, ClusterView, NameInfo, OwnNode, ViewWindow, VitalsInfo};

pub(crate) fn cluster_view() -> ClusterView {
    ClusterView { id: 11, window: ViewWindow { offset: 0, len: 20 }, names: ViewWindow { offset: 0, len: 40 }, hz: 2.0 }
}

pub(crate) fn cluster() -> Cluster {
    let vitals = VitalsInfo {
        age_ms: 400,
        version: "0.1.0".to_owned(),
        os_pid: 4_242,
        uptime_ms: 90_000,
        processes: 1_200,
        schedulers: 4,
        busy_pct: Some(12.5),
        messages_per_sec: Some(9_000.5),
        crashed_total: 3,
        memory_bytes: 48 << 20,
        is_draining: false,
    };
    let up = ClusterNode {
        name: "north".to_owned(),
        boot: "8d1f".to_owned(),
        node: 1,
        state: "up".to_owned(),
        since_ms: Some(60_000),
        wire_version: Some(2),
        rtt_ns: Some(180_000),
        clock_offset_ns: Some(-2_500_000),
        in_doubt_frames: 12,
        in_doubt_bytes: 900,
        window_frames: 4_096,
        window_bytes: 1 << 20,
        stalled_targets: 1,
        slow_receivers: 2,
        messages_out_total: 80_000,
        messages_in_total: 70_000,
        messages_out_per_sec: 800.5,
        messages_in_per_sec: 700.0,
        bytes_out_total: 9_000_000,
        bytes_in_total: 8_000_000,
        bytes_out_per_sec: 90_000.0,
        bytes_in_per_sec: 80_000.0,
        undecodable_total: 1,
        undecodable_there_total: 3,
        links: 4,
        monitors: 5,
        monitored_by: 6,
        connections_total: 2,
        losses_total: 1,
        last_loss: Some("the node is silent".to_owned()),
        vitals: Some(vitals.clone()),
    };
    let own = OwnNode {
        name: "south".to_owned(),
        boot: "77aa".to_owned(),
        link: "zenoh quic".to_owned(),
        endpoints: vec!["10.0.0.5:7447".to_owned()],
        is_encrypted: true,
        nodes_seen: 2,
        nodes_total: 3,
        vitals: VitalsInfo { age_ms: 0, is_draining: true, ..vitals },
    };
    let never = ClusterNode { name: "west".to_owned(), state: "connecting".to_owned(), ..ClusterNode::default() };
    let name = |name: &str, pid: Option<&str>, state: &str| NameInfo {
        name: name.to_owned(),
        node: "north".to_owned(),
        pid: pid.map(str::to_owned),
        epoch: 1_800_000_000_001,
        state: state.to_owned(),
    };
    Cluster {
        id: 11,
        seq: 3,
        at_ms: 90_500,
        cost_us: 25.0,
        own: Some(own),
        total: 2,
        offset: 0,
        nodes: vec![up, never],
        names_total: 2,
        names_offset: 0,
        names: vec![name("leader", Some("<1.44.1>"), "owned"), name("mover", None, "suspended")],
    }
}
