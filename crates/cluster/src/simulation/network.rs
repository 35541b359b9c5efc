//! The network between the nodes of a run.

use bytes::Bytes;

use super::clock::WorldTime;
use super::plan::{Faults, MS};
use super::rng::Rng;
use crate::wire::Lane;

/// The network: for each packet, the times at which it arrives.
#[derive(Debug)]
pub(super) struct Network {
    nodes: usize,
    faults: Faults,
    /// True while a partition is at work: from the first node to the second.
    cut: Vec<u32>,
    /// Time until which the link is busy, and the last arrival in each lane.
    links: Vec<Directed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Directed {
    busy_until: WorldTime,
    last_arrival: [WorldTime; 2],
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) at: WorldTime,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) packet: Bytes,
}

impl Network {
    pub(super) fn new(nodes: usize, faults: Faults) -> Self {
        Self { nodes, faults, cut: vec![0; nodes * nodes], links: vec![Directed::default(); nodes * nodes] }
    }

    /// Stops all faults except for the speed of the links.
    pub(super) fn calm_down(&mut self) {
        let faults = &mut self.faults;
        (faults.loss, faults.duplicates, faults.reordering, faults.ghosts) = (0, 0, 0, 0);
        self.cut.fill(0);
    }

    /// Begins or ends a partition in one direction.
    pub(super) fn set_cut(&mut self, from: usize, to: usize, is_cut: bool) {
        let count = &mut self.cut[from * self.nodes + to];
        *count = if is_cut { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Returns true if packets do not arrive in one direction or the other.
    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut[a * self.nodes + b] > 0 || self.cut[b * self.nodes + a] > 0
    }

    /// Sends a packet.
    pub(super) fn send(
        &mut self,
        now: WorldTime,
        (from, to): (usize, usize),
        lane: Lane,
        packet: Bytes,
        rng: &mut Rng,
        mut arrives: impl FnMut(Arrival),
    ) {
        let faults = &self.faults;
        let index = from * self.nodes + to;
        let link = &mut self.links[index];
        link.busy_until = link.busy_until.max(now);
        if let Some(bandwidth) = faults.bandwidth.filter(|_| from < to) {
            link.busy_until += packet.len() as u64 * 1_000_000_000 / bandwidth;
        }
        let mut at = link.busy_until + rng.between(faults.latency.0, faults.latency.1);
        if rng.chance(faults.ghosts) {
            let at = at + rng.between(100, 4_000) * MS;
            arrives(Arrival { at, from, to, packet: packet.clone() });
        }
        if self.cut[index] > 0 || rng.chance(faults.loss) {
            return;
        }
        if rng.chance(faults.reordering) {
            at += rng.between(0, 50 * MS);
        } else {
            let last = &mut link.last_arrival[usize::from(lane == Lane::Stream)];
            at = at.max(*last);
            *last = at;
        }
        if rng.chance(faults.duplicates) {
            let at = at + rng.between(0, 5 * MS);
            arrives(Arrival { at, from, to, packet: packet.clone() });
        }
        arrives(Arrival { at, from, to, packet });
    }
}
