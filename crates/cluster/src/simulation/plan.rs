//! The plan of a run: sizes, faults and times, all from a seed.

use std::time::Duration;

use super::clock::WorldTime;
use super::rng::Rng;
use crate::session::Config;
use crate::wire::Version;

pub(super) const MS: WorldTime = 1_000_000;

/// Number of processes of each node.
pub(super) const PROCESSES: usize = 4;

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan, also used for what the plan leaves open.
    pub seed: u64,
    pub(super) nodes: usize,
    /// Time at which the faults stop.
    pub(super) active: WorldTime,
    pub(super) config: Config,
    /// Newest version of the wire that each node speaks.
    pub(super) newest: Vec<Version>,
    /// Speed of the clock of each node, in millionths faster than the world.
    pub(super) skew: Vec<i64>,
    pub(super) traffic: Traffic,
    pub(super) faults: Faults,
}

/// Messages of processes.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// Number of times that each node sends.
    pub(super) turns: u64,
    /// Probability of a burst of messages, in millionths.
    pub(super) bursts: u64,
    /// A process of each node that takes nothing until the end.
    pub(super) stuck: Option<usize>,
    /// Maximum time after which other processes take a message.
    pub(super) lazy: WorldTime,
}

/// Faults of the network and of nodes. Probabilities are in millionths for each packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) latency: (WorldTime, WorldTime),
    /// Bytes per second of the link from the first node to the second.
    pub(super) bandwidth: Option<u64>,
    pub(super) loss: u64,
    pub(super) duplicates: u64,
    /// Probability that a packet arrives after later ones.
    pub(super) reordering: u64,
    /// Probability that a copy of a packet arrives seconds later.
    pub(super) ghosts: u64,
    pub(super) partitions: Vec<Partition>,
    pub(super) restarts: Vec<Restart>,
    pub(super) leave: Option<(usize, WorldTime)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) nodes: (usize, usize),
    pub(super) from: WorldTime,
    pub(super) to: WorldTime,
    /// Packets still arrive in the other direction.
    pub(super) is_one_way: bool,
    /// The link reports it.
    pub(super) is_told: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    pub(super) node: usize,
    pub(super) at: WorldTime,
    /// The link reports it, after this time.
    pub(super) told_after: Option<WorldTime>,
}

impl Plan {
    /// Creates the plan of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let nodes = if rng.chance(700_000) { 2 } else { 3 };
        let active = rng.between(500, 4_000) * MS;
        let mut plan = Self {
            seed,
            nodes,
            active,
            config: config(rng),
            newest: (0..nodes).map(|_| if rng.chance(150_000) { Version::OLDEST } else { Version::NEWEST }).collect(),
            skew: (0..nodes).map(|_| rng.between(0, 40_000).cast_signed() - 20_000).collect(),
            traffic: Traffic {
                turns: rng.between(5, 40),
                bursts: rng.between(0, 300_000),
                stuck: rng.chance(300_000).then(|| rng.index(PROCESSES)),
                lazy: rng.between(0, 100) * MS,
            },
            faults: Faults::default(),
        };
        plan.faults = Faults::from_seed(rng, nodes, active);
        plan
    }

    /// Returns true if no session may end in this run, except with a node that leaves.
    pub(super) fn is_calm(&self) -> bool {
        let faults = &self.faults;
        let is_ordered = faults.loss == 0 && faults.reordering == 0;
        is_ordered && faults.partitions.is_empty() && faults.restarts.is_empty()
    }

    /// Returns true if a node that leaves has time to send everything.
    pub(super) fn leaves_cleanly(&self) -> bool {
        self.is_calm() && self.faults.bandwidth.is_none()
    }
}

/// Small windows, so that a short run fills them.
fn config(rng: &mut Rng) -> Config {
    Config {
        window_frames: rng.between(16, 64) as u32,
        window_bytes: rng.between(1_024, 8_192) as u32,
        target_messages: rng.between(2, 16) as u32,
        target_bytes: 4_096,
        held_messages: 256,
        held_bytes: 64 << 10,
        chunk_bytes: rng.between(128, 256) as usize,
        message_bytes: 4_096,
        lease: Duration::from_millis(500),
        hello_interval: Duration::from_millis(50),
        ..Config::default()
    }
}

impl Faults {
    fn from_seed(rng: &mut Rng, nodes: usize, active: WorldTime) -> Self {
        let latency = rng.between(20_000, 10 * MS);
        let mut some = |likely: u64, max: u64| if rng.chance(likely) { rng.between(1_000, max) } else { 0 };
        let (loss, duplicates) = (some(350_000, 30_000), some(300_000, 50_000));
        let (reordering, ghosts) = (some(200_000, 20_000), some(400_000, 100_000));
        let is_cut = rng.chance(350_000);
        let partitions = (0..if is_cut { rng.between(1, 3) } else { 0 }).map(|_| {
            let from = rng.between(0, active);
            Partition {
                nodes: two(rng, nodes),
                from,
                to: from + rng.between(20, 3_000) * MS,
                is_one_way: rng.chance(300_000),
                is_told: rng.chance(500_000),
            }
        });
        let partitions = partitions.collect();
        let restarted = rng.chance(350_000);
        let restarts = (0..if restarted { rng.between(1, 3) } else { 0 }).map(|_| {
            let node = rng.index(nodes);
            let told_after = rng.chance(600_000).then(|| rng.between(1, 500) * MS);
            Restart { node, at: rng.between(0, active), told_after }
        });
        let restarts: Vec<_> = restarts.collect();
        let leave = rng.chance(150_000).then(|| (rng.index(nodes), rng.between(active / 2, active)));
        Self {
            latency: (latency, latency + rng.between(0, 2 * MS)),
            bandwidth: rng.chance(300_000).then(|| rng.between(20_000, 500_000)),
            loss,
            duplicates,
            reordering,
            ghosts,
            partitions,
            restarts,
            leave,
        }
    }
}

fn two(rng: &mut Rng, nodes: usize) -> (usize, usize) {
    let first = rng.index(nodes);
    (first, (first + rng.between(1, nodes as u64 - 1) as usize) % nodes)
}
