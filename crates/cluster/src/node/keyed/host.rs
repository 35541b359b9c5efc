//! The host of a kind on one node: the process that knows which keys are live here, and keeps the state of others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::RwLock;
use rusm_runtime::observe;
use rusm_runtime::{Context, Down, ExitReason, Joined, Left, Pid, ReplyTo, Request, TrySendError};

use super::kind::{Code, Deactivate, GROUP, Hosts, KeyCount, KeyedConfig, STATE_BYTES_MAX, SharedCount};
use super::suspended::{KeyUse, Saved, Suspended};
use super::table::{KeyState, KeyTable};
use super::wire::{Answer, Offer, Question};
use crate::identity::NodeName;
use crate::node::log_budget::LogBudget;

/// Minimum time between two looks at all keys.
const TICK: Duration = Duration::from_millis(100);
/// Looks at all keys take at most one part of the time in this number.
const TICK_SHARE: u32 = 20;
/// Maximum number of keys that end or move at a time while their node drains.
const DRAINING_MAX: usize = 1 << 14;
/// Time within which another host has to say whether a key is live there.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of callers that wait for the start of one key.
const WAITERS_MAX: usize = 1 << 16;

type Waiter = ReplyTo<Bytes>;

/// The host of a kind.
pub(super) struct Host {
    kind: Arc<str>,
    own: NodeName,
    config: KeyedConfig,
    code: Arc<Code>,
    hosts: Arc<RwLock<Hosts>>,
    count: Arc<SharedCount>,
    table: KeyTable<Waiter>,
    suspended: Suspended,
    /// The other hosts know that this one has no key and starts none.
    is_drained: bool,
    started: Instant,
    /// Lines that other nodes may cause.
    log: LogBudget,
}

/// A process has ended and left its state.
struct Leaves {
    key: Arc<str>,
    state: Saved,
}

/// Other hosts have the states of these keys.
struct Moved(Vec<Arc<str>>);

/// Answers of the other hosts about a key.
struct Resolved {
    key: String,
    /// `No` if it may be started here.
    answer: Answer,
}

impl Host {
    pub(super) fn new(
        kind: Arc<str>,
        own: NodeName,
        config: KeyedConfig,
        code: Code,
        hosts: Arc<RwLock<Hosts>>,
        count: Arc<SharedCount>,
    ) -> Self {
        Self {
            kind,
            own,
            config,
            code: Arc::new(code),
            hosts,
            count,
            table: KeyTable::new(),
            suspended: Suspended::default(),
            is_drained: false,
            started: Instant::now(),
            log: LogBudget::default(),
        }
    }

    pub(super) async fn run(mut self, ctx: Context, drains: impl Fn(&NodeName) -> bool) {
        ctx.set_label("host of keyed processes");
        let group = format!("{GROUP}{}", self.kind);
        let Ok((_, members)) = ctx.monitor_group(&group) else { return };
        for member in members {
            self.add(&ctx, member);
        }
        self.add(&ctx, ctx.pid());
        if ctx.join(&group).is_err() {
            return;
        }
        let mut next_tick = Instant::now();
        loop {
            let now = Instant::now();
            if now >= next_tick {
                self.tick(&ctx, &drains);
                next_tick = Instant::now() + TICK.max(now.elapsed() * TICK_SHARE);
            }
            let count = KeyCount { live: self.table.len(), suspended: self.suspended.len() };
            // The others know it before the node may leave.
            if count == KeyCount::default() && !self.is_drained && drains(&self.own) {
                self.is_drained = self.say_drained(&ctx);
            }
            if count != KeyCount::default() || self.is_drained || !drains(&self.own) {
                self.count.set(count);
            }
            let left = next_tick.saturating_duration_since(Instant::now());
            let Some(message) = ctx.receive_timeout(left).await else { continue };
            let message = match message.downcast::<Request<Bytes, Bytes>>() {
                Ok(request) => {
                    self.answer(&ctx, request, &drains);
                    continue;
                }
                Err(other) => other,
            };
            let message = match message.downcast::<Bytes>() {
                Ok(node) => {
                    self.drained(&node);
                    continue;
                }
                Err(other) => other,
            };
            let message = match message.downcast::<Down>() {
                Ok(down) => {
                    self.table.ended(down.pid);
                    continue;
                }
                Err(other) => other,
            };
            let message = match message.downcast::<Resolved>() {
                Ok(resolved) => {
                    self.resolved(&ctx, resolved);
                    continue;
                }
                Err(other) => other,
            };
            let message = match message.downcast::<Leaves>() {
                Ok(Leaves { key, state }) => {
                    self.suspended.keep(key, state);
                    continue;
                }
                Err(other) => other,
            };
            let message = match message.downcast::<Moved>() {
                Ok(Moved(keys)) => {
                    self.suspended.end_move(&keys);
                    // At once if something moved; otherwise at the next tick.
                    if !keys.is_empty() {
                        let is_draining = drains(&self.own);
                        if is_draining {
                            self.end_processes(&ctx, true);
                        }
                        self.begin_move(&ctx, is_draining);
                    }
                    continue;
                }
                Err(other) => other,
            };
            match message.downcast::<Joined>() {
                Ok(joined) => self.add(&ctx, joined.pid),
                Err(other) => {
                    if let Ok(left) = other.downcast::<Left>() {
                        self.remove(left.pid);
                    }
                }
            }
        }
    }

