//! Keyed processes: a process for each key, started by its first message on the node that the key belongs to.
//!
//! ```text
//!   entity(key) ─▶ place: rendezvous hash over the hosts of the kind ─▶ host there: table of keys ─▶ pid
//!                                                                     └─ new key: ask the other hosts ─▶ start it
//! ```
//!
//! Every node that serves a kind runs one host, and all hosts of a kind are a group. A caller sends to the process itself
//! and asks a host only for its pid. A process that is idle, or whose node drains, gets [`Deactivate`] behind all its
//! messages and ends. Its next message starts it where the key belongs then, and not before it has ended. State that it
//! leaves is kept by its host, and moves to the host of its place when its node drains.

mod host;
mod kind;
mod suspended;
mod table;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::RwLock;
use rusm_runtime::{CallError, Context, ExitReason, Handle, Pid, SpawnError};
use thiserror::Error;

use self::host::Host;
use self::kind::{Body, Code, GROUP, Hosts, Initial, SharedCount};
pub use self::kind::{Deactivate, KEY_BYTES_MAX, KeyCount, KeyedConfig, STATE_BYTES_MAX};
use self::wire::{Answer, Question};
use super::member::Node;
use crate::identity::NodeName;

/// Time between two attempts while a key moves.
const RETRY: Duration = Duration::from_millis(5);
/// Time after which a key that cannot be resolved is an error.
const RESOLVE_WITHIN: Duration = Duration::from_secs(10);
/// Number of pids that a node remembers.
const CACHE_MAX: usize = 1 << 17;

/// Error returned when a keyed process cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyedError {
    /// The key is too long.
    #[error("a key has at most {KEY_BYTES_MAX} bytes, not {0}")]
    Length(usize),
    /// The runtime is at its limit of processes.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// All nodes that serve the kind drain.
    #[error("no node takes keys of kind {0:?}")]
    NoNode(Arc<str>),
    /// The node of the key has as many keys as it may have, or cannot start a process.
    #[error("node {node} does not start a process for key {key:?} of kind {kind:?}")]
    Refused {
        /// Node of the key.
        node: String,
        /// Kind.
        kind: Arc<str>,
        /// Key.
        key: String,
    },
    /// The key was not resolved in time, for example because the node where it was live hangs.
    #[error("key {key:?} of kind {kind:?} was not resolved in time")]
    Timeout {
        /// Kind.
        kind: Arc<str>,
        /// Key.
        key: String,
    },
    /// The call failed. The process may have received the request.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A kind of keyed processes, as the processes of this node use it. Clones are the same. The host ends with the last one.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use rusm::cluster::{BootId, Config, MemoryNetwork, NodeName};
/// use rusm::cluster::node::{Deactivate, Keyed, KeyedConfig, Node};
/// use rusm::{Context, Request};
///
/// /// A cart counts its items until it is idle.
/// async fn cart(ctx: Context, _customer: String) {
///     let mut items = 0;
///     loop {
///         let message = ctx.receive().await;
///         if message.is::<Deactivate>() {
///             return;
///         }
///         if let Ok(Request { request, reply }) = message.downcast::<Request<u32, u32>>() {
///             items += request;
///             reply.send(&ctx, items);
///         }
///     }
/// }
///
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let link = Arc::new(MemoryNetwork::new().join(NodeName::new("north")?));
/// # let node = Node::start(&runtime, link, BootId(1), Config::default())?;
/// let carts: Keyed = node.keyed("cart", KeyedConfig::default(), cart)?;
/// let of_ada = carts.entity("ada");
/// runtime.block_on(move |ctx| async move {
///     // The first message starts the process, on the node of its key.
///     assert_eq!(of_ada.call(&ctx, 2_u32, Duration::from_secs(5)).await, Ok(2_u32));
///     assert_eq!(of_ada.call(&ctx, 3_u32, Duration::from_secs(5)).await, Ok(5_u32));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyed(Arc<Kind>);

struct Kind {
    handle: Handle,
    name: Arc<str>,
    hosts: Arc<RwLock<Hosts>>,
    count: Arc<SharedCount>,
    host: Pid,
}

impl Drop for Kind {
    fn drop(&mut self) {
        self.handle.exit(self.host, ExitReason::Shutdown);
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyed").field(&self.0.name).finish()
    }
}

