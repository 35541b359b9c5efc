//! What a guest may do: capabilities, and named sets of them.
//!
//! ```text
//!   profile ─▶ Grant of a process ─▶ Grant of what it starts: the profile asked for, cut down to its own
//! ```
//!
//! Nothing is allowed that was not granted, and no process can grant what it lacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::limits::Limits;

/// Something that a guest may do only when it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Capability {
    /// Starting processes.
    Spawn,
    /// Sending exit signals to processes that are neither itself nor its children.
    ExitOthers,
    /// Registering and finding names.
    Names,
    /// Joining and watching groups.
    Groups,
    /// Timers.
    Timers,
    /// Random bytes.
    Random,
    /// Digests computed by the node.
    Crypto,
    /// Sockets of WASI.
    Network,
    /// Opening streams of bytes to other processes.
    Streams,
    /// The durable store, as far as its buckets were granted.
    Kv,
    /// Topics, as far as they were granted.
    Topics,
    /// Sending to processes that did not give their address: neither itself, its parent or its children, nor one that has
    /// sent to it, nor one that the node has named to it.
    Send,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Spawn,
        Self::ExitOthers,
        Self::Names,
        Self::Groups,
        Self::Timers,
        Self::Random,
        Self::Crypto,
        Self::Network,
        Self::Streams,
        Self::Kv,
        Self::Topics,
        Self::Send,
    ];

    /// Its word in configuration, errors and events.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::ExitOthers => "exit-others",
            Self::Names => "names",
            Self::Groups => "groups",
            Self::Timers => "timers",
            Self::Random => "random",
            Self::Crypto => "crypto",
            Self::Network => "network",
            Self::Streams => "streams",
            Self::Kv => "kv",
            Self::Topics => "topics",
            Self::Send => "send",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// No capability or profile has this word.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no {kind} is called {word:?}; there are {known}")]
pub struct UnknownWord {
    kind: &'static str,
    word: String,
    known: String,
}

impl std::str::FromStr for Capability {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|capability| capability.word() == word).ok_or_else(|| UnknownWord {
            kind: "capability",
            word: word.to_owned(),
            known: Self::ALL.map(Self::word).join(", "),
        })
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Everything.
    pub const fn all() -> Self {
        Self((1 << Capability::ALL.len()) - 1)
    }

    /// Whether the set has this one.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// What both sets have.
    pub const fn narrowed_to(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those in it.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |capability| self.has(*capability))
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().fold(0, |bits, capability| bits | capability.bit()))
    }
}

/// What one process may do, and what that is called; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Grant(Arc<Granted>);

#[derive(Clone, Debug)]
struct Granted {
    profile: Arc<str>,
    capabilities: Capabilities,
    /// Names of buckets, and beginnings of them with a star; one of each list must fit.
    buckets: Vec<Names>,
    /// The same of topics.
    topics: Vec<Names>,
    limits: Limits,
}

/// Names, and beginnings of names with a star at the end.
type Names = Arc<[String]>;

/// Adds lists that are not there: there are only as many as profiles, however deep the processes start each other.
fn narrow(lists: &mut Vec<Names>, parent: &[Names]) {
    for list in parent {
        if !lists.iter().any(|known| Arc::ptr_eq(known, list)) {
            lists.push(Arc::clone(list));
        }
    }
}

fn fits(lists: &[Names], name: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    lists.iter().all(|list| list.iter().any(fits))
}

impl Grant {
    fn new(profile: Arc<str>, capabilities: Capabilities, buckets: Names, topics: Names) -> Self {
        Self(Arc::new(Granted {
            profile,
            capabilities,
            buckets: vec![buckets],
            topics: vec![topics],
            limits: Limits::default(),
        }))
    }

    /// The name of what is granted.
    pub(crate) fn profile(&self) -> &Arc<str> {
        &self.0.profile
    }

    /// How much processes with it may use.
    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    #[inline]
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.0.capabilities.has(capability)
    }

    /// This grant cut down to that of whoever starts the process; its limits are cut down by what that process is held to.
    pub(crate) fn narrowed_to(self, parent: &Self) -> Self {
        let (own, parent) = (&*self.0, &*parent.0);
        let (mut buckets, mut topics) = (own.buckets.clone(), own.topics.clone());
        narrow(&mut buckets, &parent.buckets);
        narrow(&mut topics, &parent.topics);
        let capabilities = own.capabilities.narrowed_to(parent.capabilities);
        Self(Arc::new(Granted { profile: Arc::clone(&own.profile), capabilities, buckets, topics, limits: own.limits }))
    }

    /// Whether a bucket of the store is among those that were granted.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "there is no store"))]
    pub(crate) fn allows_bucket(&self, name: &str) -> bool {
        fits(&self.0.buckets, name)
    }

    /// Whether a topic is among those that were granted.
    pub(crate) fn allows_topic(&self, name: &str) -> bool {
        fits(&self.0.topics, name)
    }
}

