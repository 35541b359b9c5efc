//! Runtimes that are nodes of a network in memory, which a test can cut and heal.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::thread;

use parking_lot::{Condvar, Mutex};
use rusm_runtime::embed::remote::{Address, Delivered, Frame, Identity, Malformed, Network, Refused, Remote, attach};
use rusm_runtime::remote::Exports;
use rusm_runtime::{Config, Pid, Runtime};

/// Number of messages to one process that may be on the way.
pub(crate) const CREDIT: u32 = 8;

/// A node: a runtime with its network.
pub(crate) struct Node {
    pub(crate) runtime: Runtime,
    pub(crate) hub: Arc<Hub>,
}

/// Network of one node.
pub(crate) struct Hub {
    identity: Identity,
    remote: OnceLock<Remote>,
    /// Frames to each node.
    links: Mutex<HashMap<u32, Arc<Direction>>>,
}

/// Frames from one node to another in one connection.
pub(crate) struct Direction {
    to: Weak<Hub>,
    /// Index of the sending node at the receiving one.
    sender: u32,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a frame is delivered, or while the connection is lost.
    delivering: Mutex<()>,
}

#[derive(Default)]
struct State {
    closed: bool,
    queue: VecDeque<Frame>,
    in_flight: HashMap<Address, u32>,
    waiting: HashMap<Address, Vec<Waker>>,
}

impl Node {
    pub(crate) fn start(name: &str, boot_id: u128, exports: Exports) -> Self {
        Self::with(name, boot_id, Config { schedulers: 2, exports, ..Config::default() })
    }

    pub(crate) fn with(name: &str, boot_id: u128, config: Config) -> Self {
        let runtime = Runtime::start(config).unwrap();
        let identity = Identity { name: name.into(), boot_id };
        let hub = Arc::new(Hub { identity: identity.clone(), remote: OnceLock::new(), links: Mutex::default() });
        let network: Arc<dyn Network> = Arc::clone(&hub) as Arc<dyn Network>;
        hub.remote.set(attach(&runtime, identity, network).unwrap()).unwrap();
        Self { runtime, hub }
    }

    /// Connects two nodes, and waits until both know it.
    pub(crate) fn connect(&self, other: &Self) {
        self.connect_stepwise(other, false);
        crate::eventually::eventually("the connection", || {
            [(self, other), (other, self)]
                .iter()
                .all(|(one, two)| one.runtime.nodes().iter().any(|up| up.identity == two.hub.identity))
        });
    }

    /// Connects two nodes; with `manual`, frames wait for [`Node::step_to`].
    pub(crate) fn connect_stepwise(&self, other: &Self, manual: bool) {
        let (here, there) = (self.index_of(other), other.index_of(self));
        let forth = Direction::new(&other.hub, there);
        let back = Direction::new(&self.hub, here);
        self.hub.links.lock().insert(here, Arc::clone(&forth));
        other.hub.links.lock().insert(there, Arc::clone(&back));
        self.hub.remote().connected(here);
        other.hub.remote().connected(there);
        for direction in [forth, back] {
            if !manual {
                thread::spawn(move || while direction.step_waiting() {});
            }
        }
    }

    /// Cuts the connection between two nodes. Frames on the way are lost.
    pub(crate) fn cut(&self, other: &Self) {
        for (one, two) in [(self, other), (other, self)] {
            one.lose(two);
        }
    }

    /// Cuts one side of the connection: this node finds that it has lost `other`.
    pub(crate) fn lose(&self, other: &Self) {
        let (here, there) = (self.index_of(other), other.index_of(self));
        let incoming = other.hub.links.lock().get(&there).cloned();
        if let Some(incoming) = &incoming {
            incoming.close();
        }
        let lost = || self.hub.remote().lost(here);
        match &incoming {
            Some(incoming) => {
                let _delivering = incoming.delivering.lock();
                lost();
            }
            None => lost(),
        }
        let outgoing = self.hub.links.lock().remove(&here);
        if let Some(outgoing) = outgoing {
            outgoing.close();
        }
    }