impl Node {
    /// Serves a kind of keyed processes on this node. `body` runs for each key, and should end after [`Deactivate`]. All
    /// nodes that serve the kind must run the same code.
    ///
    /// # Errors
    /// [`KeyedError::Length`] if the name of the kind is too long, [`KeyedError::Spawn`] without room for the host.
    pub fn keyed<F, T>(&self, kind: &str, config: KeyedConfig, body: F) -> Result<Keyed, KeyedError>
    where
        F: Fn(Context, String) -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let start = move |ctx: Context, key: String, _: Option<Initial>| -> Body {
            let body = body(ctx, key);
            Box::pin(async move {
                body.await;
                None
            })
        };
        self.serve(kind, config, Code { start: Box::new(start), resume: Box::new(|_| None) })
    }

    /// Does the same for processes with state that outlives them, in memory. `body` gets the state that the last process of
    /// the key has returned, and should return its own after [`Deactivate`]; `None` forgets the key.
    ///
    /// Between processes, the host keeps the state as the bytes that `suspend` makes of it, at most [`STATE_BYTES_MAX`]. When
    /// the node drains, they move to the host of the key's new place; `resume` reads them there. If it returns `None`, for
    /// example in another version of the program, they are kept and the key is refused. A node that is lost loses its states.
    ///
    /// # Errors
    /// As [`keyed`](Self::keyed).
    pub fn keyed_with_state<S, F, T>(
        &self,
        kind: &str,
        config: KeyedConfig,
        (suspend, resume): (
            impl Fn(S) -> Bytes + Send + Sync + 'static,
            impl Fn(Bytes) -> Option<S> + Send + Sync + 'static,
        ),
        body: F,
    ) -> Result<Keyed, KeyedError>
    where
        S: Send + 'static,
        F: Fn(Context, String, Option<S>) -> T + Send + Sync + 'static,
        T: Future<Output = Option<S>> + Send + 'static,
    {
        let suspend = Arc::new(suspend);
        let start = move |ctx: Context, key: String, state: Option<Initial>| -> Body {
            // Every state of a kind comes from its `resume`.
            let state = state.and_then(|state| state.downcast::<S>().ok()).map(|state| *state);
            let (body, suspend) = (body(ctx, key, state), Arc::clone(&suspend));
            Box::pin(async move { body.await.map(|state| suspend(state)) })
        };
        let resume = move |bytes: Bytes| resume(bytes).map(|state| Box::new(state) as Initial);
        self.serve(kind, config, Code { start: Box::new(start), resume: Box::new(resume) })
    }

    fn serve(&self, kind: &str, config: KeyedConfig, code: Code) -> Result<Keyed, KeyedError> {
        if GROUP.len() + kind.len() > 255 {
            return Err(KeyedError::Length(kind.len()));
        }
        let (hosts, count) = (Arc::new(RwLock::new(Hosts::default())), Arc::new(SharedCount::default()));
        let (handle, name) = (self.runtime(), Arc::<str>::from(kind));
        let (own, drains) = (self.identity().name.clone(), self.drains());
        let host = Host::new(Arc::clone(&name), own, config, code, Arc::clone(&hosts), Arc::clone(&count));
        let host = handle.spawn(move |ctx: Context| host.run(ctx, drains))?;
        Ok(Keyed(Arc::new(Kind { handle, name, hosts, count, host })))
    }
}

impl Keyed {
    /// Returns the process of a key.
    pub fn entity(&self, key: &str) -> Entity {
        Entity { kind: self.clone(), key: key.to_owned() }
    }

    /// Returns the numbers of keys on this node. After a drain, both are 0 if another node serves the kind.
    pub fn count(&self) -> KeyCount {
        self.0.count.get()
    }

    /// Returns the node that new keys like this one are placed on, as this node sees it.
    pub fn place(&self, key: &str) -> Option<NodeName> {
        self.0.hosts.read().placement.node_of(&self.0.name, key).cloned()
    }
}

/// A keyed process.
#[derive(Clone, Debug)]
pub struct Entity {
    kind: Keyed,
    key: String,
}

impl Entity {
    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the pid of the process, and starts it if it is not live. The process may end at any time.
    ///
    /// # Errors
    /// [`KeyedError`] if no node starts it.
    pub async fn pid(&self, ctx: &Context) -> Result<Pid, KeyedError> {
        let known = self.kind.0.hosts.read().known.get(&self.key).copied();
        match known {
            Some(pid) => Ok(pid),
            None => self.resolve(ctx).await,
        }
    }

