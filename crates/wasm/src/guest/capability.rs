//! Capabilities of guests, and profiles, which are named sets of them.
//!
//! ```text
//!   profile ─▶ Grant of a process ─▶ Grant of a child: the requested profile, narrowed to the parent's grant
//! ```
//!
//! A process has only what was granted to it, and cannot grant what it lacks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::guest::limits::GuestLimits;

/// A permission that a guest has only if it was granted.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Capability, UnknownName, WasmConfig};
///
/// // Guests of this profile may use timers and the granted buckets of the store, and nothing else.
/// let mut config = WasmConfig::default();
/// config.profiles.set("billing", [Capability::Timers, Capability::Kv].into_iter().collect());
/// config.profiles.set_buckets("billing", ["invoices"]);
///
/// // The names in configuration:
/// assert_eq!("exit-others".parse(), Ok::<_, UnknownName>(Capability::ExitOthers));
/// assert_eq!(Capability::Kv.word(), "kv");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Capability {
    /// Starting processes.
    Spawn,
    /// Sending exit signals to processes other than itself and its children.
    ExitOthers,
    /// Registering and looking up names.
    Names,
    /// Joining and monitoring groups.
    Groups,
    /// Setting timers.
    Timers,
    /// Reading random bytes.
    Random,
    /// Computing digests in the node.
    Crypto,
    /// Using sockets of WASI.
    Network,
    /// Opening byte streams to other processes.
    Streams,
    /// Using the durable store, for the granted buckets.
    Kv,
    /// Using topics, for the granted ones.
    Topics,
    /// Sending to any process. Without it, a guest may send to itself, its parent, its children, processes that have
    /// sent to it, and processes that the node has named to it.
    Send,
    /// Sending HTTP requests to other servers, the granted ones.
    Http,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 13] = [
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
        Self::Http,
    ];

    /// Returns its name in configuration, errors and events.
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
            Self::Http => "http",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// Error returned if no capability or profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {kind} {word:?}; expected one of {known}")]
pub struct UnknownName {
    kind: &'static str,
    word: String,
    known: String,
}

impl std::str::FromStr for Capability {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|capability| capability.word() == word).ok_or_else(|| UnknownName {
            kind: "capability",
            word: word.to_owned(),
            known: Self::ALL.map(Self::word).join(", "),
        })
    }
}

/// A set of capabilities.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Capabilities, Capability};
///
/// let few: Capabilities = [Capability::Timers, Capability::Spawn].into_iter().collect();
/// assert!(few.has(Capability::Spawn) && !few.has(Capability::Kv));
/// // A child never gets more than its parent has.
/// assert_eq!(Capabilities::all().narrowed_to(few), few);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of all capabilities.
    pub const fn all() -> Self {
        Self((1 << Capability::ALL.len()) - 1)
    }

    /// Returns true if the set contains the capability.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Returns the intersection of two sets.
    pub const fn narrowed_to(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Iterates over the capabilities in the set.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |capability| self.has(*capability))
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().fold(0, |bits, capability| bits | capability.bit()))
    }
}

/// Rights of a process, and the name of its profile; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Grant(Arc<GrantInner>);

#[derive(Clone, Debug)]
struct GrantInner {
    profile: Arc<str>,
    capabilities: Capabilities,
    /// Patterns of bucket names. A name must match a pattern in each of the lists.
    buckets: Vec<Names>,
    /// Patterns of topic names, likewise.
    topics: Vec<Names>,
    /// Patterns of hosts, likewise.
    hosts: Vec<Names>,
    /// Values of `wasi:config`.
    values: Arc<BTreeMap<String, String>>,
    /// Variables of the environment.
    environment: Arc<BTreeMap<String, String>>,
    folders: Arc<[Folder]>,
    limits: GuestLimits,
}

/// A folder of the machine that guests reach by WASI, and nothing outside of it.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Folder, Profiles};
///
/// let mut profiles = Profiles::default();
/// let pages = Folder { path: "/srv/pages".into(), guest_path: "/pages".to_owned(), is_writable: false };
/// profiles.set_folders("trusted", [pages]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Path on the machine.
    pub path: PathBuf,
    /// Path by which guests know it.
    pub guest_path: String,
    /// True if guests may change it. Its size is then limited by the disk alone.
    pub is_writable: bool,
}

/// Returns true if each list has a pattern for this host: `*`, `*.example.org`, `example.org`, or with a port.
fn matches_host(lists: &[Names], host: &str, authority: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_prefix('*') {
        Some("") => true,
        Some(end) => host.len() > end.len() && host[host.len() - end.len()..].eq_ignore_ascii_case(end),
        None => pattern.eq_ignore_ascii_case(host) || pattern.eq_ignore_ascii_case(authority),
    };
    lists.iter().all(|list| list.iter().any(fits))
}

