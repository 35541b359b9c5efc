//! Scripts about supervisors: a tree and the actions performed on it, generated from a seed and written on one line.
//! `tree_stage.rs` performs them in rusm, and `oracle_tree.erl` in Erlang.
//!
//! ```text
//!   root/rest_for_one/2/never s/0/permanent/brutal/plain/- s/1/..;end 0 normal;terminate s 1;..
//!   └ strategy, intensity and auto_shutdown of the root     └ first action
//!                             └ child: its supervisor, id, restart, shutdown, kind, whether it is significant
//! ```

use std::fmt::{self, Display};

use rusm_fuzz::Rng;

/// Number of actions in a script.
const ACTIONS: usize = 16;
/// Number of levels of supervisors below the root.
const DEPTH: usize = 2;
/// Name of a supervisor: `Some` with its id, or `None` for the root. Scripts write the root as `s`.
pub(crate) type Supervisor = Option<Id>;
/// Name of a child, unique within its script.
pub(crate) type Id = u8;

/// Defines an enum of Erlang words that both sides understand.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($variant),+
        }

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word),+
                })
            }
        }

        impl $name {
            #[allow(dead_code, reason = "not every kind of word is picked from all")]
            const ALL: &[Self] = &[$(Self::$variant),+];
        }
    };
}

words!(Strategy { OneForOne => "one_for_one", OneForAll => "one_for_all", RestForOne => "rest_for_one", Simple => "simple_one_for_one" });
words!(Auto { Never => "never", Any => "any_significant", All => "all_significant" });
words!(Restart { Permanent => "permanent", Transient => "transient", Temporary => "temporary" });
words!(Shutdown { Brutal => "brutal_kill", Soon => "5", Infinity => "infinity" });
words!(
    /// Reason with which a child is told to end or is signalled.
    Why { Normal => "normal", Shutdown => "shutdown", Kill => "kill", Bad => "bad" }
);

/// Behaviour of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Traps exits and reports the signal that ends it.
    Traps,
    /// Traps exits and ignores them.
    Stubborn,
    /// Fails at one start only: the one with this number, counted from 1.
    Fails(u8),
    Supervisor(Root),
}

/// Settings and children of a supervisor at any level, not only of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) strategy: Strategy,
    pub(crate) intensity: u8,
    pub(crate) auto: Auto,
    /// Only the template if the strategy is simple.
    pub(crate) children: Vec<Child>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) id: Id,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) kind: Kind,
    pub(crate) significant: bool,
}

/// An operation on a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    End(Id, Why),
    Exit(Id, Why),
    Start(Supervisor, Child),
    /// Starts another child of a dynamic supervisor, with this id.
    StartOne(Supervisor, Id),
    Terminate(Supervisor, Id),
    TerminateOne(Supervisor, Id),
    Restart(Supervisor, Id),
    Delete(Supervisor, Id),
    /// Sends an exit signal to a supervisor; for the root, from its parent.
    ExitSupervisor(Supervisor, Why),
    /// Ends a child, and performs the actions while its next start is held up.
    During(Id, Why, Vec<Self>),
    /// The parent of the root stops it.
    Stop,
}

fn called(supervisor: Supervisor) -> String {
    supervisor.map_or_else(|| "s".to_owned(), |id| id.to_string())
}

impl Root {
    fn line(&self) -> String {
        format!("{}/{}/{}", self.strategy, self.intensity, self.auto)
    }

    fn children(&self, own: Supervisor, lines: &mut Vec<String>) {
        for child in &self.children {
            lines.push(child.line(own));
            if let Kind::Supervisor(root) = &child.kind {
                root.children(Some(child.id), lines);
            }
        }
    }
}

