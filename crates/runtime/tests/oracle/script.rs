//! Scripts: the orders for the actors of both sides, generated from a seed and written on one line.
//!
//! ```text
//!   7:1 0 spawn 1;2 0 monitor 1;3 1 send 0,4 1 end x4;...
//!   └ index  └ step of one operation  └ step of two at once
//!     └ number, actor, operation and its arguments
//! ```

use std::fmt::{self, Display};

use rusm_fuzz::Rng;

/// Number of actors in a script.
pub(crate) const ACTORS: u8 = 8;
/// Number of names for which they compete.
pub(crate) const NAMES: u8 = 3;
/// Number of operations in a script.
const OPERATIONS: u16 = 40;

/// Index of an actor in a script.
pub(crate) type Actor = u8;
/// Number of an operation within a script; it also identifies the messages and monitors created by the operation.
pub(crate) type Number = u16;

/// Reason of an end, in Erlang's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Normal,
    Shutdown,
    /// Cannot be trapped as an exit signal, but is an ordinary reason when a process ends itself with it.
    Kill,
    /// Reason that the links of a killed process receive; a process that ends itself with it looks killed. Exit signals
    /// do not use it: rusm has one word for this and for `Kill`, and sending it kills the receiver.
    Killed,
    /// The process panics; on Erlang's side it ends with `panic`.
    Panic,
    /// A reason that only one operation uses.
    Other(Number),
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::Kill => f.write_str("kill"),
            Self::Killed => f.write_str("killed"),
            Self::Panic => f.write_str("panic"),
            Self::Other(number) => write!(f, "x{number}"),
        }
    }
}

/// An operation that an actor is told to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Spawn(Actor),
    SpawnLink(Actor),
    SpawnMonitor(Actor),
    Link(Actor),
    Unlink(Actor),
    Monitor(Actor),
    /// Ends the monitor that the operation with this number created.
    Demonitor(Number),
    DemonitorFlush(Number),
    TrapExits(bool),
    Send(Actor),
    Exit(Actor, Why),
    End(Why),
    /// Registers an actor under a name.
    Register(Actor, u8),
    Unregister(u8),
    SendByName(u8),
    /// Waits for the end of an actor and reports which actor has the name then.
    AwaitEnd(Actor, u8),
}

impl Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(child) => write!(f, "spawn {child}"),
            Self::SpawnLink(child) => write!(f, "spawn_link {child}"),
            Self::SpawnMonitor(child) => write!(f, "spawn_monitor {child}"),
            Self::Link(other) => write!(f, "link {other}"),
            Self::Unlink(other) => write!(f, "unlink {other}"),
            Self::Monitor(target) => write!(f, "monitor {target}"),
            Self::Demonitor(reference) => write!(f, "demonitor {reference}"),
            Self::DemonitorFlush(reference) => write!(f, "flush {reference}"),
            Self::TrapExits(trap) => write!(f, "trap {trap}"),
            Self::Send(to) => write!(f, "send {to}"),
            Self::Exit(to, why) => write!(f, "exit {to} {why}"),
            Self::End(why) => write!(f, "end {why}"),
            Self::Register(actor, name) => write!(f, "register {actor} n{name}"),
            Self::Unregister(name) => write!(f, "unregister n{name}"),
            Self::SendByName(name) => write!(f, "send_by_name n{name}"),
            Self::AwaitEnd(actor, name) => write!(f, "await_end {actor} n{name}"),
        }
    }
}

/// An operation and the actor that performs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) number: Number,
    pub(crate) actor: Actor,
    pub(crate) operation: Operation,
}

impl Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.number, self.actor, self.operation)
    }
}

/// Steps of orders: the orders of one step run concurrently, and the next step waits until all actors are idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// Number of initial steps on which the others rely.
    pub(crate) setting: usize,
    pub(crate) steps: Vec<Vec<Order>>,
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ";" })?;
            for (index, order) in step.iter().enumerate() {
                write!(f, "{}{order}", if index == 0 { "" } else { "," })?;
            }
        }
        Ok(())
    }
}

