//! The connection to one peer: its session, its sender thread, and the senders that wait for room.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rusm_runtime::embed::remote::{Address as ProcessAddress, Delivered, Frame, Kind as FrameKind, Refused};
use rustc_hash::FxHashMap;

use super::environment::{Environment, runtime_identity};
use super::log_budget::LogBudget;
use super::vitals::{PeerVitals, VitalsMessage};
use crate::identity::{Address, BootId, Epoch, Identity, NodeName};
use crate::link::LinkError;
use crate::session::{DownReason, Event, Incoming, Outgoing, SendErrorReason, Session, Transmit};
use crate::wire::Kind;

/// Maximum time between two ticks of a session.
const TICK_MAX: Duration = Duration::from_millis(50);
/// Time between two ticks of the registry of names.
const NAMES_TICK: Duration = Duration::from_millis(100);
/// Number of events that are taken at once.
const EVENTS_AT_ONCE: usize = 128;
/// Time after which a peer that has gone is forgotten.
const FORGET_AFTER: Duration = Duration::from_mins(10);
/// Maximum number of frames in the window, and their length in bytes, with which a sender transmits its message itself.
/// The link takes them without waiting.
const AT_ONCE_FRAMES: usize = 64;
const AT_ONCE_BYTES: usize = 32 << 10;
/// Maximum number of packets that a sender transmits.
const AT_ONCE_PACKETS: usize = 4;
/// Time since the last message with which a sender transmits its message itself: messages that follow each other sooner are
/// cheaper in common packets.
const AT_ONCE_AFTER: Duration = Duration::from_micros(50);

/// The connection to a peer, through all of its lives.
pub(super) struct Connection {
    pub(super) peer: NodeName,
    pub(super) session: Mutex<Session>,
    /// Wakes the sender thread.
    ready: Condvar,
    /// True while the sender thread waits; written under the lock of the session.
    sender_waits: AtomicBool,
    /// Time of the last message, in nanoseconds of the node's clock; written under the lock of the session.
    sent_ns: AtomicU64,
    /// Held by the thread that gives packets to the link, which therefore transmits them in order.
    transmitting: Mutex<()>,
    /// Held by the thread that gives events to the runtime, which therefore sees them in order.
    delivering: Mutex<()>,
    /// Index of the life that is connected, at the runtime; 0 for none.
    pub(super) node: AtomicU32,
    epoch: AtomicU64,
    waiting: Mutex<Waiting>,
    stopped: AtomicBool,
    /// Set when this node has left the peer: the number of frames that were not acknowledged.
    pub(super) left: OnceLock<u64>,
    /// Description that the peer has sent of itself.
    pub(super) vitals: Mutex<PeerVitals>,
    log: Mutex<LogBudget>,
    /// Time at which this connection began.
    pub(super) began_at: Duration,
    /// The node no longer knows the peer: another connection may begin. Written under the lock of the session.
    is_forgotten: AtomicBool,
    /// Last known life of the peer, and the time at which it was connected or lost.
    pub(super) last: Mutex<Option<(BootId, Duration)>>,
}

/// Senders that wait for room.
#[derive(Default)]
struct Waiting(FxHashMap<ProcessAddress, Vec<Waker>>);

