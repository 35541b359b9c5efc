//! The world of a run: what happens when, and the checks at the end.

use std::ops::Add;

use bytes::Bytes;

use super::agenda::Agenda;
use super::clock::{Clock, WorldTime};
use super::ledger::Violation;
use super::network::{Arrival, Network};
use super::node::{Node, Taking, process};
use super::plan::{MS, Plan, Restart, Traffic};
use super::rng::Rng;
use crate::identity::{Address, BootId, NodeName};
use crate::session::{Config, DownReason, Event, Fault};
use crate::wire::Version;

/// Time after the faults within which all sessions are up again and everything has arrived.
const SETTLING: WorldTime = 5_000 * MS;
/// Time within which a node that leaves waits for acknowledgements.
const LEAVING: WorldTime = 1_000 * MS;
/// Maximum number of steps of a run; an ordinary one has about a thousand.
const STEPS_MAX: u64 = 200_000;

/// Figures of a run without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of things that happened.
    pub steps: u64,
    /// Number of messages that arrived.
    pub delivered: u64,
    /// Number of sessions that ended, counted at each end.
    pub downs: u64,
    /// Number of messages that were handed back because something was full.
    pub busy: u64,
    /// Number of dropped packets of earlier sessions.
    pub stale_packets: u64,
}

impl Add for Report {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            delivered: self.delivered + other.delivered,
            downs: self.downs + other.downs,
            busy: self.busy + other.busy,
            stale_packets: self.stale_packets + other.stale_packets,
        }
    }
}

/// Runs a plan, perhaps with a planted bug.
///
/// # Errors
/// [`Violation`] if a node saw what must not happen.
pub fn run(plan: &Plan, fault: Option<Fault>) -> Result<Report, Violation> {
    let mut world = World::new(plan, fault);
    world.plan_everything();
    world.run_until(plan.active)?;
    world.stop_faults()?;
    world.run_until(plan.active + SETTLING)?;
    let stuck = plan.traffic.stuck.map(process);
    world.check_settled(stuck)?;
    if let Some(stuck) = stuck {
        world.release(stuck)?;
        world.run_until(plan.active + 2 * SETTLING)?;
        world.check_settled(None)?;
    }
    Ok(world.report())
}

struct World<'a> {
    plan: &'a Plan,
    traffic: Traffic,
    fault: Option<Fault>,
    names: Vec<NodeName>,
    rng: Rng,
    now: WorldTime,
    steps: u64,
    agenda: Agenda<Happening>,
    network: Network,
    nodes: Vec<Node>,
    /// Figures of lives that have ended.
    past: Report,
}

