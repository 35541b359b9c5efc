//! What a process holds beside its slot, and gives back when it ends: bonds, names, groups, a label, timers, watchers,
//! senders that wait.
//!
//! Few processes hold any of it, so it lives in a box that the control block points to, under a lock of the process's own.
//! The flag [`HOLDS`](crate::cell::HOLDS) in the cell tells the exit whether to look. Whoever adds something sets the flag
//! first and checks the generation after, and the exit does it the other way round, so nothing is ever added to a process
//! that has ended. Only the two sides of a link are locked together, the lower slot first; inside of a lock only those
//! of the registry, of groups and of timers are taken.

#![expect(unsafe_code, reason = "reaches what the lock of a process guards; each block says that it is held")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::cell::{CONGESTED, HOLDS, KILLED, NAMED, OWN_WAKERS};
use crate::exit::ExitReason;
use crate::extra::Extra;
use crate::groups::Memberships;
use crate::pid::Pid;
use crate::signal::{ExitSignal, MonitorRef};
use crate::slab::Slot;
use crate::small_map::SmallMap;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, RawLock as _, RwLock};

/// Longest name or label, in bytes: a longer name is refused, of a longer label the beginning is kept.
pub const NAME_MAX_BYTES: usize = 255;

/// Why a name could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// Another live process has the name.
    #[error("name {name:?} is taken by {holder}")]
    Taken {
        /// The name asked for.
        name: String,
        /// The process that has it.
        holder: Pid,
    },
    /// There is no such process (any more).
    #[error("no process {pid}")]
    NoProcess {
        /// The pid asked for.
        pid: Pid,
    },
    /// Choose a shorter one.
    #[error("name of {bytes} bytes is not between 1 and {NAME_MAX_BYTES}")]
    Length {
        /// Bytes of the name.
        bytes: usize,
    },
}

/// What one process holds.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) links: SmallMap<Pid, ()>,
    /// Its own monitors, with whom they are on.
    pub(crate) monitors: SmallMap<MonitorRef, Pid>,
    /// Monitors that others have on it.
    pub(crate) monitored_by: SmallMap<MonitorRef, Pid>,
    /// Exit signals that it has not obeyed yet.
    pub(crate) exit_signals: Vec<ExitSignal>,
    /// What its body tells about itself.
    pub(crate) extra: Option<Arc<dyn Extra>>,
    rare: Option<Box<Rare>>,
}

/// What hardly any process holds.
#[derive(Default)]
struct Rare {
    names: Vec<Arc<str>>,
    label: Option<Arc<str>>,
    watchers: Vec<oneshot::Sender<ExitReason>>,
    waiting_senders: Vec<Waker>,
    /// Of what waits inside of the process itself.
    own_wakers: Vec<Waker>,
    root: Option<u64>,
    /// Timers that are to fire for it, with their instants.
    timers: SmallMap<u64, u64>,
    memberships: Memberships,
    /// Processes that have introduced themselves to it; see [`CONFINED`](crate::cell::CONFINED).
    known: SmallMap<Pid, ()>,
}

/// Processes that one process can know; those that have ended make room for others.
const KNOWN_MAX: usize = 1_024;

/// Exit signals for which an emptied box keeps the room.
const SIGNALS_KEPT: usize = 16;

impl Held {
    /// What the process calls itself, cut to the longest label; its cell must say that it is named.
    pub(crate) fn set_label(&mut self, label: Arc<str>) {
        let end = label.floor_char_boundary(NAME_MAX_BYTES);
        self.rare().label = Some(if end < label.len() { label[..end].into() } else { label });
    }

    /// Makes the box of an ended process as good as new for another, which inherits nothing; what grew large is freed.
    pub(crate) fn reset(&mut self) {
        // Every field by its name, so that none is forgotten.
        let Self { links, monitors, monitored_by, exit_signals, extra, rare } = self;
        links.clear();
        monitors.clear();
        monitored_by.clear();
        if exit_signals.capacity() > SIGNALS_KEPT {
            *exit_signals = Vec::new();
        }
        exit_signals.clear();
        *extra = None;
        *rare = None;
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Timers that are to fire for the process, with their instants.
    pub(crate) fn timers(&mut self) -> &mut SmallMap<u64, u64> {
        &mut self.rare().timers
    }

    pub(crate) fn memberships(&mut self) -> &mut Memberships {
        &mut self.rare().memberships
    }

    /// The instant of a timer.
    pub(crate) fn timer(&self, id: u64) -> Option<u64> {
        self.rare.as_ref()?.timers.get(&id).copied()
    }

    /// Takes a timer away, and gives its instant.
    pub(crate) fn take_timer(&mut self, id: u64) -> Option<u64> {
        self.rare.as_mut()?.timers.remove(&id)
    }
}

/// What a live process holds, locked.
pub(crate) struct Locked(Slot);

impl Locked {
    fn of(slot: Slot) -> Self {
        slot.cell().lock.lock();
        Self(slot)
    }