impl Connection {
    pub(super) fn new(session: Session, now: Duration) -> Self {
        Self {
            peer: session.peer().clone(),
            session: Mutex::new(session),
            ready: Condvar::new(),
            sender_waits: AtomicBool::new(false),
            sent_ns: AtomicU64::new(0),
            transmitting: Mutex::new(()),
            delivering: Mutex::new(()),
            node: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            waiting: Mutex::default(),
            stopped: AtomicBool::new(false),
            left: OnceLock::new(),
            vitals: Mutex::default(),
            log: Mutex::default(),
            began_at: now,
            is_forgotten: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    /// Sends packets and ticks, until the node stops, or forgets the peer: it is asked to, some time after the peer has
    /// gone.
    pub(super) fn run(&self, environment: &Weak<Environment>, forget: impl Fn(&Self)) {
        let mut names_at = Duration::ZERO;
        let mut gone_at = None;
        while let Some(environment) = environment.upgrade().filter(|_| !self.stopped.load(Ordering::Acquire)) {
            self.drain(&environment);
            if environment.now() >= names_at {
                names_at = environment.now() + NAMES_TICK;
                let proof = self.session.lock().proof();
                environment.names().on_tick(&self.peer, proof);
                if self.vitals.lock().takes_question(environment.now(), environment.watched()) {
                    self.send_signal(environment.now(), Kind::VITALS, VitalsMessage::Ask.encode());
                }
            }
            gone_at = if self.session.lock().is_linked() { None } else { gone_at.or_else(|| Some(environment.now())) };
            if !self.transmit(&environment) {
                self.wait(&environment);
                // On a busy machine, processes that are about to send more do so first: fewer and longer packets.
                std::thread::yield_now();
            }
            if gone_at.is_some_and(|at| environment.now() >= at + FORGET_AFTER) {
                forget(self);
            }
        }
        if self.is_forgotten()
            && let Some(environment) = environment.upgrade()
        {
            environment.link.forget(&self.peer);
        }
    }

    /// Ends this connection if the session allows it. Returns false if not.
    pub(super) fn forget_if(&self, may_forget: impl FnOnce(&Session) -> bool) -> bool {
        let session = self.session.lock();
        if !may_forget(&session) {
            return false;
        }
        self.is_forgotten.store(true, Ordering::Release);
        self.stopped.store(true, Ordering::Release);
        self.ready.notify_all();
        true
    }

    /// Returns true if the node no longer knows the peer by this connection.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
    }

    /// Writes a line that the peer has caused, unless it has caused too many.
    fn log(&self, environment: &Environment, write: impl FnOnce(Option<u64>)) {
        let line = self.log.lock().take(environment.now());
        if let Some(line) = line {
            write(line.dropped);
        }
    }

    /// Ends the session of a peer that sends what no node sends. What arrived with it may be wrong as well, without a word.
    fn break_session(&self, environment: &Environment, error: &dyn std::error::Error) {
        {
            let mut session = self.session.lock();
            if !session.is_up() {
                return;
            }
            session.break_off(environment.now());
        }
        self.log(environment, |dropped| {
            tracing::error!(peer = %self.peer, error = %error, dropped, "a node broke the protocol: its connection is closed");
        });
    }

    /// Gives the next packet to the link. Returns false without a packet.
    fn transmit(&self, environment: &Environment) -> bool {
        let _transmitting = self.transmitting.lock();
        let transmit = {
            let mut session = self.session.lock();
            tick(&mut session, environment.now());
            session.poll_transmit()
        };
        let is_some = transmit.is_some();
        if let Some(Transmit { lane, packet }) = transmit {
            self.note_sent(environment.link.send(&self.peer, lane, packet));
        }
        is_some
    }

    fn note_sent(&self, sent: Result<(), LinkError>) {
        if let Err(error) = sent
            && !matches!(error, LinkError::NotConnected(_) | LinkError::Closed)
        {
            tracing::debug!(peer = %self.peer, %error, "a packet was not sent");
        }
    }

    /// Waits for a packet or the next deadline.
    fn wait(&self, environment: &Environment) {
        let mut session = self.session.lock();
        if session.has_transmit() || self.stopped.load(Ordering::Acquire) {
            return;
        }
        let left = session.deadline().map_or(TICK_MAX, |deadline| deadline.saturating_sub(environment.now()));
        self.sender_waits.store(true, Ordering::Relaxed);
        self.ready.wait_for(&mut session, left.clamp(Duration::from_micros(200), TICK_MAX));
        self.sender_waits.store(false, Ordering::Relaxed);
    }

    /// Transmits what a process has just sent from its own thread, if the sender thread waits and little is under way: a call
    /// is answered sooner without the switch to that thread. Otherwise it wakes the sender thread.
    fn transmit_at_once(&self, environment: &Environment, now: Duration, mut session: MutexGuard<'_, Session>) {
        let now_ns = now.as_nanos() as u64;
        // Relaxed: the session is locked.
        let since_last = now_ns.saturating_sub(self.sent_ns.swap(now_ns, Ordering::Relaxed));
        let (frames, bytes) = session.in_flight();
        let is_idle = self.sender_waits.load(Ordering::Relaxed)
            && since_last >= AT_ONCE_AFTER.as_nanos() as u64
            && frames <= AT_ONCE_FRAMES
            && bytes <= AT_ONCE_BYTES;
        let transmitting =
            if is_idle && environment.link.sends_at_once() { self.transmitting.try_lock() } else { None };
        let Some(_transmitting) = transmitting else { return self.wake_sender(&session) };
        tick(&mut session, now);
        let transmits: [Option<Transmit>; AT_ONCE_PACKETS] = std::array::from_fn(|_| session.poll_transmit());
        self.wake_sender(&session);
        drop(session);
        for Transmit { lane, packet } in transmits.into_iter().flatten() {
            self.note_sent(environment.link.send_at_once(&self.peer, lane, packet));
        }
    }

    /// Ends the sender thread.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _session = self.session.lock();
        self.ready.notify_all();
    }

    /// Lets the link or a timer change the session, and gives its events to the runtime.
    pub(super) fn with_session(&self, environment: &Environment, change: impl FnOnce(&mut Session, Duration)) {
        {
            let mut session = self.session.lock();
            change(&mut session, environment.now());
            self.wake_sender(&session);
        }
        self.drain(environment);
    }