    /// Delivers the next frame to `other`; false if there is none.
    pub(crate) fn step_to(&self, other: &Self) -> bool {
        let direction = self.hub.links.lock().get(&self.index_of(other)).cloned();
        direction.is_some_and(|direction| direction.step())
    }

    /// Delivers a frame as if `other` had sent it.
    pub(crate) fn deliver_from(&self, other: &Self, frame: Frame) -> Result<Delivered, Malformed> {
        self.hub.remote().deliver(self.index_of(other), frame)
    }

    pub(crate) fn index_of(&self, other: &Self) -> u32 {
        self.hub.remote().index_of(&other.hub.identity).unwrap()
    }

    /// Returns the pid that processes of this node use for a process of `other`.
    pub(crate) fn pid_on(&self, other: &Self, pid: Pid) -> Pid {
        Pid::from_parts(self.index_of(other), pid.slot(), pid.generation())
    }
}

impl Hub {
    fn remote(&self) -> &Remote {
        self.remote.get().unwrap()
    }

    fn link(&self, node: u32) -> Option<Arc<Direction>> {
        self.links.lock().get(&node).cloned()
    }
}

impl Network for Hub {
    fn send(&self, node: u32, frame: Frame) -> Result<(), Refused> {
        let Some(link) = self.link(node) else { return Err(Refused::NoConnection(frame)) };
        let mut state = link.state.lock();
        if state.closed {
            return Err(Refused::NoConnection(frame));
        }
        if frame.kind.needs_credit() {
            let in_flight = state.in_flight.entry(frame.to).or_default();
            if *in_flight >= CREDIT {
                return Err(Refused::Busy(frame));
            }
            *in_flight += 1;
        }
        state.queue.push_back(frame);
        link.changed.notify_all();
        Ok(())
    }

    fn wait_for_room(&self, node: u32, to: Address, _bytes: usize, sender: &Waker) -> bool {
        let Some(link) = self.link(node) else { return false };
        let mut state = link.state.lock();
        if state.closed || state.in_flight.get(&to).is_none_or(|in_flight| *in_flight < CREDIT) {
            return false;
        }
        state.waiting.entry(to).or_default().push(sender.clone());
        true
    }

    fn release(&self, node: u32, to: Address, frames: u32, _: u64) {
        // The credit belongs to the frames that the other node has sent here.
        let Some(link) = self.link(node) else { return };
        let Some(other) = link.to.upgrade() else { return };
        let incoming = other.link(link.sender);
        if let Some(incoming) = incoming {
            incoming.give_back(to, frames);
        }
    }
}

impl Direction {
    fn new(to: &Arc<Hub>, sender: u32) -> Arc<Self> {
        Arc::new(Self {
            to: Arc::downgrade(to),
            sender,
            state: Mutex::default(),
            changed: Condvar::new(),
            delivering: Mutex::new(()),
        })
    }

    fn close(&self) {
        let waiting: Vec<Waker> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.queue.clear();
            state.waiting.drain().flat_map(|(_, waiting)| waiting).collect()
        };
        self.changed.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for a frame and delivers it; false if the connection is closed.
    fn step_waiting(&self) -> bool {
        {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| !state.closed && state.queue.is_empty());
        }
        self.step() || !self.state.lock().closed
    }

    fn step(&self) -> bool {
        let _delivering = self.delivering.lock();
        let frame = {
            let mut state = self.state.lock();
            if state.closed { None } else { state.queue.pop_front() }
        };
        let (Some(frame), Some(to)) = (frame, self.to.upgrade()) else { return false };
        let (has_credit, target) = (frame.kind.needs_credit(), frame.to);
        let delivered = to.remote().deliver(self.sender, frame).unwrap();
        if has_credit && delivered == Delivered::Accepted {
            self.give_back(target, 1);
        }
        true
    }

    fn give_back(&self, to: Address, frames: u32) {
        let waiting = {
            let mut state = self.state.lock();
            if let Some(in_flight) = state.in_flight.get_mut(&to) {
                *in_flight -= frames;
            }
            state.waiting.remove(&to).unwrap_or_default()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