impl Script {
    /// Creates a script with one operation at a time: any operation by any actor.
    pub(crate) fn calm(seed: u64) -> Self {
        let mut generator = Generator::new(seed);
        let mut steps = Vec::new();
        while generator.number < OPERATIONS {
            let order = generator.calm_order();
            steps.push(vec![order]);
        }
        Self { seed, setting: 0, steps }
    }

    /// Creates a script with bursts of operations by several actors at once.
    ///
    /// The result must not depend on the order within a burst, so the actors have roles. The *listeners*, the first
    /// [`LISTENERS`] actors, trap exits, do nothing in a burst and are never killed. All others are *talkers*, whose
    /// links and new monitors lead to listeners only: no talker's end reaches another talker in the middle of a burst.
    pub(crate) fn storm(seed: u64) -> Self {
        let mut generator = Generator::new(seed);
        let mut steps = generator.cast();
        let setting = steps.len();
        while generator.number < OPERATIONS {
            if generator.below(2) == 0 {
                steps.push(generator.burst());
            } else {
                let order = generator.storm_calm_order();
                steps.push(vec![order]);
            }
        }
        Self { seed, setting, steps }
    }

    /// Creates a script about a line of processes, each linked to the next, some of which trap exits: an end propagates
    /// along the line from wherever it begins. The first actor is not in the line; it kills an actor that has a name,
    /// and takes the name as soon as it is notified of the end.
    pub(crate) fn chain(seed: u64) -> Self {
        let mut generator = Generator::new(seed);
        let mut steps: Vec<Vec<Order>> = generator.line().into_iter().map(|order| vec![order]).collect();
        let setting = steps.len();
        while generator.number + 4 <= OPERATIONS {
            match generator.below(5) {
                0 => steps.extend(generator.succession()),
                1 => steps.push(vec![generator.end_in_the_line()]),
                _ => steps.push(vec![generator.order_in_the_line()]),
            }
        }
        Self { seed, setting, steps }
    }

    pub(crate) fn orders(&self) -> impl Iterator<Item = &Order> {
        self.steps.iter().flatten()
    }
}

/// Number of listeners: the first actors of a storm.
const LISTENERS: u8 = 2;

/// State of a script, as far as its generator can know it.
struct Generator {
    rng: Rng,
    number: Number,
    spawned: u8,
    /// Actors that were not told to end, though the end of another actor may have ended them.
    likely_alive: Vec<Actor>,
    /// Monitors: number, owner and target.
    monitors: Vec<(Number, Actor, Actor)>,
}