impl Child {
    fn line(&self, supervisor: Supervisor) -> String {
        let kind = match &self.kind {
            Kind::Plain => "plain".to_owned(),
            Kind::Traps => "traps".to_owned(),
            Kind::Stubborn => "stubborn".to_owned(),
            Kind::Fails(start) => format!("fails:{start}"),
            Kind::Supervisor(root) => format!("sup:{}", root.line().replace('/', ":")),
        };
        let significant = if self.significant { "significant" } else { "-" };
        let Self { id, restart, shutdown, .. } = self;
        format!("{}/{id}/{restart}/{shutdown}/{kind}/{significant}", called(supervisor))
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End(id, why) => write!(f, "end {id} {why}"),
            Self::Exit(id, why) => write!(f, "exit {id} {why}"),
            Self::Start(supervisor, child) => write!(f, "start {}", child.line(*supervisor)),
            Self::StartOne(supervisor, id) => write!(f, "start_one {} {id}", called(*supervisor)),
            Self::Terminate(supervisor, id) => write!(f, "terminate {} {id}", called(*supervisor)),
            Self::TerminateOne(supervisor, id) => write!(f, "terminate_one {} {id}", called(*supervisor)),
            Self::Restart(supervisor, id) => write!(f, "restart {} {id}", called(*supervisor)),
            Self::Delete(supervisor, id) => write!(f, "delete {} {id}", called(*supervisor)),
            Self::ExitSupervisor(supervisor, why) => write!(f, "exit_supervisor {} {why}", called(*supervisor)),
            Self::During(id, why, actions) => {
                write!(f, "during {id} {why}")?;
                actions.iter().try_for_each(|action| write!(f, "+{action}"))
            }
            Self::Stop => f.write_str("stop"),
        }
    }
}

/// A tree and the actions performed on it, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeScript {
    pub(crate) seed: u64,
    pub(crate) root: Root,
    pub(crate) actions: Vec<Action>,
}

impl Display for TreeScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![format!("root/{}", self.root.line())];
        self.root.children(None, &mut lines);
        f.write_str(&lines.join(" "))?;
        self.actions.iter().try_for_each(|action| write!(f, ";{action}"))
    }
}

impl TreeScript {
    /// Returns true if a child belongs to a dynamic supervisor.
    fn is_dynamic(&self, id: &str) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::StartOne(_, own) if own.to_string() == id))
    }

    /// Normalises a trace. Consecutive stops of dynamic children are sorted, because their supervisor stops them
    /// together. After the kill of a supervisor, the processes below it end while others restart, and nothing waits for
    /// them: in such a step, all stops are sorted and placed after the starts, which keep their order.
    pub(crate) fn normalised(&self, trace: &str) -> String {
        let step = |(index, step): (usize, &str)| {
            let (rest, events) = step.rsplit_once(' ').unwrap_or((step, ""));
            let mut events: Vec<&str> = events.split(',').collect();
            // The first step is the start of the root.
            let action = index.checked_sub(1).and_then(|index| self.actions.get(index));
            if matches!(action, Some(Action::ExitSupervisor(_, Why::Kill))) {
                events.sort_by_key(|event| event.strip_prefix('-'));
            }
            let is_stop = |event: &str| {
                let id = event.strip_prefix('-').and_then(|stop| stop.split('.').next());
                id.is_some_and(|id| self.is_dynamic(id))
            };
            events.chunk_by_mut(|one, other| is_stop(one) && is_stop(other)).for_each(<[&str]>::sort);
            format!("{rest} {}", events.join(","))
        };
        trace.split(';').enumerate().map(step).collect::<Vec<_>>().join(";")
    }

    pub(crate) fn write(seed: u64) -> Self {
        let mut generator = Generator { rng: Rng::new(seed), next: 0, children: Vec::new(), supervisors: Vec::new() };
        let root = generator.root(None, 0);
        let mut actions: Vec<Action> = (0..ACTIONS).map(|_| generator.action()).collect();
        actions.push(Action::Stop);
        Self { seed, root, actions }
    }
}

struct Generator {
    rng: Rng,
    /// Next unused id.
    next: Id,
    /// Supervisor and id of every child that may be running.
    children: Vec<(Supervisor, Id)>,
    supervisors: Vec<(Supervisor, Strategy, Auto)>,
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn root(&mut self, own: Supervisor, depth: usize) -> Root {
        let strategy = if self.below(6) == 0 { Strategy::Simple } else { self.pick(&Strategy::ALL[..3]) };
        let dynamic = strategy == Strategy::Simple;
        let auto = if self.below(3) == 0 && !dynamic { self.pick(Auto::ALL) } else { Auto::Never };
        self.supervisors.push((own, strategy, auto));
        let children = if dynamic { 1 } else { 1 + self.below(4) };
        let children = (0..children).map(|_| self.child(own, auto, (!dynamic).then_some(depth))).collect();
        if dynamic {
            self.children.retain(|(supervisor, _)| *supervisor != own);
        }
        Root { strategy, intensity: self.below(5) as u8, auto, children }
    }