/// Returns the values that the parent has as well.
fn narrowed_values(
    own: &Arc<BTreeMap<String, String>>,
    parent: &Arc<BTreeMap<String, String>>,
) -> Arc<BTreeMap<String, String>> {
    if Arc::ptr_eq(own, parent) {
        return Arc::clone(own);
    }
    let shared = own.iter().filter(|(key, value)| parent.get(*key) == Some(*value));
    Arc::new(shared.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Returns the folders that the parent has as well.
fn narrowed_folders(own: &Arc<[Folder]>, parent: &Arc<[Folder]>) -> Arc<[Folder]> {
    if Arc::ptr_eq(own, parent) {
        return Arc::clone(own);
    }
    let narrowed = own.iter().filter_map(|folder| {
        let shared = parent.iter().find(|known| known.path == folder.path)?;
        Some(Folder { is_writable: folder.is_writable && shared.is_writable, ..folder.clone() })
    });
    narrowed.collect()
}

/// Name patterns: exact names, or prefixes that end in a star.
type Names = Arc<[String]>;

/// Adds the lists of the parent that are missing. There are at most as many lists as profiles, however deep the
/// process tree is.
fn narrow(lists: &mut Vec<Names>, parent: &[Names]) {
    for list in parent {
        if !lists.iter().any(|known| Arc::ptr_eq(known, list)) {
            lists.push(Arc::clone(list));
        }
    }
}

fn matches_all(lists: &[Names], name: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    lists.iter().all(|list| list.iter().any(fits))
}

impl Grant {
    fn new(profile: Arc<str>, capabilities: Capabilities, buckets: Names, topics: Names) -> Self {
        Self(Arc::new(GrantInner {
            profile,
            capabilities,
            buckets: vec![buckets],
            topics: vec![topics],
            hosts: vec![Arc::new([])],
            values: Arc::default(),
            environment: Arc::default(),
            folders: Arc::new([]),
            limits: GuestLimits::default(),
        }))
    }

    /// Returns the name of the profile.
    pub(crate) fn profile(&self) -> &Arc<str> {
        &self.0.profile
    }

    /// Returns the resource limits of the profile.
    pub(crate) fn limits(&self) -> GuestLimits {
        self.0.limits
    }

    #[inline]
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.0.capabilities.has(capability)
    }

    /// Narrows this grant to that of the parent process. The limits stay: the caller narrows them to the parent's
    /// bounds.
    pub(crate) fn narrowed_to(self, parent: &Self) -> Self {
        let (own, parent) = (&*self.0, &*parent.0);
        let (mut buckets, mut topics, mut hosts) = (own.buckets.clone(), own.topics.clone(), own.hosts.clone());
        narrow(&mut hosts, &parent.hosts);
        narrow(&mut buckets, &parent.buckets);
        narrow(&mut topics, &parent.topics);
        let capabilities = own.capabilities.narrowed_to(parent.capabilities);
        Self(Arc::new(GrantInner {
            profile: Arc::clone(&own.profile),
            capabilities,
            buckets,
            topics,
            hosts,
            values: narrowed_values(&own.values, &parent.values),
            environment: narrowed_values(&own.environment, &parent.environment),
            folders: narrowed_folders(&own.folders, &parent.folders),
            limits: own.limits,
        }))
    }

    /// Returns the values of `wasi:config`.
    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.0.values
    }

    /// Returns the variables of the environment.
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.0.environment
    }

    /// Returns the folders that the process may use.
    pub(crate) fn folders(&self) -> &[Folder] {
        &self.0.folders
    }

    /// Returns true if the bucket is granted. The buckets of topics belong to the topics, which have a form of their own.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "used by the store feature only"))]
    pub(crate) fn allows_bucket(&self, name: &str) -> bool {
        !name.starts_with(TOPIC_BUCKETS) && matches_all(&self.0.buckets, name)
    }

    /// Returns true if the bucket is granted by its name, not by a prefix of it.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "used by the store feature only"))]
    pub(crate) fn names_bucket(&self, name: &str) -> bool {
        self.0.buckets.iter().all(|list| list.iter().any(|pattern| pattern == name))
    }

    /// Returns true if the topic is granted.
    pub(crate) fn allows_topic(&self, name: &str) -> bool {
        matches_all(&self.0.topics, name)
    }

    /// Returns true if requests may be sent to this server; `authority` is its host, with the port if it is named.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "used by the http feature only"))]
    pub(crate) fn allows_host(&self, host: &str, authority: &str) -> bool {
        matches_host(&self.0.hosts, host, authority)
    }
}

/// Named sets of capabilities.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Capability, Profiles};
///
/// let mut profiles = Profiles::default();
/// profiles.set("clockwork", [Capability::Timers].into_iter().collect());
/// assert!(!profiles.find("sandboxed").expect("always there").has(Capability::Spawn));
/// assert_eq!(profiles.find("clockwrk").unwrap_err().to_string(),
///     "unknown profile \"clockwrk\"; expected one of clockwork, network, sandboxed, trusted");
/// ```
#[derive(Clone, Debug)]
pub struct Profiles(BTreeMap<Arc<str>, Grant>);