    /// Sends a message. It is lost if the process has ended in this moment. A process on another node is looked up first.
    ///
    /// # Errors
    /// [`KeyedError`] if no node starts the process.
    pub async fn send<T: Send + 'static>(&self, ctx: &Context, message: T) -> Result<(), KeyedError> {
        let known = self.kind.0.hosts.read().known.get(&self.key).copied();
        // This node does not learn that a process of another one has ended.
        let pid = if let Some(pid) = known.filter(|pid| pid.node() == 0 && self.kind.0.handle.is_alive(*pid)) {
            pid
        } else {
            if let Some(pid) = known {
                self.forget(pid);
            }
            self.resolve(ctx).await?
        };
        ctx.send(pid, message).await;
        Ok(())
    }

    /// Sends a request and waits for its reply. A request that the process did not receive, because it had ended, is sent to
    /// the next one.
    ///
    /// # Errors
    /// [`KeyedError::Call`] if the process ended or its node was lost; it may have received the request.
    pub async fn call<M, R>(&self, ctx: &Context, request: M, timeout: Duration) -> Result<R, KeyedError>
    where
        M: Clone + Send + 'static,
        R: Send + 'static,
    {
        let until = Instant::now() + timeout;
        loop {
            let pid = self.pid(ctx).await?;
            let left = until.saturating_duration_since(Instant::now());
            let error = match ctx.call::<M, R>(pid, request.clone(), left).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.forget(pid);
            let was_received = match &error {
                CallError::NoProcess { .. } => false,
                // It ended after `Deactivate`, and the request came behind that.
                CallError::Ended { reason, .. } => *reason != ExitReason::Normal,
                CallError::Dropped { .. } => self.resolve(ctx).await? == pid,
                CallError::NoConnection { .. } => !self.was_drained(ctx, pid).await,
                _ => true,
            };
            if was_received || Instant::now() >= until {
                return Err(error.into());
            }
        }
    }

    /// Returns true if the node of a process had no key any more when it left: then the process had ended before, and all of
    /// its replies have arrived.
    async fn was_drained(&self, ctx: &Context, pid: Pid) -> bool {
        // What the node said is behind its replies, and may still wait for the host of this node. The answer comes after it.
        let barrier = Question::Adopt(Vec::new()).encode();
        drop(ctx.call::<Bytes, Bytes>(self.kind.0.host, barrier, RESOLVE_WITHIN).await);
        self.kind.0.hosts.read().drained.contains(&pid.node())
    }

    fn forget(&self, pid: Pid) {
        let mut hosts = self.kind.0.hosts.write();
        if hosts.known.get(&self.key) == Some(&pid) {
            hosts.known.remove(&self.key);
        }
    }

    /// Asks the host of the key for its process.
    async fn resolve(&self, ctx: &Context) -> Result<Pid, KeyedError> {
        let kind = &*self.kind.0;
        if self.key.len() > KEY_BYTES_MAX {
            return Err(KeyedError::Length(self.key.len()));
        }
        let until = Instant::now() + RESOLVE_WITHIN;
        let mut refused = None;
        while Instant::now() < until {
            let (place, view) = {
                let hosts = kind.hosts.read();
                let node = hosts.placement.node_of(&kind.name, &self.key).cloned();
                (node.and_then(|node| hosts.pids.get(&node).map(|host| (node, *host))), hosts.view())
            };
            let Some((node, host)) = place else {
                refused = Some(KeyedError::NoNode(Arc::clone(&kind.name)));
                ctx.sleep(RETRY).await;
                continue;
            };
            let question = Question::Find { view, key: &self.key }.encode();
            // A host that is lost is no longer a member soon.
            if let Ok(answer) = ctx.call::<Bytes, Bytes>(host, question, RESOLVE_WITHIN).await {
                match Answer::decode(&answer) {
                    Some(Answer::Live { node, slot, generation, .. }) => {
                        if let Some(pid) = self.kind.0.pid_on(&node, slot, generation) {
                            self.remember(pid);
                            return Ok(pid);
                        }
                    }
                    Some(Answer::Refused) => {
                        let (kind, key) = (Arc::clone(&kind.name), self.key.clone());
                        return Err(KeyedError::Refused { node: node.to_string(), kind, key });
                    }
                    _ => {}
                }
            }
            ctx.sleep(RETRY).await;
        }
        let timeout = || KeyedError::Timeout { kind: Arc::clone(&kind.name), key: self.key.clone() };
        Err(refused.unwrap_or_else(timeout))
    }

    fn remember(&self, pid: Pid) {
        let mut hosts = self.kind.0.hosts.write();
        if hosts.known.len() >= CACHE_MAX {
            hosts.known.clear();
        }
        hosts.known.insert(self.key.clone(), pid);
    }
}

impl Kind {
    /// Returns the pid of a process of a node; `None` if that is not connected.
    fn pid_on(&self, node: &str, slot: u32, generation: u32) -> Option<Pid> {
        let is_own = self.handle.node().is_some_and(|own| &*own.name == node);
        let node = if is_own { 0 } else { self.handle.node_named(node)? };
        Some(Pid::from_parts(node, slot, generation))
    }
}