    /// Tells the other hosts that this one has lost all keys. Returns false if the queue to one of them is full.
    fn say_drained(&self, ctx: &Context) -> bool {
        let own = Bytes::copy_from_slice(self.own.as_str().as_bytes());
        let hosts = self.hosts.read();
        let others = hosts.pids.iter().filter(|(node, _)| **node != self.own);
        others.fold(true, |all, (_, host)| {
            let sent = ctx.try_send(*host, own.clone());
            all && !matches!(sent, Err(TrySendError::Full { .. }))
        })
    }

    /// Notes that a node has lost all keys: pids there belong to processes that have ended.
    fn drained(&self, node: &[u8]) {
        let mut hosts = self.hosts.write();
        let node = std::str::from_utf8(node).ok().and_then(|node| NodeName::new(node).ok());
        if let Some(host) = node.and_then(|node| hosts.pids.get(&node).copied()) {
            hosts.drained.insert(host.node());
            hosts.known.retain(|_, pid| pid.node() != host.node());
        }
    }

    /// Adds a host.
    fn add(&self, ctx: &Context, host: Pid) {
        let node = ctx.runtime().node_of(host).and_then(|node| NodeName::new(&node.name).ok());
        if let Some(node) = node {
            let mut hosts = self.hosts.write();
            hosts.placement.add(node.clone());
            hosts.pids.insert(node, host);
        }
    }

    fn remove(&self, host: Pid) {
        let mut hosts = self.hosts.write();
        // A node that has restarted may have another host already.
        let node = hosts.pids.iter().find(|(_, pid)| **pid == host).map(|(node, _)| node.clone());
        if let Some(node) = node {
            hosts.pids.remove(&node);
            hosts.placement.remove(&node);
            hosts.known.retain(|_, pid| pid.node() != host.node());
        }
    }

    /// Notes which nodes drain. Ends processes, and moves states.
    fn tick(&mut self, ctx: &Context, drains: &impl Fn(&NodeName) -> bool) {
        {
            let mut hosts = self.hosts.write();
            let nodes: Vec<NodeName> = hosts.pids.keys().cloned().collect();
            for node in nodes {
                if drains(&node) {
                    hosts.placement.drain(&node);
                } else {
                    hosts.placement.add(node);
                }
            }
        }
        let is_draining = drains(&self.own);
        self.end_processes(ctx, is_draining);
        self.begin_move(ctx, is_draining);
    }

    /// Ends idle processes, and with `is_draining` a limited number of others: a key without a process is not available until
    /// its state has moved.
    fn end_processes(&mut self, ctx: &Context, is_draining: bool) {
        let runtime = ctx.runtime();
        let messages = |pid: Pid| {
            let process = observe::process_ref(&runtime, pid)?;
            (process.mailbox_len() == 0).then(|| process.messages())
        };
        let moves = if is_draining { DRAINING_MAX.saturating_sub(self.suspended.len()) } else { 0 };
        for pid in self.table.take_ending(self.started.elapsed(), self.config.idle, moves, messages) {
            if ctx.try_send(pid, Deactivate).is_err() {
                self.table.keep(pid);
            }
        }
    }

    /// Begins to send states to other hosts: all of them, or those that were asked for.
    fn begin_move(&mut self, ctx: &Context, all: bool) {
        let moves = {
            let hosts = self.hosts.read();
            self.suspended.begin_move(all, |key| {
                // A key that is being started takes its state with it.
                if self.table.get(key).is_some() {
                    return None;
                }
                let node = hosts.placement.node_of(&self.kind, key).filter(|node| **node != self.own)?;
                hosts.pids.get(node).map(|host| (node.clone(), *host))
            })
        };
        if moves.is_empty() {
            return;
        }
        let host = ctx.pid();
        let send = move |ctx: Context| async move {
            let mut adopted = Vec::new();
            for states in moves {
                adopted.extend(states.run(&ctx, ANSWER_WITHIN).await);
            }
            ctx.send(host, Moved(adopted)).await;
        };
        if ctx.runtime().spawn(send).is_err() {
            self.suspended.end_move(&[]);
        }
    }

