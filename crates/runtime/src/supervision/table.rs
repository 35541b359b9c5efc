//! Shared tables, like ETS: concurrent maps that belong to a process and end with it, unless they have an heir.
//!
//! ```text
//!   any process ─▶ get, insert, update, add ─▶ shard of the key, under its lock
//!   end of the owner ─▶ heir: it owns the table, and receives `Inherited`
//!                    └▶ no heir: the entries are dropped, writes fail
//! ```

mod shards;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thiserror::Error;

pub(crate) use shards::Shards;

use crate::links::holdings::{Holders, Holding};
use crate::links::name::label_of;
use crate::mailbox::call::Caller;
use crate::mailbox::queue::unpooled_envelope;
use crate::observe::extensions::tables::{ObservedTable, TableReport};
use crate::process::context::Context;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;

/// A concurrent map that processes share, like an ETS table; cheap to clone.
///
/// A table belongs to the process that created it, and ends with it. Then reads find nothing, and writes return
/// [`TableEnded`]. With an [heir](Self::heir), the table goes on.
///
/// Operations never wait for other processes, except for a lock of some nanoseconds. The functions that they are given
/// run under that lock: they must be quick, and must not use the same table.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::table::Table;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let sessions = Table::<u64, String>::new(&ctx, "sessions");
///     sessions.insert(7, "Ada".to_owned()).expect("its owner is this process");
///
///     let shared = sessions.clone();
///     let reader = ctx.task(move |_| async move { shared.get(&7) }).expect("there is room for a process");
///     assert_eq!(reader.await.expect("it does not fail").as_deref(), Some("Ada"));
///
///     let hits = Table::<&str, i64>::new(&ctx, "hits");
///     assert_eq!(hits.add("/", 1), Ok(1));
///     assert_eq!(hits.add("/", 2), Ok(3));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Table<K, V>(Arc<TableState<K, V>>);

/// Error returned by a write to a table that has ended with its owner.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::table::{Table, TableEnded};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let sessions = runtime.block_on(|ctx| async move {
///     let sessions = Table::<u64, String>::new(&ctx, "sessions");
///     sessions.insert(7, "Ada".to_owned())?;
///     Ok::<_, TableEnded>(sessions) // its owner ends
/// })?;
/// # runtime.shutdown(std::time::Duration::from_secs(1));
/// let error = sessions.insert(8, "Bob".to_owned()).unwrap_err();
/// assert_eq!(error.to_string(), r#"table "sessions" has ended with its owner"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("table {table:?} has ended with its owner")]
pub struct TableEnded {
    /// Name of the table.
    pub table: Arc<str>,
}

/// Error returned when a table cannot be given to a process, because it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no process {to}")]
pub struct NoNewOwner {
    /// Pid of the process.
    pub to: Pid,
}

/// Message to the heir of a table, which it owns from then on. It is delivered even if the mailbox is full.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::table::{Inherited, Table};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let heir = ctx.pid();
///     ctx.spawn(move |ctx| async move {
///         let sessions = Table::<u64, String>::new(&ctx, "sessions").heir(heir);
///         sessions.insert(7, "Ada".to_owned()).expect("its owner is this process");
///     });
///
///     let inherited = ctx.receive_of::<Inherited<u64, String>>().await;
///     assert_eq!(inherited.table.get(&7).as_deref(), Some("Ada"));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inherited<K, V> {
    /// The table.
    pub table: Table<K, V>,
    /// Pid of the owner that has ended.
    pub from: Pid,
}

struct TableState<K, V> {
    name: Arc<str>,
    shards: Shards<K, V>,
    owners: Mutex<Owners>,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct Owners {
    owner: Option<Pid>,
    heir: Option<Pid>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.0.name)
    }
}

impl<K: Eq + Hash + Send + 'static, V: Send + 'static> Table<K, V> {
    /// Creates a table that belongs to this process. Observers show it under the name: a label, which need not be unique and
    /// is truncated to [`NAME_MAX_BYTES`](crate::NAME_MAX_BYTES).
    pub fn new(ctx: &Context, name: impl Into<Arc<str>>) -> Self {
        let table = Self::create(&ctx.runtime().shared, label_of(name.into()));
        let owner = ctx.pid();
        table.0.owners.lock().owner = Some(owner);
        // The process is running this.
        ctx.runtime().shared.hold(owner, table.holding(), || ());
        table
    }

    /// Creates a table without an owner. It ends when its last clone is dropped.
    pub fn unowned(runtime: &Handle, name: impl Into<Arc<str>>) -> Self {
        Self::create(&runtime.shared, label_of(name.into()))
    }

    fn create(shared: &RuntimeShared, name: Arc<str>) -> Self {
        let state =
            TableState { name, shards: Shards::new(), owners: Mutex::default(), has_ended: AtomicBool::new(false) };
        let table = Self(Arc::new(state));
        let observed: Arc<dyn ObservedTable> = Arc::clone(&table.0) as _;
        shared.collections.show_table(Arc::downgrade(&observed));
        table
    }