    /// Creates a child, which may be a supervisor if one at this `depth` may have supervisors below it.
    fn child(&mut self, own: Supervisor, auto: Auto, depth: Option<usize>) -> Child {
        let id = self.next;
        self.next += 1;
        self.children.push((own, id));
        let restart = match self.below(5) {
            0..3 => Restart::Permanent,
            3 => Restart::Transient,
            _ => Restart::Temporary,
        };
        let significant = auto != Auto::Never && restart != Restart::Permanent && self.below(3) != 0;
        let (kind, shutdown) = match self.below(12) {
            0..5 => (Kind::Plain, self.pick(Shutdown::ALL)),
            5..8 => (Kind::Traps, Shutdown::Infinity),
            // Not `Infinity`: the supervisor would wait for this child without end.
            8 => (Kind::Stubborn, self.pick(&Shutdown::ALL[..2])),
            9 => (Kind::Fails(1 + self.below(3) as u8), Shutdown::Brutal),
            _ if depth.is_some_and(|depth| depth < DEPTH) => {
                let root = self.root(Some(id), depth.map_or(0, |depth| depth + 1));
                (Kind::Supervisor(root), Shutdown::Infinity)
            }
            _ => (Kind::Traps, Shutdown::Infinity),
        };
        Child { id, restart, shutdown, kind, significant }
    }

    fn action(&mut self) -> Action {
        let supervisors = self.supervisors.clone();
        let (supervisor, strategy, auto) = self.pick(&supervisors);
        let (own, id) = if self.children.is_empty() || self.below(16) == 0 {
            (supervisor, self.next.saturating_sub(1))
        } else {
            let children = self.children.clone();
            self.pick(&children)
        };
        let dynamic = |generator: &Self, own| {
            generator.supervisors.iter().any(|(name, strategy, _)| *name == own && *strategy == Strategy::Simple)
        };
        match self.below(25) {
            0..6 => Action::End(id, self.pick(Why::ALL)),
            6..9 => Action::Exit(id, self.pick(Why::ALL)),
            9..12 if strategy == Strategy::Simple => {
                let id = self.next;
                self.next += 1;
                self.children.push((supervisor, id));
                Action::StartOne(supervisor, id)
            }
            9..11 => Action::Start(supervisor, self.child(supervisor, auto, None)),
            // Starts a child with an id that is taken; a dynamic supervisor starts one with an id that is not.
            11 => {
                let mut child = self.child(own, Auto::Never, None);
                self.children.pop();
                child.id = id;
                if dynamic(self, own) { Action::StartOne(own, self.next) } else { Action::Start(own, child) }
            }
            12..15 if dynamic(self, own) => Action::TerminateOne(own, id),
            12..15 => Action::Terminate(own, id),
            15..18 => Action::Restart(own, id),
            18..20 => Action::Delete(own, id),
            20..22 => Action::ExitSupervisor(supervisor, self.pick(&[Why::Kill, Why::Kill, Why::Bad, Why::Normal])),
            _ => {
                let why = if self.below(4) == 0 { self.pick(Why::ALL) } else { Why::Bad };
                Action::During(id, why, self.siblings(own, id))
            }
        }
    }

    /// Picks actions for the children of one supervisor while it is busy with the start of `held`.
    fn siblings(&mut self, own: Supervisor, held: Id) -> Vec<Action> {
        let all: Vec<Id> = self.children.iter().filter(|child| child.0 == own).map(|child| child.1).collect();
        // Only the supervisor of `held` is busy; any other one would not be.
        if !all.contains(&held) {
            return Vec::new();
        }
        let action = |generator: &mut Self| {
            let (id, why) = (generator.pick(&all), generator.pick(Why::ALL));
            if generator.below(2) == 0 { Action::End(id, why) } else { Action::Exit(id, why) }
        };
        let mut actions: Vec<Action> = (0..=self.below(3)).map(|_| action(self)).collect();
        // An exit signal to `held` ends that start, and then the supervisor is no longer busy: leave out all later
        // actions.
        let ends_it = |action: &Action| matches!(action, Action::Exit(id, why) if *id == held && *why != Why::Normal);
        let last = actions.iter().position(ends_it).map_or(actions.len(), |last| last + 1);
        actions.truncate(last);
        actions
    }
}