    /// Wakes the sender thread if there is a packet and it waits. The session is locked.
    fn wake_sender(&self, session: &Session) {
        if self.sender_waits.load(Ordering::Relaxed) && session.has_transmit() {
            self.ready.notify_one();
        }
    }

    /// Gives events to the runtime, unless another thread does.
    fn drain(&self, environment: &Environment) {
        loop {
            let Some(delivering) = self.delivering.try_lock() else { return };
            loop {
                let events: Vec<Event> = {
                    let mut session = self.session.lock();
                    let events: Vec<Event> = std::iter::from_fn(|| session.poll_event()).take(EVENTS_AT_ONCE).collect();
                    // Before the session is unlocked: a leave that finds it closed and without events reads this number at
                    // once.
                    for event in &events {
                        if let Event::Left { unacknowledged } = event {
                            self.left.set(*unacknowledged).ok();
                        }
                    }
                    events
                };
                if events.is_empty() {
                    break;
                }
                environment.remote().deliver_together(|| self.handle(environment, events));
            }
            drop(delivering);
            // An event may have come after the last look, while another thread found the lock taken.
            if !self.session.lock().has_event() {
                return;
            }
        }
    }

    fn handle(&self, environment: &Environment, events: Vec<Event>) {
        let mut consumed: Vec<(Epoch, Address, u32, u64)> = Vec::new();
        for event in events {
            match event {
                Event::Up(info) => self.up(environment, &info.identity, info.epoch),
                Event::Deliver(incoming) => {
                    let (epoch, to, bytes) = (incoming.epoch, incoming.to, incoming.payload.len() as u64);
                    let is_signal = incoming.kind.is_signal();
                    if self.deliver(environment, incoming) == Delivered::Accepted && !is_signal {
                        match consumed.last_mut() {
                            Some(last) if (last.0, last.1) == (epoch, to) => {
                                (last.2, last.3) = (last.2 + 1, last.3 + bytes);
                            }
                            _ => consumed.push((epoch, to, 1, bytes)),
                        }
                    }
                }
                Event::Room { to } => self.wake(to.map(process)),
                Event::Down(reason) => {
                    self.log(environment, |dropped| {
                        if reason == DownReason::Left {
                            tracing::info!(peer = %self.peer, dropped, "the connection to a node is over: one of them left");
                        } else {
                            tracing::warn!(peer = %self.peer, %reason, dropped, "the connection to a node is lost");
                        }
                    });
                    if let Some((_, changed_at)) = &mut *self.last.lock() {
                        *changed_at = environment.now();
                    }
                    let node = self.node.swap(0, Ordering::AcqRel);
                    environment.names().on_down(&self.peer, reason == DownReason::Left);
                    environment.remote().lost(node);
                    self.wake(None);
                }
                Event::Refused(reason) => self.log(environment, |dropped| {
                    tracing::error!(peer = %self.peer, %reason, dropped, "a node cannot join");
                }),
                Event::Left { unacknowledged } => {
                    tracing::info!(peer = %self.peer, unacknowledged, "left a node");
                }
            }
        }
        if !consumed.is_empty() {
            let mut session = self.session.lock();
            for (epoch, to, messages, bytes) in consumed {
                session.consumed(environment.now(), epoch, to, messages, bytes);
            }
            self.wake_sender(&session);
        }
    }

    fn up(&self, environment: &Environment, identity: &Identity, epoch: Epoch) {
        match environment.remote().index_of(&runtime_identity(identity)) {
            Ok(node) => {
                self.epoch.store(epoch.0, Ordering::Release);
                self.node.store(node, Ordering::Release);
                self.log(environment, |dropped| {
                    tracing::info!(peer = %self.peer, boot = %identity.boot, dropped, "connected to a node");
                });
                *self.last.lock() = Some((identity.boot, environment.now()));
                environment.remote().connected(node);
                self.send_vitals(environment);
                environment.names().on_up(identity);
            }
            Err(error) => self.log(environment, |dropped| {
                tracing::error!(peer = %self.peer, %error, dropped, "a node cannot be used");
            }),
        }
    }

    fn deliver(&self, environment: &Environment, incoming: Incoming) -> Delivered {
        if incoming.kind == Kind::NAME {
            if let Err(error) = environment.names().on_message(&self.peer, incoming.payload) {
                self.break_session(environment, &error);
            }
            return Delivered::Accepted;
        }
        if incoming.kind == Kind::VITALS {
            self.on_vitals(environment, incoming.payload);
            return Delivered::Accepted;
        }
        let node = self.node.load(Ordering::Acquire);
        let Some(kind) = FrameKind::from_byte(incoming.kind.0) else {
            // A newer node sends kinds that change something only to nodes that know them.
            tracing::debug!(peer = %self.peer, kind = ?incoming.kind, "a message of an unknown kind was dropped");
            return Delivered::Accepted;
        };
        let frame = Frame { kind, from: process(incoming.from), to: process(incoming.to), payload: incoming.payload };
        match environment.remote().deliver(node, frame) {
            Ok(delivered) => delivered,
            Err(error) => {
                self.break_session(environment, &error);
                Delivered::Accepted
            }
        }
    }

