//! Registries: typed addresses of processes by keys of any type.
//!
//! ```text
//!   register ─▶ under the lock of the process: key ─▶ pids, pid ─▶ keys ─▶ whereis, addresses, publish
//!   end of the process ─▶ its keys are removed, before its end is announced
//! ```

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use thiserror::Error;

use crate::links::holdings::{Holders, Holding};
use crate::links::name::label_of;
use crate::mailbox::call::Caller;
use crate::observe::extensions::tables::{ObservedRegistry, RegistryReport};
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::supervision::actor::Address;
use crate::supervision::table::Shards;

/// Addresses of processes that receive messages of type `M`, by keys of type `K`; cheap to clone.
///
/// The end of a process removes its keys, before that end is announced.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::registry::Registry;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let rooms = Registry::<String, &str>::unique(&ctx.runtime(), "rooms");
///     let room = ctx.spawn_typed(|ctx, mut inbox| async move { assert_eq!(inbox.receive(&ctx).await, "hello") });
///     let room = room.expect("there is room for a process");
///     rooms.register(&ctx, "lobby".to_owned(), room).expect("the key is free");
///
///     let found = rooms.whereis("lobby").expect("it is registered");
///     found.send(&ctx, "hello").await;
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Registry<K, M> {
    state: Arc<RegistryState<K>>,
    kind: PhantomData<fn(M)>,
}

/// Error returned when a key cannot be registered.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::registry::{KeyError, Registry};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let rooms = Registry::<u32, String>::unique(&ctx.runtime(), "rooms");
///     let room = ctx.spawn_typed(|ctx, mut inbox| async move { drop(inbox.receive(&ctx).await) });
///     let room = room.expect("there is room for a process");
///     assert_eq!(rooms.register(&ctx, 7, room), Ok(()));
///     assert_eq!(rooms.register(&ctx, 7, room), Err(KeyError::Taken { holder: room.pid() }));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Another live process has the key, or in a registry with duplicate keys the process itself has it.
    #[error("the key is taken by {holder}")]
    Taken {
        /// Pid of the process that has the key.
        holder: Pid,
    },
    /// The process does not exist or has ended.
    #[error("no process {pid}")]
    NoProcess {
        /// Pid of the process.
        pid: Pid,
    },
}

struct RegistryState<K> {
    name: Arc<str>,
    is_unique: bool,
    message_type: &'static str,
    keys: Shards<K, SmallVec<[Pid; 2]>>,
    by_pid: Mutex<HashMap<Pid, Vec<K>, FxBuildHasher>>,
}

impl<K, M> Clone for Registry<K, M> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), kind: PhantomData }
    }
}