    /// Locks what a process holds; `None` if it has ended.
    pub(crate) fn of_live(slot: Slot, pid: Pid) -> Option<Self> {
        let locked = Self::of(slot);
        let cell = slot.cell();
        let is_alive = || cell.generation.load(Ordering::SeqCst) == pid.generation() && !cell.gate.is_closed();
        // Before its gate opens, a process's flags are those of the one before it, and are written over.
        if !is_alive() {
            return None;
        }
        // Acquire: who sees the flags of the next tenant sees below that the one before has ended.
        if cell.flags.load(Ordering::Acquire) & HOLDS == 0 {
            cell.flags.fetch_or(HOLDS, Ordering::SeqCst);
        }
        // Also where it held something already: that may be the next tenant, which may from its first instant, without a lock.
        is_alive().then_some(locked)
    }

    /// Locks what two processes hold, as [`of_live`](Self::of_live) does for one.
    pub(crate) fn of_both(own: (Slot, Pid), other: (Slot, Pid)) -> (Option<Self>, Option<Self>) {
        let lock = |(slot, pid)| Self::of_live(slot, pid);
        if own.1.slot() == other.1.slot() {
            // One of them is an earlier tenant.
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

    /// The process's box, made when it is first needed.
    pub(crate) fn held(&mut self) -> &mut Held {
        self.place().get_or_insert_default()
    }

    /// Whose it is.
    pub(crate) fn slot(&self) -> Slot {
        self.0
    }

    /// The process's box, if there is one.
    pub(crate) fn look(&mut self) -> Option<&mut Held> {
        self.place().as_deref_mut()
    }

    fn place(&mut self) -> &mut Option<Box<Held>> {
        // SAFETY: the lock is held; the slot has or had a tenant, whose spawn wrote the field.
        unsafe { &mut *self.0.held_ptr() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: locked when this was made.
        unsafe { self.0.cell().lock.unlock() }
    }
}

/// The names of a runtime's processes, and the order in which those from outside were started.
#[derive(Default)]
pub(crate) struct Holdings {
    names: RwLock<HashMap<Arc<str>, Pid>>,
    /// Processes spawned from outside, in the order of their start.
    roots: Mutex<BTreeMap<u64, Pid>>,
}

impl Holdings {
    /// Changes what a live process holds; `None` if it has ended.
    fn change<R>(slot: Slot, pid: Pid, change: impl FnOnce(&mut Held) -> R) -> Option<R> {
        Locked::of_live(slot, pid).map(|mut locked| change(locked.held()))
    }

    /// Takes everything that an ended process held; its names are free when this returns.
    pub(crate) fn release(&self, slot: Slot, pid: Pid) -> Option<Released> {
        let mut held = Locked::of(slot).place().take()?;
        let rare = held.rare.take().map(|rare| self.release_rare(pid, *rare));
        Some(Released { held, rare })
    }

    fn release_rare(&self, pid: Pid, rare: Rare) -> ReleasedRare {
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
        ReleasedRare {
            timers: rare.timers,
            memberships: rare.memberships,
            watchers: rare.watchers,
            waiting_senders: rare.waiting_senders,
            name: rare.names.into_iter().next().or(rare.label),
        }
    }

    /// Gives a live process a name.
    pub(crate) fn register(&self, slot: Slot, pid: Pid, name: &str) -> Result<(), RegisterError> {
        if name.is_empty() || name.len() > NAME_MAX_BYTES {
            return Err(RegisterError::Length { bytes: name.len() });
        }
        let name: Arc<str> = name.into();
        let registered = Self::change(slot, pid, |held| {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(holder) = names.get(&name) {
                return Err(RegisterError::Taken { name: name.to_string(), holder: *holder });
            }
            names.insert(Arc::clone(&name), pid);
            held.rare().names.push(Arc::clone(&name));
            slot.cell().flags.fetch_or(NAMED, Ordering::Relaxed);
            Ok(())
        });
        registered.unwrap_or(Err(RegisterError::NoProcess { pid }))
    }

    /// Takes a name from whoever has it, whose slot `slot_of` finds.
    pub(crate) fn unregister(&self, name: &str, slot_of: impl FnOnce(Pid) -> Option<Slot>) -> bool {
        let Some(pid) = self.whereis(name) else { return false };
        let Some(mut locked) = slot_of(pid).and_then(|slot| Locked::of_live(slot, pid)) else { return false };
        locked.held().rare().names.retain(|own| &**own != name);
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.get(name) == Some(&pid) && names.remove(name).is_some()
    }

    pub(crate) fn whereis(&self, name: &str) -> Option<Pid> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// What the process calls itself, cut to the longest label.
    pub(crate) fn set_label(slot: Slot, pid: Pid, label: Arc<str>) {
        slot.cell().flags.fetch_or(NAMED, Ordering::Relaxed);
        Self::change(slot, pid, |held| held.set_label(label));
    }

    /// The first registered name and the label.
    pub(crate) fn called(slot: Slot, pid: Pid) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let look = |held: &mut Held| held.rare.as_ref().map(|rare| (rare.names.first().cloned(), rare.label.clone()));
        Locked::of_live(slot, pid).and_then(|mut locked| locked.look().and_then(look)).unwrap_or_default()
    }

    /// Hangs on the process what its body tells about itself.
    #[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "no body of the core has anything to tell"))]
    pub(crate) fn set_extra(slot: Slot, pid: Pid, extra: Arc<dyn Extra>) {
        Self::change(slot, pid, |held| held.extra = Some(extra));
    }

    pub(crate) fn extra(slot: Slot, pid: Pid) -> Option<Arc<dyn Extra>> {
        // Not to make a box for a process that holds nothing.
        if slot.cell().flags.load(Ordering::Relaxed) & HOLDS == 0 {
            return None;
        }
        Locked::of_live(slot, pid)?.look()?.extra.clone()
    }

    /// Tells `watcher` when the process ends; false if it has.
    pub(crate) fn watch(slot: Slot, pid: Pid, watcher: oneshot::Sender<ExitReason>) -> bool {
        let push = |held: &mut Held| {
            let watchers = &mut held.rare().watchers;
            if watchers.len() == watchers.capacity() {
                // Most of those who ask a server from outside need not hear of its end any more.
                watchers.retain(|watcher| !watcher.is_closed());
                // Room enough that the walk is paid for.
                watchers.reserve(watchers.len());
            }
            watchers.push(watcher);
        };
        Self::change(slot, pid, push).is_some()
    }

    /// Has a process know another one, unless it knows too many that are alive.
    pub(crate) fn introduce(slot: Slot, pid: Pid, other: Pid) {
        Self::change(slot, pid, |held| {
            let known = &mut held.rare().known;
            if known.len() >= KNOWN_MAX {
                let shared = slot.shared();
                let alive: Vec<Pid> = known.iter().map(|(pid, ())| *pid).filter(|pid| shared.is_alive(*pid)).collect();
                known.clear();
                for pid in alive {
                    known.insert(pid, ());
                }
            }
            if known.len() < KNOWN_MAX {
                known.insert(other, ());
            }
        });
    }

    /// Reads whether another process was introduced to a process.
    #[cfg(feature = "wasm")]
    pub(crate) fn knows(slot: Slot, pid: Pid, other: Pid) -> bool {
        let knows = |held: &mut Held| held.rare.as_ref().is_some_and(|rare| rare.known.get(&other).is_some());
        Locked::of_live(slot, pid).and_then(|mut locked| locked.look().map(knows)).unwrap_or(false)
    }

    /// Wakes `sender` when there is room in the mailbox; false if the process has ended.
    pub(crate) fn wait_for_room(slot: Slot, pid: Pid, sender: &Waker) -> bool {
        let waits = |held: &mut Held| {
            slot.cell().flags.fetch_or(CONGESTED, Ordering::SeqCst);
            let waiting_senders = &mut held.rare().waiting_senders;
            if !waiting_senders.iter().any(|waiting| waiting.will_wake(sender)) {
                waiting_senders.push(sender.clone());
            }
        };
        Self::change(slot, pid, waits).is_some()
    }

    pub(crate) fn take_waiting_senders(slot: Slot, pid: Pid) -> Vec<Waker> {
        let take = |held: &mut Held| held.rare.as_mut().map(|rare| std::mem::take(&mut rare.waiting_senders));
        let Some(mut locked) = Locked::of_live(slot, pid) else { return Vec::new() };
        slot.cell().flags.fetch_and(!CONGESTED, Ordering::Relaxed);
        locked.look().and_then(take).unwrap_or_default()
    }

    /// Wakes `waker`, which something inside of the process waits with, before the process is polled next.
    pub(crate) fn keep_waker(slot: Slot, pid: Pid, waker: &Waker) {
        let keep = |held: &mut Held| {
            let own = &mut held.rare().own_wakers;
            if own.last().is_some_and(|last| last.will_wake(waker)) {
                return;
            }
            if own.len() == own.capacity() {
                // Each once, in the order in which they came, and room enough that the walk is paid for.
                let mut seen = HashSet::new();
                own.retain(|one| seen.insert((one.data(), ptr::from_ref(one.vtable()))));
                own.reserve(own.len().max(4));
            }
            own.push(waker.clone());
        };
        if Self::change(slot, pid, keep).is_some() {
            slot.cell().flags.fetch_or(OWN_WAKERS, Ordering::Relaxed);
        }
    }

    /// Takes the wakers of what waits inside of the process.
    pub(crate) fn take_own_wakers(slot: Slot, pid: Pid) -> Vec<Waker> {
        let take = |held: &mut Held| held.rare.as_mut().map(|rare| std::mem::take(&mut rare.own_wakers));
        slot.cell().flags.fetch_and(!OWN_WAKERS, Ordering::Relaxed);
        Locked::of_live(slot, pid).and_then(|mut locked| locked.look().and_then(take)).unwrap_or_default()
    }

    /// Names, memberships of groups and monitors of groups of a process.
    #[cfg(feature = "wasm")]
    pub(crate) fn count(slot: Slot, pid: Pid) -> usize {
        let Some(mut locked) = Locked::of_live(slot, pid) else { return 0 };
        let rare = locked.look().and_then(|held| held.rare.as_ref());
        rare.map_or(0, |rare| rare.names.len() + rare.memberships.len())
    }

    /// The bonds of a process, `most` of each kind at the most.
    pub(crate) fn bonds(slot: Slot, pid: Pid, most: usize) -> Option<Bonds> {
        let mut locked = Locked::of_live(slot, pid)?;
        let Some(held) = locked.look() else { return Some(Bonds::default()) };
        Some(Bonds {
            link_count: held.links.len(),
            links: held.links.iter().map(|(pid, ())| *pid).take(most).collect(),
            monitor_count: held.monitors.len(),
            monitors: held.monitors.iter().map(|(_, pid)| *pid).take(most).collect(),
            monitored_by_count: held.monitored_by.len(),
            monitored_by: held.monitored_by.iter().map(|(_, pid)| *pid).take(most).collect(),
        })
    }

    /// The exit signal that a process must obey next.
    pub(crate) fn take_exit_signal(slot: Slot, pid: Pid) -> Option<ExitReason> {
        let mut locked = Locked::of_live(slot, pid)?;
        if slot.cell().flags.load(Ordering::Relaxed) & KILLED != 0 {
            return Some(ExitReason::Killed);
        }
        let signals = &mut locked.look()?.exit_signals;
        (!signals.is_empty()).then(|| signals.remove(0).reason)
    }

    /// Notes a process that was spawned from outside.
    pub(crate) fn add_root(&self, slot: Slot, pid: Pid, order: u64) {
        Self::change(slot, pid, |held| {
            held.rare().root = Some(order);
            self.roots.lock().unwrap_or_else(PoisonError::into_inner).insert(order, pid);
        });
    }

    /// The process that was spawned from outside last, of those that live.
    pub(crate) fn newest_root(&self) -> Option<Pid> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).last_key_value().map(|(_, pid)| *pid)
    }
}

/// Whom a process is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bonds {
    /// How many links there are.
    pub link_count: usize,
    /// Some or all of the processes linked to it.
    pub links: Vec<Pid>,
    /// How many monitors it has on others.
    pub monitor_count: usize,
    /// Some or all of those.
    pub monitors: Vec<Pid>,
    /// How many monitors others have on it.
    pub monitored_by_count: usize,
    /// Some or all of those.
    pub monitored_by: Vec<Pid>,
}

/// Whom an exit concerns.
pub(crate) struct Released {
    pub(crate) held: Box<Held>,
    pub(crate) rare: Option<ReleasedRare>,
}

impl Released {
    /// What the process called itself.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.rare.as_ref().and_then(|rare| rare.name.clone())
    }
}

/// The same, for what hardly any process holds.
pub(crate) struct ReleasedRare {
    pub(crate) timers: SmallMap<u64, u64>,
    pub(crate) memberships: Memberships,
    pub(crate) watchers: Vec<oneshot::Sender<ExitReason>>,
    pub(crate) waiting_senders: Vec<Waker>,
    /// What it called itself: its first name, or its label.
    pub(crate) name: Option<Arc<str>>,
}