/// Start of the names of buckets in which a store keeps durable topics.
pub const TOPIC_BUCKETS: &str = "topic/";

/// Profile of processes that were started without one: compute, receive messages and answer them.
pub const SANDBOXED: &str = "sandboxed";

impl Default for Profiles {
    /// `sandboxed` can answer the processes that send to it. `network` can also send to every process by its pid, find
    /// and start processes, and use streams, sockets and HTTP. `trusted` can do everything.
    fn default() -> Self {
        use Capability::{Crypto, Groups, Http, Names, Network, Random, Send, Spawn, Streams, Timers};
        let mut profiles = Self(BTreeMap::new());
        profiles.set(SANDBOXED, [Timers, Random, Crypto].into_iter().collect());
        profiles.set(
            "network",
            [Timers, Random, Crypto, Send, Spawn, Names, Groups, Network, Streams, Http].into_iter().collect(),
        );
        profiles.set_hosts("network", ["*"]);
        profiles.set("trusted", Capabilities::all());
        profiles.set_buckets("trusted", ["*"]);
        profiles.set_topics("trusted", ["*"]);
        profiles.set_hosts("trusted", ["*"]);
        profiles
    }
}

impl Profiles {
    /// Adds or replaces a profile. A replaced profile keeps its limits and loses everything else.
    pub fn set(&mut self, name: impl Into<Arc<str>>, capabilities: Capabilities) {
        let name = name.into();
        let limits = self.0.get(&name).map(Grant::limits).unwrap_or_default();
        self.0.insert(Arc::clone(&name), Grant::new(Arc::clone(&name), capabilities, Arc::new([]), Arc::new([])));
        self.set_limits(&name, limits);
    }

    /// Grants buckets of the store to a profile with the capability `kv`: exact names, or prefixes that end in a star.
    /// Without this call no bucket is granted. Does nothing if the profile does not exist.
    pub fn set_buckets(&mut self, name: &str, buckets: impl IntoIterator<Item = impl Into<String>>) {
        self.change(name, |granted| granted.buckets = vec![buckets.into_iter().map(Into::into).collect()]);
    }

    /// Grants topics to a profile with the capability `topics`, in the same way.
    pub fn set_topics(&mut self, name: &str, topics: impl IntoIterator<Item = impl Into<String>>) {
        self.change(name, |granted| granted.topics = vec![topics.into_iter().map(Into::into).collect()]);
    }

    /// Grants servers to a profile with the capability `http`: `example.org`, `example.org:8080`, `*.example.org` or `*`.
    /// Without this call no server is granted. Does nothing if the profile does not exist.
    pub fn set_hosts(&mut self, name: &str, hosts: impl IntoIterator<Item = impl Into<String>>) {
        self.change(name, |granted| granted.hosts = vec![hosts.into_iter().map(Into::into).collect()]);
    }

    /// Sets the values that guests read by `wasi:config`. A guest hands only those on that it has itself. Does nothing if
    /// the profile does not exist.
    pub fn set_config(&mut self, name: &str, values: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) {
        let values = values.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.change(name, |granted| granted.values = Arc::new(values));
    }

    /// Sets the variables of the environment that guests read by WASI. A guest hands only those on that it has itself. Does
    /// nothing if the profile does not exist.
    pub fn set_environment(
        &mut self,
        name: &str,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) {
        let variables = variables.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.change(name, |granted| granted.environment = Arc::new(variables));
    }

    /// Grants folders to the guests of a profile that use WASI. A guest hands only those on that it has itself. Without this
    /// call no folder is granted. Does nothing if the profile does not exist.
    pub fn set_folders(&mut self, name: &str, folders: impl IntoIterator<Item = Folder>) {
        self.change(name, |granted| granted.folders = folders.into_iter().collect());
    }

    /// Limits the resources of a profile's processes; by default they may use what the node allows. Does nothing if
    /// the profile does not exist.
    pub fn set_limits(&mut self, name: &str, limits: GuestLimits) {
        self.change(name, |granted| granted.limits = limits);
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut GrantInner)) {
        if let Some(grant) = self.0.get_mut(name) {
            change(Arc::make_mut(&mut grant.0));
        }
    }

    /// Returns the capabilities of a profile.
    ///
    /// # Errors
    /// [`UnknownName`], which lists the existing profiles.
    pub fn find(&self, name: &str) -> Result<Capabilities, UnknownName> {
        self.grant(name).map(|grant| grant.0.capabilities)
    }

    /// Returns the resource limits of a profile.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn limits(&self, name: &str) -> Result<GuestLimits, UnknownName> {
        self.grant(name).map(|grant| grant.limits())
    }

    /// Iterates over the names of all profiles, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    pub(crate) fn grant(&self, name: &str) -> Result<Grant, UnknownName> {
        match self.0.get(name) {
            Some(grant) => Ok(grant.clone()),
            None => Err(UnknownName {
                kind: "profile",
                word: name.to_owned(),
                known: self.names().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}