impl<K, M> fmt::Debug for Registry<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({})", self.state.name)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, M: Send + 'static> Registry<K, M> {
    /// Creates a registry in which a key belongs to one process at most. Observers show it under the name: a label, which
    /// need not be unique and is truncated to [`NAME_MAX_BYTES`](crate::NAME_MAX_BYTES).
    pub fn unique(runtime: &Handle, name: impl Into<Arc<str>>) -> Self {
        Self::create(runtime, label_of(name.into()), true)
    }

    /// Creates a registry in which any number of processes may have the same key.
    pub fn duplicate(runtime: &Handle, name: impl Into<Arc<str>>) -> Self {
        Self::create(runtime, label_of(name.into()), false)
    }

    fn create(runtime: &Handle, name: Arc<str>, is_unique: bool) -> Self {
        let message_type = std::any::type_name::<M>();
        let state =
            Arc::new(RegistryState { name, is_unique, message_type, keys: Shards::new(), by_pid: Mutex::default() });
        let observed: Arc<dyn ObservedRegistry> = Arc::clone(&state) as _;
        runtime.shared.collections.show_registry(Arc::downgrade(&observed));
        Self { state, kind: PhantomData }
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.state.name
    }

    /// Registers a process under a key. A process may have several keys.
    ///
    /// # Errors
    /// [`KeyError`] if the key is taken, or the process has ended.
    pub fn register(&self, by: &impl Caller, key: K, address: impl Into<Address<M>>) -> Result<(), KeyError> {
        let (state, pid) = (&self.state, address.into().pid());
        let holding: Arc<dyn Holding> = Arc::clone(state) as _;
        by.with_shared(|shared| shared.hold(pid, holding, || state.add(key, pid)))
            .unwrap_or(Err(KeyError::NoProcess { pid }))
    }

    /// Removes a key of a process. Returns false if the process does not have it.
    pub fn unregister<Q>(&self, key: &Q, address: impl Into<Address<M>>) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (state, pid) = (&self.state, address.into().pid());
        let mut by_pid = state.by_pid.lock();
        let was_there = state.remove(key, pid);
        if was_there && let Some(keys) = by_pid.get_mut(&pid) {
            keys.retain(|other| other.borrow() != key);
            if keys.is_empty() {
                by_pid.remove(&pid);
            }
        }
        was_there
    }

    /// Returns the process that has a key; with several, the one that has had it longest.
    pub fn whereis<Q>(&self, key: &Q) -> Option<Address<M>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.state.keys.lock(key).read(key).and_then(|pids| pids.first().copied()).map(Address::of)
    }

    /// Returns all processes that have a key, in the order of their registration.
    pub fn addresses<Q>(&self, key: &Q) -> Vec<Address<M>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut keys = self.state.keys.lock(key);
        keys.read(key).map(|pids| pids.iter().copied().map(Address::of).collect()).unwrap_or_default()
    }

    /// Sends a message to all processes that have a key, and waits while a mailbox is full: a slow process holds up the
    /// others. Returns their number.
    pub async fn publish<Q>(&self, by: &impl Caller, key: &Q, message: M) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + Sync + ?Sized,
        M: Clone,
        K: Sync,
    {
        let addresses = self.addresses(key);
        for address in &addresses {
            address.send(by, message.clone()).await;
        }
        addresses.len()
    }

    /// Returns the keys of a process, in the order of their registration.
    pub fn keys_of(&self, address: impl Into<Address<M>>) -> Vec<K> {
        self.state.by_pid.lock().get(&address.into().pid()).cloned().unwrap_or_default()
    }

    /// Returns all keys, in no particular order. Keys that are registered or removed meanwhile may be missing.
    pub fn keys(&self) -> Vec<K> {
        let mut keys = Vec::with_capacity(self.len());
        self.state.keys.for_each(|key, _| keys.push(key.clone()));
        keys
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.state.keys.counts().entries as usize
    }

    /// Returns true if no process is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash> RegistryState<K> {
    /// Called while the process cannot end.
    fn add(&self, key: K, pid: Pid) -> Result<(), KeyError> {
        // First, so that both agree whatever others register and remove at the same time.
        let mut by_pid = self.by_pid.lock();
        let mut keys = self.keys.lock(&key);
        match keys.write(&key) {
            Some(pids) => {
                let taken = if self.is_unique { pids.first() } else { pids.iter().find(|other| **other == pid) };
                if let Some(holder) = taken {
                    return Err(KeyError::Taken { holder: *holder });
                }
                pids.push(pid);
            }
            None => {
                keys.add(key.clone(), SmallVec::from_slice(&[pid]));
            }
        }
        by_pid.entry(pid).or_default().push(key);
        Ok(())
    }

    fn remove<Q>(&self, key: &Q, pid: Pid) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut keys = self.keys.lock(key);
        let Some(pids) = keys.write(key) else { return false };
        let before = pids.len();
        pids.retain(|other| *other != pid);
        let was_there = pids.len() < before;
        if pids.is_empty() {
            keys.remove(key);
        }
        was_there
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Holding for RegistryState<K> {
    fn holder_ended(self: Arc<Self>, _: &dyn Holders, pid: Pid) {
        let keys = self.by_pid.lock().remove(&pid).unwrap_or_default();
        for key in &keys {
            self.remove(key, pid);
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> ObservedRegistry for RegistryState<K> {
    fn report(&self) -> RegistryReport {
        let counts = self.keys.counts();
        RegistryReport {
            name: Arc::clone(&self.name),
            is_unique: self.is_unique,
            key_type: std::any::type_name::<K>(),
            message_type: self.message_type,
            keys: counts.entries,
            processes: self.by_pid.lock().len() as u64,
            lookups_total: counts.reads,
            changes_total: counts.writes,
        }
    }
}
