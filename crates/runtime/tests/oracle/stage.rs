//! rusm's side of the comparison with Erlang: actors (processes) that perform a script, and a driver that inspects all
//! of them after each step. The tests in `links.rs` compare the trace with that of `oracle.erl`.
//!
//! Many scripts run at once in one runtime, each with its own driver and names.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rusm_runtime::{
    Config, Context, Down, Exit, ExitReason, Handle, Message, MonitorRef, Pid, Runtime, Watch, observe,
};
use tokio::sync::oneshot;

use crate::bug::Bug;
use crate::script::{ACTORS, Actor, NAMES, Number, Operation, Order, Script, Why};
use crate::trace::{Entry, State, Step, Trace};

/// Maximum time for all scripts together.
const DEADLINE: Duration = Duration::from_mins(10);

/// Performs scripts and returns their traces in the same order; `bug` is a planted misbehaviour of the actors.
pub(crate) fn act_all(scripts: &[Script], bug: Option<Bug>) -> Vec<Trace> {
    let runtime = Runtime::start(Config { schedulers: 3, ..Config::default() }).unwrap();
    let (give, take) = mpsc::sync_channel(scripts.len());
    for (index, script) in scripts.iter().cloned().enumerate() {
        let give = give.clone();
        let drive = move |ctx: Context| async move {
            let trace = Driver::new(&ctx, index, bug).act(&ctx, &script).await;
            give.send((index, trace)).unwrap();
        };
        runtime.spawn(drive).unwrap();
    }
    let until = Instant::now() + DEADLINE;
    let next = |_: &Script| {
        let left = until.saturating_duration_since(Instant::now());
        take.recv_timeout(left).expect("every script comes to its end in time")
    };
    let traces: BTreeMap<usize, Trace> = scripts.iter().map(next).collect();
    traces.into_values().collect()
}

/// Maximum time that an actor waits for an expected message: the first one with a planted bug, which may suppress the
/// message, and the second one without a bug.
const PATIENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(1)];

/// State shared by the processes of one script.
struct Actors {
    index: usize,
    bug: Option<Bug>,
    pids: Mutex<[Option<Pid>; ACTORS as usize]>,
}

impl Actors {
    fn pids(&self) -> MutexGuard<'_, [Option<Pid>; ACTORS as usize]> {
        self.pids.lock()
    }

    fn pid(&self, actor: Actor) -> Option<Pid> {
        self.pids()[usize::from(actor)]
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn insert(&self, actor: Actor, pid: Pid) {
        self.pids()[usize::from(actor)] = Some(pid);
    }

    /// Returns the actor of a pid, as text.
    fn actor(&self, pid: Pid) -> String {
        let found = self.pids().iter().position(|known| *known == Some(pid));
        found.map_or_else(|| pid.to_string(), |actor| actor.to_string())
    }

    fn actors(&self, pids: &[Pid]) -> String {
        let mut actors: Vec<String> = pids.iter().map(|pid| self.actor(*pid)).collect();
        actors.sort();
        actors.join(",")
    }

    /// Returns a name that no other script uses.
    fn name(&self, name: u8) -> String {
        format!("{}/n{name}", self.index)
    }
}

/// A request from a driver to an actor.
enum Request {
    /// Perform the order and reply with its result.
    Do(Order, oneshot::Sender<String>),
    /// Reply with the contents of the mailbox.
    Look(oneshot::Sender<Vec<Entry>>),
}

/// Gives the actors of one script their orders.
struct Driver {
    cast: Arc<Actors>,
    runtime: Handle,
    /// Watches on the actors that are alive, as far as is known.
    ends: BTreeMap<Actor, Watch>,
    states: BTreeMap<Actor, State>,
    /// Holders of the names after the last step.
    names: BTreeMap<String, String>,
}

impl Driver {
    fn new(ctx: &Context, index: usize, bug: Option<Bug>) -> Self {
        let cast = Arc::new(Actors { index, bug, pids: Mutex::default() });
        let (ends, states, names) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut driver = Self { cast, runtime: ctx.runtime(), ends, states, names };
        let cast = Arc::clone(&driver.cast);
        driver.cast.insert(0, ctx.spawn(move |ctx| ActorProcess::new(ctx, cast, 0).play()));
        driver.watch_new_actors();
        driver
    }

    /// Watches the actors that were spawned since the last call.
    fn watch_new_actors(&mut self) {
        let pids = *self.cast.pids();
        for (actor, pid) in (0..).zip(pids) {
            if let Some(pid) = pid
                && !self.ends.contains_key(&actor)
                && !self.states.contains_key(&actor)
            {
                self.ends.insert(actor, self.runtime.watch(pid));
            }
        }
    }

