//! Names in a simulated cluster: partitions, restarts, and processes that register the same names everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::agenda::Agenda;
use super::clock::{Clock, WorldTime};
use super::ledger::Violation;
use super::network::{Arrival, Network};
use super::plan::{Faults, MS};
use super::rng::Rng;
use crate::identity::{Address, BootId, Identity, NodeName};
use crate::names::{NameEvent, NamesConfig, Registry};
use crate::session::{Config, Event, LinkChange, Outgoing, Session};
use crate::wire::Kind;

/// Names that all nodes want.
const NAMES: [&str; 3] = ["leader", "ledger", "clock"];
/// Time between two ticks of a registry.
const TICK: WorldTime = 50 * MS;
/// Time within which all nodes agree after the last fault.
const SETTLING: WorldTime = 15_000 * MS;

/// Figures of a run without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameReport {
    /// Number of partitions.
    pub partitions: u64,
    /// Number of registrations that succeeded.
    pub registered: u64,
    /// Number of times that an owner was suspended.
    pub suspended: u64,
    /// Number of times that it owned the name again.
    pub resumed: u64,
    /// Number of times that another process owned it.
    pub lost: u64,
}

/// Runs names under a seed. `hold` replaces the time for which grants are kept, to plant a bug.
///
/// # Errors
/// [`Violation`] if two processes own a name at a time, if a fencing epoch goes back, or if the nodes do not agree in
/// the end.
pub fn check_names(seed: u64, hold: Option<Duration>) -> Result<NameReport, Violation> {
    let mut world = NameWorld::new(seed, hold);
    let active = world.plan_everything();
    world.run_until(active)?;
    world.network.calm_down();
    world.run_until(active + SETTLING)?;
    world.check_agreement()?;
    Ok(world.report)
}

struct NameWorld {
    seed: u64,
    rng: Rng,
    names: Vec<NodeName>,
    config: Config,
    names_config: NamesConfig,
    now: WorldTime,
    agenda: Agenda<Happening>,
    network: Network,
    nodes: Vec<Node>,
    /// The last owner of each name, and its fencing epoch.
    owners: BTreeMap<Arc<str>, (Identity, Address, u64)>,
    report: NameReport,
}

struct Node {
    identity: Identity,
    clock: Clock,
    sessions: Vec<Session>,
    registry: Registry,
}

enum Happening {
    Packet { from: usize, to: usize, packet: Bytes },
    Tick { node: usize, boot: BootId },
    Cut { groups: Vec<bool>, is_cut: bool },
    Link { node: usize, peer: usize, is_up: bool },
    Restart { node: usize },
    Register { node: usize, name: usize },
    Unregister { node: usize, name: usize },
}

impl NameWorld {
    fn new(seed: u64, hold: Option<Duration>) -> Self {
        let mut rng = Rng::new(seed ^ 0x6e61_6d65);
        let count = rng.between(3, 5) as usize;
        let names: Vec<_> =
            ["a", "b", "c", "d", "e"].iter().filter_map(|name| NodeName::new(name).ok()).take(count).collect();
        let config = Config {
            lease: Duration::from_millis(500),
            hello_interval: Duration::from_millis(50),
            ..Config::default()
        };
        let mut names_config = NamesConfig::new(config.patience(), Some(count), 0);
        names_config.hold = hold.unwrap_or(names_config.hold);
        let loss = if rng.chance(300_000) { rng.between(100, 5_000) } else { 0 };
        let faults = Faults { latency: (MS / 10, rng.between(1, 30) * MS), loss, ..Faults::default() };
        let mut world = Self {
            seed,
            network: Network::new(count, faults),
            rng,
            names,
            config,
            names_config,
            now: 0,
            agenda: Agenda::default(),
            nodes: Vec::new(),
            owners: BTreeMap::new(),
            report: NameReport::default(),
        };
        world.nodes = (0..count).map(|node| world.life(node)).collect();
        for node in 0..count {
            world.link_all(node);
        }
        world
    }

    /// Creates a new life of a node.
    fn life(&mut self, node: usize) -> Node {
        let identity = Identity { name: self.names[node].clone(), boot: BootId(u128::from(self.rng.next())) };
        let clock = Clock { started: self.now, skew: self.rng.between(0, 20_000).cast_signed() - 10_000 };
        let session = |peer: &NodeName| Session::new(self.config.clone(), identity.clone(), peer.clone());
        let sessions = self.names.iter().map(session).collect();
        // The clocks that show the time of day differ by a second at most.
        let floor = (self.now + self.rng.between(0, 1_000) * MS) / MS;
        let names_config = NamesConfig { epoch_floor: floor, ..self.names_config };
        self.agenda.add(self.now + 1, Happening::Tick { node, boot: identity.boot });
        Node { registry: Registry::new(Duration::ZERO, names_config, identity.clone()), identity, clock, sessions }
    }