    fn on_vitals(&self, environment: &Environment, payload: Bytes) {
        let now = environment.now();
        match VitalsMessage::decode(payload) {
            Ok(Some(VitalsMessage::Ask)) => {
                if self.vitals.lock().takes_answer(now) {
                    self.send_vitals(environment);
                }
            }
            Ok(Some(VitalsMessage::Vitals(vitals))) => self.vitals.lock().take(now, vitals),
            Ok(None) => {}
            Err(error) => self.break_session(environment, &error),
        }
    }

    /// Sends the vitals of this node.
    pub(super) fn send_vitals(&self, environment: &Environment) {
        let vitals = VitalsMessage::Vitals(environment.vitals());
        self.send_signal(environment.now(), Kind::VITALS, vitals.encode());
    }

    /// Wakes the senders that wait for a process, or all of them.
    fn wake(&self, to: Option<ProcessAddress>) {
        let woken: Vec<Waker> = {
            let mut waiting = self.waiting.lock();
            match to {
                Some(to) => waiting.0.remove(&to).unwrap_or_default(),
                None => waiting.0.drain().flat_map(|(_, senders)| senders).collect(),
            }
        };
        // The wakers belong to processes or to other executors. Their panics must not end this thread.
        woken.into_iter().for_each(rusm_runtime::embed::panics::wake);
    }

    pub(super) fn send(&self, environment: &Environment, frame: Frame) -> Result<(), Refused> {
        let mut session = self.session.lock();
        // The peer may have begun a new life, of which this node has not been told yet.
        if session.epoch().0 != self.epoch.load(Ordering::Acquire) {
            return Err(Refused::NoConnection(frame));
        }
        let message = Outgoing {
            kind: Kind(frame.kind.byte()),
            from: address(frame.from),
            to: address(frame.to),
            payload: frame.payload,
        };
        let now = environment.now();
        let sent = session.send(now, message);
        self.transmit_at_once(environment, now, session);
        sent.map_err(|error| {
            let Outgoing { from, to, payload, .. } = error.message;
            let frame = Frame { kind: frame.kind, from: process(from), to: process(to), payload };
            match error.reason {
                SendErrorReason::Busy(_) => Refused::Busy(frame),
                SendErrorReason::NotUp | SendErrorReason::Leaving | SendErrorReason::TooLarge { .. } => {
                    Refused::NoConnection(frame)
                }
            }
        })
    }

    /// Sends a signal of the cluster to the peer. It is lost with the session, as all signals are.
    pub(super) fn send_signal(&self, now: Duration, kind: Kind, payload: Bytes) {
        let (from, to) = (Address::NODE, Address::NODE);
        let mut session = self.session.lock();
        drop(session.send(now, Outgoing { kind, from, to, payload }));
        self.wake_sender(&session);
    }

    pub(super) fn wait_for_room(&self, to: ProcessAddress, bytes: usize, sender: &Waker) -> bool {
        // The list is locked first: room that comes after the check finds the sender in it.
        let mut waiting = self.waiting.lock();
        let is_full = matches!(self.session.lock().check_room(address(to), bytes), Err(SendErrorReason::Busy(_)));
        if is_full {
            let senders = waiting.0.entry(to).or_default();
            if !senders.iter().any(|waiting| waiting.will_wake(sender)) {
                senders.push(sender.clone());
            }
        }
        is_full
    }

    pub(super) fn release(&self, now: Duration, to: ProcessAddress, frames: u32, bytes: u64) {
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        let mut session = self.session.lock();
        session.consumed(now, epoch, address(to), frames, bytes);
        self.wake_sender(&session);
    }
}

/// Lets time pass for a session.
fn tick(session: &mut Session, now: Duration) {
    if session.deadline().is_none_or(|deadline| deadline <= now) {
        session.on_tick(now);
    }
}

const fn address(process: ProcessAddress) -> Address {
    Address::new(process.slot, process.generation)
}

const fn process(address: Address) -> ProcessAddress {
    ProcessAddress { slot: address.slot(), generation: address.generation() }
}

/// Starts the sender thread of a connection.
pub(super) fn start_sender(
    connection: &Arc<Connection>,
    environment: &Arc<Environment>,
    forget: impl Fn(&Connection) + Send + 'static,
) -> std::io::Result<()> {
    let (connection, environment) = (Arc::clone(connection), Arc::downgrade(environment));
    let name = format!("rusm-peer-{}", connection.peer);
    std::thread::Builder::new().name(name).spawn(move || connection.run(&environment, forget)).map(drop)
}