    async fn act(&mut self, ctx: &Context, script: &Script) -> Trace {
        let mut steps = Vec::new();
        for orders in &script.steps {
            let results = self.have_done(ctx, orders).await;
            self.watch_new_actors();
            self.settle(ctx).await;
            self.names = self.look_at_names();
            steps.push(Step { results, names: self.names.clone(), states: self.states.clone() });
        }
        for (actor, end) in std::mem::take(&mut self.ends) {
            ctx.exit(self.cast.pid(actor).unwrap(), ExitReason::Killed);
            end.await;
        }
        Trace(steps)
    }

    async fn have_done(&self, ctx: &Context, orders: &[Order]) -> BTreeMap<Number, String> {
        let mut asked = Vec::new();
        for order in orders.iter().filter(|order| self.ends.contains_key(&order.actor)) {
            let (give, take) = oneshot::channel();
            ctx.send(self.cast.pid(order.actor).unwrap(), Request::Do(*order, give)).await;
            asked.push((order.number, take));
        }
        let mut results = BTreeMap::new();
        for (number, take) in asked {
            results.insert(number, take.await.unwrap_or_else(|_| "-".to_owned()));
        }
        results
    }

    /// Inspects all actors until none has ended since the previous inspection.
    ///
    /// When an actor replies, the signals sent to it before the request have taken effect, and the messages are in its
    /// mailbox. If an actor does not reply, the driver waits for its end; by then, its links and monitors have been
    /// notified.
    async fn settle(&mut self, ctx: &Context) {
        loop {
            let mut looks = Vec::new();
            for actor in self.ends.keys() {
                let (give, take) = oneshot::channel();
                ctx.send(self.cast.pid(*actor).unwrap(), Request::Look(give)).await;
                looks.push((*actor, take));
            }
            let mut quiet = true;
            for (actor, take) in looks {
                let state = if let Ok(mail) = take.await {
                    State::Alive { bonds: Default::default(), mail }
                } else {
                    quiet = false;
                    State::Ended(word(&self.ends.remove(&actor).unwrap().await))
                };
                self.states.insert(actor, state);
            }
            if quiet {
                break;
            }
        }
        for (actor, state) in &mut self.states {
            if let State::Alive { bonds, .. } = state {
                let seen = observe::links(&self.runtime, self.cast.pid(*actor).unwrap(), 1000).unwrap_or_default();
                *bonds = [&seen.links, &seen.monitors, &seen.monitored_by].map(|pids| self.cast.actors(pids));
            }
        }
    }

    fn look_at_names(&self) -> BTreeMap<String, String> {
        let look = |name| {
            let key = format!("n{name}");
            let holder = match self.runtime.whereis(&self.cast.name(name)) {
                Some(pid) => self.cast.actor(pid),
                None if self.cast.has(Bug::NameOutlivesDown) && self.has_just_lost(&key) => self.names[&key].clone(),
                None => "-".to_owned(),
            };
            (key, holder)
        };
        (0..NAMES).map(look).collect()
    }

    /// Returns true if the actor that held the name after the previous step has ended in this step.
    fn has_just_lost(&self, name: &str) -> bool {
        let holder = self.names.get(name).and_then(|holder| holder.parse().ok());
        holder.is_some_and(|holder: Actor| matches!(self.states.get(&holder), Some(State::Ended(_))))
    }
}

/// Returns an exit reason in Erlang's words.
fn word(reason: &ExitReason) -> String {
    if let ExitReason::Panic(_) = reason { "panic".to_owned() } else { reason.to_string() }
}

/// A message from one actor to another.
struct ActorMessage {
    from: Actor,
    number: Number,
}

/// An actor: a process that receives only requests of the driver. All other messages stay in its mailbox, where
/// [`mail`](Self::mail) reads them.
struct ActorProcess {
    ctx: Context,
    cast: Arc<Actors>,
    actor: Actor,
    monitors: HashMap<Number, MonitorRef>,
    references: Vec<(MonitorRef, Number)>,
    /// For a planted bug: processes that receive an exit signal without a link.
    haunted: Vec<Pid>,
    /// For a planted bug: messages that are held back.
    unsent: Vec<(Pid, ActorMessage)>,
}

impl ActorProcess {
    fn new(ctx: Context, cast: Arc<Actors>, actor: Actor) -> Self {
        let (monitors, references) = (HashMap::new(), Vec::new());
        Self { ctx, cast, actor, monitors, references, haunted: Vec::new(), unsent: Vec::new() }
    }