    /// Lets a node see all others.
    fn link_all(&mut self, node: usize) {
        let now = self.nodes[node].clock.read(self.now);
        for peer in (0..self.names.len()).filter(|peer| *peer != node) {
            self.nodes[node].sessions[peer].on_link(now, LinkChange::Up);
        }
    }

    /// Plans partitions, restarts and registrations. Returns the time at which the last one is over.
    fn plan_everything(&mut self) -> WorldTime {
        let mut at = 3_000 * MS;
        for _ in 0..self.rng.between(1, 4) {
            at += self.rng.between(0, 3_000) * MS;
            let groups: Vec<bool> = (0..self.names.len()).map(|_| self.rng.chance(500_000)).collect();
            self.agenda.add(at, Happening::Cut { groups: groups.clone(), is_cut: true });
            if self.rng.chance(200_000) {
                let node = self.rng.index(groups.len());
                self.agenda.add(at + MS, Happening::Restart { node });
            }
            for node in 0..groups.len() {
                // Some nodes hear of a partition at once, others not at all.
                if self.rng.chance(300_000) {
                    let told = at + self.rng.between(0, 100) * MS;
                    for peer in (0..groups.len()).filter(|peer| groups[*peer] != groups[node]) {
                        self.agenda.add(told, Happening::Link { node, peer, is_up: false });
                        self.agenda.add(told + 20 * MS, Happening::Link { node, peer, is_up: true });
                    }
                }
            }
            at += self.rng.between(100, 6_000) * MS;
            self.agenda.add(at, Happening::Cut { groups, is_cut: false });
            self.report.partitions += 1;
        }
        at += 1_000 * MS;
        for _ in 0..self.rng.between(0, 2) {
            let (node, at) = (self.rng.index(self.names.len()), self.rng.between(0, at));
            self.agenda.add(at, Happening::Restart { node });
        }
        for _ in 0..60 {
            let (node, name, at) =
                (self.rng.index(self.names.len()), self.rng.index(NAMES.len()), self.rng.between(0, at));
            let is_end = self.rng.chance(150_000);
            self.agenda.add(
                at,
                if is_end { Happening::Unregister { node, name } } else { Happening::Register { node, name } },
            );
        }
        at
    }

    fn run_until(&mut self, end: WorldTime) -> Result<(), Violation> {
        while let Some((at, what)) = self.agenda.take_until(end) {
            self.now = at;
            let node = self.step(what);
            if let Some(node) = node {
                self.settle(node)?;
            }
            self.check_owners()?;
        }
        self.now = end;
        Ok(())
    }

    /// Lets something happen. Returns the node that it happened to.
    fn step(&mut self, what: Happening) -> Option<usize> {
        let now = self.now;
        let local = |nodes: &[Node], node: usize| nodes[node].clock.read(now);
        match what {
            Happening::Packet { from, to, packet } => {
                let now = local(&self.nodes, to);
                self.nodes[to].sessions[from].on_packet(now, packet);
                Some(to)
            }
            Happening::Tick { node, boot } => {
                let now = local(&self.nodes, node);
                let life = &mut self.nodes[node];
                if life.identity.boot != boot {
                    return None;
                }
                for (peer, session) in life.sessions.iter_mut().enumerate().filter(|(peer, _)| *peer != node) {
                    session.on_tick(now);
                    if let Some(proof) = session.proof() {
                        life.registry.on_proof(&self.names[peer], proof);
                    }
                }
                life.registry.on_tick(now);
                self.agenda.add(self.now + TICK, Happening::Tick { node, boot });
                Some(node)
            }
            Happening::Cut { groups, is_cut } => {
                let nodes = 0..groups.len();
                let across = nodes.flat_map(|a| (0..groups.len()).map(move |b| (a, b)));
                for (a, b) in across.filter(|(a, b)| groups[*a] != groups[*b]) {
                    self.network.set_cut(a, b, is_cut);
                }
                None
            }
            Happening::Link { node, peer, is_up } => {
                let now = local(&self.nodes, node);
                self.nodes[node].sessions[peer].on_link(now, if is_up { LinkChange::Up } else { LinkChange::Down });
                Some(node)
            }
            Happening::Restart { node } => {
                self.nodes[node] = self.life(node);
                self.link_all(node);
                Some(node)
            }
            Happening::Register { node, name } => {
                let now = local(&self.nodes, node);
                let process = Address::new(self.rng.between(1, 1_000) as u32, 1);
                drop(self.nodes[node].registry.register(now, NAMES[name], process));
                Some(node)
            }
            Happening::Unregister { node, name } => {
                self.nodes[node].registry.unregister(NAMES[name]);
                Some(node)
            }
        }
    }