/// Named sets of capabilities.
///
/// ```
/// use rusm_runtime::wasm::{Capability, Profiles};
///
/// let mut profiles = Profiles::default();
/// profiles.set("clockwork", [Capability::Timers].into_iter().collect());
/// assert!(!profiles.find("sandboxed").expect("always there").has(Capability::Spawn));
/// assert_eq!(profiles.find("clockwrk").unwrap_err().to_string(),
///     "no profile is called \"clockwrk\"; there are clockwork, network, sandboxed, trusted");
/// ```
#[derive(Clone, Debug)]
pub struct Profiles(BTreeMap<Arc<str>, Grant>);

/// The profile of a process that was started without one: it can compute, receive messages and answer them.
pub const SANDBOXED: &str = "sandboxed";

impl Default for Profiles {
    /// `sandboxed` can answer the processes that send to it, `network` can also send to every process whose pid it has, find others,
    /// start them and use streams and sockets, `trusted` can do everything.
    fn default() -> Self {
        use Capability::{Crypto, Groups, Names, Network, Random, Send, Spawn, Streams, Timers};
        let mut profiles = Self(BTreeMap::new());
        profiles.set(SANDBOXED, [Timers, Random, Crypto].into_iter().collect());
        profiles.set(
            "network",
            [Timers, Random, Crypto, Send, Spawn, Names, Groups, Network, Streams].into_iter().collect(),
        );
        profiles.set("trusted", Capabilities::all());
        profiles.set_buckets("trusted", ["*"]);
        profiles.set_topics("trusted", ["*"]);
        profiles
    }
}

impl Profiles {
    /// Adds a profile, or changes one, which then has no buckets and topics, and the limits that it had.
    pub fn set(&mut self, name: impl Into<Arc<str>>, capabilities: Capabilities) {
        let name = name.into();
        let limits = self.0.get(&name).map(Grant::limits).unwrap_or_default();
        self.0.insert(Arc::clone(&name), Grant::new(Arc::clone(&name), capabilities, Arc::new([]), Arc::new([])));
        self.set_limits(&name, limits);
    }

    /// Grants buckets of the store to a profile that has the capability `kv`: names, or beginnings of names with a star at
    /// the end. Without this it has none. A profile that is not there stays so.
    pub fn set_buckets(&mut self, name: &str, buckets: impl IntoIterator<Item = impl Into<String>>) {
        self.change(name, |granted| granted.buckets = vec![buckets.into_iter().map(Into::into).collect()]);
    }

    /// Grants topics to a profile that has the capability `topics`, in the same way.
    pub fn set_topics(&mut self, name: &str, topics: impl IntoIterator<Item = impl Into<String>>) {
        self.change(name, |granted| granted.topics = vec![topics.into_iter().map(Into::into).collect()]);
    }

    /// Limits what processes of a profile may use. Without this they may use what the node allows. A profile that is not there
    /// stays so.
    pub fn set_limits(&mut self, name: &str, limits: Limits) {
        self.change(name, |granted| granted.limits = limits);
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Granted)) {
        if let Some(grant) = self.0.get_mut(name) {
            change(Arc::make_mut(&mut grant.0));
        }
    }

    /// The capabilities of a profile.
    ///
    /// # Errors
    /// [`UnknownWord`] names those that there are.
    pub fn find(&self, name: &str) -> Result<Capabilities, UnknownWord> {
        self.grant(name).map(|grant| grant.0.capabilities)
    }

    /// How much processes of a profile may use.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn limits(&self, name: &str) -> Result<Limits, UnknownWord> {
        self.grant(name).map(|grant| grant.limits())
    }

    /// The names of all profiles, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    pub(crate) fn grant(&self, name: &str) -> Result<Grant, UnknownWord> {
        match self.0.get(name) {
            Some(grant) => Ok(grant.clone()),
            None => Err(UnknownWord {
                kind: "profile",
                word: name.to_owned(),
                known: self.names().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}
