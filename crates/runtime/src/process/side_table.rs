//! Side tables: what processes hold beside their slots and release when they end: links, monitors, names, groups, a
//! label, timers, watchers, waiting senders.
//!
//! Few processes hold any of these, so a side table is in a box that the control block points to, guarded by a lock of
//! the process. The flag [`HAS_SIDE_TABLE`](crate::process::header::HAS_SIDE_TABLE) in the header tells the exit
//! whether there is something to release. A thread that adds something sets the flag first and then checks the
//! generation. The exit advances the generation first and then reads the flag. So nothing is ever added to a process
//! that has ended. Two processes are locked at once only for a link, the lower slot first. While a process is locked,
//! only the locks of the registry, of groups and of timers may be taken.

#![expect(unsafe_code, reason = "accesses data guarded by the lock of a process; each block states that it is held")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::links::groups::Memberships;
use crate::links::signal::{ExitSignal, MonitorRef};
use crate::observe::body_info::BodyInfo;
use crate::process::exit::ExitReason;
use crate::process::header::{HAS_INNER_WAKERS, HAS_SIDE_TABLE, HAS_WAITING_SENDERS, KILLED, NAMED};
use crate::process::pid::Pid;
use crate::process::small_map::SmallMap;
use crate::process::table::Slot;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, RawLock as _, RwLock};

/// Maximum length of a name or a label, in bytes. A longer name is an error; a longer label is truncated.
pub const NAME_MAX_BYTES: usize = 255;

/// Error returned when a name cannot be registered.
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
    #[error("name of {bytes} bytes is not between 1 and {NAME_MAX_BYTES}")]
    Length {
        /// Length of the name, in bytes.
        bytes: usize,
    },
}

/// The side table of one process.
#[derive(Default)]
pub(crate) struct SideTable {
    pub(crate) links: SmallMap<Pid, ()>,
    /// Monitors of this process, with their targets.
    pub(crate) monitors: SmallMap<MonitorRef, Pid>,
    /// Monitors that other processes have on this one, with those processes.
    pub(crate) monitored_by: SmallMap<MonitorRef, Pid>,
    /// Exit signals that have not taken effect yet.
    pub(crate) exit_signals: Vec<ExitSignal>,
    /// Information that the body provides to observers.
    pub(crate) body_info: Option<Arc<dyn BodyInfo>>,
    rare: Option<Box<RareEntries>>,
}

/// Entries that hardly any process has.
#[derive(Default)]
struct RareEntries {
    names: Vec<Arc<str>>,
    label: Option<Arc<str>>,
    watchers: Vec<oneshot::Sender<ExitReason>>,
    waiting_senders: Vec<Waker>,
    /// Wakers of futures inside the process itself.
    inner_wakers: Vec<Waker>,
    root: Option<u64>,
    /// Active timers, with the times at which they fire.
    timers: SmallMap<u64, u64>,
    memberships: Memberships,
    /// Processes that have introduced themselves to this one; see [`CONFINED`](crate::process::header::CONFINED).
    acquaintances: SmallMap<Pid, ()>,
}

/// Maximum number of processes that one process knows; ended processes are removed to make room.
const ACQUAINTANCES_MAX: usize = 1_024;

/// Maximum capacity for exit signals that a reset side table keeps.
const SIGNALS_KEPT: usize = 16;

impl SideTable {
    /// Sets the label, truncated to the maximum length. The header must have the flag [`NAMED`].
    pub(crate) fn set_label(&mut self, label: Arc<str>) {
        let end = label.floor_char_boundary(NAME_MAX_BYTES);
        self.rare().label = Some(if end < label.len() { label[..end].into() } else { label });
    }

    /// Clears the side table of an ended process, so that another process can use the box; frees what grew large.
    pub(crate) fn reset(&mut self) {
        // Name every field, so that the compiler reports a forgotten one.
        let Self { links, monitors, monitored_by, exit_signals, body_info, rare } = self;
        links.clear();
        monitors.clear();
        monitored_by.clear();
        if exit_signals.capacity() > SIGNALS_KEPT {
            *exit_signals = Vec::new();
        }
        exit_signals.clear();
        *body_info = None;
        *rare = None;
    }

