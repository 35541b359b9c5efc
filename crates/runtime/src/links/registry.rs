//! Names of processes, and operations on what one process holds: its label, watchers, waiting senders and wakers.

use std::collections::{BTreeMap, HashSet};
use std::ptr;
use std::sync::Arc;
use std::task::Waker;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::links::holdings::Holding;
use crate::links::memberships::Memberships;
use crate::links::name::{NameError, check_name};
use crate::links::name_map::NameMap;
use crate::links::signal::ExitSignal;
use crate::observe::body_info::BodyInfo;
use crate::observe::kinds::ProcessKind;
use crate::process::exit::ExitReason;
use crate::process::header::{HAS_INNER_WAKERS, HAS_SIDE_TABLE, HAS_WAITING_SENDERS, KILLED, NAMED};
use crate::process::pid::Pid;
use crate::process::side_table::{RareEntries, SideTable};
use crate::process::side_table_guard::SideTableGuard;
use crate::process::small_map::SmallMap;
use crate::process::table::Slot;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, RwLock};

/// Error returned when a name cannot be registered.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, RegisterError, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     ctx.register("db")?;
///     let other = ctx.spawn(|_| std::future::pending::<()>());
///     match ctx.runtime().register(other, "db") {
///         Err(RegisterError::Taken { holder, .. }) => assert_eq!(holder, ctx.pid()),
///         registered => unreachable!("the name is taken: {registered:?}"),
///     }
///     Ok::<(), RegisterError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// Another live process has the name.
    #[error("name {name:?} is taken by {holder}")]
    Taken {
        /// Requested name.
        name: String,
        /// Pid of the process that has the name.
        holder: Pid,
    },
    /// The process does not exist or has ended.
    #[error("no process {pid}")]
    NoProcess {
        /// Pid of the process.
        pid: Pid,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Maximum number of processes that one process knows; ended processes are removed to make room.
const ACQUAINTANCES_MAX: usize = 1_024;

/// Order of the first root of the application, above those of all services.
pub(crate) const FIRST_ROOT: u64 = 1 << 32;
/// Order of the first service: a root that a shutdown ends after all other processes.
pub(crate) const FIRST_SERVICE: u64 = 0;

/// Registered names of a runtime, and its root processes: those spawned from outside.
#[derive(Default)]
pub(crate) struct SideTables {
    names: RwLock<NameMap<Pid>>,
    /// Processes spawned from outside, in spawn order.
    roots: Mutex<BTreeMap<u64, Pid>>,
}

impl SideTables {
    /// Changes the side table of a live process; `None` if the process has ended.
    fn change<R>(slot: Slot, pid: Pid, change: impl FnOnce(&mut SideTable) -> R) -> Option<R> {
        SideTableGuard::lock_live(slot, pid).map(|mut locked| change(locked.side_table()))
    }

    /// Takes the side table of an ended process. Its names are free when this returns.
    pub(crate) fn release(&self, slot: Slot, pid: Pid) -> Option<Released> {
        let mut side_table = SideTableGuard::of(slot).entry().take()?;
        let rare = side_table.rare.take().map(|rare| self.release_rare(pid, *rare));
        Some(Released { side_table, rare })
    }

    fn release_rare(&self, pid: Pid, rare: RareEntries) -> ReleasedRareEntries {
        if !rare.names.is_empty() {
            let mut names = self.names.write();
            for name in &rare.names {
                let names = names.part_mut(name);
                if names.get(name) == Some(&pid) {
                    names.remove(name);
                }
            }
        }
        if let Some(root) = rare.root {
            self.roots.lock().remove(&root);
        }
        ReleasedRareEntries {
            timers: rare.timers,
            memberships: rare.memberships,
            holdings: rare.holdings,
            watchers: rare.watchers,
            waiting_senders: rare.waiting_senders,
            name: rare.names.into_iter().next(),
        }
    }

    /// Registers a name for a live process.
    pub(crate) fn register(&self, slot: Slot, pid: Pid, name: &str) -> Result<(), RegisterError> {
        check_name("process", name)?;
        let name: Arc<str> = name.into();
        let registered = Self::change(slot, pid, |side_table| {
            let mut names = self.names.write();
            let names = names.part_mut(&name);
            if let Some(holder) = names.get(&name) {
                return Err(RegisterError::Taken { name: name.to_string(), holder: *holder });
            }
            names.insert(Arc::clone(&name), pid);
            side_table.rare().names.push(Arc::clone(&name));
            slot.header().flags.fetch_or(NAMED, Ordering::Relaxed);
            Ok(side_table.rare().span.clone())
        });
        let span = registered.unwrap_or(Err(RegisterError::NoProcess { pid }))?;
        if let Some(span) = span {
            span.record("name", &*name);
        }
        Ok(())
    }

    /// Removes a name from its process; `slot_of` finds the slot of that process.
    pub(crate) fn unregister(&self, name: &str, slot_of: impl FnOnce(Pid) -> Option<Slot>) -> bool {
        let Some(pid) = self.whereis(name) else { return false };
        let Some(mut locked) = slot_of(pid).and_then(|slot| SideTableGuard::lock_live(slot, pid)) else { return false };
        locked.side_table().rare().names.retain(|own| &**own != name);
        let mut names = self.names.write();
        let names = names.part_mut(name);
        names.get(name) == Some(&pid) && names.remove(name).is_some()
    }

    pub(crate) fn whereis(&self, name: &str) -> Option<Pid> {
        self.names.read().get(name).copied()
    }

    /// Sets the label of a process, truncated to the maximum length.
    pub(crate) fn set_label(slot: Slot, pid: Pid, label: Arc<str>) {
        slot.header().flags.fetch_or(NAMED, Ordering::Relaxed);
        let span = Self::change(slot, pid, |side_table| {
            side_table.set_label(label);
            let span = side_table.rare.as_ref()?.span.clone()?;
            Some((span, side_table.label.clone()?))
        });
        // Not under the lock of the process: this calls the subscriber.
        if let Some((span, label)) = span.flatten() {
            span.record("label", &*label);
        }
    }

    /// Returns the span of a live process, which `make` creates the first time.
    pub(crate) fn span(slot: Slot, pid: Pid, make: impl FnOnce() -> tracing::Span) -> tracing::Span {
        let known = Self::change(slot, pid, |side_table| side_table.rare.as_ref()?.span.clone()).flatten();
        known.unwrap_or_else(|| {
            let span = make();
            Self::change(slot, pid, |side_table| side_table.rare().span = Some(span.clone()));
            span
        })
    }

    /// Returns the first registered name and the label.
    pub(crate) fn name_and_label(slot: Slot, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let read = |side_table: &mut SideTable| {
            let name = side_table.rare.as_ref().and_then(|rare| rare.names.first().cloned());
            Some((name, side_table.label.clone()))
        };
        SideTableGuard::lock_live(slot, pid).and_then(|mut locked| locked.get().and_then(read)).unwrap_or_default()
    }

    /// Attaches to the process the information that its body provides to observers.
    pub(crate) fn set_body_info(slot: Slot, pid: Pid, body_info: Arc<dyn BodyInfo>) {
        Self::change(slot, pid, |side_table| side_table.body_info = Some(body_info));
    }

    pub(crate) fn body_info(slot: Slot, pid: Pid) -> Option<Arc<dyn BodyInfo>> {
        // Check the flag first: `lock_live` would set it for a process that holds nothing.
        if slot.header().flags.load(Ordering::Relaxed) & HAS_SIDE_TABLE == 0 {
            return None;
        }
        SideTableGuard::lock_live(slot, pid)?.get()?.body_info.clone()
    }

    /// Returns the first registered name of a live process, or its label.
    pub(crate) fn name(slot: Slot, pid: Pid) -> Option<Arc<str>> {
        let (name, label) = Self::name_and_label(slot, pid);
        name.or(label)
    }

    /// Returns the kind of a live process, if it is not the type of its future.
    pub(crate) fn kind(slot: Slot, pid: Pid) -> Option<ProcessKind> {
        let mut locked = SideTableGuard::lock_live(slot, pid)?;
        let side_table = locked.get()?;
        ProcessKind::of(side_table.label.clone(), side_table.body_info.as_deref())
    }

    /// Lets a live process hold something; `add` runs while it cannot end. `None` if it has ended.
    pub(crate) fn hold<R>(slot: Slot, pid: Pid, holding: Arc<dyn Holding>, add: impl FnOnce() -> R) -> Option<R> {
        Self::change(slot, pid, |side_table| {
            let holdings = &mut side_table.rare().holdings;
            if !holdings.iter().any(|other| Arc::ptr_eq(other, &holding)) {
                holdings.push(holding);
            }
            add()
        })
    }

    pub(crate) fn release_holding(slot: Slot, pid: Pid, holding: &Arc<dyn Holding>) {
        Self::change(slot, pid, |side_table| side_table.rare().holdings.retain(|other| !Arc::ptr_eq(other, holding)));
    }

    /// Registers `watcher` to receive the exit reason of the process; false if the process has ended.
    pub(crate) fn watch(slot: Slot, pid: Pid, watcher: oneshot::Sender<ExitReason>) -> bool {
        let push = |side_table: &mut SideTable| {
            let watchers = &mut side_table.rare().watchers;
            if watchers.len() == watchers.capacity() {
                // Remove dropped watchers: most of a server's watchers belong to calls from outside that are over.
                watchers.retain(|watcher| !watcher.is_closed());
                // Reserve enough to amortise the scan.
                watchers.reserve(watchers.len());
            }
            watchers.push(watcher);
        };
        Self::change(slot, pid, push).is_some()
    }

    /// Adds `other` to the processes that a process knows, unless it knows too many that `is_alive` accepts.
    pub(crate) fn introduce(slot: Slot, pid: Pid, other: Pid, is_alive: impl Fn(Pid) -> bool) {
        Self::change(slot, pid, |side_table| {
            let acquaintances = &mut side_table.rare().acquaintances;
            if acquaintances.len() >= ACQUAINTANCES_MAX {
                let alive: Vec<Pid> = acquaintances.iter().map(|(pid, ())| *pid).filter(|pid| is_alive(*pid)).collect();
                acquaintances.clear();
                for pid in alive {
                    acquaintances.insert(pid, ());
                }
            }
            if acquaintances.len() < ACQUAINTANCES_MAX {
                acquaintances.insert(other, ());
            }
        });
    }

    /// Returns true if `other` was introduced to the process.
    pub(crate) fn is_acquainted(slot: Slot, pid: Pid, other: Pid) -> bool {
        let knows = |side_table: &mut SideTable| {
            side_table.rare.as_ref().is_some_and(|rare| rare.acquaintances.get(&other).is_some())
        };
        SideTableGuard::lock_live(slot, pid).and_then(|mut locked| locked.get().map(knows)).unwrap_or(false)
    }

    /// Registers `sender` to be woken when the mailbox has room; false if the process has ended.
    pub(crate) fn wait_for_room(slot: Slot, pid: Pid, sender: &Waker) -> bool {
        let waits = |side_table: &mut SideTable| {
            slot.header().flags.fetch_or(HAS_WAITING_SENDERS, Ordering::SeqCst);
            let waiting_senders = &mut side_table.rare().waiting_senders;
            if !waiting_senders.iter().any(|waiting| waiting.will_wake(sender)) {
                waiting_senders.push(sender.clone());
            }
        };
        Self::change(slot, pid, waits).is_some()
    }

    /// Returns the wakers of at most `limit` of the senders that wait for room in the mailbox of a process.
    pub(crate) fn waiting_senders(slot: Slot, pid: Pid, limit: usize) -> Vec<Waker> {
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return Vec::new() };
        let waiting = locked.get().and_then(|side_table| side_table.rare.as_ref()).map(|rare| &rare.waiting_senders);
        waiting.into_iter().flatten().take(limit).cloned().collect()
    }

    /// Returns at most `limit` of the processes from which a process awaits a reply.
    pub(crate) fn callees(slot: Slot, pid: Pid, limit: usize) -> Vec<Pid> {
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return Vec::new() };
        let monitors = locked.get().map(|side_table| &side_table.monitors);
        let calls = monitors.into_iter().flat_map(SmallMap::iter).filter(|(reference, _)| reference.is_call());
        calls.map(|(_, callee)| *callee).take(limit).collect()
    }

    pub(crate) fn take_waiting_senders(slot: Slot, pid: Pid) -> Vec<Waker> {
        let take =
            |side_table: &mut SideTable| side_table.rare.as_mut().map(|rare| std::mem::take(&mut rare.waiting_senders));
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return Vec::new() };
        slot.header().flags.fetch_and(!HAS_WAITING_SENDERS, Ordering::Relaxed);
        locked.get().and_then(take).unwrap_or_default()
    }

    /// Registers the waker of a future inside the process, to be woken before the next poll of the process.
    pub(crate) fn store_inner_waker(slot: Slot, pid: Pid, waker: &Waker) {
        let keep = |side_table: &mut SideTable| {
            let own = &mut side_table.rare().inner_wakers;
            if own.last().is_some_and(|last| last.will_wake(waker)) {
                return;
            }
            if own.len() == own.capacity() {
                // Remove duplicates and keep the order, then reserve enough to amortise the scan.
                let mut seen = HashSet::new();
                own.retain(|one| seen.insert((one.data(), ptr::from_ref(one.vtable()))));
                own.reserve(own.len().max(4));
            }
            own.push(waker.clone());
        };
        if Self::change(slot, pid, keep).is_some() {
            slot.header().flags.fetch_or(HAS_INNER_WAKERS, Ordering::Relaxed);
        }
    }

    /// Takes the wakers of futures inside the process.
    pub(crate) fn take_inner_wakers(slot: Slot, pid: Pid) -> Vec<Waker> {
        let take =
            |side_table: &mut SideTable| side_table.rare.as_mut().map(|rare| std::mem::take(&mut rare.inner_wakers));
        slot.header().flags.fetch_and(!HAS_INNER_WAKERS, Ordering::Relaxed);
        SideTableGuard::lock_live(slot, pid).and_then(|mut locked| locked.get().and_then(take)).unwrap_or_default()
    }

    /// Returns the number of names, group memberships and group monitors of a process.
    pub(crate) fn count(slot: Slot, pid: Pid) -> usize {
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return 0 };
        let rare = locked.get().and_then(|side_table| side_table.rare.as_ref());
        rare.map_or(0, |rare| rare.names.len() + rare.memberships.len())
    }

    /// Returns the links and monitors of a process, at most `limit` of each kind.
    pub(crate) fn links_and_monitors(slot: Slot, pid: Pid, limit: usize) -> Option<ProcessLinks> {
        let mut locked = SideTableGuard::lock_live(slot, pid)?;
        let Some(side_table) = locked.get() else { return Some(ProcessLinks::default()) };
        Some(ProcessLinks {
            link_count: side_table.links.len(),
            links: side_table.links.iter().map(|(pid, ())| *pid).take(limit).collect(),
            monitor_count: side_table.monitors.len(),
            monitors: side_table.monitors.iter().map(|(_, pid)| *pid).take(limit).collect(),
            monitored_by_count: side_table.monitored_by.len(),
            monitored_by: side_table.monitored_by.iter().map(|(_, pid)| *pid).take(limit).collect(),
        })
    }

    /// Calls `read` with the side table of a process, which must not be `None` for it to be read; `None` if the process
    /// has ended or holds nothing.
    pub(crate) fn read<R>(slot: Slot, pid: Pid, read: impl FnOnce(&SideTable) -> R) -> Option<R> {
        // Check the flag first: `lock_live` would set it for a process that holds nothing.
        if slot.header().flags.load(Ordering::Relaxed) & HAS_SIDE_TABLE == 0 {
            return None;
        }
        SideTableGuard::lock_live(slot, pid)?.get().map(|side_table| read(side_table))
    }

    /// Returns the next exit signal of a process, and removes it unless it is a kill, whose sender is not known.
    pub(crate) fn take_exit_signal(slot: Slot, pid: Pid) -> Option<ExitSignal> {
        let mut locked = SideTableGuard::lock_live(slot, pid)?;
        if slot.header().flags.load(Ordering::Relaxed) & KILLED != 0 {
            return Some(ExitSignal { link: None, from: None, reason: ExitReason::Killed });
        }
        let signals = &mut locked.get()?.exit_signals;
        (!signals.is_empty()).then(|| signals.remove(0))
    }

    /// Records a process that was spawned from outside.
    pub(crate) fn add_root(&self, slot: Slot, pid: Pid, order: u64) {
        Self::change(slot, pid, |side_table| {
            side_table.rare().root = Some(order);
            self.roots.lock().insert(order, pid);
        });
    }

    /// Makes a process that was spawned from outside a service: a shutdown ends it after all others.
    pub(crate) fn end_last(&self, slot: Slot, pid: Pid) {
        Self::change(slot, pid, |side_table| {
            let Some(order) = side_table.rare().root.as_mut().filter(|order| **order >= FIRST_ROOT) else { return };
            let mut roots = self.roots.lock();
            roots.remove(order);
            *order -= FIRST_ROOT;
            roots.insert(*order, pid);
        });
    }

    /// Returns the live services.
    pub(crate) fn services(&self) -> Vec<Pid> {
        self.roots.lock().range(..FIRST_ROOT).map(|(_, pid)| *pid).collect()
    }

    /// Returns the newest live process that was spawned from outside, with its order.
    pub(crate) fn newest_root(&self) -> Option<(u64, Pid)> {
        self.roots.lock().last_key_value().map(|(order, pid)| (*order, *pid))
    }
}