    fn answer(&mut self, ctx: &Context, request: Request<Bytes, Bytes>, drains: &impl Fn(&NodeName) -> bool) {
        let Request { request, reply } = request;
        let answer = match Question::decode(&request) {
            Some(Question::Has { view, node, key }) => {
                let knows_all = self.has_view(view);
                self.has(ctx, node, key, knows_all, drains(&self.own))
            }
            Some(Question::Adopt(entries)) => self.adopt(&entries, drains(&self.own)),
            Some(Question::Find { view, key }) => {
                let may_start = self.has_view(view) && !drains(&self.own);
                return self.find(ctx, key, reply, may_start);
            }
            None => Answer::Refused,
        };
        reply.send(ctx, answer.encode());
    }

    /// Returns true if this node knows the same hosts as one that asks. Otherwise one of them might not know a host that has
    /// the key.
    fn has_view(&self, view: u64) -> bool {
        self.hosts.read().view() == view
    }

    /// Answers a node that is about to start a key. `No` allows it: this host will not start the key before it has asked
    /// that node. `knows_all` is false if that node may not have asked every host.
    fn has(&mut self, ctx: &Context, node: &str, key: &str, knows_all: bool, is_draining: bool) -> Answer {
        let is_kept = self.suspended.contains(key);
        match self.table.get_mut(key) {
            Some(KeyState::Live { pid, is_ending: false, version, .. }) => {
                let (pid, version) = (*pid, *version);
                self.live(pid, version)
            }
            // Of two hosts that start the same key, the one with the smaller name goes on.
            Some(KeyState::Starting { yields, .. }) if knows_all && !is_kept && node < self.own.as_str() => {
                *yields = true;
                Answer::No
            }
            None if is_kept => {
                self.suspended.want(key);
                // Its callers wait for the state.
                self.begin_move(ctx, is_draining);
                Answer::Wait
            }
            None if knows_all => Answer::No,
            Some(KeyState::Live { .. } | KeyState::Starting { .. }) | None => Answer::Wait,
        }
    }