    fn rare(&mut self) -> &mut RareEntries {
        self.rare.get_or_insert_default()
    }

    /// Returns the active timers of the process, with the times at which they fire.
    pub(crate) fn timers(&mut self) -> &mut SmallMap<u64, u64> {
        &mut self.rare().timers
    }

    pub(crate) fn memberships(&mut self) -> &mut Memberships {
        &mut self.rare().memberships
    }

    /// Returns the time at which a timer fires.
    pub(crate) fn timer(&self, id: u64) -> Option<u64> {
        self.rare.as_ref()?.timers.get(&id).copied()
    }

    /// Removes a timer and returns the time at which it would have fired.
    pub(crate) fn take_timer(&mut self, id: u64) -> Option<u64> {
        self.rare.as_mut()?.timers.remove(&id)
    }
}

/// Guard of the side table of a live process.
pub(crate) struct SideTableGuard(Slot);

impl SideTableGuard {
    fn of(slot: Slot) -> Self {
        slot.header().lock.lock();
        Self(slot)
    }

    /// Locks the side table of a process; `None` if the process has ended.
    pub(crate) fn lock_live(slot: Slot, pid: Pid) -> Option<Self> {
        let locked = Self::of(slot);
        let header = slot.header();
        let is_alive = || header.generation.load(Ordering::SeqCst) == pid.generation() && !header.gate.is_closed();
        // Check the gate as well: until it opens, the flags are those of the previous process and will be overwritten.
        if !is_alive() {
            return None;
        }
        // Acquire: if these are the flags of the next process in the slot, the check below sees its generation.
        if header.flags.load(Ordering::Acquire) & HAS_SIDE_TABLE == 0 {
            header.flags.fetch_or(HAS_SIDE_TABLE, Ordering::SeqCst);
        }
        // Check again even if `HAS_SIDE_TABLE` was set: it may be that of the next process, set at its spawn without
        // the lock.
        is_alive().then_some(locked)
    }

    /// Locks the side tables of two processes, as [`lock_live`](Self::lock_live) does for one.
    pub(crate) fn lock_both(own: (Slot, Pid), other: (Slot, Pid)) -> (Option<Self>, Option<Self>) {
        let lock = |(slot, pid)| Self::lock_live(slot, pid);
        if own.1.slot() == other.1.slot() {
            // Both pids are of one slot, so at most one of them is alive.
            let locked = lock(own);
            return if locked.is_some() { (locked, None) } else { (None, lock(other)) };
        }
        if own.1.slot() < other.1.slot() {
            let locked = lock(own);
            (locked, lock(other))
        } else {
            let locked = lock(other);
            (lock(own), locked)
        }
    }

    /// Returns the side table, and creates it on first use.
    pub(crate) fn side_table(&mut self) -> &mut SideTable {
        self.entry().get_or_insert_default()
    }

    /// Returns the slot of the process.
    pub(crate) fn slot(&self) -> Slot {
        self.0
    }

    /// Returns the side table, if it exists.
    pub(crate) fn get(&mut self) -> Option<&mut SideTable> {
        self.entry().as_deref_mut()
    }

    fn entry(&mut self) -> &mut Option<Box<SideTable>> {
        // SAFETY: the lock is held; the slot has or had a process, and the spawn of that process wrote the field.
        unsafe { &mut *self.0.side_table_ptr() }
    }
}

impl Drop for SideTableGuard {
    fn drop(&mut self) {
        // SAFETY: `of` took the lock.
        unsafe { self.0.header().lock.unlock() }
    }
}