    /// Performs orders until the order to end. The future is boxed because actors spawn actors: its type contains
    /// itself.
    fn play(mut self) -> Pin<Box<dyn Future<Output = ExitReason> + Send>> {
        Box::pin(async move {
            loop {
                match self.ctx.receive_of().await {
                    Request::Look(give) => {
                        self.send_held_back().await;
                        drop(give.send(self.mail().await));
                    }
                    Request::Do(Order { operation: Operation::End(why), .. }, _) => return self.end(why).await,
                    Request::Do(order, give) => {
                        let result = self.act(order).await;
                        if self.hits_itself(order.operation) {
                            // A signal to itself takes effect when the process awaits.
                            self.ctx.yield_now().await;
                        }
                        drop(give.send(result));
                    }
                }
            }
        })
    }

    /// Reads the whole mailbox without removing anything.
    async fn mail(&self) -> Vec<Entry> {
        let mut mail = Vec::new();
        let look = |message: &Message| {
            mail.extend(self.entry(message));
            false
        };
        self.ctx.receive_match_timeout(Duration::ZERO, look).await;
        mail
    }

    fn entry(&self, message: &Message) -> Option<Entry> {
        if let Some(ActorMessage { from, number }) = message.downcast_ref() {
            return Some(Entry::Message { from: from.to_string(), number: *number });
        }
        if let Some(Exit { from, reason }) = message.downcast_ref() {
            return Some(Entry::Exit { from: self.cast.actor(*from), reason: word(reason) });
        }
        let Down { reference, pid, reason } = message.downcast_ref()?;
        let number = self.references.iter().find(|known| known.0 == *reference).map_or(Number::MAX, |known| known.1);
        Some(Entry::Down { from: self.cast.actor(*pid), reason: word(reason), number })
    }

    fn hits_itself(&self, operation: Operation) -> bool {
        match operation {
            Operation::Exit(target, _) => target == self.actor,
            Operation::Link(other) => self.cast.pid(other).is_some_and(|pid| !self.ctx.runtime().is_alive(pid)),
            _ => false,
        }
    }

    async fn end(mut self, why: Why) -> ExitReason {
        if !self.cast.has(Bug::LastWordsAreLost) {
            self.send_held_back().await;
        }
        let reason = match why {
            Why::Normal => ExitReason::Normal,
            Why::Shutdown => ExitReason::Shutdown,
            Why::Killed => ExitReason::Killed,
            Why::Kill | Why::Panic | Why::Other(_) => ExitReason::other(why),
        };
        for pid in self.haunted {
            self.ctx.exit(pid, reason.clone());
        }
        assert!(why != Why::Panic, "the script orders a panic");
        reason
    }

    async fn act(&mut self, order: Order) -> String {
        let Order { number, operation, .. } = order;
        match operation {
            Operation::Spawn(child) | Operation::SpawnLink(child) | Operation::SpawnMonitor(child) => {
                self.spawn(operation, child, number)
            }
            Operation::Demonitor(monitor) => self.demonitor(monitor, self.cast.has(Bug::DemonitorFlushes)),
            Operation::DemonitorFlush(monitor) => self.demonitor(monitor, !self.cast.has(Bug::FlushLeavesTheDown)),
            Operation::TrapExits(trap) => {
                let trapped = self.ctx.trap_exits(trap || self.cast.has(Bug::TrappingIsForEver));
                return trapped.to_string();
            }
            Operation::Unregister(name) => done(self.ctx.runtime().unregister(&self.cast.name(name))),
            Operation::SendByName(name) => match self.ctx.whereis(&self.cast.name(name)) {
                Some(pid) => self.send(pid, number).await,
                None => "no",
            },
            Operation::Link(actor)
            | Operation::Unlink(actor)
            | Operation::Monitor(actor)
            | Operation::Send(actor)
            | Operation::Exit(actor, _)
            | Operation::AwaitEnd(actor, _)
            | Operation::Register(actor, _) => match self.cast.pid(actor) {
                Some(pid) if let Operation::AwaitEnd(_, name) = operation => return self.await_end(pid, name).await,
                Some(pid) => self.act_on(operation, pid, number).await,
                None => "nobody",
            },
            Operation::End(_) => unreachable!("`play` handles this operation"),
        }
        .to_owned()
    }

