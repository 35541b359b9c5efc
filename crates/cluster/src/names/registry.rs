//! The registry of a node: claims of its processes, and answers to claims of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::check_name;

use super::directory::Directory;
use super::event::{Minority, NAMES_OF_NODE_MAX, NameEvent, NamesConfig, Owner, RegisterError, RegisterRefused};
use super::grants::{ClaimError, Grants, Refusal};
use super::message::{Content, NameMessage};
use super::own::{OwnName, OwnState};
use crate::identity::{Address, Identity, NodeName};
use crate::wire::WireError;

/// Time until the first attempt after a refused one, in milliseconds.
const RETRY_MS: u64 = 20;
/// How far an epoch may be ahead of the time of day, in milliseconds: 34 years. Each owner of a name adds one.
const EPOCH_AHEAD_MS: u64 = 1 << 40;

/// The registry of one life of a node. Times are those of its sessions.
#[derive(Debug)]
pub struct Registry {
    config: NamesConfig,
    local: Identity,
    /// Time from which on this node grants names to other nodes.
    grants_from: Duration,
    peers: BTreeMap<NodeName, Peer>,
    /// Nodes that were seen and have not left, if the size of the cluster is not given.
    seen: BTreeSet<NodeName>,
    grants: Grants,
    own: BTreeMap<Arc<str>, OwnName>,
    directory: Directory,
    events: VecDeque<NameEvent>,
}

