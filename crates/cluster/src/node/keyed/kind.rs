//! State that all parts of a kind of keyed processes share.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Context, Pid};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::identity::NodeName;
use crate::placement::Placement;

/// Prefix of the groups of hosts.
pub(super) const GROUP: &str = "~keyed/";
/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Maximum length of the state of a key, in bytes.
pub const STATE_BYTES_MAX: usize = 16 << 20;

/// Message to a keyed process: it should store what it needs and end. All messages before this one are in its mailbox
/// before it.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// use rusm::Context;
/// use rusm::cluster::node::Deactivate;
///
/// /// A keyed process that ends when it is asked to.
/// async fn cart(ctx: Context, customer: String) {
///     loop {
///         let message = ctx.receive().await;
///         if message.is::<Deactivate>() {
///             println!("store the cart of {customer}");
///             return;
///         }
///         // … handle the message …
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deactivate;

/// Settings of a kind of keyed processes.
///
/// ```
/// # mod rusm { pub use rusm_cluster as cluster; }
/// use std::time::Duration;
///
/// use rusm::cluster::node::KeyedConfig;
///
/// let config = KeyedConfig { idle: Duration::from_secs(10), keys_max: 10_000, ..KeyedConfig::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedConfig {
    /// Time without a message after which a process gets [`Deactivate`]. Default 60 s.
    pub idle: Duration,
    /// Maximum number of keys on this node, live or suspended. Default 1,000,000.
    pub keys_max: usize,
    /// Length of the suspended states on this node beyond which it takes none from other nodes, in bytes. They keep them, and
    /// ask again. Default 1 GiB.
    pub state_bytes_max: u64,
}

impl Default for KeyedConfig {
    fn default() -> Self {
        Self { idle: Duration::from_mins(1), keys_max: 1_000_000, state_bytes_max: 1 << 30 }
    }
}

/// Future of a keyed process; returns the state that it leaves.
pub(super) type Body = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;
/// Starts the body of a key with the state that its last process has left.
pub(super) type Start = dyn Fn(Context, String, Option<Initial>) -> Body + Send + Sync;
/// State that was resumed.
pub(super) type Initial = Box<dyn std::any::Any + Send>;
/// Resumes a state; `None` if its bytes are not valid.
pub(super) type Resume = dyn Fn(Bytes) -> Option<Initial> + Send + Sync;

/// Code of a kind.
pub(super) struct Code {
    pub(super) start: Box<Start>,
    pub(super) resume: Box<Resume>,
}

/// Numbers of keys on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// Number of keys with a process that runs or is about to start.
    pub live: usize,
    /// Number of keys without a process. Their state stays here until their next message, or until it has moved.
    pub suspended: usize,
}

/// Numbers of keys, written by the host and read by all.
#[derive(Debug, Default)]
pub(super) struct SharedCount {
    live: AtomicUsize,
    suspended: AtomicUsize,
}

impl SharedCount {
    pub(super) fn set(&self, count: KeyCount) {
        // Relaxed: the numbers are only looked at.
        self.live.store(count.live, Ordering::Relaxed);
        self.suspended.store(count.suspended, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> KeyCount {
        KeyCount { live: self.live.load(Ordering::Relaxed), suspended: self.suspended.load(Ordering::Relaxed) }
    }
}

/// Hosts of a kind by their node, and what is known of keys.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) placement: Placement,
    pub(super) pids: HashMap<NodeName, Pid>,
    /// Pids of keys that were resolved, except for those on nodes that are gone.
    pub(super) known: HashMap<String, Pid>,
    /// Nodes, by the node part of their pids, that have said that they have no key any more.
    pub(super) drained: HashSet<u32>,
}

impl Hosts {
    /// Returns a number that is equal on nodes that know the same hosts.
    pub(super) fn view(&self) -> u64 {
        let of = |(node, pid): (&NodeName, &Pid)| {
            let life = u64::from(pid.slot()) << 32 | u64::from(pid.generation());
            xxh3_64_with_seed(node.as_str().as_bytes(), life)
        };
        self.pids.iter().map(of).fold(0, |view, host| view ^ host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_equal_if_the_hosts_are_whatever_their_order_and_number_of_the_node() {
        let hosts = |pids: &[(&str, Pid)]| {
            let pids = pids.iter().map(|(node, pid)| (NodeName::new(node).unwrap(), *pid)).collect();
            Hosts { pids, ..Hosts::default() }.view()
        };
        let (a, b) = (Pid::local(1, 1), Pid::local(1, 2));
        let of_another_node = Pid::from_parts(7, 1, 1);

        assert_eq!(hosts(&[("a", a), ("b", b)]), hosts(&[("b", b), ("a", of_another_node)]));
        assert_ne!(hosts(&[("a", a), ("b", b)]), hosts(&[("a", a)]));
        assert_ne!(hosts(&[("a", a), ("b", b)]), hosts(&[("a", a), ("b", Pid::local(1, 3))]), "node b has restarted");
    }
}