impl Generator {
    /// Creates a generator; the first actor exists from the start.
    fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), number: 0, spawned: 1, likely_alive: vec![0], monitors: Vec::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }

    /// Picks an actor, most likely a living one.
    fn anybody(&mut self) -> Actor {
        let alive = self.likely_alive.clone();
        match self.pick(&alive) {
            Some(actor) if self.below(8) != 0 => actor,
            _ => self.below(usize::from(self.spawned)) as Actor,
        }
    }

    fn listener(&mut self) -> Actor {
        self.below(usize::from(LISTENERS)) as Actor
    }

    fn order(&mut self, actor: Actor, operation: Operation) -> Order {
        let number = self.number;
        self.number += 1;
        match operation {
            Operation::Spawn(child) | Operation::SpawnLink(child) | Operation::SpawnMonitor(child) => {
                self.spawned = self.spawned.max(child + 1);
                self.likely_alive.push(child);
                if let Operation::SpawnMonitor(child) = operation {
                    self.monitors.push((number, actor, child));
                }
            }
            Operation::Monitor(target) => self.monitors.push((number, actor, target)),
            Operation::End(_) => self.likely_alive.retain(|alive| *alive != actor),
            Operation::Exit(target, why) if why != Why::Normal => self.likely_alive.retain(|alive| *alive != target),
            _ => {}
        }
        Order { number, actor, operation }
    }

    fn spawn(&mut self) -> Operation {
        let child = self.spawned;
        match self.below(3) {
            0 => Operation::Spawn(child),
            1 => Operation::SpawnLink(child),
            _ => Operation::SpawnMonitor(child),
        }
    }

    /// Picks a reason with which an actor may be told to end.
    fn why(&mut self) -> Why {
        match self.below(7) {
            0 => Why::Normal,
            1 => Why::Shutdown,
            2 => Why::Kill,
            3 => Why::Killed,
            4 => Why::Panic,
            _ => Why::Other(self.number),
        }
    }

    /// Picks a reason for an exit signal.
    fn signal(&mut self) -> Why {
        match self.why() {
            Why::Killed | Why::Panic => Why::Normal,
            why => why,
        }
    }

    /// Picks a reason for an exit signal that the receiver must survive.
    fn trappable(&mut self) -> Why {
        match self.signal() {
            Why::Kill => Why::Shutdown,
            why => why,
        }
    }

    /// Picks one of the actor's own monitors whose target `wanted` accepts.
    fn own_monitor(&mut self, actor: Actor, wanted: impl Fn(Actor) -> bool) -> Option<Number> {
        let own = |(number, whose, on): &(Number, Actor, Actor)| (*whose == actor && wanted(*on)).then_some(*number);
        let own: Vec<Number> = self.monitors.iter().filter_map(own).collect();
        self.pick(&own)
    }

    fn demonitor(&mut self, actor: Actor, wanted: impl Fn(Actor) -> bool) -> Operation {
        match (self.own_monitor(actor, wanted), self.below(2)) {
            (Some(reference), 0) => Operation::Demonitor(reference),
            (Some(reference), _) => Operation::DemonitorFlush(reference),
            (None, _) => Operation::Send(self.listener()),
        }
    }

    fn calm_order(&mut self) -> Order {
        let actor = self.anybody();
        let early = self.spawned < 4;
        let operation = match self.below(32) {
            0..4 if self.spawned < ACTORS => self.spawn(),
            4..9 if early => self.spawn(),
            4..9 => Operation::Link(self.anybody()),
            9..11 => Operation::Unlink(self.anybody()),
            11..15 => Operation::Monitor(self.anybody()),
            15..18 => self.demonitor(actor, |_| true),
            18..21 => Operation::TrapExits(self.below(3) != 0),
            21..23 => self.naming(),
            23..27 => Operation::Exit(self.anybody(), self.signal()),
            27..29 => Operation::End(self.why()),
            _ => Operation::Send(self.anybody()),
        };
        self.order(actor, operation)
    }

    /// Spawns the line; every actor decides whether to trap exits before it starts the next one.
    fn line(&mut self) -> Vec<Order> {
        let mut orders = vec![self.order(0, Operation::Spawn(1))];
        for actor in 1..ACTORS - 1 {
            if self.below(3) == 0 {
                orders.push(self.order(actor, Operation::TrapExits(true)));
            }
            orders.push(self.order(actor, Operation::SpawnLink(actor + 1)));
        }
        let (named, watched) = (self.in_the_line(), self.in_the_line());
        orders.push(self.order(0, Operation::Register(named, 0)));
        orders.push(self.order(0, Operation::Monitor(watched)));
        orders
    }

    fn in_the_line(&mut self) -> Actor {
        1 + self.below(usize::from(ACTORS) - 1) as Actor
    }

    fn end_in_the_line(&mut self) -> Order {
        let (actor, why) = (self.in_the_line(), self.why());
        let signal = self.signal();
        if self.below(2) == 0 {
            self.order(actor, Operation::End(why))
        } else {
            self.order(0, Operation::Exit(actor, signal))
        }
    }

    /// Kills an actor that has a name; the killer, which has no links, takes the name next.
    fn succession(&mut self) -> [Vec<Order>; 2] {
        // Not the first name: its holder may be ending as well, because of this kill.
        let (killed, name) = (self.in_the_line(), 1 + self.below(usize::from(NAMES) - 1) as u8);
        let registers = vec![self.order(killed, Operation::Register(killed, name))];
        let succeeds =
            [Operation::Exit(killed, Why::Kill), Operation::AwaitEnd(killed, name), Operation::Register(0, name)];
        [registers, succeeds.into_iter().map(|operation| self.order(0, operation)).collect()]
    }

    fn order_in_the_line(&mut self) -> Order {
        let actor = self.in_the_line();
        let operation = match self.below(8) {
            0..3 => Operation::Link(self.in_the_line()),
            3 => Operation::Unlink(self.in_the_line()),
            4 => Operation::Monitor(self.in_the_line()),
            5 => self.demonitor(actor, |_| true),
            6 => Operation::TrapExits(self.below(2) == 0),
            _ => Operation::Send(self.in_the_line()),
        };
        self.order(actor, operation)
    }

    fn naming(&mut self) -> Operation {
        let name = self.below(usize::from(NAMES)) as u8;
        match self.below(5) {
            0..3 => Operation::Register(self.anybody(), name),
            3 => Operation::Unregister(name),
            _ => Operation::SendByName(name),
        }
    }

    /// Spawns all actors, some of them monitored, and makes the listeners trap exits.
    fn cast(&mut self) -> Vec<Vec<Order>> {
        let mut orders = vec![self.order(0, Operation::TrapExits(true))];
        while self.spawned < ACTORS {
            let spawn = self.spawn();
            orders.push(self.order(0, spawn));
        }
        for listener in 1..LISTENERS {
            orders.push(self.order(listener, Operation::TrapExits(true)));
        }
        orders.into_iter().map(|order| vec![order]).collect()
    }

    fn talker(&mut self) -> Actor {
        let alive: Vec<Actor> = self.likely_alive.iter().copied().filter(|actor| *actor >= LISTENERS).collect();
        self.pick(&alive).unwrap_or(LISTENERS)
    }

    /// Picks an order for the time between two bursts.
    fn storm_calm_order(&mut self) -> Order {
        let listener = self.listener();
        let (actor, operation) = match self.below(6) {
            0 => (self.anybody(), Operation::Monitor(self.anybody())),
            1 => (listener, Operation::Link(self.anybody())),
            2 => (self.talker(), Operation::Link(listener)),
            3 => (self.talker(), Operation::Register(listener, self.below(usize::from(NAMES)) as u8)),
            4 => (listener, Operation::Unlink(self.anybody())),
            _ => (listener, self.demonitor(listener, |_| true)),
        };
        self.order(actor, operation)
    }

    fn burst(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        for _ in 0..=self.below(4) {
            let talker = self.talker();
            for _ in 0..=self.below(5) {
                if self.number < OPERATIONS {
                    let operation = self.talk(talker);
                    orders.push(self.order(talker, operation));
                }
            }
        }
        if self.below(4) == 0 && self.number + 3 <= OPERATIONS {
            orders.extend(self.end_of_a_name());
        }
        orders
    }

    /// A talker takes a name and ends, and a listener looks up the name as soon as it is notified of the end.
    fn end_of_a_name(&mut self) -> [Order; 3] {
        let (listener, talker) = (self.listener(), self.talker());
        let name = self.below(usize::from(NAMES)) as u8;
        let why = self.why();
        [
            self.order(listener, Operation::AwaitEnd(talker, name)),
            self.order(talker, Operation::Register(talker, name)),
            self.order(talker, Operation::End(why)),
        ]
    }

    /// Picks an operation for a talker in a burst.
    fn talk(&mut self, talker: Actor) -> Operation {
        let listener = self.listener();
        match self.below(20) {
            0..6 => Operation::Send(listener),
            6 => Operation::Send(self.anybody()),
            7..10 => Operation::Exit(listener, self.trappable()),
            10..12 => Operation::Link(listener),
            12..14 => Operation::Unlink(listener),
            14 => Operation::Monitor(listener),
            15 => self.demonitor(talker, |on| on < LISTENERS),
            16 => Operation::TrapExits(self.below(2) == 0),
            17 => Operation::SendByName(self.below(usize::from(NAMES)) as u8),
            18 => Operation::End(self.why()),
            _ => Operation::Exit(talker, self.signal()),
        }
    }
}