    fn holding(&self) -> Arc<dyn Holding> {
        Arc::clone(&self.0) as _
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the process to which the table belongs.
    pub fn owner(&self) -> Option<Pid> {
        self.0.owners.lock().owner
    }

    /// Returns true if the table has ended with its owner.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Sets the process that owns the table after its owner has ended, and then receives [`Inherited`]. If the heir has
    /// ended itself by then, the table ends.
    pub fn heir(self, heir: Pid) -> Self {
        self.0.owners.lock().heir = Some(heir);
        self
    }

    /// Gives the table to another process, which receives no message. The heir stays.
    ///
    /// # Errors
    /// [`NoNewOwner`] if that process or the table has ended; the owner is then the same as before.
    pub fn give_to(&self, by: &impl Caller, to: Pid) -> Result<(), NoNewOwner> {
        by.with_shared(|shared| {
            let mut owners = self.0.owners.lock();
            if self.has_ended() {
                return Err(NoNewOwner { to });
            }
            shared.hold(to, self.holding(), || ()).ok_or(NoNewOwner { to })?;
            if let Some(owner) = owners.owner.replace(to).filter(|owner| *owner != to) {
                shared.release_holding(owner, &self.holding());
            }
            Ok(())
        })
    }

    /// Returns a clone of the value of a key.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
        V: Clone,
    {
        self.0.shards.lock(key).read(key).cloned()
    }

    /// Calls `read` with the value of a key.
    #[inline]
    pub fn with<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.shards.lock(key).read(key).map(read)
    }

    /// Returns true if the key has a value.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.with(key, |_| ()).is_some()
    }

    /// Sets the value of a key, and returns the previous one.
    ///
    /// # Errors
    /// [`TableEnded`] if the table has ended with its owner.
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, TableEnded> {
        let mut shard = self.0.shards.lock(&key);
        self.check()?;
        if let Some(previous) = shard.write(&key) {
            return Ok(Some(std::mem::replace(previous, value)));
        }
        shard.add(key, value);
        Ok(None)
    }

    /// Sets the value of a new key. Returns false, and changes nothing, if the key exists.
    ///
    /// # Errors
    /// [`TableEnded`] if the table has ended with its owner.
    pub fn insert_new(&self, key: K, value: V) -> Result<bool, TableEnded> {
        let mut shard = self.0.shards.lock(&key);
        self.check()?;
        let is_new = shard.write(&key).is_none();
        if is_new {
            shard.add(key, value);
        }
        Ok(is_new)
    }

    /// Changes the value of a key, after setting it to `default` if the key is new; returns what `change` returns.
    ///
    /// # Errors
    /// [`TableEnded`] if the table has ended with its owner.
    pub fn update<R>(&self, key: K, default: V, change: impl FnOnce(&mut V) -> R) -> Result<R, TableEnded> {
        let mut shard = self.0.shards.lock(&key);
        self.check()?;
        if let Some(value) = shard.write(&key) {
            return Ok(change(value));
        }
        Ok(change(shard.add(key, default)))
    }

    /// Removes a key, and returns its value.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let removed = self.0.shards.lock(key).remove(key);
        removed.map(|(_, value)| value)
    }

    /// Calls `visit` with each entry, in no order. It sees every entry that is there all the time, once.
    pub fn for_each(&self, visit: impl FnMut(&K, &V)) {
        self.0.shards.for_each(visit);
    }

    /// Removes the entries that `keep` does not accept.
    pub fn retain(&self, keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.shards.retain(keep);
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.0.shards.clear();
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.shards.counts().entries as usize
    }

    /// Returns true if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Called with the lock of a shard: the end of the table clears each shard under its lock, after it is marked.
    #[inline]
    fn check(&self) -> Result<(), TableEnded> {
        if self.has_ended() { Err(TableEnded { table: Arc::clone(&self.0.name) }) } else { Ok(()) }
    }
}

impl<K: Eq + Hash + Send + 'static> Table<K, i64> {
    /// Adds a number to the counter of a key, which begins at 0, and returns its new value. It wraps at the bounds.
    ///
    /// # Errors
    /// [`TableEnded`] if the table has ended with its owner.
    pub fn add(&self, key: K, number: i64) -> Result<i64, TableEnded> {
        self.update(key, 0, |counter| {
            *counter = counter.wrapping_add(number);
            *counter
        })
    }
}

impl<K: Eq + Hash + Send + 'static, V: Send + 'static> Holding for TableState<K, V> {
    fn holder_ended(self: Arc<Self>, holders: &dyn Holders, pid: Pid) {
        let mut owners = self.owners.lock();
        if owners.owner != Some(pid) {
            return;
        }
        owners.owner = None;
        if let Some(heir) = owners.heir.take()
            && holders.pass_on(heir, Arc::clone(&self) as _)
        {
            owners.owner = Some(heir);
            drop(owners);
            holders.tell(heir, unpooled_envelope(heir.generation(), Inherited { table: Table(self), from: pid }));
            return;
        }
        self.has_ended.store(true, Ordering::Release);
        drop(owners);
        self.shards.clear();
    }
}

impl<K: Eq + Hash + Send + 'static, V: Send + 'static> ObservedTable for TableState<K, V> {
    fn report(&self) -> TableReport {
        let counts = self.shards.counts();
        let owners = self.owners.lock();
        TableReport {
            name: Arc::clone(&self.name),
            key_type: std::any::type_name::<K>(),
            value_type: std::any::type_name::<V>(),
            owner: owners.owner,
            heir: owners.heir,
            entries: counts.entries,
            entry_bytes: size_of::<(K, V)>() as u64,
            reads_total: counts.reads,
            writes_total: counts.writes,
        }
    }
}