/// A name, its owner, and a word for its state.
pub type ListedName = (Arc<str>, Owner, &'static str);

#[derive(Debug)]
struct Peer {
    identity: Identity,
    /// Time of the last PING that it has answered in this session.
    proof: Option<Duration>,
}

impl Registry {
    /// Creates the registry of a node that starts now.
    pub fn new(now: Duration, config: NamesConfig, local: Identity) -> Self {
        Self {
            config,
            seen: BTreeSet::from([local.name.clone()]),
            local,
            grants_from: now + config.hold,
            peers: BTreeMap::new(),
            grants: Grants::new(config.epoch_floor),
            own: BTreeMap::new(),
            directory: Directory::default(),
            events: VecDeque::new(),
        }
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<NameEvent> {
        self.events.pop_front()
    }

    /// Begins to register a process of this node. An event reports the result.
    ///
    /// # Errors
    /// [`RegisterError`] if the result is known.
    pub fn register(&mut self, now: Duration, name: &str, process: Address) -> Result<(), RegisterError> {
        check_name("process", name)?;
        if self.own.contains_key(name) {
            return Err(RegisterError::Pending);
        }
        if self.own.len() >= NAMES_OF_NODE_MAX {
            return Err(RegisterError::TooMany);
        }
        self.check_majority()?;
        if let Some(owner) = self.directory.owner(name) {
            return Err(RegisterError::Taken { owner: owner.clone() });
        }
        let name: Arc<str> = name.into();
        let until = now + self.config.timeout;
        self.own.insert(Arc::clone(&name), OwnName::new(process, 0, until));
        self.attempt(now, &name);
        self.settle(now, name);
        Ok(())
    }

    /// Gives a name of a process of this node up.
    pub fn unregister(&mut self, name: &str) {
        if let Some((name, own)) = self.own.remove_entry(name) {
            self.release(&name, &own);
        }
    }

    /// Gives up all names of a process that has ended.
    pub fn process_ended(&mut self, process: Address) {
        let of_process = self.own.iter().filter(|(_, own)| own.process == process);
        for name in of_process.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            self.unregister(&name);
        }
    }

    /// Returns the owner of a name.
    ///
    /// # Errors
    /// [`Minority`] if this node cannot know it.
    pub fn owner(&self, now: Duration, name: &str) -> Result<Option<Owner>, Minority> {
        self.check_majority()?;
        if let Some(own) = self.own.get(name).filter(|_| self.owns(now, name)) {
            return Ok(Some(Owner { node: self.local.clone(), process: own.process, epoch: own.epoch }));
        }
        Ok(self.directory.owner(name).cloned())
    }

    /// Returns true if a process of this node owns the name at this moment.
    pub fn owns(&self, now: Duration, name: &str) -> bool {
        self.own.get(name).is_some_and(|own| own.state == OwnState::Owned && self.has_majority_for(now, own))
    }

    /// Returns true if a process of this node has lost a name for the time being.
    pub fn is_suspended(&self, name: &str) -> bool {
        self.own.get(name).is_some_and(|own| own.state == OwnState::Suspended)
    }

    /// Returns the first names in their order, at most `max`, each with its owner and a word for its state, and the number
    /// of all names that are known.
    pub fn list(&self, max: usize) -> (Vec<ListedName>, usize) {
        let own = self.own.iter().map(|(name, own)| {
            let owner = Owner { node: self.local.clone(), process: own.process, epoch: own.epoch };
            let state = match own.state {
                OwnState::Claiming { .. } => "claiming",
                OwnState::Owned => "owned",
                OwnState::Suspended => "suspended",
            };
            (name, owner, state)
        });
        // A name that a process here asks for may still have its owner elsewhere.
        let others = self.directory.iter().filter(|(name, _)| !self.own.contains_key(*name));
        let mut all: Vec<_> = own.chain(others.map(|(name, owner)| (name, owner.clone(), "owned"))).collect();
        let total = all.len();
        all.sort_unstable_by(|one, two| one.0.cmp(two.0));
        all.truncate(max);
        (all.into_iter().map(|(name, owner, state)| (Arc::clone(name), owner, state)).collect(), total)
    }

    /// Returns the number of nodes that this one sees, including itself, and the number of nodes of the cluster.
    pub fn nodes(&self) -> (usize, usize) {
        (1 + self.peers.len(), self.size())
    }

    /// Returns the life of this node.
    pub const fn local(&self) -> &Identity {
        &self.local
    }

    /// Returns the life of a node with which a session is up.
    pub fn peer(&self, node: &NodeName) -> Option<&Identity> {
        self.peers.get(node).map(|peer| &peer.identity)
    }

    /// Returns an error if this node sees no majority of the cluster: half of it or less.
    ///
    /// # Errors
    /// [`Minority`] says how many it sees.
    pub fn check_majority(&self) -> Result<(), Minority> {
        let (seen, size) = (1 + self.peers.len(), self.size());
        if seen >= self.majority() { Ok(()) } else { Err(Minority { seen, size }) }
    }

    fn size(&self) -> usize {
        self.config.size.unwrap_or(self.seen.len())
    }

    fn majority(&self) -> usize {
        self.size() / 2 + 1
    }

    fn has_majority_for(&self, now: Duration, own: &OwnName) -> bool {
        let proof = |node: &NodeName| self.peers.get(node).and_then(|peer| peer.proof);
        own.grants(now, self.config.patience, proof) >= self.majority()
    }

    /// Notes that the session with a node is up.
    pub fn on_up(&mut self, now: Duration, node: &Identity) {
        self.seen.insert(node.name.clone());
        self.peers.insert(node.name.clone(), Peer { identity: node.clone(), proof: None });
        for (name, own) in &mut self.own {
            own.claimed.insert(node.name.clone(), now);
            self.events.push_back(message(&node.name, name, own.epoch, Content::Claim));
            if own.state == OwnState::Owned {
                self.events.push_back(message(&node.name, name, own.epoch, Content::Owned(own.process)));
            }
        }
    }

    /// Notes that the session with a node is down. A node that has left no longer counts as a part of the cluster.
    pub fn on_down(&mut self, now: Duration, node: &Identity, has_left: bool) {
        self.peers.remove(&node.name);
        if has_left {
            self.seen.remove(&node.name);
        }
        self.grants.lose(node, now + self.config.hold);
        self.directory.lose(node);
        for own in self.own.values_mut() {
            own.granted.remove(&node.name);
            own.claimed.remove(&node.name);
            own.refused.remove(&node.name);
        }
        self.settle_all(now);
    }

    /// Notes that a node has answered a PING that was sent at this time.
    pub fn on_proof(&mut self, node: &NodeName, sent: Duration) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.proof = peer.proof.max(Some(sent));
        }
    }

    /// Reads a message of the registry of another node.
    ///
    /// # Errors
    /// [`WireError`] if it is not a message of a registry, or if the node has more names than a node may have.
    pub fn on_message(&mut self, now: Duration, from: &NodeName, payload: Bytes) -> Result<(), WireError> {
        let NameMessage { name, epoch, content } = NameMessage::decode(payload)?;
        let Some(node) = self.peers.get(from).map(|peer| peer.identity.clone()) else { return Ok(()) };
        match content {
            Content::Claim => self.answer(now, &node, &name, epoch)?,
            Content::Release => self.grants.release(&node, &name, epoch),
            Content::Granted => {
                if let Some(own) = self.own.get_mut(&name).filter(|own| own.epoch == epoch)
                    && let Some(sent) = own.claimed.remove(from)
                {
                    own.granted.insert(from.clone(), sent);
                    own.refused.remove(from);
                }
            }
            Content::Refused(refusal) => self.on_refused(now, from, &name, epoch, refusal),
            Content::Owned(process) => {
                let owner = Owner { node, process, epoch };
                self.directory.announce(Arc::clone(&name), owner.clone())?;
                self.on_owner(&name, owner);
            }
            Content::Unowned => self.directory.withdraw(&name, &node, epoch),
        }
        self.settle(now, name);
        Ok(())
    }

    /// Answers the claim of another node.
    fn answer(&mut self, now: Duration, node: &Identity, name: &Arc<str>, epoch: u64) -> Result<(), WireError> {
        let content = match self.grant(now, node, name, epoch) {
            Ok(()) => Content::Granted,
            Err(ClaimError::Refused(refusal)) => Content::Refused(refusal),
            Err(ClaimError::TooMany(error)) => return Err(error),
        };
        self.events.push_back(message(&node.name, name, epoch, content));
        Ok(())
    }

    /// Grants a name to a process of another node or of this one.
    fn grant(&mut self, now: Duration, node: &Identity, name: &Arc<str>, epoch: u64) -> Result<(), ClaimError> {
        // An earlier life of this node may have granted the name. Alone, it has granted nothing to others.
        let is_too_early = now < self.grants_from && self.size() > 1;
        if is_too_early || epoch > self.epoch_max(now) {
            return Err(ClaimError::Refused(Refusal::NotYet));
        }
        self.grants.claim(now, node, name, epoch)
    }

    /// Returns the largest epoch that is accepted now. It grows with time, so that a node that claims it delays the claims
    /// that follow, but never leaves them without an epoch.
    const fn epoch_max(&self, now: Duration) -> u64 {
        self.config.epoch_floor.saturating_add(now.as_millis() as u64).saturating_add(EPOCH_AHEAD_MS)
    }

    fn on_refused(&mut self, now: Duration, from: &NodeName, name: &Arc<str>, epoch: u64, refusal: Refusal) {
        let refusal = match refusal {
            Refusal::Old { last } if last >= self.epoch_max(now) => Refusal::NotYet,
            refusal => refusal,
        };
        let has_majority = self.own.get(name).is_some_and(|own| self.has_majority_for(now, own));
        let refusals_max = self.size() - self.majority();
        let wait = self.wait_before_retry(name, epoch);
        let Some(own) = self.own.get_mut(name).filter(|own| own.epoch == epoch) else { return };
        own.claimed.remove(from);
        if has_majority {
            // Another claim with this epoch would be refused for the same reason.
            if matches!(refusal, Refusal::Old { .. }) {
                own.refused.insert(from.clone());
            }
            return;
        }
        own.refused.insert(from.clone());
        match refusal {
            Refusal::Old { last } => {
                own.epoch = own.epoch.max(last);
                self.attempt(now, name);
            }
            Refusal::Taken | Refusal::NotYet => {
                own.retry_at.get_or_insert(now + wait);
                let is_claim = matches!(own.state, OwnState::Claiming { .. });
                if is_claim && own.refused.len() > refusals_max {
                    // Two registrations at the same time would wait for each other.
                    self.give_back(name);
                }
            }
        }
    }

    /// Returns the time before the next attempt. It grows, and differs from node to node.
    fn wait_before_retry(&self, name: &str, epoch: u64) -> Duration {
        let attempts = self.own.get(name).map_or(0, |own| own.attempts.min(5));
        Duration::from_millis((RETRY_MS << attempts) + (self.local.boot.0 as u64 ^ epoch) % 64)
    }

    /// Does what an owner on another node, which the directory has, means for the name here.
    fn on_owner(&mut self, name: &Arc<str>, owner: Owner) {
        let Some(own) = self.own.get(name).filter(|own| own.owned_epoch < owner.epoch) else { return };
        let (name, process) = (Arc::clone(name), own.process);
        let event = match own.state {
            // Its own grants say that it is not the owner; the next tick suspends it.
            OwnState::Owned => return,
            OwnState::Claiming { .. } => {
                NameEvent::Refused { name: Arc::clone(&name), process, reason: RegisterRefused::Taken { owner } }
            }
            OwnState::Suspended => NameEvent::Lost { name: Arc::clone(&name), process, owner },
        };
        self.unregister(&name);
        self.events.push_back(event);
    }

    /// Claims a name at all nodes, with an epoch that exceeds all that are known.
    fn attempt(&mut self, now: Duration, name: &Arc<str>) {
        let known = self.own.get(name).map_or(0, |own| own.epoch);
        let epoch = self.grants.next_epoch(name).max(known + 1);
        let local = self.local.clone();
        let is_granted_here = self.grant(now, &local, name, epoch).is_ok();
        let wait = self.wait_before_retry(name, epoch);
        let Some(own) = self.own.get_mut(name) else { return };
        (own.epoch, own.is_granted_here) = (epoch, is_granted_here);
        own.granted.clear();
        own.refused.clear();
        own.attempts += 1;
        own.retry_at = (!is_granted_here).then_some(now + wait);
        if !is_granted_here {
            own.refused.insert(local.name);
        }
        for node in self.peers.keys() {
            own.claimed.insert(node.clone(), now);
            self.events.push_back(message(node, name, own.epoch, Content::Claim));
        }
    }

    /// Gives the grants of a claim back.
    fn give_back(&mut self, name: &Arc<str>) {
        let Some(own) = self.own.get_mut(name) else { return };
        own.granted.clear();
        // A grant that is on its way is given back too.
        own.claimed.clear();
        own.is_granted_here = false;
        self.grants.release(&self.local, name, own.epoch);
        for node in self.peers.keys() {
            self.events.push_back(message(node, name, own.epoch, Content::Release));
        }
    }

    /// Tells all nodes that a name is free.
    fn release(&mut self, name: &Arc<str>, own: &OwnName) {
        self.grants.release(&self.local, name, own.epoch);
        for node in self.peers.keys() {
            self.events.push_back(message(node, name, own.epoch, Content::Unowned));
            self.events.push_back(message(node, name, own.epoch, Content::Release));
        }
    }

    /// Does what is due: call it about ten times a second.
    pub fn on_tick(&mut self, now: Duration) {
        let is_due = |own: &OwnName| own.retry_at.is_some_and(|at| at <= now);
        for name in self.own.iter().filter(|(_, own)| is_due(own)).map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>()
        {
            self.attempt(now, &name);
        }
        self.grants.on_tick(now);
        self.top_up(now);
        self.settle_all(now);
    }

    /// Claims owned names at nodes that have not granted them, so that an owner survives the loss of a node.
    fn top_up(&mut self, now: Duration) {
        for (name, own) in self.own.iter_mut().filter(|(_, own)| own.state == OwnState::Owned && own.top_up_at <= now) {
            own.top_up_at = now + self.config.patience / 2;
            for node in self.peers.keys() {
                let is_asked = own.granted.contains_key(node) || own.claimed.contains_key(node);
                if !is_asked && !own.refused.contains(node) {
                    own.claimed.insert(node.clone(), now);
                    self.events.push_back(message(node, name, own.epoch, Content::Claim));
                }
            }
        }
    }

    /// Moves each name of this node to the state that its grants allow.
    fn settle_all(&mut self, now: Duration) {
        for name in self.own.keys().cloned().collect::<Vec<_>>() {
            self.settle(now, name);
        }
    }

    fn settle(&mut self, now: Duration, name: Arc<str>) {
        let Some(own) = self.own.get(&name) else { return };
        let (has_majority, state, process, epoch) =
            (self.has_majority_for(now, own), own.state, own.process, own.epoch);
        match state {
            OwnState::Owned if !has_majority => {
                self.set_state(now, &name, OwnState::Suspended, Content::Unowned);
                self.events.push_back(NameEvent::Suspended { name: Arc::clone(&name), process });
                let owner = self.directory.owner(&name).filter(|owner| owner.epoch > epoch).cloned();
                if let Some(owner) = owner {
                    self.on_owner(&name, owner);
                }
            }
            OwnState::Suspended if has_majority => {
                self.set_state(now, &name, OwnState::Owned, Content::Owned(process));
                self.events.push_back(NameEvent::Resumed { name, process, epoch });
            }
            OwnState::Claiming { .. } if has_majority => {
                self.set_state(now, &name, OwnState::Owned, Content::Owned(process));
                self.events.push_back(NameEvent::Registered { name, process, epoch });
            }
            OwnState::Claiming { until } if until <= now => {
                self.unregister(&name);
                self.events.push_back(NameEvent::Refused { name, process, reason: RegisterRefused::Timeout });
            }
            OwnState::Owned | OwnState::Suspended | OwnState::Claiming { .. } => {}
        }
    }

    fn set_state(&mut self, now: Duration, name: &Arc<str>, state: OwnState, announced: Content) {
        let Some(own) = self.own.get_mut(name) else { return };
        own.state = state;
        match state {
            OwnState::Owned => (own.owned_epoch, own.attempts, own.retry_at) = (own.epoch, 0, None),
            OwnState::Suspended => own.retry_at = Some(now + Duration::from_millis(RETRY_MS)),
            OwnState::Claiming { .. } => {}
        }
        for node in self.peers.keys() {
            self.events.push_back(message(node, name, own.epoch, announced));
        }
    }
}

fn message(to: &NodeName, name: &Arc<str>, epoch: u64, content: Content) -> NameEvent {
    let payload = NameMessage { name: Arc::clone(name), epoch, content }.encode();
    NameEvent::Send { to: to.clone(), payload }
}