/// Registered names of a runtime, and its root processes: those spawned from outside.
#[derive(Default)]
pub(crate) struct SideTables {
    names: RwLock<HashMap<Arc<str>, Pid>>,
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
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            for name in &rare.names {
                if names.get(name) == Some(&pid) {
                    names.remove(name);
                }
            }
        }
        if let Some(root) = rare.root {
            self.roots.lock().unwrap_or_else(PoisonError::into_inner).remove(&root);
        }
        ReleasedRareEntries {
            timers: rare.timers,
            memberships: rare.memberships,
            watchers: rare.watchers,
            waiting_senders: rare.waiting_senders,
            name: rare.names.into_iter().next().or(rare.label),
        }
    }

    /// Registers a name for a live process.
    pub(crate) fn register(&self, slot: Slot, pid: Pid, name: &str) -> Result<(), RegisterError> {
        if name.is_empty() || name.len() > NAME_MAX_BYTES {
            return Err(RegisterError::Length { bytes: name.len() });
        }
        let name: Arc<str> = name.into();
        let registered = Self::change(slot, pid, |side_table| {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(holder) = names.get(&name) {
                return Err(RegisterError::Taken { name: name.to_string(), holder: *holder });
            }
            names.insert(Arc::clone(&name), pid);
            side_table.rare().names.push(Arc::clone(&name));
            slot.header().flags.fetch_or(NAMED, Ordering::Relaxed);
            Ok(())
        });
        registered.unwrap_or(Err(RegisterError::NoProcess { pid }))
    }

    /// Removes a name from its process; `slot_of` finds the slot of that process.
    pub(crate) fn unregister(&self, name: &str, slot_of: impl FnOnce(Pid) -> Option<Slot>) -> bool {
        let Some(pid) = self.whereis(name) else { return false };
        let Some(mut locked) = slot_of(pid).and_then(|slot| SideTableGuard::lock_live(slot, pid)) else { return false };
        locked.side_table().rare().names.retain(|own| &**own != name);
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.get(name) == Some(&pid) && names.remove(name).is_some()
    }

    pub(crate) fn whereis(&self, name: &str) -> Option<Pid> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Sets the label of a process, truncated to the maximum length.
    pub(crate) fn set_label(slot: Slot, pid: Pid, label: Arc<str>) {
        slot.header().flags.fetch_or(NAMED, Ordering::Relaxed);
        Self::change(slot, pid, |side_table| side_table.set_label(label));
    }

    /// Returns the first registered name and the label.
    pub(crate) fn name_and_label(slot: Slot, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let read = |side_table: &mut SideTable| {
            side_table.rare.as_ref().map(|rare| (rare.names.first().cloned(), rare.label.clone()))
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

    /// Adds `other` to the processes that a process knows, unless it knows too many live ones.
    pub(crate) fn introduce(slot: Slot, pid: Pid, other: Pid) {
        Self::change(slot, pid, |side_table| {
            let acquaintances = &mut side_table.rare().acquaintances;
            if acquaintances.len() >= ACQUAINTANCES_MAX {
                let shared = slot.shared();
                let alive: Vec<Pid> =
                    acquaintances.iter().map(|(pid, ())| *pid).filter(|pid| shared.is_alive(*pid)).collect();
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

    /// Returns the reason of the next exit signal of a process, and removes the signal unless it is a kill.
    pub(crate) fn take_exit_signal(slot: Slot, pid: Pid) -> Option<ExitReason> {
        let mut locked = SideTableGuard::lock_live(slot, pid)?;
        if slot.header().flags.load(Ordering::Relaxed) & KILLED != 0 {
            return Some(ExitReason::Killed);
        }
        let signals = &mut locked.get()?.exit_signals;
        (!signals.is_empty()).then(|| signals.remove(0).reason)
    }

    /// Records a process that was spawned from outside.
    pub(crate) fn add_root(&self, slot: Slot, pid: Pid, order: u64) {
        Self::change(slot, pid, |side_table| {
            side_table.rare().root = Some(order);
            self.roots.lock().unwrap_or_else(PoisonError::into_inner).insert(order, pid);
        });
    }

    /// Returns the newest live process that was spawned from outside.
    pub(crate) fn newest_root(&self) -> Option<Pid> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).last_key_value().map(|(_, pid)| *pid)
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
    /// Returns the first registered name of the process, or its label.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.rare.as_ref().and_then(|rare| rare.name.clone())
    }
}

/// Rare entries of a [`Released`] side table.
pub(crate) struct ReleasedRareEntries {
    pub(crate) timers: SmallMap<u64, u64>,
    pub(crate) memberships: Memberships,
    pub(crate) watchers: Vec<oneshot::Sender<ExitReason>>,
    pub(crate) waiting_senders: Vec<Waker>,
    /// First registered name, or label.
    pub(crate) name: Option<Arc<str>>,
}