/// Links and monitors of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLinks {
    /// Number of links.
    pub link_count: usize,
    /// Linked processes, some or all.
    pub links: Vec<Pid>,
    /// Number of monitors that the process has on others.
    pub monitor_count: usize,
    /// Monitored processes, some or all.
    pub monitors: Vec<Pid>,
    /// Number of monitors that other processes have on this one.
    pub monitored_by_count: usize,
    /// Processes that monitor this one, some or all.
    pub monitored_by: Vec<Pid>,
}

/// Side table of a process that has ended: the exit notifies the processes in it.
pub(crate) struct Released {
    pub(crate) side_table: Box<SideTable>,
    pub(crate) rare: Option<ReleasedRareEntries>,
}

impl Released {
    /// Returns the kind of the process, if it is not the type of its future.
    pub(crate) fn kind(&self) -> Option<ProcessKind> {
        ProcessKind::of(self.side_table.label.clone(), self.side_table.body_info.as_deref())
    }

    /// Returns the first registered name of the process, or its label.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        let name = self.rare.as_ref().and_then(|rare| rare.name.as_ref());
        name.or(self.side_table.label.as_ref())
    }
}

/// Rare entries of a [`Released`] side table.
pub(crate) struct ReleasedRareEntries {
    pub(crate) timers: SmallMap<u64, u64>,
    pub(crate) memberships: Memberships,
    pub(crate) holdings: Vec<Arc<dyn Holding>>,
    pub(crate) watchers: Vec<oneshot::Sender<ExitReason>>,
    pub(crate) waiting_senders: Vec<Waker>,
    /// First registered name.
    pub(crate) name: Option<Arc<str>>,
}