    fn adopt(&mut self, offers: &[Offer<'_>], is_draining: bool) -> Answer {
        let adopted = offers.iter().map(|offer| {
            let of = if is_draining || !self.has_room(offer) { KeyUse::Busy } else { self.key_use(offer) };
            self.suspended.adopt(*offer, of)
        });
        Answer::Adopted(adopted.collect())
    }

    /// Returns true if a state of another host may be kept here, too.
    fn has_room(&self, offer: &Offer<'_>) -> bool {
        let is_known = self.suspended.contains(offer.key) || self.table.get(offer.key).is_some();
        let is_full = self.table.len() + self.suspended.len() >= self.config.keys_max;
        (is_known || !is_full) && self.suspended.bytes() + offer.state.len() as u64 <= self.config.state_bytes_max
    }

    fn key_use(&mut self, offer: &Offer<'_>) -> KeyUse {
        match self.table.get(offer.key) {
            // A process that starts takes the state that is there when it does.
            None | Some(KeyState::Starting { .. }) => KeyUse::Free,
            Some(KeyState::Live { is_ending: false, version, .. }) => {
                if offer.version > *version
                    && let Some(line) = self.log.take(self.started.elapsed())
                {
                    let (kind, key, version, dropped) = (&self.kind, offer.key, offer.version, line.dropped);
                    tracing::error!(%kind, key, version, dropped, "a state of a key is dropped: its process was started without it");
                }
                KeyUse::Live
            }
            Some(KeyState::Live { .. }) => KeyUse::Busy,
        }
    }

    fn live(&self, pid: Pid, version: u64) -> Answer {
        Answer::Live { node: self.own.as_str().to_owned(), slot: pid.slot(), generation: pid.generation(), version }
    }

    /// Answers where the process of a key is, after it is known.
    fn find(&mut self, ctx: &Context, key: &str, reply: Waiter, may_start: bool) {
        let is_known = self.suspended.contains(key);
        let is_full = !is_known && self.table.len() + self.suspended.len() >= self.config.keys_max;
        let answer = match self.table.get_mut(key) {
            Some(KeyState::Starting { waiters, .. }) if waiters.len() < WAITERS_MAX => return waiters.push(reply),
            Some(KeyState::Live { pid, is_ending: false, version, .. }) => {
                let (pid, version) = (*pid, *version);
                self.live(pid, version)
            }
            Some(KeyState::Live { .. } | KeyState::Starting { .. }) => Answer::Wait,
            None if !may_start || self.suspended.is_moving(key) => Answer::Wait,
            None if is_full => Answer::Refused,
            None => {
                // Also with a state that is kept here: another host may have it, too, if its answer was lost.
                self.table.begin(key, reply);
                return self.ask_others(ctx, key);
            }
        };
        reply.send(ctx, answer.encode());
    }

    /// Asks the other hosts whether the key is live there: a key that moves stays where it is until it is idle.
    fn ask_others(&mut self, ctx: &Context, key: &str) {
        let (others, view): (Vec<Pid>, u64) = {
            let hosts = self.hosts.read();
            let others = hosts.pids.iter().filter(|(node, _)| **node != self.own).map(|(_, pid)| *pid);
            (others.collect(), hosts.view())
        };
        if others.is_empty() {
            return self.resolved(ctx, Resolved { key: key.to_owned(), answer: Answer::No });
        }
        let question = Question::Has { view, node: self.own.as_str(), key }.encode();
        let (host, of) = (ctx.pid(), key.to_owned());
        let ask = move |ctx: Context| async move {
            let mut answer = ask_all(&ctx, &others, &question).await;
            // Twice: a state may have moved from a host that was still to be asked to one that had answered.
            if answer == Answer::No {
                answer = ask_all(&ctx, &others, &question).await;
            }
            ctx.send(host, Resolved { key: of, answer }).await;
        };
        if ctx.runtime().spawn(ask).is_err() {
            self.resolved(ctx, Resolved { key: key.to_owned(), answer: Answer::Refused });
        }
    }

    /// Starts the process of a key if no other host has it, and answers those that wait.
    fn resolved(&mut self, ctx: &Context, resolved: Resolved) {
        let Resolved { key, mut answer } = resolved;
        let yields = matches!(self.table.get(&key), Some(KeyState::Starting { yields: true, .. }));
        let mut process = None;
        match answer {
            Answer::No if yields => answer = Answer::Wait,
            Answer::No => {
                process = self.start(ctx, &key);
                answer = process.map_or(Answer::Refused, |(pid, version)| self.live(pid, version));
            }
            Answer::Live { version, .. } => self.suspended.forget(&key, version),
            _ => {}
        }
        let answer = answer.encode();
        for waiter in self.table.started(&key, process, self.started.elapsed()) {
            waiter.send(ctx, answer.clone());
        }
    }
}

impl Host {
    /// Starts the process of a key, with the state that its last one has left, and returns its pid and the version of the state.
    fn start(&mut self, ctx: &Context, key: &str) -> Option<(Pid, u64)> {
        let state = self.suspended.take(key);
        let version = state.as_ref().map_or(0, |state| state.version);
        let initial = match state.clone() {
            None => None,
            Some(Saved { bytes, .. }) => {
                // The code of the program may panic; the host serves all keys.
                let resumed = catch_unwind(AssertUnwindSafe(|| (self.code.resume)(bytes))).ok().flatten();
                if resumed.is_none() {
                    if let Some(line) = self.log.take(self.started.elapsed()) {
                        let (kind, dropped) = (&self.kind, line.dropped);
                        tracing::error!(%kind, key, dropped, "the state of a key cannot be resumed: it is kept, and the key is refused");
                    }
                    self.keep(key, state);
                    return None;
                }
                resumed
            }
        };
        let (code, host, handle) = (Arc::clone(&self.code), ctx.pid(), ctx.runtime());
        let (key_of_body, kind) = (Arc::<str>::from(key), Arc::clone(&self.kind));
        let body = move |ctx: Context| {
            let body = (code.start)(ctx, (*key_of_body).to_owned(), initial);
            async move {
                if let Some(bytes) = body.await {
                    if bytes.len() > STATE_BYTES_MAX {
                        let (key, bytes) = (key_of_body, bytes.len());
                        tracing::error!(%kind, %key, bytes, "the state of a key is lost: it has more than {STATE_BYTES_MAX} bytes");
                        return ExitReason::other("the state of the key is too long");
                    }
                    let state = Saved { version: version + 1, bytes };
                    handle.send(host, Leaves { key: key_of_body, state }).await;
                }
                ExitReason::Normal
            }
        };
        let started = ctx.spawn_monitor(body);
        if started.is_err() {
            self.keep(key, state);
        }
        started.ok().map(|(pid, _)| (pid, version))
    }

    fn keep(&mut self, key: &str, state: Option<Saved>) {
        if let Some(state) = state {
            self.suspended.keep(key.into(), state);
        }
    }
}

/// Asks hosts one after the other. Returns `No` if the key may be started here: each has said so.
async fn ask_all(ctx: &Context, others: &[Pid], question: &Bytes) -> Answer {
    for host in others {
        match ctx.call::<Bytes, Bytes>(*host, question.clone(), ANSWER_WITHIN).await {
            Ok(answer) => match Answer::decode(&answer) {
                Some(Answer::No) => {}
                Some(live @ Answer::Live { .. }) => return live,
                _ => return Answer::Wait,
            },
            // It may hang, or only the connection to it is lost. When all know that it is gone, the next attempt succeeds.
            Err(_) => return Answer::Wait,
        }
    }
    Answer::No
}
