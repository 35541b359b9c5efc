//! Unique names of the cluster, as processes use them: [`Names`].
//!
//! ```text
//!   register ──▶ Registry ──▶ claims to other nodes ──▶ Registered or Refused ──▶ the future of the caller
//!                   └── suspended, resumed, lost ──▶ watcher process of the name ──▶ NameChange to the owner
//! ```
//!
//! The registry is locked before a session, never the other way round, so its messages to a node keep their order.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rusm_runtime::observe::ClusterName;
use rusm_runtime::{Context, Down, ExitReason, Handle, Pid, SpawnError};
use thiserror::Error;

use crate::identity::{Address, Identity, NodeName};
use crate::names::{ListedName, Minority, NameEvent, Owner, RegisterError, RegisterRefused, Registry};
use crate::wire::WireError;

/// Minimum time between two ticks of the registry.
const TICK_MIN: Duration = Duration::from_millis(80);

/// Unique names of the cluster. Clones are the same.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// # use std::sync::Arc;
/// # use rusm::cluster::node::Node;
/// # use rusm::cluster::{BootId, Config, MemoryNetwork, NodeName};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let link = Arc::new(MemoryNetwork::new().join(NodeName::new("north")?));
/// let node = Node::start(&runtime, link, BootId(1), Config::default())?;
/// let names = node.names();
/// runtime.block_on(move |ctx| async move {
///     let epoch = names.register("leader", ctx.pid()).await?;
///     // Any node of the cluster finds the owner. Storage can refuse writes of an earlier epoch.
///     let owner = names.owner("leader")?.expect("it is registered");
///     assert_eq!((owner.pid, owner.epoch), (ctx.pid(), epoch));
///     assert!(names.owns("leader"));
///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// })
/// # .map_err(|error| error.to_string())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Names(Arc<State>);

/// Sends a message to the registry of a node.
type SendToRegistry = Box<dyn Fn(&NodeName, Bytes) + Send + Sync>;

struct State {
    inner: Mutex<Inner>,
    handle: Handle,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    send: SendToRegistry,
}

struct Inner {
    registry: Registry,
    /// Registrations with a caller that waits, by the pids of their watchers.
    requests: HashMap<Pid, Request>,
    /// Watcher of the newest registration of each name.
    watchers: HashMap<Arc<str>, Pid>,
    ticked_at: Duration,
}

/// A registration that is not over: the caller has not taken its result.
#[derive(Default)]
struct Request {
    result: Option<Result<u64, RegisterRefused>>,
    waker: Option<Waker>,
}

/// The owner of a name, as other processes reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameOwner {
    /// The process.
    pub pid: Pid,
    /// Fencing epoch: it grows with each owner of the name.
    pub epoch: u64,
}

/// Message to a process that owns a name, or did.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// use rusm::Context;
/// use rusm::cluster::node::{NameChange, Ownership};
///
/// /// The loop of a process that works only while it owns its name.
/// async fn lead(ctx: Context, mut epoch: u64) {
///     loop {
///         match ctx.receive_of::<NameChange>().await.change {
///             Ownership::Suspended => println!("no majority: epoch {epoch} pauses"),
///             Ownership::Resumed { epoch: next } => epoch = next,
///             Ownership::Lost => return,
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameChange {
    /// The name.
    pub name: Arc<str>,
    /// The change.
    pub change: Ownership,
}

/// A change of the ownership of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The node has lost the majority: the process must not act as the owner.
    Suspended,
    /// The process owns the name again, with this fencing epoch.
    Resumed {
        /// Fencing epoch.
        epoch: u64,
    },
    /// Another process owns the name.
    Lost,
}