    async fn act_on(&mut self, operation: Operation, pid: Pid, number: Number) -> &'static str {
        match operation {
            Operation::Link(_) => self.link(pid),
            Operation::Unlink(_) => {
                let bound = self.cast.has(Bug::UnlinkLeavesTheOtherSide) && self.is_linked(pid);
                self.haunted.extend(bound.then_some(pid));
                self.ctx.unlink(pid);
            }
            Operation::Monitor(_) => self.monitor(pid, number),
            Operation::Send(_) => return self.send(pid, number).await,
            Operation::Exit(_, why) => {
                self.exit(pid, why);
                self.send_held_back().await;
            }
            Operation::Register(_, name) => return self.register(pid, name),
            _ => unreachable!("the operation does not concern another actor"),
        }
        "ok"
    }

    fn spawn(&mut self, operation: Operation, child: Actor, number: Number) -> &'static str {
        let cast = Arc::clone(&self.cast);
        let traps = self.ctx.trap_exits(true);
        self.ctx.trap_exits(traps);
        let inherits = traps && cast.has(Bug::TrappingIsInherited);
        let body = move |ctx: Context| {
            let actor = Self::new(ctx, cast, child);
            async move {
                if inherits {
                    actor.ctx.trap_exits(true);
                }
                actor.play().await
            }
        };
        let pid = match operation {
            Operation::Spawn(_) => self.ctx.spawn(body),
            Operation::SpawnLink(_) => self.ctx.spawn_link(body).unwrap(),
            _ => {
                let (pid, reference) = self.ctx.spawn_monitor(body).unwrap();
                self.note(reference, number);
                pid
            }
        };
        self.cast.insert(child, pid);
        "ok"
    }

    fn note(&mut self, reference: MonitorRef, number: Number) {
        self.monitors.insert(number, reference);
        self.references.push((reference, number));
    }

    fn is_linked(&self, pid: Pid) -> bool {
        observe::links(&self.ctx.runtime(), self.ctx.pid(), 1000).is_some_and(|bonds| bonds.links.contains(&pid))
    }

    fn link(&mut self, pid: Pid) {
        if self.cast.has(Bug::LinkToTheDeadIsSilent) && !self.ctx.runtime().is_alive(pid) {
            return;
        }
        if self.cast.has(Bug::LinksAreCounted) && self.is_linked(pid) {
            self.haunted.push(pid);
        }
        self.ctx.link(pid);
    }

    fn monitor(&mut self, pid: Pid, number: Number) {
        if self.cast.has(Bug::MonitorOfTheDeadIsSilent) && !self.ctx.runtime().is_alive(pid) {
            return;
        }
        if self.cast.has(Bug::DownTwice) {
            let reference = self.ctx.monitor(pid);
            self.note(reference, number);
        }
        let reference = self.ctx.monitor(pid);
        self.note(reference, number);
    }

    async fn await_end(&self, pid: Pid, name: u8) -> String {
        let holder = || self.ctx.whereis(&self.cast.name(name)).map(|pid| self.cast.actor(pid));
        let before = holder();
        let reference = self.ctx.monitor(pid);
        let is_end = |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == reference);
        if self.ctx.receive_match_timeout(PATIENCE[usize::from(self.cast.bug.is_none())], is_end).await.is_none() {
            return "nothing".to_owned();
        }
        let stale = before.filter(|_| self.cast.has(Bug::NameOutlivesDown));
        stale.or_else(holder).unwrap_or_else(|| "-".to_owned())
    }

    fn demonitor(&self, monitor: Number, flush: bool) -> &'static str {
        let Some(reference) = self.monitors.get(&monitor) else { return "nothing" };
        let ended = if flush { self.ctx.demonitor_flush(*reference) } else { self.ctx.demonitor(*reference) };
        if ended { "true" } else { "false" }
    }

    async fn send(&mut self, to: Pid, number: Number) -> &'static str {
        let word = ActorMessage { from: self.actor, number };
        if matches!(self.cast.bug, Some(Bug::ExitOvertakes | Bug::LastWordsAreLost)) {
            self.send_held_back().await;
            self.unsent.push((to, word));
        } else {
            self.ctx.send(to, word).await;
        }
        "ok"
    }

    async fn send_held_back(&mut self) {
        for (to, word) in std::mem::take(&mut self.unsent) {
            self.ctx.send(to, word).await;
        }
    }

    fn exit(&self, pid: Pid, why: Why) {
        let reason = match why {
            Why::Normal if self.cast.has(Bug::NormalKills) => ExitReason::other(why),
            Why::Normal => ExitReason::Normal,
            Why::Shutdown => ExitReason::Shutdown,
            Why::Kill if self.cast.has(Bug::KilledIsCalledKill) => ExitReason::other(why),
            Why::Kill if self.cast.has(Bug::KillIsTrapped) => ExitReason::other("killed"),
            Why::Kill | Why::Killed => ExitReason::Killed,
            Why::Panic | Why::Other(_) => ExitReason::other(why),
        };
        self.ctx.exit(pid, reason);
    }

    /// Registers a name unless the process has one: Erlang allows only one name, rusm several.
    fn register(&self, pid: Pid, name: u8) -> &'static str {
        let runtime = self.ctx.runtime();
        let has_one = observe::process(&runtime, pid).is_some_and(|process| process.name.is_some());
        done(!has_one && runtime.register(pid, &self.cast.name(name)).is_ok())
    }
}

const fn done(done: bool) -> &'static str {
    if done { "ok" } else { "no" }
}