    /// Moves events and packets of a node.
    fn settle(&mut self, node: usize) -> Result<(), Violation> {
        let life = &mut self.nodes[node];
        let now = life.clock.read(self.now);
        loop {
            let mut is_quiet = true;
            for peer in (0..life.sessions.len()).filter(|peer| *peer != node) {
                while let Some(event) = life.sessions[peer].poll_event() {
                    is_quiet = false;
                    match event {
                        Event::Up(peer) => life.registry.on_up(now, &peer.identity),
                        Event::Down(_) => {
                            let lost = life.registry.peer(&self.names[peer]).cloned();
                            if let Some(lost) = lost {
                                life.registry.on_down(now, &lost, false);
                            }
                        }
                        Event::Deliver(message) => {
                            life.registry.on_message(now, &self.names[peer], message.payload).ok();
                        }
                        Event::Room { .. } | Event::Refused(_) | Event::Left { .. } => {}
                    }
                }
            }
            while let Some(event) = life.registry.poll_event() {
                is_quiet = false;
                match event {
                    NameEvent::Send { to, payload } => {
                        let index = self.names.iter().position(|name| *name == to).unwrap_or(node);
                        let (from, to) = (Address::NODE, Address::NODE);
                        let outgoing = Outgoing { kind: Kind::NAME, from, to, payload };
                        drop(life.sessions[index].send(now, outgoing));
                    }
                    NameEvent::Registered { name, process, epoch } => {
                        self.report.registered += 1;
                        note_owner(&mut self.owners, &name, (&life.identity, process, epoch))
                            .map_err(|what| violation(self.seed, self.now, &self.names[node], what))?;
                    }
                    NameEvent::Resumed { name, process, epoch } => {
                        self.report.resumed += 1;
                        note_owner(&mut self.owners, &name, (&life.identity, process, epoch))
                            .map_err(|what| violation(self.seed, self.now, &self.names[node], what))?;
                    }
                    NameEvent::Suspended { .. } => self.report.suspended += 1,
                    NameEvent::Lost { .. } => self.report.lost += 1,
                    NameEvent::Refused { .. } => {}
                }
            }
            if is_quiet {
                break;
            }
        }
        for peer in (0..self.nodes[node].sessions.len()).filter(|peer| *peer != node) {
            while let Some(transmit) = self.nodes[node].sessions[peer].poll_transmit() {
                let agenda = &mut self.agenda;
                let arrives = |arrival: Arrival| {
                    let Arrival { at, from, to, packet } = arrival;
                    agenda.add(at, Happening::Packet { from, to, packet });
                };
                self.network.send(self.now, (node, peer), transmit.lane, transmit.packet, &mut self.rng, arrives);
            }
        }
        Ok(())
    }

    fn check_owners(&self) -> Result<(), Violation> {
        for name in NAMES {
            let owns = |node: &&Node| node.registry.owns(node.clock.read(self.now), name);
            let owners: Vec<_> = self.nodes.iter().filter(owns).map(|node| node.identity.name.to_string()).collect();
            if owners.len() > 1 {
                let what = format!("{name} has {} owners: {}", owners.len(), owners.join(", "));
                return Err(violation(self.seed, self.now, &self.names[0], what));
            }
        }
        Ok(())
    }

    /// Checks that all nodes name the same owner, which says so itself, and that no process is suspended.
    fn check_agreement(&self) -> Result<(), Violation> {
        for name in NAMES {
            let owner = |node: &Node| node.registry.owner(node.clock.read(self.now), name);
            let first = owner(&self.nodes[0]);
            for node in &self.nodes {
                let this = owner(node);
                let is_mine = this.as_ref().is_ok_and(|owner| owner.iter().any(|owner| owner.node == node.identity));
                if this != first || is_mine != node.registry.owns(node.clock.read(self.now), name) {
                    let what = format!("{name} belongs to {this:?}, and to {first:?} at a");
                    return Err(violation(self.seed, self.now, &node.identity.name, what));
                }
                if node.registry.is_suspended(name) {
                    let what = format!("{name} stays suspended");
                    return Err(violation(self.seed, self.now, &node.identity.name, what));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the fencing epoch of a new owner exceeds that of the last one.
fn note_owner(
    owners: &mut BTreeMap<Arc<str>, (Identity, Address, u64)>,
    name: &Arc<str>,
    (node, process, epoch): (&Identity, Address, u64),
) -> Result<(), String> {
    let last = owners.insert(Arc::clone(name), (node.clone(), process, epoch));
    let Some((last_node, last_process, last_epoch)) = last else { return Ok(()) };
    let is_same = (&last_node, last_process) == (node, process);
    if epoch > last_epoch || is_same && epoch == last_epoch {
        return Ok(());
    }
    Err(format!("{name}: epoch {epoch} comes after {last_epoch}"))
}

fn violation(seed: u64, now: WorldTime, node: &NodeName, what: String) -> Violation {
    Violation { seed, at_ms: now / MS, node: node.to_string(), peer: "all".to_owned(), what }
}
