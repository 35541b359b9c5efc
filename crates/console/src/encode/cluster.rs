//! Encodes the cluster: the node itself, a window of the other nodes, and a window of the unique names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::{Cluster, ClusterNode, ClusterView, NameInfo, OwnNode, VitalsInfo};

use super::round;
use super::text::cut;
use rusm_runtime::observe::{
    ClusterName, NetworkPeer, NetworkReport, NodeVitals, PeerReport, RemoteIdentity, SeenVitals,
};

/// Number of addresses that are shown.
const ENDPOINTS_SHOWN: usize = 8;
/// Bytes of a name or a text that are shown.
const TEXT_MAX_BYTES: usize = 255;

/// Totals of the connection to a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    messages: [u64; 2],
    bytes: [u64; 2],
}

pub(crate) fn totals(peer: &NetworkPeer) -> Totals {
    Totals { messages: [peer.messages_out, peer.messages_in], bytes: [peer.bytes_out, peer.bytes_in] }
}

/// State at an earlier look.
pub(crate) struct Earlier<'a> {
    pub(crate) elapsed: Duration,
    pub(crate) nodes: &'a [(Arc<str>, Totals)],
    pub(crate) own: &'a NodeVitals,
}

/// State of the node at this moment.
pub(crate) struct Known<'a> {
    pub(crate) identity: &'a RemoteIdentity,
    pub(crate) report: &'a NetworkReport,
    pub(crate) lives: &'a [PeerReport],
    pub(crate) own: &'a NodeVitals,
}

/// Encodes the cluster. Rates are those since the earlier look.
pub(crate) fn cluster(view: &ClusterView, known: &Known<'_>, earlier: Option<&Earlier<'_>>) -> Cluster {
    let report = known.report;
    // The newest life of a name is the last one.
    let lives: HashMap<&str, &PeerReport> = known.lives.iter().map(|life| (&*life.name, life)).collect();
    let total = report.peers.len() as u64;
    let offset = view.window.offset.min(total);
    let shown = report.peers.iter().skip(offset as usize).take(view.window.len as usize);
    let names_total = report.names_total as u64;
    let names_offset = view.names.offset.min(names_total);
    let names = report.names.iter().skip(names_offset as usize).take(view.names.len as usize);
    Cluster {
        own: Some(own(known, earlier)),
        total,
        offset,
        nodes: shown.map(|peer| node(peer, lives.get(&*peer.name).copied(), earlier)).collect(),
        names_total,
        names_offset,
        names: names.map(name).collect(),
        ..Cluster::default()
    }
}

fn own(known: &Known<'_>, earlier: Option<&Earlier<'_>>) -> OwnNode {
    let Known { identity, report, own, .. } = known;
    let ms = earlier.map_or(0, |earlier| own.uptime_ms.saturating_sub(earlier.own.uptime_ms));
    let rates = earlier.filter(|_| ms > 0).map(|earlier| {
        let busy_ns = own.busy_ns.saturating_sub(earlier.own.busy_ns) as f64;
        let busy = busy_ns / (ms as f64 * 1e6 * f64::from(own.schedulers.max(1)));
        (busy.min(1.0), own.messages.saturating_sub(earlier.own.messages) as f64 * 1e3 / ms as f64)
    });
    let (busy, messages_per_sec) = rates.unzip();
    let seen = SeenVitals { age: Duration::ZERO, vitals: (*own).clone(), busy, messages_per_sec };
    OwnNode {
        name: cut(&identity.name, TEXT_MAX_BYTES),
        boot: format!("{:032x}", identity.boot_id),
        link: cut(&report.link, TEXT_MAX_BYTES),
        endpoints: report.endpoints.iter().take(ENDPOINTS_SHOWN).map(|at| cut(at, TEXT_MAX_BYTES)).collect(),
        is_encrypted: report.is_encrypted,
        nodes_seen: report.nodes_seen as u64,
        nodes_total: report.nodes_total as u64,
        vitals: vitals(&seen),
    }
}

fn vitals(seen: &SeenVitals) -> VitalsInfo {
    let of = &seen.vitals;
    VitalsInfo {
        age_ms: seen.age.as_millis() as u64,
        version: cut(&of.version, TEXT_MAX_BYTES),
        os_pid: of.os_pid,
        uptime_ms: of.uptime_ms,
        processes: of.processes,
        schedulers: of.schedulers,
        busy_pct: seen.busy.map(|busy| round(busy * 100.0)),
        messages_per_sec: seen.messages_per_sec.map(round),
        crashed_total: of.crashed,
        memory_bytes: of.memory_bytes,
        is_draining: of.is_draining,
    }
}

fn node(peer: &NetworkPeer, life: Option<&PeerReport>, earlier: Option<&Earlier<'_>>) -> ClusterNode {
    let now = totals(peer);
    let before = earlier.and_then(|earlier| earlier.nodes.iter().find(|(name, _)| *name == peer.name));
    let seconds = earlier.map_or(0.0, |earlier| earlier.elapsed.as_secs_f64());
    let rate = |now: u64, before: Option<u64>| match before {
        Some(before) if seconds > 0.0 => round(now.saturating_sub(before) as f64 / seconds),
        _ => 0.0,
    };
    let before = before.map(|(_, before)| *before);
    let rates = |of: fn(&Totals) -> [u64; 2]| {
        let (now, before) = (of(&now), before.as_ref().map(of));
        [0, 1].map(|at| rate(now[at], before.map(|before| before[at])))
    };
    let (messages, bytes) = (rates(|totals| totals.messages), rates(|totals| totals.bytes));
    let count = |of: fn(&PeerReport) -> usize| life.map_or(0, |life| of(life) as u64);
    ClusterNode {
        name: cut(&peer.name, TEXT_MAX_BYTES),
        boot: peer.boot_id.map(|boot| format!("{boot:032x}")).unwrap_or_default(),
        node: peer.node,
        state: peer.state.to_owned(),
        since_ms: peer.since.map(|since| since.as_millis() as u64),
        wire_version: peer.wire_version,
        rtt_ns: peer.rtt_ns,
        clock_offset_ns: peer.clock_offset_ns,
        in_doubt_frames: peer.in_doubt_frames,
        in_doubt_bytes: peer.in_doubt_bytes,
        window_frames: peer.window_frames,
        window_bytes: peer.window_bytes,
        stalled_targets: peer.stalled_targets,
        slow_receivers: count(|life| life.slow_receivers),
        messages_out_total: peer.messages_out,
        messages_in_total: peer.messages_in,
        messages_out_per_sec: messages[0],
        messages_in_per_sec: messages[1],
        bytes_out_total: peer.bytes_out,
        bytes_in_total: peer.bytes_in,
        bytes_out_per_sec: bytes[0],
        bytes_in_per_sec: bytes[1],
        undecodable_total: life.map_or(0, |life| life.undecodable),
        undecodable_there_total: life.map_or(0, |life| life.undecodable_there),
        links: count(|life| life.links),
        monitors: count(|life| life.monitors),
        monitored_by: count(|life| life.monitored_by),
        connections_total: peer.ups,
        losses_total: peer.downs,
        last_loss: peer.last_down.as_ref().map(|why| cut(why, TEXT_MAX_BYTES)),
        vitals: peer.vitals.as_ref().map(vitals),
    }
}

fn name(of: &ClusterName) -> NameInfo {
    NameInfo {
        name: cut(&of.name, TEXT_MAX_BYTES),
        node: cut(&of.node, TEXT_MAX_BYTES),
        pid: of.pid.map(|pid| pid.to_string()),
        epoch: of.epoch,
        state: of.state.to_owned(),
    }
}