/// Error returned by [`Names::register`].
#[derive(Debug, Error)]
pub enum RegisterNameError {
    /// The registration cannot begin.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The other nodes have not granted the name.
    #[error(transparent)]
    Refused(#[from] RegisterRefused),
    /// The process is on another node.
    #[error("{0} is a process of another node: register it there")]
    NotLocal(Pid),
    /// The runtime cannot spawn the process that watches the owner.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl Names {
    pub(super) fn new(
        registry: Registry,
        handle: Handle,
        now: impl Fn() -> Duration + Send + Sync + 'static,
        send: impl Fn(&NodeName, Bytes) + Send + Sync + 'static,
    ) -> Self {
        let (requests, watchers) = (HashMap::new(), HashMap::new());
        let inner = Mutex::new(Inner { registry, requests, watchers, ticked_at: Duration::ZERO });
        Self(Arc::new(State { inner, handle, now: Box::new(now), send: Box::new(send) }))
    }

    /// Registers a process of this node under a name that no other process of the cluster has. Returns the fencing
    /// epoch. The process gets a [`NameChange`] when its ownership changes, and the name is free when it ends. Dropping
    /// the future gives the name up.
    ///
    /// # Errors
    /// [`RegisterNameError`] if the name has an owner, or if less than half of the cluster agrees in time.
    pub async fn register(&self, name: &str, pid: Pid) -> Result<u64, RegisterNameError> {
        if pid.node() != 0 {
            return Err(RegisterNameError::NotLocal(pid));
        }
        let watcher = self.spawn_watcher(pid)?;
        let name: Arc<str> = name.into();
        let begun = self.with(|inner, now| {
            let begun = inner.registry.register(now, &name, Address::new(pid.slot(), pid.generation()));
            if begun.is_ok() {
                inner.requests.insert(watcher, Request::default());
                inner.watchers.insert(Arc::clone(&name), watcher);
            }
            begun
        });
        if let Err(error) = begun {
            self.0.handle.exit(watcher, ExitReason::Shutdown);
            return Err(error.into());
        }
        if !self.0.handle.is_alive(watcher) {
            // The process had ended before the watcher had a name to give up.
            self.process_ended(pid, watcher);
        }
        Ok(Registration { names: self, name, watcher, is_done: false }.await?)
    }

    /// Gives a name of a process of this node up.
    pub fn unregister(&self, name: &str) {
        self.give_up(name, None);
    }

    /// Gives a name up; with a watcher, only if that one's registration is the newest of the name. Its caller is told.
    fn give_up(&self, name: &str, watcher: Option<Pid>) {
        let waker = self.with(|inner, _| {
            if watcher.is_some() && inner.watchers.get(name).copied() != watcher {
                return None;
            }
            inner.registry.unregister(name);
            let waker = complete(inner, name, Err(RegisterRefused::Withdrawn));
            self.forget(inner, name);
            waker
        });
        waker.into_iter().for_each(rusm_runtime::embed::panics::wake);
    }

    /// Returns the owner of a name.
    ///
    /// # Errors
    /// [`Minority`] if this node sees less than half of the cluster, and so cannot know it.
    pub fn owner(&self, name: &str) -> Result<Option<NameOwner>, Minority> {
        let (owner, local) = self.with(|inner, now| (inner.registry.owner(now, name), inner.registry.local().clone()));
        Ok(owner?.and_then(|owner| self.reachable(&owner, owner.node == local)))
    }

    /// Returns true if a process of this node owns the name at this moment.
    pub fn owns(&self, name: &str) -> bool {
        self.with(|inner, now| inner.registry.owns(now, name))
    }

    /// Returns the first names in their order for observers, the number of all names, and how many nodes of the cluster
    /// this one sees.
    pub(super) fn report(&self, max: usize) -> (Vec<ClusterName>, usize, (usize, usize)) {
        let (list, total, nodes, local) = {
            let inner = self.0.inner.lock();
            let (list, total) = inner.registry.list(max);
            (list, total, inner.registry.nodes(), inner.registry.local().clone())
        };
        let name = |(name, owner, state): ListedName| ClusterName {
            pid: self.reachable(&owner, owner.node == local).map(|owner| owner.pid),
            node: owner.node.name.as_str().into(),
            epoch: owner.epoch,
            name,
            state,
        };
        (list.into_iter().map(name).collect(), total, nodes)
    }

    fn reachable(&self, owner: &Owner, is_local: bool) -> Option<NameOwner> {
        let node = if is_local { 0 } else { self.0.handle.node_named(owner.node.name.as_str())? };
        let pid = Pid::from_parts(node, owner.process.slot(), owner.process.generation());
        Some(NameOwner { pid, epoch: owner.epoch })
    }

    pub(super) fn on_up(&self, node: &Identity) {
        self.with(|inner, now| inner.registry.on_up(now, node));
    }

    pub(super) fn on_down(&self, node: &NodeName, has_left: bool) {
        self.with(|inner, now| {
            if let Some(node) = inner.registry.peer(node).cloned() {
                inner.registry.on_down(now, &node, has_left);
            }
        });
    }

    /// Reads a message of the registry of a node.
    pub(super) fn on_message(&self, from: &NodeName, payload: Bytes) -> Result<(), WireError> {
        self.with(|inner, now| inner.registry.on_message(now, from, payload))
    }

    /// Notes the last PING that a node has answered, and does what is due.
    pub(super) fn on_tick(&self, node: &NodeName, proof: Option<Duration>) {
        let now = (self.0.now)();
        {
            let mut inner = self.0.inner.lock();
            if let Some(proof) = proof {
                inner.registry.on_proof(node, proof);
            }
            if now < inner.ticked_at + TICK_MIN {
                return;
            }
            inner.ticked_at = now;
        }
        self.with(|inner, now| inner.registry.on_tick(now));
    }

    /// Changes the registry, and does what it wants.
    fn with<R>(&self, change: impl FnOnce(&mut Inner, Duration) -> R) -> R {
        let mut woken = Vec::new();
        let result = {
            let mut inner = self.0.inner.lock();
            let result = change(&mut inner, (self.0.now)());
            while let Some(event) = inner.registry.poll_event() {
                woken.extend(self.handle(&mut inner, event));
            }
            result
        };
        woken.into_iter().for_each(rusm_runtime::embed::panics::wake);
        result
    }

    /// Handles an event. Returns a caller to be woken.
    fn handle(&self, inner: &mut Inner, event: NameEvent) -> Option<Waker> {
        let (name, change) = match event {
            NameEvent::Send { to, payload } => {
                (self.0.send)(&to, payload);
                return None;
            }
            NameEvent::Registered { name, epoch, .. } => return complete(inner, &name, Ok(epoch)),
            NameEvent::Refused { name, reason, .. } => {
                let waker = complete(inner, &name, Err(reason));
                self.forget(inner, &name);
                return waker;
            }
            NameEvent::Suspended { name, .. } => (name, Ownership::Suspended),
            NameEvent::Resumed { name, epoch, .. } => (name, Ownership::Resumed { epoch }),
            NameEvent::Lost { name, .. } => (name, Ownership::Lost),
        };
        if let Some(watcher) = inner.watchers.get(&name) {
            let is_lost = change == Ownership::Lost;
            let told = self.0.handle.try_send(*watcher, NameChange { name: Arc::clone(&name), change });
            if told.is_err() {
                tracing::error!(%name, ?change, "the owner of a name was not told of a change");
            }
            if is_lost {
                // The watcher ends with its process: the name is no longer its own.
                inner.watchers.remove(&name);
            }
        }
        None
    }

    /// Ends the watcher of a name.
    fn forget(&self, inner: &mut Inner, name: &str) {
        if let Some(watcher) = inner.watchers.remove(name) {
            self.0.handle.exit(watcher, ExitReason::Shutdown);
        }
    }

    /// Spawns the process that hands changes to the owner of a name, and frees the name when the owner ends.
    fn spawn_watcher(&self, owner: Pid) -> Result<Pid, SpawnError> {
        let names = self.clone();
        self.0.handle.spawn(move |ctx: Context| async move {
            ctx.monitor(owner);
            loop {
                match ctx.receive().await.downcast::<NameChange>() {
                    Ok(change) => ctx.send(owner, change).await,
                    Err(other) if other.is::<Down>() => break,
                    Err(_) => {}
                }
            }
            names.process_ended(owner, ctx.pid());
        })
    }

    fn process_ended(&self, owner: Pid, watcher: Pid) {
        let of_watcher = |(name, pid): (&Arc<str>, &Pid)| (*pid == watcher).then(|| Arc::clone(name));
        let name = self.with(|inner, _| inner.watchers.iter().find_map(of_watcher));
        if let Some(name) = name {
            self.give_up(&name, Some(watcher));
        }
        tracing::debug!(%owner, "a process that owned a name has ended");
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("registry", &self.0.inner.lock().registry).finish_non_exhaustive()
    }
}

/// Notes the result of the newest registration of a name. Returns the caller that waits for it.
fn complete(inner: &mut Inner, name: &str, result: Result<u64, RegisterRefused>) -> Option<Waker> {
    let request = inner.requests.get_mut(inner.watchers.get(name)?)?;
    request.result = Some(result);
    request.waker.take()
}

/// Waits for the result of a registration.
struct Registration<'a> {
    names: &'a Names,
    name: Arc<str>,
    watcher: Pid,
    is_done: bool,
}

impl Future for Registration<'_> {
    type Output = Result<u64, RegisterRefused>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut inner = self.names.0.inner.lock();
        let Some(request) = inner.requests.get_mut(&self.watcher) else {
            return Poll::Ready(Err(RegisterRefused::Withdrawn));
        };
        let Some(result) = request.result.take() else {
            request.waker = Some(task.waker().clone());
            return Poll::Pending;
        };
        inner.requests.remove(&self.watcher);
        drop(inner);
        self.is_done = true;
        Poll::Ready(result)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.names.0.inner.lock().requests.remove(&self.watcher);
            self.names.give_up(&self.name, Some(self.watcher));
        }
    }
}