#[derive(Debug)]
enum Happening {
    Packet { from: usize, to: usize, packet: Bytes },
    Tick { node: usize, boot: BootId, peer: usize },
    Link { node: usize, peer: usize, is_up: bool },
    Cut { from: usize, to: usize, is_cut: bool },
    Send { node: usize },
    Take { node: usize, boot: BootId, peer: usize, taking: Taking },
    Restart(Restart),
    Leave { node: usize },
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, fault: Option<Fault>) -> Self {
        let names = ["a", "b", "c"].iter().filter_map(|name| NodeName::new(name).ok()).take(plan.nodes).collect();
        let mut world = Self {
            plan,
            traffic: plan.traffic.clone(),
            fault,
            names,
            rng: Rng::new(plan.seed ^ 0x5bd1_e995),
            now: 0,
            steps: 0,
            agenda: Agenda::default(),
            network: Network::new(plan.nodes, plan.faults.clone()),
            nodes: Vec::new(),
            past: Report::default(),
        };
        world.nodes = (0..plan.nodes).map(|index| world.life(index)).collect();
        world
    }

    /// Creates a new life of a node.
    fn life(&mut self, index: usize) -> Node {
        let config = Config {
            versions: (Version::OLDEST, self.plan.newest[index]),
            fault: self.fault,
            ..self.plan.config.clone()
        };
        let boot = BootId(u128::from(self.rng.next()));
        let clock = Clock { started: self.now, skew: self.plan.skew[index] };
        Node::new(&self.names[index], boot, clock, &self.names, &config)
    }

    fn plan_everything(&mut self) {
        let (plan, active) = (self.plan, self.plan.active);
        for (node, peer) in pairs(plan.nodes) {
            let at = self.rng.between(0, 5 * MS);
            self.agenda.add(at, Happening::Link { node, peer, is_up: true });
        }
        for node in 0..plan.nodes {
            for _ in 0..plan.traffic.turns {
                let at = self.rng.between(0, active);
                self.agenda.add(at, Happening::Send { node });
            }
        }
        for cut in &plan.faults.partitions {
            let (a, b) = cut.nodes;
            let ways = if cut.is_one_way { &[(a, b)][..] } else { &[(a, b), (b, a)] };
            for (from, to) in ways {
                self.agenda.add(cut.from, Happening::Cut { from: *from, to: *to, is_cut: true });
                self.agenda.add(cut.to, Happening::Cut { from: *from, to: *to, is_cut: false });
            }
            for (node, peer) in [(a, b), (b, a)] {
                let told = cut.is_told.then(|| cut.from + self.rng.between(1, 500) * MS);
                if let Some(told) = told.filter(|told| *told < cut.to) {
                    self.agenda.add(told, Happening::Link { node, peer, is_up: false });
                    let healed = cut.to + self.rng.between(1, 200) * MS;
                    self.agenda.add(healed, Happening::Link { node, peer, is_up: true });
                }
            }
        }
        for restart in &plan.faults.restarts {
            self.agenda.add(restart.at, Happening::Restart(*restart));
        }
        if let Some((node, at)) = plan.faults.leave {
            self.agenda.add(at, Happening::Leave { node });
        }
    }

    fn run_until(&mut self, end: WorldTime) -> Result<(), Violation> {
        while let Some((at, what)) = self.agenda.take_until(end) {
            self.now = at;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(self.violation(0, 0, "the nodes never rest".to_owned()));
            }
            self.step(what)?;
        }
        self.now = end;
        Ok(())
    }

    fn step(&mut self, what: Happening) -> Result<(), Violation> {
        let now = self.now;
        match what {
            Happening::Packet { from, to, packet } => {
                let local = self.nodes[to].clock.read(now);
                self.nodes[to].peers[from].session.on_packet(local, packet);
                self.settle(to, from)
            }
            Happening::Tick { node, boot, peer } => {
                let life = &mut self.nodes[node];
                let (local, peer_state) = (life.clock.read(now), &mut life.peers[peer]);
                if life.identity.boot != boot || peer_state.tick_at != Some(now) {
                    return Ok(());
                }
                peer_state.tick_at = None;
                peer_state.session.on_tick(local);
                self.settle(node, peer)
            }
            Happening::Link { node, peer, is_up } => {
                // The link is told that it is up only if no cut holds, and the peer has not left.
                let is_up = is_up && !self.network.is_cut(node, peer) && !self.nodes[peer].has_left;
                self.tell_link(node, peer, is_up)
            }
            Happening::Cut { from, to, is_cut } => {
                self.network.set_cut(from, to, is_cut);
                Ok(())
            }
            Happening::Send { node } => {
                let peer = self.other(node);
                let local = self.nodes[node].clock.read(now);
                let own = self.nodes[node].identity.boot;
                let peer_state = &mut self.nodes[node].peers[peer];
                peer_state.send_some(local, own, &self.traffic, &mut self.rng);
                self.settle(node, peer)
            }
            Happening::Take { node, boot, peer, taking } => {
                if self.nodes[node].identity.boot != boot {
                    return Ok(());
                }
                let local = self.nodes[node].clock.read(now);
                self.nodes[node].peers[peer].take(local, taking);
                self.settle(node, peer)
            }
            Happening::Restart(restart) => {
                self.restart(restart);
                Ok(())
            }
            Happening::Leave { node } => self.leave(node),
        }
    }

    fn tell_link(&mut self, node: usize, peer: usize, is_up: bool) -> Result<(), Violation> {
        let local = self.nodes[node].clock.read(self.now);
        self.nodes[node].peers[peer].on_link(local, is_up);
        self.settle(node, peer)
    }

    fn other(&mut self, node: usize) -> usize {
        (node + self.rng.between(1, self.plan.nodes as u64 - 1) as usize) % self.plan.nodes
    }

    fn restart(&mut self, restart: Restart) {
        let node = restart.node;
        if self.nodes[node].has_left {
            return;
        }
        self.past = self.past + self.figures_of(node);
        self.nodes[node] = self.life(node);
        for peer in (0..self.plan.nodes).filter(|peer| *peer != node) {
            let up_at = self.now + self.rng.between(1, 100) * MS;
            self.agenda.add(up_at, Happening::Link { node, peer, is_up: true });
            if let Some(after) = restart.told_after {
                self.agenda.add(self.now + after, Happening::Link { node: peer, peer: node, is_up: false });
                let up_at = self.now + after + self.rng.between(1, 100) * MS;
                self.agenda.add(up_at, Happening::Link { node: peer, peer: node, is_up: true });
            }
        }
    }

    fn leave(&mut self, node: usize) -> Result<(), Violation> {
        self.nodes[node].has_left = true;
        let clock = self.nodes[node].clock;
        for peer in (0..self.plan.nodes).filter(|peer| *peer != node) {
            let session = &mut self.nodes[node].peers[peer].session;
            session.leave(clock.read(self.now), clock.read(self.now + LEAVING));
            self.settle(node, peer)?;
            let told = self.now + 2 * LEAVING + self.rng.between(1, 500) * MS;
            self.agenda.add(told, Happening::Link { node: peer, peer: node, is_up: false });
        }
        Ok(())
    }

    /// Takes events and packets of a session, and plans its next tick.
    fn settle(&mut self, node: usize, peer: usize) -> Result<(), Violation> {
        let (now, plan) = (self.now, self.plan);
        let (own, clock) = (self.nodes[node].identity.boot, self.nodes[node].clock);
        let local = clock.read(now);
        while let Some(event) = self.nodes[node].peers[peer].session.poll_event() {
            if let Event::Left { unacknowledged } = event {
                self.check_left(node, peer, unacknowledged)?;
            }
            if event == Event::Down(DownReason::OtherEpoch) {
                self.check_other_epoch(node, peer)?;
            }
            let context = (&self.traffic, plan.config.target_messages, &mut self.rng);
            let taking = self.nodes[node].peers[peer].on_event(local, own, event, context);
            let taking = taking.map_err(|what| self.violation(node, peer, what))?;
            match taking {
                Some(taking) if taking.after == 0 => self.nodes[node].peers[peer].take(local, taking),
                Some(taking) => self.agenda.add(now + taking.after, Happening::Take { node, boot: own, peer, taking }),
                None => {}
            }
        }
        while let Some(transmit) = self.nodes[node].peers[peer].session.poll_transmit() {
            let agenda = &mut self.agenda;
            let arrives = |arrival: Arrival| {
                let Arrival { at, from, to, packet } = arrival;
                agenda.add(at, Happening::Packet { from, to, packet });
            };
            self.network.send(now, (node, peer), transmit.lane, transmit.packet, &mut self.rng, arrives);
        }
        let peer_state = &mut self.nodes[node].peers[peer];
        let deadline = peer_state.session.deadline().map(|deadline| clock.when(deadline).max(now + 1));
        if let Some(at) = deadline.filter(|at| peer_state.tick_at.is_none_or(|planned| *at < planned)) {
            peer_state.tick_at = Some(at);
            self.agenda.add(at, Happening::Tick { node, boot: own, peer });
        }
        Ok(())
    }

    /// Ends all faults, and tells all nodes that they see each other.
    fn stop_faults(&mut self) -> Result<(), Violation> {
        self.network.calm_down();
        let is_late = |what: &Happening| {
            matches!(what, Happening::Cut { .. } | Happening::Link { is_up: false, .. } | Happening::Restart(_))
        };
        let left = self.nodes.iter().map(|node| node.has_left).collect::<Vec<_>>();
        let is_kept = |what: &Happening| matches!(what, Happening::Link { peer, is_up: false, .. } if left[*peer]);
        self.agenda.retain(|what| !is_late(what) || is_kept(what));
        for (node, peer) in pairs(self.plan.nodes) {
            if !left[peer] {
                self.tell_link(node, peer, true)?;
            }
        }
        Ok(())
    }

    /// Lets the stuck processes take their messages from now on.
    fn release(&mut self, stuck: Address) -> Result<(), Violation> {
        self.traffic.stuck = None;
        for (node, peer) in pairs(self.plan.nodes) {
            let local = self.nodes[node].clock.read(self.now);
            self.nodes[node].peers[peer].release(local, stuck);
            self.settle(node, peer)?;
        }
        Ok(())
    }

    /// Checks that all sessions are up, no sender waits, and everything has arrived, except for one process.
    fn check_settled(&self, except: Option<Address>) -> Result<(), Violation> {
        for (node, peer) in pairs(self.plan.nodes) {
            let (this, other) = (&self.nodes[node].peers[peer], &self.nodes[peer].peers[node]);
            let is_absent = self.nodes[node].has_left || self.nodes[peer].has_left;
            let found = match (&this.ledger.current, &other.ledger.current) {
                (None, _) if is_absent => Ok(()),
                (Some(_), _) if is_absent => Err("a session is up with a node that has left".to_owned()),
                (Some(record), Some(other)) if record.is_other_end_of(other) => record.check_arrived(other, except),
                _ => Err("the session is down although nothing is in its way".to_owned()),
            };
            found.map_err(|what| self.violation(node, peer, what))?;
            if let Some((from, to)) = this.waiting(except) {
                return Err(self.violation(node, peer, format!("{from} waits for ever for room at {to}")));
            }
            if let Some((_, reason)) = this.ledger.ended.as_ref().filter(|_| self.plan.is_calm() && !is_absent) {
                return Err(self.violation(node, peer, format!("a session ended although nothing happened: {reason}")));
            }
        }
        Ok(())
    }

    /// Checks that the other end of a session has ended it, since this end saw another epoch.
    fn check_other_epoch(&self, node: usize, peer: usize) -> Result<(), Violation> {
        let (this, other) = (&self.nodes[node].peers[peer].ledger, &self.nodes[peer].peers[node].ledger);
        let is_up = this.current.iter().zip(&other.current).any(|(this, other)| this.is_other_end_of(other));
        let is_same_life = this.current.iter().any(|this| this.peer.identity == self.nodes[peer].identity);
        if is_up && is_same_life {
            return Err(self.violation(node, peer, "a session ends that is up at the other end".to_owned()));
        }
        Ok(())
    }

    /// Checks that all of a node that has left arrived, if all was acknowledged.
    fn check_left(&self, node: usize, peer: usize, unacknowledged: u64) -> Result<(), Violation> {
        if unacknowledged > 0 && self.plan.leaves_cleanly() {
            return Err(self.violation(node, peer, format!("the node leaves with {unacknowledged} frames in doubt")));
        }
        if unacknowledged > 0 {
            return Ok(());
        }
        let (this, other) = (&self.nodes[node].peers[peer].ledger, &self.nodes[peer].peers[node].ledger);
        let Some((ended, DownReason::Left)) = &this.ended else { return Ok(()) };
        let others = other.current.iter().chain(other.ended.as_ref().map(|(record, _)| record));
        match others.into_iter().find(|other| ended.is_other_end_of(other)) {
            Some(other) => ended.check_arrived(other, None).map_err(|what| self.violation(node, peer, what)),
            None => Ok(()),
        }
    }

    fn violation(&self, node: usize, peer: usize, what: String) -> Violation {
        let name = |index: usize| self.names[index].to_string();
        Violation { seed: self.plan.seed, at_ms: self.now / MS, node: name(node), peer: name(peer), what }
    }

    fn report(&self) -> Report {
        let lives = (0..self.plan.nodes).map(|node| self.figures_of(node));
        lives.fold(Report { steps: self.steps, ..self.past }, Report::add)
    }

    /// Returns the figures of the present life of a node.
    fn figures_of(&self, node: usize) -> Report {
        let mut report = Report::default();
        for peer in (0..self.plan.nodes).filter(|peer| *peer != node) {
            let peer = &self.nodes[node].peers[peer];
            let totals = peer.session.stats().totals;
            report.delivered += peer.ledger.delivered;
            report.downs += peer.ledger.downs;
            report.busy += totals.busy;
            report.stale_packets += totals.stale_packets;
        }
        report
    }
}

/// Returns all pairs of different nodes, in both orders.
fn pairs(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |node| (0..nodes).filter(move |peer| *peer != node).map(move |peer| (node, peer)))
}
